package recipe

import (
	"slices"
	"strconv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// The launcher puts the folders in their place: only it knows where they are.
const (
	// DirToken is the folder of the recipe's files.
	DirToken = "${FERMI_RECIPE}"
	// OutputToken is the folder of outputs.
	OutputToken = "${FERMI_OUTPUT}"
	// LeadHostToken and LeadPortToken are where the first process of the generation listens.
	LeadHostToken = "${FERMI_LEAD_HOST}"
	LeadPortToken = "${FERMI_LEAD_PORT}"
	// InterfaceToken is the network interface over which the replicas of the task reach each other.
	InterfaceToken = "${FERMI_INTERFACE}"
)

// HostToken is the address of replica i, in rank order.
func HostToken(i int) string { return "${FERMI_HOST_" + itoa(i) + "}" }

// PortToken is port i of those that all launchers of the task reserved, in rank order.
func PortToken(i int) string { return "${FERMI_PORT_" + itoa(i) + "}" }

const (
	defaultTimeout = 10 * time.Minute
	// maxFiles bounds the files of a recipe together: they travel in each replica's record.
	maxFiles = 1 << 20
	// maxListed is how many processes may each be told all addresses: a variable has 128 KiB.
	maxListed = 2048
	// MaxPorts bounds the table of ports that every launcher of a task is told.
	MaxPorts = 1 << 15
)

// layout is who is which process, and where each listens. It is settled first, by gather.
type layout struct {
	in     Input
	fw     *framework
	worlds []*world
	ranks  []process
}

// plan is what files and processes are made of: the layout, and what the task's strategy came to.
type plan struct {
	layout
	st      api.Strategy
	kind    api.StrategyKind
	sizes   sizes
	expert  int
	zero    int
	batch   batch
	timeout time.Duration
	iface   string
}

// findings are what is wrong with a task, and what is unwise.
type findings struct {
	faults   []fault.Field
	warnings []fault.Text
}

// work is a recipe in the making: it checks the task and settles the plan.
type work struct {
	plan
	findings
	uneven bool // the nodes have different numbers of devices
	files  []api.RecipeFile
}

// Recipe is made: ask it for its processes.
type Recipe struct{ w *work }

func (f *findings) refuse(path string, text fault.Text) {
	f.faults = append(f.faults, fault.Field{Path: path, Message: text})
}

func (f *findings) warn(en, zh string, args ...any) {
	text := fault.T(en, zh, args...)
	for _, have := range f.warnings {
		if have == text {
			return
		}
	}
	f.warnings = append(f.warnings, text)
}

// Make makes a recipe; a fault with the refused fields where it does not fit. The spec must be valid
// by itself.
func Make(in Input) (*Recipe, error) {
	w := &work{plan: plan{layout: layout{in: in, fw: rowOf(in.Spec.Framework)}}}
	switch {
	case w.fw == nil:
		return nil, fault.New(fault.Invalid, "BadRecipe", fault.T("%q is no framework.", "%q 不是已知的框架。", string(in.Spec.Framework)))
	case len(in.Groups) == 0:
		return nil, fault.New(fault.Invalid, "BadRecipe", fault.T("The task has no replica.", "任务没有副本。"))
	}
	if in.Spec.Strategy != nil {
		w.st = *in.Spec.Strategy
	}
	for _, g := range in.Groups {
		if g.Ranks < 1 {
			return nil, fault.New(fault.Invalid, "BadRecipe", fault.T("The replica %s-%d has no process.", "副本 %s-%d 没有进程。", g.Role, g.Index))
		}
	}
	w.gather()
	w.checkPair()
	w.checkRoles()
	w.checkDeepSpeed()
	w.checkDevices()
	w.checkTold()
	w.settle()
	if len(w.faults) == 0 {
		w.settleZero()
		w.settleBatch()
	}
	if w.timeout = w.st.CollectiveTimeout.Std(); w.timeout == 0 {
		w.timeout = defaultTimeout
	}
	if w.iface = w.st.NetworkInterface; w.iface == "" {
		w.iface = w.interfaceName()
	}
	if len(w.faults) == 0 {
		w.write()
	}
	if err := w.err(); err != nil {
		return nil, err
	}
	return &Recipe{w}, nil
}

// checkRoles refuses roles that a framework's cluster can't have.
func (w *work) checkRoles() {
	if w.fw.listed && len(w.ranks) > maxListed {
		w.refuse("spec.roles", fault.T("%[2]s tells every process all addresses in one variable: at most %[3]d processes, not %[1]d.",
			"%[2]s 需在一个环境变量中列出全部地址：最多 %[3]d 个进程，而不是 %[1]d 个。", len(w.ranks), w.fw.label, maxListed))
	}
	ports := 0
	for i := range w.in.Groups {
		ports += w.portsOf(&w.in.Groups[i])
	}
	if ports > MaxPorts {
		w.refuse("spec.roles", fault.T("Its processes are told %d addresses of others; at most %d are allowed.",
			"其进程需获知 %d 个其他进程的地址，上限为 %d 个。", ports, MaxPorts))
	}
	counts := map[string]int{}
	for _, wd := range w.worlds {
		counts[wd.role] += wd.size
	}
	switch w.fw.id {
	case "mxnet":
		if counts["scheduler"] != 1 || counts["server"] == 0 || counts["worker"] == 0 || len(counts) != 3 {
			w.refuse("spec.roles", fault.T("MXNet needs the roles scheduler (1 replica), server and worker, and no others; the task has %s.",
				"MXNet 需要且仅需要角色 scheduler（1 个副本）、server 和 worker；此任务有 %s。", w.roleNames()))
		}
	case "ray":
		if n, ok := counts["head"]; ok && n != 1 {
			w.refuse("spec.roles", fault.T("Ray has one head, not %d.", "Ray 只有一个 head，而不是 %d 个。", n))
		}
	case "tensorflow":
		if n, ok := counts["chief"]; ok && n != 1 {
			w.refuse("spec.roles", fault.T("TensorFlow has one chief, not %d.", "TensorFlow 只有一个 chief，而不是 %d 个。", n))
		}
	}
	if w.fw.cluster && w.trainers() == 0 {
		w.refuse("spec.roles", fault.T("No role does the work: name one worker.", "没有承担训练的角色，请添加 worker 角色。"))
	}
	if w.fw.start == startLead && len(w.worlds) > 1 {
		w.refuse("spec.roles", fault.T("%s starts processes of one role; the task has %s.", "%s 只能启动一个角色的进程；此任务有 %s。", w.fw.label, w.roleNames()))
	}
}

func (w *layout) roleNames() string {
	names := make([]string, len(w.worlds))
	for i, wd := range w.worlds {
		names[i] = wd.role
	}
	return join(names)
}

// write makes the files.
func (w *work) write() {
	if w.fw.id != api.FrameworkPlain {
		for _, make := range slices.Concat(w.fw.files, []maker{roleTable, rankTable}) {
			if name, text := make(&w.plan); name != "" {
				w.files = append(w.files, api.RecipeFile{Name: name, Text: text})
			}
		}
	}
	total := 0
	for _, f := range w.files {
		total += len(f.Text)
	}
	if total > maxFiles {
		w.refuse("spec.roles", fault.T("The files of this recipe would have %d bytes for %d processes; at most %d are allowed.",
			"此启动方式的文件共 %d 字节（%d 个进程），上限为 %d 字节。", total, len(w.ranks), maxFiles))
	}
}

func (f *findings) err() error {
	if len(f.faults) == 0 {
		return nil
	}
	first := f.faults[0]
	return fault.New(fault.Invalid, "BadRecipe", fault.Text{
		EN: first.Path + ": " + first.Message.EN, ZH: first.Path + "：" + first.Message.ZH,
	}).WithFields(f.faults...)
}

// Ports is how many ports group i reserves for its processes, and how many all groups do.
func (r *Recipe) Ports(i int) (own, all int) {
	for k := range r.w.in.Groups {
		n := r.w.portsOf(&r.w.in.Groups[k])
		if all += n; k == i {
			own = n
		}
	}
	return own, all
}

// Warnings are what will work, but perhaps not as meant.
func (r *Recipe) Warnings() []fault.Text { return r.w.warnings }

// Files are the same for every replica.
func (r *Recipe) Files() []api.RecipeFile { return r.w.files }

// Groups is how many replicas it is for.
func (r *Recipe) Groups() int { return len(r.w.in.Groups) }

// Bare says that a program of the framework numbers the processes, not their launcher.
func (r *Recipe) Bare() bool { return r.w.fw.start == startLead }

// Len is the number of processes.
func (r *Recipe) Len() int { return len(r.w.ranks) }

// Group is the processes of group i; by the first the others are started where the launcher does not.
func (r *Recipe) Group(i int) []api.RecipeRank {
	n := 0
	for _, g := range r.w.in.Groups[:i] {
		n += g.Ranks
	}
	out := make([]api.RecipeRank, r.w.in.Groups[i].Ranks)
	for k := range out {
		out[k] = r.Rank(n + k)
	}
	return out
}

// Rank is process i over all groups.
func (r *Recipe) Rank(i int) api.RecipeRank {
	p := &r.w.ranks[i]
	return api.RecipeRank{
		Rank: p.rank, Role: p.group.Role, Replica: p.group.Index, Backend: p.world.vendor.backend,
		Env: r.w.environment(p), Command: r.w.command(p),
	}
}

// Summary is the whole, with the first few processes.
func (r *Recipe) Summary(most int) api.Recipe {
	w := r.w
	out := api.Recipe{
		Framework: w.fw.id, Strategy: w.kind, Warnings: w.warnings, RankCount: len(w.ranks), Files: w.files, Ranks: []api.RecipeRank{},
		Sizes: api.RecipeSizes{
			World: w.trainers(), Nodes: len(w.in.Groups), Data: w.sizes.data, Tensor: w.sizes.tensor, Pipeline: w.sizes.pipeline, Expert: w.expert,
		},
	}
	if out.Files == nil {
		out.Files = []api.RecipeFile{}
	}
	for i := range min(most, len(w.ranks)) {
		rank := r.Rank(i)
		rank.Env, rank.Command = append([]api.EnvVar{}, rank.Env...), append([]string{}, rank.Command...) // never null
		out.Ranks = append(out.Ranks, rank)
	}
	return out
}

func itoa(n int) string { return strconv.Itoa(n) }
