package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Faults is how a cluster breaks. The numbers of DefaultFaults are published ones: the rate of
// Llama 3's 54 days split into a part that grows with nodes and one that does not; frailty,
// relapse, clustering and repair are of 400 servers over 349 days (InfiniteHBD), with the shape of
// the frailty and the bound of repairs set so that the simulated cluster has the published shares.
//
// The story: new faults come to the cluster one after the other, clustered in time, and each hits a
// node by its frailty. The node is away for its repair, and then some come back only to break again
// soon. Relapses are part of NodeDay, not on top of it.
type Faults struct {
	// NodeDay is the mean number of faults of a node a day, relapses included.
	NodeDay float64
	// JobDay is the number of faults a day of a job's own software, for jobs of at least LargeJob nodes.
	JobDay   float64
	LargeJob int
	// Frailty is the shape of the gamma distribution of the nodes' own rates: smaller is more unequal.
	Frailty float64
	// Relapse is the share of repaired nodes that break again within RelapseWithin, for whatever
	// reason. Counted from the repair it is 31 % in the published trace, from the fault's begin 26 %.
	Relapse       float64
	RelapseWithin time.Duration
	// Cluster is the Weibull shape of the time between new faults; below 1 they come in clusters.
	Cluster float64
	// RepairMedian and RepairSigma are the log-normal repair time; RepairMax bounds its tail, which
	// the published mean of 133 h sets.
	RepairMedian time.Duration
	RepairSigma  float64
	RepairMax    time.Duration
}

// DefaultFaults is the model of the literature.
func DefaultFaults() *Faults {
	return &Faults{
		NodeDay: 3.3e-3, JobDay: 1.9, LargeJob: 128, Frailty: 1.6, Relapse: 0.31, RelapseWithin: 7 * 24 * time.Hour,
		Cluster: 0.62, RepairMedian: 20 * time.Hour, RepairSigma: 2.8, RepairMax: 680 * time.Hour,
	}
}

// Validate refuses numbers no cluster has.
func (f *Faults) Validate() error {
	if f.NodeDay < 0 || f.JobDay < 0 || f.Frailty <= 0 || f.Relapse < 0 || f.Relapse >= 1 || f.Cluster <= 0 || f.RepairMedian <= 0 || f.RepairSigma < 0 {
		return fault.New(fault.Invalid, "BadFaults", fault.T("Fault rates can't be negative, shapes and repair times must be positive, a share is from 0 to 1.",
			"故障率不能为负，形状参数与修复时间须为正，比例须在 0 到 1 之间。"))
	}
	return nil
}

const day = 24 * time.Hour

// frail is the nodes with their own rates, and what follows from them.
type frail struct {
	nodes   []uint32
	upTo    []float64 // sums of the rates, 1 a node on average
	relapse float64   // share that is drawn to break again; chance adds the rest of Faults.Relapse
	scale   float64   // of the Weibull time between new faults, in days
}

// newFrail draws every node's rate.
func newFrail(f *Faults, nodes []uint32, r *rand.Rand) *frail {
	out := &frail{nodes: slices.Sorted(slices.Values(nodes))}
	rates, sum := make([]float64, len(nodes)), 0.0
	for i := range rates {
		rates[i] = gamma(r, f.Frailty)
		sum += rates[i]
		out.upTo = append(out.upTo, sum)
	}
	chance := 0.0 // that a node just repaired is hit anew within the time, by no relapse
	for _, rate := range rates {
		share := rate / sum
		chance += share * -math.Expm1(-share*float64(len(nodes))*f.NodeDay*(1-f.Relapse)*f.RelapseWithin.Hours()/24)
	}
	out.relapse = max(0, (f.Relapse-chance)/(1-chance))
	out.scale = 1 / (f.NodeDay * (1 - out.relapse) * float64(len(nodes)) * math.Gamma(1+1/f.Cluster))
	return out
}

