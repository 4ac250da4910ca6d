package object

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/card"
	"github.com/fermi-cluster/fermi/internal/cli/roundtrip"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// field is one column of a kind's table.
type field struct {
	show.Column
	wide  bool
	value func(s *call.Session, o api.Object) show.Cell
}

// of makes a typed column function into a general one.
func of[T api.Object](f func(s *call.Session, o T) show.Cell) func(*call.Session, api.Object) show.Cell {
	return func(s *call.Session, o api.Object) show.Cell { return f(s, o.(T)) }
}

var (
	nameField    = field{show.Fixed("NAME", "名称"), false, func(_ *call.Session, o api.Object) show.Cell { return show.Text(o.GetMeta().Name) }}
	displayField = field{show.Col("DISPLAY NAME", "显示名"), false, func(_ *call.Session, o api.Object) show.Cell { return show.Text(o.GetMeta().DisplayName) }}
	projectField = field{show.Fixed("PROJECT", "项目"), true, func(_ *call.Session, o api.Object) show.Cell { return show.Text(o.GetMeta().Project) }}
	ownerField   = field{show.Col("OWNER", "所有者"), true, func(_ *call.Session, o api.Object) show.Cell { return show.Text(o.GetMeta().Owner) }}
	ageField     = field{show.Fixed("CREATED", "创建时间"), false, func(s *call.Session, o api.Object) show.Cell { return show.Text(s.Ago(o.GetMeta().CreatedAt)) }}
	idField      = field{show.Fixed("ID", "ID"), true, func(_ *call.Session, o api.Object) show.Cell { return show.Text(o.GetMeta().ID) }}
	labelField   = field{show.Col("LABELS", "标签"), true, func(_ *call.Session, o api.Object) show.Cell { return show.Text(labels(o.GetMeta().Labels)) }}
)

