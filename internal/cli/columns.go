package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/card"
	"github.com/fermi-cluster/fermi/internal/cli/roundtrip"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// field is one column of a kind's table.
type field struct {
	column
	wide  bool
	value func(s *session, o api.Object) cell
}

// of makes a typed column function into a general one.
func of[T api.Object](f func(s *session, o T) cell) func(*session, api.Object) cell {
	return func(s *session, o api.Object) cell { return f(s, o.(T)) }
}

func col(en, zh string) column   { return column{head: fault.Text{EN: en, ZH: zh}} }
func fixed(en, zh string) column { return column{head: fault.Text{EN: en, ZH: zh}, fixed: true} }
func number(en, zh string) column {
	return column{head: fault.Text{EN: en, ZH: zh}, fixed: true, right: true}
}

var (
	nameField    = field{fixed("NAME", "名称"), false, func(_ *session, o api.Object) cell { return text(o.GetMeta().Name) }}
	displayField = field{col("DISPLAY NAME", "显示名"), false, func(_ *session, o api.Object) cell { return text(o.GetMeta().DisplayName) }}
	projectField = field{fixed("PROJECT", "项目"), true, func(_ *session, o api.Object) cell { return text(o.GetMeta().Project) }}
	ownerField   = field{col("OWNER", "所有者"), true, func(_ *session, o api.Object) cell { return text(o.GetMeta().Owner) }}
	ageField     = field{fixed("CREATED", "创建时间"), false, func(s *session, o api.Object) cell { return text(s.ago(o.GetMeta().CreatedAt)) }}
	idField      = field{fixed("ID", "ID"), true, func(_ *session, o api.Object) cell { return text(o.GetMeta().ID) }}
	labelField   = field{col("LABELS", "标签"), true, func(_ *session, o api.Object) cell { return text(labels(o.GetMeta().Labels)) }}
)