// pick is a node that is up, each as often as its rate says; false when nearly all are away.
func (f *frail) pick(r *rand.Rand, up func(uint32) bool) (uint32, bool) {
	for range 256 {
		i, _ := slices.BinarySearch(f.upTo, r.Float64()*f.upTo[len(f.upTo)-1])
		if n := f.nodes[min(i, len(f.nodes)-1)]; up(n) {
			return n, true
		}
	}
	return 0, false
}

// breakLater gives every node its own rate and the cluster its first fault. The faults have come
// for long when the simulation begins: the wait for the first is what is left of an interval that
// is met halfway, else a clustered process would begin with a burst.
func (w *world) breakLater() {
	f := w.cfg.Faults
	if f.NodeDay <= 0 {
		return
	}
	numbers := make([]uint32, 0, len(w.nodes))
	for n := range w.nodes {
		numbers = append(numbers, n)
	}
	w.frail = newFrail(f, numbers, w.rnd)
	met := math.Pow((1+1/f.Cluster)*gamma(w.rnd, 1+1/f.Cluster), 1/f.Cluster)
	w.strikeAfter(w.rnd.Float64() * met)
}

// strikeAfter notes the next new fault, in units of the Weibull's scale.
func (w *world) strikeAfter(units float64) {
	if days := units * w.frail.scale; days < 36500 {
		w.note(event{at: w.now + time.Duration(days*float64(day)), kind: strikes})
	}
}

// strike is a new fault on some node.
func (w *world) strike() {
	if n, ok := w.frail.pick(w.rnd, func(n uint32) bool { return w.nodes[n].Status.Ready }); ok {
		w.breakNode(n, false)
	}
	w.strikeAfter(math.Pow(w.rnd.ExpFloat64(), 1/w.cfg.Faults.Cluster))
}

// breakdown is one fault of a node.
type breakdown struct {
	at, repair time.Duration
	node       uint32
	again      bool // a relapse
}

// breakNode takes a node away for its repair; again says that it is a relapse.
func (w *world) breakNode(number uint32, again bool) {
	n := w.nodes[number]
	if !n.Status.Ready {
		return
	}
	down := *n
	down.Status.Ready = false
	w.hands.machines.SetNode(down)
	w.look()
	f := w.cfg.Faults
	repair := time.Duration(float64(f.RepairMedian) * math.Exp(f.RepairSigma*w.rnd.NormFloat64()))
	if f.RepairMax > 0 {
		repair = min(repair, f.RepairMax)
	}
	w.stat.broken = append(w.stat.broken, breakdown{w.now, repair, number, again})
	w.note(event{at: w.now + repair, kind: repaired, node: number})
}

func (w *world) repair(number uint32) {
	up := *w.nodes[number]
	up.Status.Ready = true
	w.hands.machines.SetNode(up)
	w.look()
	if w.rnd.Float64() < w.frail.relapse {
		w.note(event{at: w.now + time.Duration(w.rnd.Float64()*float64(w.cfg.Faults.RelapseWithin)), kind: broke, node: number})
	}
}

// failLater is the job's own fault, of its software.
func (w *world) failLater(l *life) {
	f := w.cfg.Faults
	if f == nil || f.JobDay <= 0 || len(nodesOf(l.at)) < max(f.LargeJob, 1) {
		return
	}
	after := time.Duration(w.rnd.ExpFloat64() / f.JobDay * float64(day))
	if after < l.rest() { // else the end comes first
		w.note(event{at: w.now + after, kind: failed, job: l, turn: l.turn})
	}
}

// gamma has mean 1 (Marsaglia and Tsang).
func gamma(r *rand.Rand, shape float64) float64 {
	boost, k := 1.0, shape
	if k < 1 {
		boost, k = math.Pow(r.Float64(), 1/k), k+1
	}
	d := k - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.NormFloat64()
		v := (1 + c*x) * (1 + c*x) * (1 + c*x)
		if v > 0 && math.Log(r.Float64()) < 0.5*x*x+d-d*v+d*math.Log(v) {
			return d * v * boost / shape
		}
	}
}