var sheets = map[api.Kind][]field{
	api.KindTrainingTask: {
		nameField, displayField, projectField,
		{show.Fixed("STATE", "状态"), false, of(func(s *call.Session, t *api.TrainingTask) show.Cell { return PhaseCell(t, s.Lang) })},
		{show.Number("REPLICAS", "副本"), false, of(func(_ *call.Session, t *api.TrainingTask) show.Cell { return show.Text(replicaCount(t)) })},
		{show.Fixed("DEVICES", "加速卡"), false, of(func(_ *call.Session, t *api.TrainingTask) show.Cell { return show.Text(taskDevices(t)) })},
		{show.Col("QUEUE", "队列"), false, of(func(_ *call.Session, t *api.TrainingTask) show.Cell { return show.Text(t.Spec.Queue) })},
		ageField,
		{show.Fixed("DURATION", "运行时长"), false, of(func(s *call.Session, t *api.TrainingTask) show.Cell { return show.Text(Duration(t, s.Clock.Now())) })},
		{show.Number("PRIORITY", "优先级"), true, of(func(_ *call.Session, t *api.TrainingTask) show.Cell { return show.Text(priority(t)) })},
		{show.Number("EXIT", "退出码"), true, of(func(_ *call.Session, t *api.TrainingTask) show.Cell { return show.Text(exitCode(t)) })},
		{show.Col("ZONES", "可用区"), true, of(func(_ *call.Session, t *api.TrainingTask) show.Cell {
			return show.Text(strings.Join(t.Status.Zones, ","))
		})},
		ownerField, idField,
		{show.Col("REASON", "原因"), true, of(func(_ *call.Session, t *api.TrainingTask) show.Cell { return show.Text(t.Status.Reason) })},
	},
	api.KindPlacement: {
		{show.Fixed("OF", "归属"), false, of(func(_ *call.Session, p *api.Placement) show.Cell { return show.Text(p.OwnerName()) })}, {projectField.Column, false, projectField.value},
		{show.Number("REPLICAS", "副本"), false, of(func(_ *call.Session, p *api.Placement) show.Cell { return show.Text(strconv.Itoa(slots(p))) })},
		{show.Number("ATTEMPT", "尝试"), false, of(func(_ *call.Session, p *api.Placement) show.Cell { return show.Text(strconv.Itoa(p.Spec.Attempt)) })},
		{show.Fixed("PLACED", "放置时间"), false, of(func(s *call.Session, p *api.Placement) show.Cell { return show.Text(s.Ago(p.Spec.PlacedAt)) })},
		{show.Fixed("NAME", "名称"), true, nameField.value},
	},
	api.KindZone: {
		{show.Fixed("ZONE", "可用区"), false, of(func(_ *call.Session, z *api.Zone) show.Cell { return show.Text(bothNames(&z.Meta)) })},
		{show.Col("REGION", "区域"), false, of(func(_ *call.Session, z *api.Zone) show.Cell { return show.Text(z.Spec.Region) })},
		{show.Number("NODES", "可用节点"), false, of(func(_ *call.Session, z *api.Zone) show.Cell { return show.Text(zoneNodes(z)) })},
		{show.Number("LATENCY", "延迟"), false, of(func(_ *call.Session, z *api.Zone) show.Cell { return show.Text(roundtrip.Console(z)) })},
		{show.Number("PRICE/DEVICE·H", "单价/卡·时"), false, of(func(_ *call.Session, z *api.Zone) show.Cell { return show.Text(price(z)) })},
		{show.Number("CO₂ g/kWh", "碳强度 g/kWh"), false, of(func(_ *call.Session, z *api.Zone) show.Cell { return show.Text(carbon(z)) })},
		{show.Fixed("STATE", "状态"), false, of(func(s *call.Session, z *api.Zone) show.Cell { return zoneState(z, s.Lang) })},
		{show.Number("DEVICES", "加速卡"), true, of(func(_ *call.Session, z *api.Zone) show.Cell { return show.Text(strconv.Itoa(z.Status.Devices)) })},
		{show.Fixed("ENGINE", "引擎"), true, of(func(_ *call.Session, z *api.Zone) show.Cell { return show.Text(z.Spec.Engine) })},
		{show.Fixed("VIRTUAL", "虚拟"), true, of(func(s *call.Session, z *api.Zone) show.Cell { return show.Text(yes(s, z.Spec.Virtual)) })},
		{show.Col("NOTE", "说明"), true, of(func(s *call.Session, z *api.Zone) show.Cell {
			return show.Text(call.First(z.Status.Message.In(s.Lang), z.Spec.HealthReason))
		})},
	},
	api.KindNode: {
		nameField,
		{show.Fixed("ZONE", "可用区"), false, of(func(_ *call.Session, n *api.Node) show.Cell { return show.Text(n.Spec.Zone) })},
		{show.Col("RACK", "机架"), false, of(func(_ *call.Session, n *api.Node) show.Cell { return show.Text(n.Spec.Rack) })},
		{show.Number("CPU", "CPU"), false, of(func(_ *call.Session, n *api.Node) show.Cell { return show.Text(n.Spec.CPU.String()) })},
		{show.Number("MEMORY", "内存"), false, of(func(_ *call.Session, n *api.Node) show.Cell { return show.Text(show.Size(int64(n.Spec.Memory))) })},
		{show.Fixed("DEVICES", "加速卡"), false, of(func(_ *call.Session, n *api.Node) show.Cell { return show.Text(nodeDevices(n)) })},
		{show.Fixed("STATE", "状态"), false, of(func(s *call.Session, n *api.Node) show.Cell { return nodeState(n, s.Lang) })},
		{show.Col("LEAF", "叶交换机"), true, of(func(_ *call.Session, n *api.Node) show.Cell { return show.Text(n.Spec.Leaf) })},
		{show.Fixed("SPOT", "竞价"), true, of(func(s *call.Session, n *api.Node) show.Cell { return show.Text(yes(s, n.Spec.Spot)) })},
		{show.Fixed("VIRTUAL", "虚拟"), true, of(func(s *call.Session, n *api.Node) show.Cell { return show.Text(yes(s, n.Spec.Virtual)) })},
		{show.Fixed("LIMITS", "资源限制"), true, of(func(_ *call.Session, n *api.Node) show.Cell { return show.Text(n.Status.Limits) })},
		{show.Fixed("TENANCY", "租户隔离"), true, of(func(_ *call.Session, n *api.Node) show.Cell { return show.Text(n.Status.Tenancy) })},
		{show.Fixed("AGENT", "代理版本"), true, of(func(_ *call.Session, n *api.Node) show.Cell { return show.Text(n.Status.AgentVersion()) })},
		{show.Col("NOTE", "说明"), true, of(func(s *call.Session, n *api.Node) show.Cell { return show.Text(n.Status.Message.In(s.Lang)) })},
	},
	api.KindQueue: {
		nameField, displayField,
		{show.Fixed("STATE", "状态"), false, of(func(s *call.Session, q *api.Queue) show.Cell { return QueueState(q, s.Lang) })},
		{show.Number("PENDING", "等待"), false, of(func(_ *call.Session, q *api.Queue) show.Cell { return show.Text(strconv.Itoa(q.Status.Pending)) })},
		{show.Number("RUNNING", "运行"), false, of(func(_ *call.Session, q *api.Queue) show.Cell { return show.Text(strconv.Itoa(q.Status.Running)) })},
		{show.Number("MAX PENDING", "等待上限"), false, of(func(_ *call.Session, q *api.Queue) show.Cell { return show.Text(strconv.Itoa(q.Spec.MaxPending)) })},
		ageField, idField, labelField,
	},
	api.KindProject: {
		nameField, displayField,
		{show.Col("QUEUE", "队列"), false, of(func(_ *call.Session, p *api.Project) show.Cell { return show.Text(p.Spec.Queue) })},
		{show.Col("MEMBERS", "成员"), false, of(func(_ *call.Session, p *api.Project) show.Cell { return show.Text(strings.Join(p.Spec.Members, ",")) })},
		ageField, idField,
		{show.Fixed("UID", "UID"), true, of(func(_ *call.Session, p *api.Project) show.Cell {
			if p.Status.UID == 0 {
				return show.Text("")
			}
			return show.Text(strconv.Itoa(p.Status.UID))
		})},
		{show.Col("DESCRIPTION", "描述"), true, of(func(_ *call.Session, p *api.Project) show.Cell { return show.Text(p.Spec.Description) })},
	},
	api.KindUser: {
		nameField, displayField,
		{show.Fixed("ROLE", "角色"), false, of(func(_ *call.Session, u *api.User) show.Cell { return show.Text(string(u.Spec.Role)) })},
		{show.Fixed("DISABLED", "已停用"), false, of(func(s *call.Session, u *api.User) show.Cell { return show.Text(yes(s, u.Spec.Disabled)) })},
		ageField, idField,
	},
	api.KindSecret: {
		nameField, displayField,
		{show.Fixed("TYPE", "类型"), false, of(func(_ *call.Session, x *api.Secret) show.Cell {
			return show.Text(call.First(string(x.Spec.Type), "opaque"))
		})},
		{show.Fixed("KEYS", "键"), false, of(func(_ *call.Session, x *api.Secret) show.Cell { return show.Text(strings.Join(x.Status.Keys, ",")) })},
		ageField, idField,
	},
	api.KindToken: {
		nameField, displayField,
		{show.Fixed("USER", "用户"), false, of(func(_ *call.Session, t *api.Token) show.Cell { return show.Text(t.Spec.User) })},
		{show.Fixed("USE", "用途"), false, of(func(_ *call.Session, t *api.Token) show.Cell {
			return show.Text(call.First(string(t.Spec.Use), "token"))
		})},
		{show.Fixed("SCOPE", "范围"), false, of(func(_ *call.Session, t *api.Token) show.Cell { return show.Text(tokenScope(t)) })},
		{show.Fixed("EXPIRES", "过期时间"), false, of(func(s *call.Session, t *api.Token) show.Cell { return show.Text(expiry(s, t.Spec.ExpiresAt)) })},
		{show.Col("TASK", "任务"), false, of(func(_ *call.Session, t *api.Token) show.Cell { return show.Text(t.Spec.Task) })},
		ageField, idField,
	},
}