var sheets = map[api.Kind][]field{
	api.KindTrainingTask: {
		nameField, displayField, projectField,
		{fixed("STATE", "状态"), false, of(func(s *session, t *api.TrainingTask) cell { return phaseCell(t, s.lang) })},
		{number("REPLICAS", "副本"), false, of(func(_ *session, t *api.TrainingTask) cell { return text(replicaCount(t)) })},
		{fixed("DEVICES", "加速卡"), false, of(func(_ *session, t *api.TrainingTask) cell { return text(taskDevices(t)) })},
		{col("QUEUE", "队列"), false, of(func(_ *session, t *api.TrainingTask) cell { return text(t.Spec.Queue) })},
		ageField,
		{fixed("DURATION", "运行时长"), false, of(func(s *session, t *api.TrainingTask) cell { return text(duration(t, s.clock.Now())) })},
		{number("PRIORITY", "优先级"), true, of(func(_ *session, t *api.TrainingTask) cell { return text(priority(t)) })},
		{number("EXIT", "退出码"), true, of(func(_ *session, t *api.TrainingTask) cell { return text(exitCode(t)) })},
		{col("ZONES", "可用区"), true, of(func(_ *session, t *api.TrainingTask) cell { return text(strings.Join(t.Status.Zones, ",")) })},
		ownerField, idField,
		{col("REASON", "原因"), true, of(func(_ *session, t *api.TrainingTask) cell { return text(t.Status.Reason) })},
	},
	api.KindPlacement: {
		{fixed("OF", "归属"), false, of(func(_ *session, p *api.Placement) cell { return text(p.OwnerName()) })}, {projectField.column, false, projectField.value},
		{number("REPLICAS", "副本"), false, of(func(_ *session, p *api.Placement) cell { return text(strconv.Itoa(slots(p))) })},
		{number("ATTEMPT", "尝试"), false, of(func(_ *session, p *api.Placement) cell { return text(strconv.Itoa(p.Spec.Attempt)) })},
		{fixed("PLACED", "放置时间"), false, of(func(s *session, p *api.Placement) cell { return text(s.ago(p.Spec.PlacedAt)) })},
		{fixed("NAME", "名称"), true, nameField.value},
	},
	api.KindZone: {
		{fixed("ZONE", "可用区"), false, of(func(_ *session, z *api.Zone) cell { return text(bothNames(&z.Meta)) })},
		{col("REGION", "区域"), false, of(func(_ *session, z *api.Zone) cell { return text(z.Spec.Region) })},
		{number("NODES", "可用节点"), false, of(func(_ *session, z *api.Zone) cell { return text(zoneNodes(z)) })},
		{number("LATENCY", "延迟"), false, of(func(_ *session, z *api.Zone) cell { return text(roundtrip.Console(z)) })},
		{number("PRICE/DEVICE·H", "单价/卡·时"), false, of(func(_ *session, z *api.Zone) cell { return text(price(z)) })},
		{number("CO₂ g/kWh", "碳强度 g/kWh"), false, of(func(_ *session, z *api.Zone) cell { return text(carbon(z)) })},
		{fixed("STATE", "状态"), false, of(func(s *session, z *api.Zone) cell { return zoneState(z, s.lang) })},
		{number("DEVICES", "加速卡"), true, of(func(_ *session, z *api.Zone) cell { return text(strconv.Itoa(z.Status.Devices)) })},
		{fixed("ENGINE", "引擎"), true, of(func(_ *session, z *api.Zone) cell { return text(z.Spec.Engine) })},
		{fixed("VIRTUAL", "虚拟"), true, of(func(s *session, z *api.Zone) cell { return text(s.yes(z.Spec.Virtual)) })},
		{col("NOTE", "说明"), true, of(func(s *session, z *api.Zone) cell {
			return text(first(z.Spec.HealthReason, z.Status.Message.In(s.lang)))
		})},
	},
	api.KindNode: {
		nameField,
		{fixed("ZONE", "可用区"), false, of(func(_ *session, n *api.Node) cell { return text(n.Spec.Zone) })},
		{col("RACK", "机架"), false, of(func(_ *session, n *api.Node) cell { return text(n.Spec.Rack) })},
		{number("CPU", "CPU"), false, of(func(_ *session, n *api.Node) cell { return text(n.Spec.CPU.String()) })},
		{number("MEMORY", "内存"), false, of(func(_ *session, n *api.Node) cell { return text(size(int64(n.Spec.Memory))) })},
		{fixed("DEVICES", "加速卡"), false, of(func(_ *session, n *api.Node) cell { return text(nodeDevices(n)) })},
		{fixed("STATE", "状态"), false, of(func(s *session, n *api.Node) cell { return nodeState(n, s.lang) })},
		{col("LEAF", "叶交换机"), true, of(func(_ *session, n *api.Node) cell { return text(n.Spec.Leaf) })},
		{fixed("VIRTUAL", "虚拟"), true, of(func(s *session, n *api.Node) cell { return text(s.yes(n.Spec.Virtual)) })},
		{fixed("LIMITS", "资源限制"), true, of(func(_ *session, n *api.Node) cell { return text(n.Status.Limits) })},
		{fixed("TENANCY", "租户隔离"), true, of(func(_ *session, n *api.Node) cell { return text(n.Status.Tenancy) })},
		{fixed("AGENT", "代理版本"), true, of(func(_ *session, n *api.Node) cell { return text(n.Status.AgentVersion()) })},
		{col("NOTE", "说明"), true, of(func(s *session, n *api.Node) cell { return text(n.Status.Message.In(s.lang)) })},
	},
	api.KindQueue: {
		nameField, displayField,
		{fixed("STATE", "状态"), false, of(func(s *session, q *api.Queue) cell { return queueState(q, s.lang) })},
		{number("PENDING", "等待"), false, of(func(_ *session, q *api.Queue) cell { return text(strconv.Itoa(q.Status.Pending)) })},
		{number("RUNNING", "运行"), false, of(func(_ *session, q *api.Queue) cell { return text(strconv.Itoa(q.Status.Running)) })},
		{number("MAX PENDING", "等待上限"), false, of(func(_ *session, q *api.Queue) cell { return text(strconv.Itoa(q.Spec.MaxPending)) })},
		ageField, idField, labelField,
	},
	api.KindProject: {
		nameField, displayField,
		{col("QUEUE", "队列"), false, of(func(_ *session, p *api.Project) cell { return text(p.Spec.Queue) })},
		{col("MEMBERS", "成员"), false, of(func(_ *session, p *api.Project) cell { return text(strings.Join(p.Spec.Members, ",")) })},
		ageField, idField,
		{fixed("UID", "UID"), true, of(func(_ *session, p *api.Project) cell {
			if p.Status.UID == 0 {
				return text("")
			}
			return text(strconv.Itoa(p.Status.UID))
		})},
		{col("DESCRIPTION", "描述"), true, of(func(_ *session, p *api.Project) cell { return text(p.Spec.Description) })},
	},
	api.KindUser: {
		nameField, displayField,
		{fixed("ROLE", "角色"), false, of(func(_ *session, u *api.User) cell { return text(string(u.Spec.Role)) })},
		{fixed("DISABLED", "已停用"), false, of(func(s *session, u *api.User) cell { return text(s.yes(u.Spec.Disabled)) })},
		ageField, idField,
	},
	api.KindSecret: {
		nameField, displayField,
		{fixed("TYPE", "类型"), false, of(func(_ *session, x *api.Secret) cell { return text(first(string(x.Spec.Type), "opaque")) })},
		{fixed("KEYS", "键"), false, of(func(_ *session, x *api.Secret) cell { return text(strings.Join(x.Status.Keys, ",")) })},
		ageField, idField,
	},
	api.KindToken: {
		nameField, displayField,
		{fixed("USER", "用户"), false, of(func(_ *session, t *api.Token) cell { return text(t.Spec.User) })},
		{fixed("USE", "用途"), false, of(func(_ *session, t *api.Token) cell { return text(first(string(t.Spec.Use), "token")) })},
		{fixed("SCOPE", "范围"), false, of(func(_ *session, t *api.Token) cell { return text(tokenScope(t)) })},
		{fixed("EXPIRES", "过期时间"), false, of(func(s *session, t *api.Token) cell { return text(s.expiry(t.Spec.ExpiresAt)) })},
		{col("TASK", "任务"), false, of(func(_ *session, t *api.Token) cell { return text(t.Spec.Task) })},
		ageField, idField,
	},
}

