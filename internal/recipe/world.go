package recipe

import (
	"slices"
	"strconv"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Input is all a recipe is made of.
type Input struct {
	Spec *api.TrainingTaskSpec
	// Groups are the replicas in rank order: role by role, as the task names them.
	Groups []Group
	// Live: where processes listen is the launchers' to fill in when they start; otherwise examples
	// are shown.
	Live bool
}

// Group is one replica: processes that see the same devices.
type Group struct {
	Role    string
	Index   int    // within the role
	Node    string // "": not placed yet
	Address string
	Ranks   int
	Devices []api.Device
}

// lead is where the first process of a world listens.
type lead struct{ host, port string }

// examplePort is shown where nothing is reserved yet.
const examplePort = 23456

// world is a role's processes, or those of all roles of a cluster.
type world struct {
	role   string
	first  int // index of its first process
	size   int
	groups []*Group
	vendor *vendor
	master lead
	// endpoints are its processes' own addresses, in rank order.
	endpoints []string
}

// process is one rank.
type process struct {
	world *world
	group *Group
	rank  int    // within the world
	local int    // within the group
	at    int    // index of the group within the world
	port  string // of its own, on the group's address
}

// gather numbers the processes.
func (w *layout) gather() {
	for i := range w.in.Groups {
		g := &w.in.Groups[i]
		wd := w.worldOf(g.Role)
		wd.groups = append(wd.groups, g)
		for local := range g.Ranks {
			w.ranks = append(w.ranks, process{world: wd, group: g, rank: wd.size, local: local, at: len(wd.groups) - 1})
			if wd.size == 0 {
				wd.first = len(w.ranks) - 1
			}
			wd.size++
		}
	}
	w.givePorts()
	first := lead{w.ranks[w.worlds[w.leading()].first].group.Address, itoa(examplePort)}
	if w.in.Live {
		first = lead{LeadHostToken, LeadPortToken}
	}
	for i, wd := range w.worlds {
		p := &w.ranks[wd.first]
		wd.master = lead{p.group.Address, p.port}
		if w.fw.cluster || i == w.leading() {
			wd.master = first
		}
	}
}

// tabled says that processes are told where others than the first one listen. Only then launchers
// reserve a port for each, and are told all.
func (w *layout) tabled() bool { return w.named() || w.remote() }

// named says that the processes themselves are told.
func (w *layout) named() bool {
	return w.fw.id != api.FrameworkPlain && (w.fw.listed || len(w.worlds) > 1)
}

// remote says that a program in the first replica starts processes in others.
func (w *layout) remote() bool { return w.fw.start == startLead && len(w.in.Groups) > 1 }

// portsOf is how many ports of its own a group has.
func (w *layout) portsOf(g *Group) int {
	switch {
	case !w.tabled():
		return 0
	case w.fw.start == startLead:
		return 1 // of its rsh agent
	}
	return g.Ranks
}

// givePorts says where each process listens.
func (w *layout) givePorts() {
	next := map[string]int{} // address → example ports given
	before := 0              // ports of the groups before
	for i := range w.ranks {
		p := &w.ranks[i]
		if i > 0 && p.group != w.ranks[i-1].group {
			before += w.portsOf(w.ranks[i-1].group)
		}
		next[p.group.Address]++
		p.port = itoa(examplePort + next[p.group.Address])
		if n := w.portsOf(p.group); w.in.Live && n > 0 {
			p.port = PortToken(before + min(p.local, n-1))
		}
		p.world.endpoints = append(p.world.endpoints, p.group.Address+":"+p.port)
	}
}

// worldOf is a role's, made where it is missing.
func (w *layout) worldOf(role string) *world {
	for _, wd := range w.worlds {
		if wd.role == role {
			return wd
		}
	}
	wd := &world{role: role, vendor: &gloo}
	w.worlds = append(w.worlds, wd)
	return wd
}

// count is the number of a role's processes.
func (w *layout) count(role string) int {
	for _, wd := range w.worlds {
		if wd.role == role {
			return wd.size
		}
	}
	return 0
}

// leading is the world that the lead belongs to: the first, but MXNet's scheduler and Ray's head.
func (w *layout) leading() int {
	for i, wd := range w.worlds {
		if w.fw.cluster && (wd.role == "scheduler" || wd.role == "head") {
			return i
		}
	}
	return 0
}

// trainers counts the processes that share the work.
func (w *layout) trainers() int {
	if !w.fw.cluster {
		return w.worlds[0].size
	}
	n := 0
	for _, wd := range w.worlds {
		if !slices.Contains(w.fw.helpers, wd.role) {
			n += wd.size
		}
	}
	return n
}

// checkDevices settles each world's vendor, and refuses a mixture. What a plain command does with its
// devices is its own.
func (w *work) checkDevices() {
	if w.fw.id == api.FrameworkPlain {
		return
	}
	for i, wd := range w.worlds {
		makers, types := map[string]bool{}, map[string]bool{}
		real, virtual := false, false
		for _, g := range wd.groups {
			for _, d := range g.Devices {
				makers[makerOf(d)], types[d.Type] = true, true
				if v := vendorNamed(makerOf(d)); v != nil && !d.Virtual {
					wd.vendor, real = v, true
				}
				virtual = virtual || d.Virtual
			}
		}
		at := "spec.roles[" + strconv.Itoa(i) + "].resources.accelerators.type"
		if len(makers) > 1 {
			w.refuse(at, fault.T("The role %s would stand on devices of several makers (%s), which have no collectives in common; give each its own role.",
				"角色 %s 会使用多个厂商的加速卡（%s），它们没有共同的集合通信库；请为每个厂商设置单独的角色。", wd.role, words(makers)))
		}
		if len(types) > 1 {
			w.warn("The role %s stands on several types of devices (%s): the slowest sets the pace.",
				"角色 %s 使用多种加速卡（%s）：速度取决于最慢的一种。", wd.role, words(types))
		}
		switch {
		case real || len(makers) == 0:
		case virtual:
			w.warn("The devices of the role %s are virtual: its processes talk by gloo.", "角色 %s 的加速卡是虚拟的：进程间使用 gloo 通信。", wd.role)
		default:
			w.warn("The maker of the role %s's devices (%s) is not known: its processes talk by gloo.", "角色 %s 的加速卡（%s）厂商未知：进程间使用 gloo 通信。", wd.role, words(types))
		}
		w.checkPrecision(wd, types)
	}
	w.checkEven()
}

// checkPrecision warns of number formats that the devices lack.
func (w *work) checkPrecision(wd *world, types map[string]bool) {
	switch w.in.Spec.Precision {
	case api.PrecisionBF16:
		for _, t := range sorted(types) {
			if d := deviceOf(t); d != nil && !d.bf16 {
				w.warn("%s has no bf16: it is emulated and slow there; use fp16.", "%s 不支持 bf16，只能慢速模拟；请使用 fp16。", t)
			}
		}
	case api.PrecisionFP16:
		if len(types) == 0 {
			w.warn("The role %s has no accelerator: CPUs have little use for fp16; use bf16 or fp32.", "角色 %s 没有加速卡：CPU 不适合 fp16，请使用 bf16 或 fp32。", wd.role)
		}
	}
}

// checkEven looks at the processes on each node of the first world.
func (w *work) checkEven() {
	counts := map[string]int{}
	for _, g := range w.worlds[0].groups {
		if g.Node == "" {
			return // not placed yet
		}
		counts[g.Node] += max(len(g.Devices), g.Ranks)
	}
	low, high := 0, 0
	for _, n := range counts {
		if low == 0 || n < low {
			low = n
		}
		high = max(high, n)
	}
	if w.uneven = low != high; w.uneven {
		w.warn("The nodes have different numbers of devices (%d to %d): the smallest sets the pace of what is exchanged within nodes.",
			"各节点的加速卡数量不同（%d 到 %d）：节点内通信取决于最少的节点。", low, high)
	}
}

// crosses says that some group of t neighbours of the first world stands on several nodes.
func (w *layout) crosses(t int) bool {
	wd := w.worlds[0]
	for block := 0; block < wd.size; block += t {
		first := w.ranks[wd.first+block].group.Node
		for i := block; i < min(block+t, wd.size); i++ {
			if w.ranks[wd.first+i].group.Node != first {
				return true
			}
		}
	}
	return false
}

// interfaceName is the interface between the processes, if that is known: the loopback where all are on one
// machine, and the launcher's to say where it has the addresses too.
func (w *layout) interfaceName() string {
	every := func(is func(address string) bool) bool {
		return !slices.ContainsFunc(w.in.Groups, func(g Group) bool { return !is(g.Address) })
	}
	switch {
	case every(func(a string) bool { return strings.HasPrefix(a, "${") }):
		return InterfaceToken
	case every(func(a string) bool { return strings.HasPrefix(a, "127.") || a == "::1" }):
		return "lo"
	}
	return ""
}

func sorted(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for k := range set {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func words(set map[string]bool) string { return strings.Join(sorted(set), ", ") }

// Unplaced is the input of a task that has no place yet. look says what is known of a type of device
// in the cluster; nil, or false: only what the table of types knows.
func Unplaced(spec *api.TrainingTaskSpec, look func(deviceType string) (api.Device, bool)) Input {
	in := Input{Spec: spec}
	for i := range spec.Roles {
		role := &spec.Roles[i]
		a := role.Resources.Accelerators
		preferred, _, _ := strings.Cut(a.Type, "|")
		d := api.Device{Type: strings.TrimSpace(preferred)}
		if look != nil {
			if known, ok := look(d.Type); ok {
				d = known
			}
		}
		cards := make([]api.Device, a.Count)
		for n := range cards {
			cards[n] = d
			cards[n].Index = n
		}
		for n := range role.Replicas {
			in.Groups = append(in.Groups, Group{
				Role: role.Name, Index: n, Address: role.Name + "-" + itoa(n), Ranks: Ranks(spec.Framework, role), Devices: cards,
			})
		}
	}
	return in
}