// plainSheet is that of kinds with commands of their own.
var plainSheet = []field{
	nameField, displayField, projectField,
	{show.Fixed("STATE", "状态"), false, func(_ *call.Session, o api.Object) show.Cell {
		w, _ := api.WorkloadOf(o)
		return show.Text(string(w.Phase))
	}},
	ageField, ownerField, idField,
}

// sheet is the table of some objects. The project shows itself where there is more than one.
func sheet(s *call.Session, kind api.Kind, objs []api.Object) ([]show.Column, [][]show.Cell) {
	projects := map[string]bool{}
	for _, o := range objs {
		projects[o.GetMeta().Project] = true
	}
	var cols []show.Column
	var fields []field
	all, known := sheets[kind]
	if !known {
		all = plainSheet
	}
	for _, f := range all {
		if f.wide && !s.Wide() && !(f.Head == projectField.Head && len(projects) > 1) {
			continue
		}
		cols, fields = append(cols, f.Column), append(fields, f)
	}
	rows := make([][]show.Cell, len(objs))
	for i, o := range objs {
		for _, f := range fields {
			rows[i] = append(rows[i], f.value(s, o))
		}
	}
	return cols, rows
}

func yes(s *call.Session, b bool) string {
	if b {
		return s.T("yes", "是")
	}
	return s.T("no", "否")
}

