package sim

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Faults is how a cluster breaks. The numbers of DefaultFaults are published ones: the rate of
// Llama 3's 54 days split into a part that grows with nodes and one that does not, the frailty and
// relapse of 400 servers over 349 days, and their repair times.
type Faults struct {
	// NodeDay is the mean number of faults of a node a day.
	NodeDay float64
	// JobDay is the number of faults a day of a job's own software, for jobs of at least LargeJob nodes.
	JobDay   float64
	LargeJob int
	// Frailty is the shape of the gamma distribution of the nodes' own rates: smaller is more unequal.
	Frailty float64
	// Relapse is the share of repaired nodes that break again within RelapseWithin.
	Relapse       float64
	RelapseWithin time.Duration
	// Cluster is the Weibull shape of the time between faults; below 1 they come in clusters.
	Cluster float64
	// RepairMedian and RepairSigma are the log-normal repair time; RepairMax bounds its tail.
	RepairMedian time.Duration
	RepairSigma  float64
	RepairMax    time.Duration
}

// DefaultFaults is the model of the literature.
func DefaultFaults() *Faults {
	return &Faults{
		NodeDay: 3.3e-3, JobDay: 1.9, LargeJob: 128, Frailty: 0.6, Relapse: 0.26, RelapseWithin: 7 * 24 * time.Hour,
		Cluster: 0.62, RepairMedian: 20 * time.Hour, RepairSigma: 2.8, RepairMax: 60 * 24 * time.Hour,
	}
}

// Validate refuses numbers no cluster has.
func (f *Faults) Validate() error {
	if f.NodeDay < 0 || f.JobDay < 0 || f.Frailty <= 0 || f.Relapse < 0 || f.Relapse > 1 || f.Cluster <= 0 || f.RepairMedian <= 0 || f.RepairSigma < 0 {
		return fault.New(fault.Invalid, "BadFaults", fault.T("Fault rates can't be negative, shapes and repair times must be positive, a share is from 0 to 1.",
			"故障率不能为负，形状参数与修复时间须为正，比例须在 0 到 1 之间。"))
	}
	return nil
}

const day = 24 * time.Hour

// breakLater gives every node its own rate and its first fault.
func (w *world) breakLater() {
	numbers := make([]uint32, 0, len(w.nodes))
	for n := range w.nodes {
		numbers = append(numbers, n)
	}
	slices.SortFunc(numbers, cmp.Compare[uint32])
	w.stat.rates = map[uint32]float64{}
	for _, n := range numbers {
		w.stat.rates[n] = w.cfg.Faults.NodeDay * gamma(w.rnd, w.cfg.Faults.Frailty)
		w.breakAfter(n)
	}
}

// breakAfter draws the node's next fault: Weibull with its own mean.
func (w *world) breakAfter(n uint32) {
	f := w.cfg.Faults
	rate := w.stat.rates[n]
	if rate <= 0 {
		return
	}
	days := weibull(w.rnd, f.Cluster) / rate
	if days < 36500 {
		w.note(event{at: w.now + time.Duration(days*float64(day)), kind: broke, node: n})
	}
}

func (w *world) breakNode(number uint32) {
	n := w.nodes[number]
	if !n.Status.Ready {
		return
	}
	down := *n
	down.Status.Ready = false
	w.nodes[number] = &down
	w.planner.Node(&down)
	w.stat.faults++
	victims := make([]*life, 0, len(w.on[number]))
	for _, l := range w.on[number] {
		victims = append(victims, l)
	}
	slices.SortFunc(victims, func(a, b *life) int { return cmp.Compare(a.job.Task.Meta.ID, b.job.Task.Meta.ID) })
	for _, l := range victims {
		w.unplace(l, true)
	}
	f := w.cfg.Faults
	repair := time.Duration(float64(f.RepairMedian) * math.Exp(f.RepairSigma*w.rnd.NormFloat64()))
	if f.RepairMax > 0 {
		repair = min(repair, f.RepairMax)
	}
	w.note(event{at: w.now + repair, kind: repaired, node: number})
}

func (w *world) repair(number uint32) {
	up := *w.nodes[number]
	up.Status.Ready = true
	w.nodes[number] = &up
	w.planner.Node(&up)
	if f := w.cfg.Faults; w.rnd.Float64() < f.Relapse {
		w.note(event{at: w.now + time.Duration(w.rnd.Float64()*float64(f.RelapseWithin)), kind: broke, node: number})
		return
	}
	w.breakAfter(number)
}

// failLater is the job's own fault, of its software.
func (w *world) failLater(l *life) {
	f := w.cfg.Faults
	if f == nil || f.JobDay <= 0 || len(nodesOf(l.at)) < max(f.LargeJob, 1) {
		return
	}
	after := time.Duration(w.rnd.ExpFloat64() / f.JobDay * float64(day))
	if after < w.rest(l) {
		w.note(event{at: w.now + after, kind: failed, job: l, turn: l.turn})
	}
}

// weibull has mean 1.
func weibull(r *rand.Rand, shape float64) float64 {
	return math.Pow(r.ExpFloat64(), 1/shape) / math.Gamma(1+1/shape)
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
