package sim

import (
	"math"
	"slices"
	"testing"
	"time"
)

// near holds a statistic against what the model's formula says.
func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got-want) > within*want {
		t.Errorf("%s: %.4g, the model says %.4g ± %.0f %%", what, got, want, 100*within)
	} else {
		t.Logf("%s: %.4g, the model says %.4g", what, got, want)
	}
}

// published is the cluster of the trace the model comes from.
const (
	publishedNodes = 400
	publishedDays  = 349
	publishedRuns  = 12
)

// breakdowns simulates that cluster with one small job, once for each of some seeds.
func breakdowns(f *Faults) [][]breakdown {
	var out [][]breakdown
	for seed := range uint64(publishedRuns) {
		cfg := config(jobs([3]int{1, 0, 2 * publishedDays * 24 * 60}), publishedNodes)
		cfg.Faults, cfg.Seed = f, seed
		w := newWorld(cfg)
		for w.goesOn() && w.agenda[0].at < publishedDays*day {
			w.step()
		}
		out = append(out, w.stat.broken)
	}
	return out
}

// A large job is stopped by faults of its nodes and by its own: r × nodes + s a day. A small one has
// only the first.
func TestRateHasTwoTerms(t *testing.T) {
	f := DefaultFaults()
	f.RepairMedian, f.RepairSigma = time.Second, 0 // the job is always on all of its nodes
	f.Cluster, f.Relapse = 1, 0                    // fewer are enough to count
	for _, c := range []struct {
		nodes, days int
		want        float64
	}{{128, 800, 3.3e-3*128 + 1.9}, {64, 6000, 3.3e-3 * 64}} {
		cfg := config(jobs([3]int{8 * c.nodes, 0, c.days * 24 * 60}), c.nodes)
		cfg.Faults, cfg.Seed, cfg.Checkpoint, cfg.Restart = f, 3, time.Minute, 0
		r := mustRun(t, cfg)
		if r.Ended != 1 {
			t.Fatalf("%+v", r)
		}
		near(t, "stops a day", float64(r.Stops)/float64(c.days), c.want, 0.08)
	}
}

// Faults of nodes come as often as the rate says. Clustered ones begin with no burst: the first
// month has as many new ones as any.
func TestRateOfNodes(t *testing.T) {
	f := DefaultFaults()
	var faults, fresh, early float64
	for _, run := range breakdowns(f) {
		for _, b := range run {
			faults++
			if !b.again {
				fresh++
				if b.at < 30*day {
					early++
				}
			}
		}
	}
	near(t, "faults a node and day", faults/(publishedRuns*publishedNodes*publishedDays), f.NodeDay, 0.05)
	near(t, "new faults in the first month", early, fresh*30/publishedDays, 0.1)
}

// The worst tenth of the nodes hold 41 % of the faults, and 169 of 400 never fail, at the published rate.
func TestFrailNodes(t *testing.T) {
	f := DefaultFaults()
	f.NodeDay = 4.18e-3
	worst, never := 0.0, 0.0
	for _, run := range breakdowns(f) {
		by := map[uint32]int{}
		for _, b := range run {
			by[b.node]++
		}
		var counts []int
		for _, n := range by {
			counts = append(counts, n)
		}
		slices.Sort(counts)
		sum := 0
		for _, n := range counts[len(counts)-publishedNodes/10:] {
			sum += n
		}
		worst += float64(sum) / float64(len(run)) / publishedRuns
		never += float64(publishedNodes-len(by)) / publishedRuns
	}
	near(t, "share of the worst tenth", worst, 0.41, 0.06)
	near(t, "nodes that never fail", never, 169, 0.1)
}

func TestRelapse(t *testing.T) {
	for _, share := range []float64{0.31, 0.6} {
		f := DefaultFaults()
		f.Relapse = share
		var again, repairs float64
		for _, run := range breakdowns(f) {
			next := map[uint32]time.Duration{}
			for _, b := range slices.Backward(run) { // the next fault of a node is known before this one
				if up := b.at + b.repair; up < (publishedDays-7)*day {
					repairs++
					if at, ok := next[b.node]; ok && at-up <= f.RelapseWithin {
						again++
					}
				}
				next[b.node] = b.at
			}
		}
		near(t, "repaired nodes that break again within a week", again/repairs, share, 0.06)
	}
}

// The time between new faults is Weibull: its coefficient of variation says how clustered they are.
func TestFaultsComeInClusters(t *testing.T) {
	for _, shape := range []float64{0.62, 1} {
		f := DefaultFaults()
		f.Cluster, f.RepairMedian, f.RepairSigma = shape, time.Minute, 0 // none is lost on a node that is away
		var gaps []float64
		for _, run := range breakdowns(f) {
			last := time.Duration(-1)
			for _, b := range run {
				if b.again {
					continue
				}
				if last >= 0 {
					gaps = append(gaps, (b.at - last).Hours())
				}
				last = b.at
			}
		}
		mean, squares := 0.0, 0.0
		for _, g := range gaps {
			mean += g / float64(len(gaps))
			squares += g * g / float64(len(gaps))
		}
		one, two := math.Gamma(1+1/shape), math.Gamma(1+2/shape)
		near(t, "variation of the time between faults", math.Sqrt(squares-mean*mean)/mean, math.Sqrt(two/(one*one)-1), 0.06)
		slices.Sort(gaps)
		near(t, "median over mean", gaps[len(gaps)/2]/mean, math.Pow(math.Ln2, 1/shape)/one, 0.06)
	}
}

// Repairs are log-normal with a bounded tail, and keep as many nodes away as published.
func TestRepairTimes(t *testing.T) {
	f := DefaultFaults()
	f.NodeDay = 4.18e-3
	var hours []float64
	sum := 0.0
	for _, run := range breakdowns(f) {
		for _, b := range run {
			hours = append(hours, b.repair.Hours())
			sum += b.repair.Hours()
		}
	}
	slices.Sort(hours)
	at := func(q float64) float64 { return hours[int(q*float64(len(hours)))] }
	normal := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	near(t, "median repair [h]", at(0.5), 20, 0.12)
	near(t, "a sigma below it, of the logarithm", math.Log(at(0.5)/at(normal(-1))), f.RepairSigma, 0.06)
	// The mean of a log-normal cut at c: e^(μ+σ²/2) Φ((ln c − μ − σ²)/σ) + c (1 − Φ((ln c − μ)/σ)).
	mu, s, c := math.Log(20), f.RepairSigma, f.RepairMax.Hours()
	mean := math.Exp(mu+s*s/2)*normal((math.Log(c)-mu-s*s)/s) + c*(1-normal((math.Log(c)-mu)/s))
	near(t, "mean repair by the formula [h]", mean, 133, 0.01)
	near(t, "mean repair [h]", sum/float64(len(hours)), mean, 0.06)
	near(t, "share of nodes away", sum/24/(publishedRuns*publishedNodes*publishedDays), 0.023, 0.1)
}