func expiry(s *call.Session, t *time.Time) string {
	if t == nil {
		return s.T("never", "永不")
	}
	return s.Ago(*t)
}

var phaseWords = map[api.Phase]struct {
	Text fault.Text
	tone show.Tone
}{
	api.PhasePending:      {fault.T("Pending", "等待中"), show.Busy},
	api.PhaseInitializing: {fault.T("Initializing", "初始化"), show.Busy},
	api.PhaseRunning:      {fault.T("Running", "运行中"), show.Good},
	api.PhaseRecovering:   {fault.T("Recovering", "恢复中"), show.Busy},
	api.PhaseCompleted:    {fault.T("Completed", "已完成"), show.Good},
	api.PhaseFailed:       {fault.T("Failed", "失败"), show.Bad},
	api.PhaseStopped:      {fault.T("Stopped", "已停止"), show.Faint},
}

func PhaseCell(t *api.TrainingTask, lang string) show.Cell {
	w, ok := phaseWords[t.Status.Phase]
	if !ok {
		return show.Text(string(t.Status.Phase))
	}
	s := w.Text.In(lang)
	if t.Meta.DeletedAt != nil {
		s += fault.T(" (deleting)", "（删除中）").In(lang)
	}
	return show.Cell{Text: s, Tone: w.tone}
}

// replicaRange is how many replicas a role asks for, between how many it may have, and how many spares.
func replicaRange(r *api.Role) string {
	low, high := r.Range()
	switch {
	case r.Spares > 0:
		return fmt.Sprintf("%d + %d", r.Replicas, r.Spares)
	case low == high:
		return fmt.Sprint(r.Replicas)
	}
	return fmt.Sprintf("%d (%d–%d)", r.Replicas, low, high)
}

func replicaCount(t *api.TrainingTask) string {
	wanted, low, high := 0, 0, 0
	for _, r := range t.Spec.Roles {
		least, most := r.Range()
		wanted, low, high = wanted+max(r.Replicas, 1), low+least, high+most
	}
	switch c := t.Status.Replicas; {
	case t.Status.Phase.Finished() && c.Total > 0:
		return fmt.Sprintf("%d/%d", c.Succeeded, c.Total)
	case t.Spec.Elastic():
		return fmt.Sprintf("%d/%d–%d", c.Running, low, high)
	case t.Spec.Spares() > 0:
		return fmt.Sprintf("%d/%d +%d", c.Running, wanted, t.Status.Standing())
	default:
		return fmt.Sprintf("%d/%d", c.Running, max(wanted, c.Total))
	}
}

// taskDevices sums up accelerators by type: "16×A100".
func taskDevices(t *api.TrainingTask) string {
	count := map[string]int{}
	for _, r := range t.Spec.Roles {
		if a := r.Resources.Accelerators; a.Count > 0 {
			count[a.Type] += a.Count * max(r.Placed(), 1)
		}
	}
	return Devices(count)
}

func nodeDevices(n *api.Node) string {
	count := map[string]int{}
	for _, d := range n.Spec.Devices {
		count[d.Type]++
	}
	return Devices(count)
}

