package sim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/pattern"
)

// Change is a what-if, in the words of the command line.
type Change struct {
	Add    []string // 4x8:A100@ZONE, or "4 nodes in ZONE": as most of its nodes are
	Remove []string // "4 nodes in ZONE": the last ones, or the name of a node
	Weight []string // QUEUE=3 or QUEUE=2x
	// Elastic, when above 0, is the share of its replicas that any gang could go on with.
	Elastic float64
	// Moves lets gangs that save be moved so that others find room.
	Moves bool
}

// Empty says that nothing is changed.
func (c *Change) Empty() bool {
	return len(c.Add)+len(c.Remove)+len(c.Weight) == 0 && c.Elastic == 0 && !c.Moves
}

// String is how the change is named in reports.
func (c *Change) String() string {
	var parts []string
	for _, p := range []struct {
		mark string
		list []string
	}{{"+", c.Add}, {"−", c.Remove}, {"", c.Weight}} {
		for _, text := range p.list {
			parts = append(parts, p.mark+text)
		}
	}
	if c.Elastic != 0 {
		parts = append(parts, "elastic "+strconv.FormatFloat(c.Elastic, 'g', 3, 64))
	}
	if c.Moves {
		parts = append(parts, "moves")
	}
	return strings.Join(parts, ", ")
}

// With is the configuration after the change; the one it is called on is not touched.
func (cfg Config) With(c Change) (Config, error) {
	cfg.Nodes, cfg.Zones, cfg.Queues = slices.Clone(cfg.Nodes), slices.Clone(cfg.Zones), slices.Clone(cfg.Queues)
	cfg.Trace.Jobs = slices.Clone(cfg.Trace.Jobs)
	cfg.Elastic, cfg.Moves = c.Elastic, c.Moves
	for _, step := range []struct {
		list []string
		do   func(string) error
	}{{c.Add, cfg.AddNodes}, {c.Remove, cfg.removeNodes}, {c.Weight, cfg.weigh}} {
		for _, text := range step.list {
			if err := step.do(text); err != nil {
				return cfg, err
			}
		}
	}
	return cfg, nil
}

var (
	nodesForm = pattern.New(`^(\d{1,6})x(\d{1,2}):([^@\s]{1,64})(?:@(\S{1,64}))?$`)
	wordsForm = pattern.New(`^(\d{1,6}) ?(?:nodes? in |个节点@|@)(\S{1,64})$`)
)

// maxNodes is the most a simulated cluster may have, maxAdded the most devices of one addition.
const (
	maxNodes = 50_000
	maxAdded = 400_000
)

// AddNodes adds COUNTxDEVICES:TYPE[@ZONE], where a zone that is not there is made with the default
// price, or "COUNT nodes in ZONE", like most that the zone has.
func (cfg *Config) AddNodes(text string) error {
	number := 0
	for _, n := range cfg.Nodes {
		number = max(number, int(n.Spec.Number))
	}
	if m := wordsForm.FindStringSubmatch(text); m != nil {
		zone, like, err := cfg.usual(m[2])
		if err != nil {
			return err
		}
		count, err := cfg.countOf(m[1])
		for i := range count {
			n := *like
			n.Spec.Number, n.Spec.Cordoned, n.Spec.Drain, n.Spec.CordonedDevices, n.Spec.DeviceOrders = uint32(number+1+i), false, false, nil, nil
			n.Meta.ID, n.Meta.Name = fmt.Sprintf("node-%06d", n.Spec.Number), fmt.Sprintf("%s-%05d", zone, n.Spec.Number)
			n.Spec.Rack, n.Spec.Leaf = fmt.Sprintf("%s-new-r%d", zone, i/4), fmt.Sprintf("%s-new-l%d", zone, i/8)
			n.Status = api.NodeStatus{Ready: true}
			cfg.Nodes = append(cfg.Nodes, &n)
		}
		return err
	}
	m := nodesForm.FindStringSubmatch(text)
	if m == nil {
		return fault.New(fault.Invalid, "BadNodes", fault.T(`%q does not say nodes; such as 120x8:A100, 4x8:A100@beijing-2 or "4 nodes in beijing-2".`,
			`%q 不是有效的节点描述；例如 120x8:A100、4x8:A100@beijing-2 或 "4 nodes in 北京-2"。`, text))
	}
	count, err := cfg.countOf(m[1])
	if err != nil {
		return err
	}
	devices, _ := strconv.Atoi(m[2])
	if devices > 64 || count*devices > maxAdded {
		return fault.New(fault.Invalid, "BadNodes", fault.T("A node has at most 64 devices, all together %d.", "每节点最多 64 张卡，合计不超过 %d 张。", maxAdded))
	}
	zone := cmp.Or(m[4], "sim")
	if z := cfg.zone(zone); z != nil {
		zone = z.Meta.Name
	} else {
		cfg.Zones = append(cfg.Zones, &api.Zone{Meta: api.Meta{Name: zone}, Spec: api.ZoneSpec{Region: zone, Price: api.Price{Currency: api.DefaultCurrency}}})
	}
	cfg.Nodes = append(cfg.Nodes, Nodes(zone, number+1, count, devices, m[3])...)
	return nil
}

