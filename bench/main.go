// Command bench measures Fermi against the bounds that it must keep. `bench NAME` prints what it
// measured and, as its last line, one JSON object; it exits 0 only when every check holds.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
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
	{"sched", benchSched},
	{"rates", benchRates},
	{"backlog", benchBacklog},
	{"chronus", benchChronus},
	{"openb", benchOpenB},
	{"mind", benchMind},
	{"ha", benchHA},
	{"recovery", benchRecovery},
	{"rendezvous", benchRendezvous},
	{"preflight", benchPreflight},
	{"overhead", benchOverhead},
	{"saving", benchSaving},
	{"checkpoint", benchCheckpoint},
}

func main() {
	if len(os.Args) != 2 {
		fail("usage: bench start|submit|archive|sched (rates, backlog, chronus and openb)|rates|backlog|chronus|openb|mind|ha|recovery|overhead|saving|rendezvous|preflight|checkpoint")
	}
	i := slices.IndexFunc(benchmarks, func(b benchmark) bool { return b.name == os.Args[1] })
	if i < 0 {
		fail("no such benchmark: " + os.Args[1])
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := &report{Bench: benchmarks[i].name, Machine: machine(), Seeds: []int{1}}
	if err := benchmarks[i].run(ctx, r); err != nil {
		fail(err.Error())
	}
	if len(r.Checks) == 0 { // a helper process of a benchmark
		return
	}
	os.Exit(r.print())
}

func fail(why string) {
	fmt.Fprintln(os.Stderr, "bench:", why)
	os.Exit(1)
}

// report is the last line.
type report struct {
	Bench   string  `json:"bench"`
	Checks  []check `json:"checks"`
	Machine string  `json:"machine"`
	Seeds   []int   `json:"seeds,omitempty"`
	// SeedsOf is the seeds of each part, where there are parts.
	SeedsOf map[string][]int `json:"seedsOf,omitempty"`
}

type check struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Bound string  `json:"bound"`
	OK    bool    `json:"ok"`
}

// atMost adds a check that value does not exceed bound.
func (r *report) atMost(name string, value, bound float64) {
	r.Checks = append(r.Checks, check{name, value, fmt.Sprintf("<= %g", bound), value <= bound})
}

// atLeast adds a check that value reaches bound.
func (r *report) atLeast(name string, value, bound float64) {
	r.Checks = append(r.Checks, check{name, value, fmt.Sprintf(">= %g", bound), value >= bound})
}

// print shows every check and returns the exit status.
func (r *report) print() int {
	code := 0
	if r.SeedsOf == nil {
		fmt.Printf("\n%s; seeds %v\n", r.Machine, r.Seeds)
	} else {
		fmt.Printf("\n%s; seeds %v\n", r.Machine, r.SeedsOf)
	}
	for _, c := range r.Checks {
		mark := "ok  "
		if !c.OK {
			mark, code = "FAIL", 1
		}
		fmt.Printf("%s %-44s %12.3f  %s\n", mark, c.Name, c.Value, c.Bound)
	}
	line, err := json.Marshal(r)
	if err != nil {
		fail(err.Error())
	}
	fmt.Println(string(line))
	return code
}

func machine() string {
	cpu := "unknown CPU"
	if out, err := exec.Command("sh", "-c", "grep -m1 'model name' /proc/cpuinfo | cut -d: -f2").Output(); err == nil {
		cpu = strings.TrimSpace(string(out))
	}
	load, _ := os.ReadFile("/proc/loadavg")
	return fmt.Sprintf("%d × %s, %s, load %s", runtime.NumCPU(), cpu, runtime.Version(), strings.Fields(string(load) + " ?")[0])
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