func Devices(count map[string]int) string {
	if len(count) == 0 {
		return "-"
	}
	var parts []string
	for _, typ := range slices.Sorted(maps.Keys(count)) {
		parts = append(parts, strings.TrimSuffix(fmt.Sprintf("%d×%s", count[typ], typ), "×"))
	}
	return strings.Join(parts, ",")
}

func Duration(t *api.TrainingTask, now time.Time) string {
	if t.Status.StartedAt == nil {
		return "-"
	}
	end := now
	if t.Status.FinishedAt != nil {
		end = *t.Status.FinishedAt
	}
	return show.Short(max(0, end.Sub(*t.Status.StartedAt)))
}

func priority(t *api.TrainingTask) string {
	if t.Spec.Priority != nil {
		return strconv.Itoa(*t.Spec.Priority)
	}
	return "-"
}

func exitCode(t *api.TrainingTask) string {
	if t.Status.ExitCode != nil {
		return strconv.Itoa(*t.Status.ExitCode)
	}
	return "-"
}

func slots(p *api.Placement) int {
	n := 0
	for _, r := range p.Spec.Roles {
		n += len(r.Slots)
	}
	return n
}

// bothNames is what people call it, and what is typed where that differs.
func bothNames(m *api.Meta) string {
	if m.DisplayName == "" || m.DisplayName == m.Name {
		return m.Name
	}
	return m.DisplayName + " (" + m.Name + ")"
}

func zoneNodes(z *api.Zone) string {
	if z.Status.Ready != z.Status.Nodes {
		return fmt.Sprintf("%d/%d", z.Status.Ready, z.Status.Nodes)
	}
	return strconv.Itoa(z.Status.Nodes)
}

func price(z *api.Zone) string {
	return show.Money(z.Spec.Price.Device(""), call.First(z.Spec.Price.Currency, api.DefaultCurrency))
}

// carbon is how clean the zone's power is: one number, or the range over the day.
func carbon(z *api.Zone) string {
	c := z.Spec.Carbon
	short := func(g float64) string { return strconv.FormatFloat(g, 'f', -1, 64) }
	switch {
	case c == nil:
		return "-"
	case c.GramsPerKWh != nil:
		return short(*c.GramsPerKWh)
	case len(c.ByHour) > 0:
		return short(slices.Min(c.ByHour)) + "–" + short(slices.Max(c.ByHour))
	}
	return "-"
}

func zoneState(z *api.Zone, lang string) show.Cell {
	health := z.Status.Health
	if health == "" {
		health = z.Spec.Health
	}
	switch health {
	case api.ZoneHealthy:
		return show.Cell{Text: fault.T("healthy", "健康").In(lang), Tone: show.Good}
	case api.ZoneDegraded:
		return show.Cell{Text: fault.T("degraded", "降级").In(lang), Tone: show.Busy}
	case "":
		return show.Text("-")
	}
	return show.Text(string(health))
}

func nodeState(n *api.Node, lang string) show.Cell {
	c := show.Cell{Text: fault.T("ready", "就绪").In(lang), Tone: show.Good}
	if !n.Status.Ready {
		c = show.Cell{Text: fault.T("not ready", "未就绪").In(lang), Tone: show.Bad}
		if n.Status.Reason != "" {
			c.Text += " (" + n.Status.Reason + ")"
		}
	}
	if n.Spec.Cordoned {
		c.Text += fault.T(", cordoned", "，已隔离").In(lang)
		if c.Tone == show.Good {
			c.Tone = show.Busy
		}
	}
	c.Text += card.State(n, lang)
	return c
}

func QueueState(q *api.Queue, lang string) show.Cell {
	if q.Spec.Paused {
		return show.Cell{Text: fault.T("paused", "已暂停").In(lang), Tone: show.Busy}
	}
	return show.Cell{Text: fault.T("open", "开放").In(lang), Tone: show.Good}
}

func labels(m map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, k+"="+m[k])
	}
	return strings.Join(parts, ",")
}

// tokenScope is what a token may, in one cell.
func tokenScope(t *api.Token) string {
	scope := call.First(string(t.Spec.Scope), string(api.ScopeAdmin))
	if len(t.Spec.Projects) > 0 {
		scope += " @ " + strings.Join(t.Spec.Projects, ",")
	}
	return scope
}