// plainSheet is that of kinds with commands of their own.
var plainSheet = []field{
	nameField, displayField, projectField,
	{fixed("STATE", "状态"), false, func(_ *session, o api.Object) cell {
		w, _ := api.WorkloadOf(o)
		return text(string(w.Phase))
	}},
	ageField, ownerField, idField,
}

// sheet is the table of some objects. The project shows itself where there is more than one.
func (s *session) sheet(kind api.Kind, objs []api.Object) ([]column, [][]cell) {
	projects := map[string]bool{}
	for _, o := range objs {
		projects[o.GetMeta().Project] = true
	}
	var cols []column
	var fields []field
	all, known := sheets[kind]
	if !known {
		all = plainSheet
	}
	for _, f := range all {
		if f.wide && !s.wide() && !(f.head == projectField.head && len(projects) > 1) {
			continue
		}
		cols, fields = append(cols, f.column), append(fields, f)
	}
	rows := make([][]cell, len(objs))
	for i, o := range objs {
		for _, f := range fields {
			rows[i] = append(rows[i], f.value(s, o))
		}
	}
	return cols, rows
}

func (s *session) yes(b bool) string {
	if b {
		return s.t("yes", "是")
	}
	return s.t("no", "否")
}

func (s *session) expiry(t *time.Time) string {
	if t == nil {
		return s.t("never", "永不")
	}
	return s.ago(*t)
}

var phaseWords = map[api.Phase]struct {
	text fault.Text
	tone tone
}{
	api.PhasePending:      {fault.T("Pending", "等待中"), busy},
	api.PhaseInitializing: {fault.T("Initializing", "初始化"), busy},
	api.PhaseRunning:      {fault.T("Running", "运行中"), good},
	api.PhaseRecovering:   {fault.T("Recovering", "恢复中"), busy},
	api.PhaseCompleted:    {fault.T("Completed", "已完成"), good},
	api.PhaseFailed:       {fault.T("Failed", "失败"), bad},
	api.PhaseStopped:      {fault.T("Stopped", "已停止"), faint},
}

func phaseCell(t *api.TrainingTask, lang string) cell {
	w, ok := phaseWords[t.Status.Phase]
	if !ok {
		return text(string(t.Status.Phase))
	}
	s := w.text.In(lang)
	if t.Meta.DeletedAt != nil {
		s += fault.T(" (deleting)", "（删除中）").In(lang)
	}
	return cell{s, w.tone}
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
	return devices(count)
}

func nodeDevices(n *api.Node) string {
	count := map[string]int{}
	for _, d := range n.Spec.Devices {
		count[d.Type]++
	}
	return devices(count)
}

func devices(count map[string]int) string {
	if len(count) == 0 {
		return "-"
	}
	var parts []string
	for _, typ := range slices.Sorted(maps.Keys(count)) {
		parts = append(parts, strings.TrimSuffix(fmt.Sprintf("%d×%s", count[typ], typ), "×"))
	}
	return strings.Join(parts, ",")
}

func duration(t *api.TrainingTask, now time.Time) string {
	if t.Status.StartedAt == nil {
		return "-"
	}
	end := now
	if t.Status.FinishedAt != nil {
		end = *t.Status.FinishedAt
	}
	return short(max(0, end.Sub(*t.Status.StartedAt)))
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
	return money(z.Spec.Price.Device(""), first(z.Spec.Price.Currency, api.DefaultCurrency))
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

func zoneState(z *api.Zone, lang string) cell {
	health := z.Status.Health
	if health == "" {
		health = z.Spec.Health
	}
	switch health {
	case api.ZoneHealthy:
		return cell{fault.T("healthy", "健康").In(lang), good}
	case api.ZoneDegraded:
		return cell{fault.T("degraded", "降级").In(lang), busy}
	case "":
		return text("-")
	}
	return text(string(health))
}

func nodeState(n *api.Node, lang string) cell {
	c := cell{fault.T("ready", "就绪").In(lang), good}
	if !n.Status.Ready {
		c = cell{fault.T("not ready", "未就绪").In(lang), bad}
		if n.Status.Reason != "" {
			c.text += " (" + n.Status.Reason + ")"
		}
	}
	if n.Spec.Cordoned {
		c.text += fault.T(", cordoned", "，已隔离").In(lang)
		if c.tone == good {
			c.tone = busy
		}
	}
	c.text += card.State(n, lang)
	return c
}

func queueState(q *api.Queue, lang string) cell {
	if q.Spec.Paused {
		return cell{fault.T("paused", "已暂停").In(lang), busy}
	}
	return cell{fault.T("open", "开放").In(lang), good}
}

func labels(m map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, k+"="+m[k])
	}
	return strings.Join(parts, ",")
}