func (cfg *Config) countOf(text string) (int, error) {
	n, _ := strconv.Atoi(text)
	if n == 0 || n+len(cfg.Nodes) > maxNodes {
		return 0, fault.New(fault.Invalid, "BadNodes", fault.T("At least one node, and at most %d in all.", "至少一个节点，总数不超过 %d。", maxNodes))
	}
	return n, nil
}

// zone by its name, or by the name it is shown with.
func (cfg *Config) zone(name string) *api.Zone {
	for _, z := range cfg.Zones {
		if z.Meta.Name == name || z.Meta.DisplayName == name {
			return z
		}
	}
	return nil
}

// usual is a zone's name and one of the nodes as most of its nodes are.
func (cfg *Config) usual(zone string) (string, *api.Node, error) {
	z := cfg.zone(zone)
	if z == nil {
		var names []string
		for _, z := range cfg.Zones {
			names = append(names, z.Meta.Name)
		}
		return "", nil, fault.New(fault.NotFound, "NoSuchZone", fault.T("There is no zone %q; there are: %s.", "没有可用区 %q；现有：%s。", zone, strings.Join(names, ", ")))
	}
	shape := func(n *api.Node) string { return fmt.Sprint(n.Spec.CPU, n.Spec.Memory, n.Spec.Devices) }
	count, best := map[string]int{}, (*api.Node)(nil)
	for _, n := range cfg.Nodes {
		if n.Spec.Zone == z.Meta.Name {
			count[shape(n)]++
			if best == nil || count[shape(n)] > count[shape(best)] {
				best = n
			}
		}
	}
	if best == nil {
		return "", nil, fault.New(fault.NotFound, "EmptyZone", fault.T("Zone %s has no nodes to go by.", "可用区 %s 没有可参照的节点。", zone)).
			WithHint(fault.T("Say what they are: 4x8:A100@%s.", "请写明规格：4x8:A100@%s。", zone))
	}
	return z.Meta.Name, best, nil
}

// removeNodes takes nodes away. Jobs that stand on them wait again with their work saved, as after a drain.
func (cfg *Config) removeNodes(text string) error {
	gone := map[uint32]bool{}
	if m := wordsForm.FindStringSubmatch(text); m != nil {
		zone, _, err := cfg.usual(m[2])
		if err != nil {
			return err
		}
		count, _ := strconv.Atoi(m[1])
		for _, n := range slices.Backward(cfg.Nodes) {
			if n.Spec.Zone == zone && len(gone) < count {
				gone[n.Spec.Number] = true
			}
		}
		if len(gone) < count || count == 0 {
			return fault.New(fault.Invalid, "BadNodes", fault.T("Zone %s has %d nodes.", "可用区 %s 有 %d 个节点。", zone, len(gone)))
		}
	} else if i := slices.IndexFunc(cfg.Nodes, func(n *api.Node) bool { return n.Meta.Name == text }); i >= 0 {
		gone[cfg.Nodes[i].Spec.Number] = true
	} else {
		return fault.New(fault.NotFound, "NoSuchNode", fault.T(`There is no node %q; give a name, or "4 nodes in ZONE".`, `没有节点 %q；请给出节点名，或 "4 nodes in 可用区"。`, text))
	}
	cfg.Nodes = slices.DeleteFunc(cfg.Nodes, func(n *api.Node) bool { return gone[n.Spec.Number] })
	for i := range cfg.Trace.Jobs {
		if j := &cfg.Trace.Jobs[i]; j.Stands != nil && slices.ContainsFunc(j.Stands.Spec.Roles, func(r api.RoleAssignment) bool {
			return slices.ContainsFunc(r.Slots, func(s api.Slot) bool { return gone[s.Node] })
		}) {
			j.Stands, j.Length, j.At, j.Began = nil, j.Length+j.Began, 0, 0
		}
	}
	return nil
}

// weigh changes the weight of a queue: QUEUE=3, or QUEUE=2x of what it is.
func (cfg *Config) weigh(text string) error {
	name, value, _ := strings.Cut(text, "=")
	times, relative := strings.CutSuffix(value, "x")
	f, err := strconv.ParseFloat(times, 64)
	q := &api.Queue{Meta: api.Meta{Name: name}}
	i := slices.IndexFunc(cfg.Queues, func(o *api.Queue) bool { return o.Meta.Name == name })
	if i >= 0 {
		*q = *cfg.Queues[i]
	} else if !slices.ContainsFunc(cfg.Trace.Jobs, func(j Job) bool { return j.Task.Spec.Queue == name }) {
		return fault.New(fault.NotFound, "NoSuchQueue", fault.T("There is no queue %q.", "没有队列 %q。", name))
	}
	if relative {
		f *= float64(max(q.Spec.Weight, 1))
	}
	if err != nil || !(f >= 1 && f <= 1e6) || f != math.Trunc(f) {
		return fault.New(fault.Invalid, "BadWeight", fault.T("%q gives no weight; QUEUE=3 or QUEUE=2x, a whole number from 1 on after it.", "%q 不是有效的权重；应为 队列=3 或 队列=2x，结果须为不小于 1 的整数。", text)).
			WithHint(fault.T("To give one less, give the others more.", "若要降低其份额，请提高其他队列的权重。"))
	}
	q.Spec.Weight = int(f)
	if i >= 0 {
		cfg.Queues[i] = q
	} else {
		cfg.Queues = append(cfg.Queues, q)
	}
	return nil
}
