// Command bench measures Fermi against the bounds that it must keep. `bench NAME` prints what it
// measured and one JSON object, which it also keeps in bench/results, and writes bench/RESULTS.md anew. It exits 0 only when every check
// holds. `bench results` only writes the page.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

type benchmark struct {
	name string
	run  func(ctx context.Context, r *report) error
}

var benchmarks = []benchmark{
	{"start", benchStart},
	{"submit", benchSubmit},
	{"archive", benchArchive},
	{"web", benchWeb},
	{"sched", benchSched},
	{"rates", benchRates},
	{"backlog", benchBacklog},
	{"chronus", benchChronus},
	{"openb", benchOpenB},
	{"mind", benchMind},
	{"ha", benchHA},
	{"recovery", benchRecovery},
	{"rendezvous", benchRendezvous},
	{"agents", benchAgents},
	{"hosts", benchHosts},
	{"preflight", benchPreflight},
	{"overhead", benchOverhead},
	{"saving", benchSaving},
	{"checkpoint", benchCheckpoint},
	{"curves", benchCurves},
	{"kube", benchKube},
	{"gateway", benchGateway},
	{"ssh", benchSSH},
	{"data", benchData},
	{"environments", benchEnvironments},
}

func main() {
	if len(os.Args) != 2 {
		fail("usage: bench results|start|submit|archive|web|sched (rates, backlog, chronus and openb)|rates|backlog|chronus|openb|mind|ha|recovery|overhead|saving|rendezvous|agents|hosts|preflight|checkpoint|curves|gateway|ssh|data|kube")
	}
	if os.Args[1] == "results" {
		if err := writePage(); err != nil {
			fail(err.Error())
		}
		return
	}
	i := slices.IndexFunc(benchmarks, func(b benchmark) bool { return b.name == os.Args[1] })
	if i < 0 {
		fail("no such benchmark: " + os.Args[1])
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := newReport(benchmarks[i].name)
	if err := benchmarks[i].run(ctx, r); err != nil {
		fail(err.Error())
	}
	if len(r.Checks) == 0 { // a helper process of a benchmark
		return
	}
	code := r.print()
	if err := r.keep(); err != nil {
		fail(err.Error())
	}
	os.Exit(code)
}

func fail(why string) {
	fmt.Fprintln(os.Stderr, "bench:", why)
	os.Exit(1)
}

// sample is a set of durations.
type sample []time.Duration

// quantile by nearest rank.
func (s sample) quantile(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	i := int(q*float64(len(sorted))+0.999999) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

func (s sample) String() string {
	return fmt.Sprintf("n=%d p50=%s p90=%s p99=%s max=%s", len(s), s.quantile(.5).Round(10*time.Microsecond), s.quantile(.9).Round(10*time.Microsecond),
		s.quantile(.99).Round(10*time.Microsecond), s.quantile(1).Round(10*time.Microsecond))
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (s sample) milliseconds() []float64 { return s.in(ms) }

func (s sample) seconds() []float64 { return s.in(time.Duration.Seconds) }

func (s sample) in(unit func(time.Duration) float64) []float64 {
	out := make([]float64, len(s))
	for i, d := range s {
		out[i] = unit(d)
	}
	return out
}
