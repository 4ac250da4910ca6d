package openb

import (
	"fmt"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fermi-cluster/fermi/internal/sim"
	"github.com/fermi-cluster/fermi/sched/pack"
)

// Names are the 17 traces of the published table.
var Names = []string{
	"default",
	"cpu050", "cpu100", "cpu200", "cpu250",
	"gpushare40", "gpushare60", "gpushare80", "gpushare100",
	"gpuspec10", "gpuspec20", "gpuspec25", "gpuspec33",
	"multigpu20", "multigpu30", "multigpu40", "multigpu50",
}

// Trace is one workload: the nodes in the order of the file, the pods in the order of their names.
type Trace struct {
	Name  string
	Nodes []Node
	Pods  []Pod
	// Devices of all nodes, in thousandths.
	Capacity int64
}

// Node as it is when empty.
type Node struct {
	CPU, Memory int64
	Devices     int
	Type        uint16
}

// Room of the empty node.
func (n *Node) Room() pack.Room {
	r := pack.Room{CPU: n.CPU, Memory: n.Memory, Types: make([]uint16, n.Devices), Free: make([]uint16, n.Devices)}
	for d := range n.Devices {
		r.Types[d], r.Free[d] = n.Type, pack.Whole
	}
	return r
}

// Pod is what one pod asks. Shape numbers the distinct asks of a trace.
type Pod struct {
	Name  string
	Shape int
	Ask   pack.Ask
}

// Devices in thousandths.
func (p *Pod) Devices() int64 { return int64(p.Ask.Devices) * int64(p.Ask.Share) }

// Load reads one trace from a folder of the data.
func Load(folder, name string) (*Trace, error) {
	nodes, err := read(folder, "openb_node_list_gpu_node.csv", sim.ReadOpenBNodes)
	if err != nil {
		return nil, err
	}
	pods, err := read(folder, "openb_pod_list_"+name+".csv", sim.ReadOpenBPods)
	if err != nil {
		return nil, err
	}
	t, types, shapes := &Trace{Name: name}, map[string]uint16{}, map[string]int{}
	for _, n := range nodes {
		if _, ok := types[n.Model]; !ok {
			types[n.Model] = uint16(len(types))
		}
		t.Nodes = append(t.Nodes, Node{n.CPU, n.Memory, n.Devices, types[n.Model]})
		t.Capacity += int64(n.Devices) * 1000
	}
	for _, p := range pods {
		a := pack.Ask{CPU: p.CPU, Memory: p.Memory, Devices: p.Devices, Share: uint16(p.Share)}
		for _, model := range p.Models {
			if id, ok := types[model]; ok && a.Devices > 0 {
				a.Types = append(a.Types, id)
			}
		}
		slices.Sort(a.Types)
		a.Types = slices.Compact(a.Types)
		key := fmt.Sprint(a)
		if _, ok := shapes[key]; !ok {
			shapes[key] = len(shapes)
		}
		t.Pods = append(t.Pods, Pod{p.Name, shapes[key], a})
	}
	slices.SortFunc(t.Pods, func(a, b Pod) int { return strings.Compare(a.Name, b.Name) })
	return t, nil
}

// read opens a file of the data for its reader.
func read[T any](folder, name string, from func(io.Reader) (T, error)) (T, error) {
	f, err := os.Open(filepath.Join(folder, name))
	if err != nil {
		var none T
		return none, err
	}
	defer f.Close()
	out, err := from(f)
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return out, err
}

// Load130 is the published load: 130 % of all devices are asked for.
const Load130 = 1.3

// Arrivals is the published arrival sequence of one seed, and the rank of every node (by which
// the published scheduler breaks ties). It must draw from the source exactly as the published
// simulator does, oddities included: one number is burnt by a log line, and the pod that ends the
// filling is judged by its share of one device, not of all it asks for.
func (t *Trace) Arrivals(seed int64) (pods []Pod, rank []int) {
	rng := rand.New(rand.NewSource(seed))
	rng.Int()
	pods = slices.Clone(t.Pods)
	rng.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	var asked int64
	for i := range pods {
		asked += pods[i].Devices()
	}
	target := Load130 * float64(t.Capacity)
	if float64(asked) > target {
		for float64(asked) > target {
			i := rng.Intn(len(pods))
			asked -= pods[i].Devices()
			pods = slices.Delete(pods, i, i+1)
		}
	} else {
		for {
			p := t.Pods[rng.Intn(len(t.Pods))]
			if float64(asked+int64(p.Ask.Share)) > target {
				break
			}
			asked += p.Devices()
			pods = append(pods, p)
		}
	}
	return pods, rng.Perm(len(t.Nodes))
}
