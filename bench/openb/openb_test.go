package openb

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/fermi-cluster/fermi/sched/pack"
)

// small writes a trace of a few nodes and pods and loads it.
func small(t *testing.T) *Trace {
	t.Helper()
	folder := t.TempDir()
	nodes := "sn,cpu_milli,memory_mib,gpu,model\n"
	for i := range 12 {
		nodes += fmt.Sprintf("n%02d,96000,393216,8,%s\n", i, []string{"A", "B"}[i%2])
	}
	pods := "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
	for i := range 80 {
		pods += fmt.Sprintf("p%02d,%s\n", 79-i, []string{"12000,49152,1,1000,", "3000,6000,1,810,A|C", "4000,8000,1,190,", "8000,30000,0,0,A", "64000,100000,8,1000,B"}[i%5])
	}
	for name, text := range map[string]string{"openb_node_list_gpu_node.csv": nodes, "openb_pod_list_small.csv": pods} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	trace, err := Load(folder, "small")
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

func TestLoad(t *testing.T) {
	trace := small(t)
	if len(trace.Nodes) != 12 || trace.Capacity != 96000 || len(trace.Pods) != 80 || trace.Pods[0].Name != "p00" {
		t.Fatalf("%d nodes, %d thousandths, %d pods, first %s", len(trace.Nodes), trace.Capacity, len(trace.Pods), trace.Pods[0].Name)
	}
	if got := fmt.Sprint(trace.Pods[78].Ask); got != fmt.Sprint(pack.Ask{CPU: 3000, Memory: 6000 << 20, Devices: 1, Share: 810, Types: []uint16{0}}) {
		t.Fatal("a typed pod asks", got)
	}
	if _, err := Load(t.TempDir(), "small"); err == nil {
		t.Fatal("a missing folder loads")
	}
}

// Arrivals: above the load pods are taken away, below it they are drawn again.
func TestArrivals(t *testing.T) {
	trace := small(t)
	for _, capacity := range []int64{96000, 300000} {
		trace.Capacity = capacity
		pods, rank := trace.Arrivals(42)
		again, _ := trace.Arrivals(42)
		var asked int64
		for i := range pods {
			asked += pods[i].Devices()
			if pods[i].Name != again[i].Name {
				t.Fatal("the same seed, another order")
			}
		}
		if load := float64(asked) / float64(capacity); load > 1.36 || load < 1.2 {
			t.Fatalf("load %.2f of %d", load, capacity)
		}
		if len(rank) != 12 {
			t.Fatal(rank)
		}
	}
}

// strict panics when a refused pod fitted a node, or a placed one did not.
type strict struct {
	*pack.Demand
	t *testing.T
}

func (s strict) Score(r *pack.Room, a *pack.Ask) (int64, uint64, bool) {
	score, devices, ok := s.Demand.Score(r, a)
	if _, could := fits(r, a); could != ok {
		s.t.Errorf("%+v on %+v: ok = %v", a, r, ok)
	}
	return score, devices, ok
}

func TestReplay(t *testing.T) {
	trace := small(t)
	for name, policy := range map[string]func() Policy{
		"pack":    func() Policy { return strict{pack.NewDemand(), t} },
		"fgd":     func() Policy { return NewFGD(trace) },
		"bestfit": func() Policy { return BestFit{} },
	} {
		one, two := trace.Replay(42, policy(), nil), trace.Replay(42, policy(), nil)
		if one != two {
			t.Errorf("%s: the same replay twice differs", name)
		}
		if got := one.Allocated[130]; got < 70 || got > 100 {
			t.Errorf("%s allocates %.1f %%", name, got)
		}
		if got := trace.Replay(42, policy(), rand.New(rand.NewSource(1))); got.Placed == 0 {
			t.Errorf("%s places nothing with random ties", name)
		}
	}
}
