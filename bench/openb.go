package main

import (
	"context"
	"fmt"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/bench/openb"
	"github.com/fermi-cluster/fermi/sched/pack"
)

// benchOpenB replays the published OpenB experiment and compares with the published FGD. For
// development a part of it: FERMI_OPENB_SEEDS=2 FERMI_OPENB_TRACES=default,cpu250.
func benchOpenB(ctx context.Context, r *report) error {
	b := &openbBench{ctx: ctx, report: r, folder: filepath.Join(traces(), "openb"), asTheyAre: map[string]openbRun{}}
	names := openb.Names
	if part := os.Getenv("FERMI_OPENB_TRACES"); part != "" {
		names = strings.Split(part, ",")
	}
	seeds := 10
	if part := os.Getenv("FERMI_OPENB_SEEDS"); part != "" {
		var err error
		if seeds, err = strconv.Atoi(part); err != nil || seeds < 1 || seeds > 10 {
			return fmt.Errorf("FERMI_OPENB_SEEDS=%s is not 1 to 10", part)
		}
	}
	r.Seeds = nil
	for i := range seeds {
		r.Seeds = append(r.Seeds, 42+i)
	}
	if err := b.load(names); err != nil {
		return err
	}
	defer b.progress()()
	b.table()
	b.ties()
	b.sensitivity()
	return ctx.Err()
}

type openbBench struct {
	ctx          context.Context
	report       *report
	folder       string
	traces       []*openb.Trace
	fgd, bestFit openb.Expected
	asTheyAre    map[string]openbRun // ours by trace, ties by name
	done         atomic.Int64        // replays
}

// openbMoved is how many rows of constants moved sensitivity has, openbTies how often ties are random.
const openbMoved, openbTies, openbTwo = 8, 3, 2

// progress tells every 10 s how far it is, until the returned function is called.
func (b *openbBench) progress() func() {
	seeds := len(b.report.Seeds)
	all := seeds*(len(b.traces)+openbTies+3) + openbMoved*len(b.traces)*min(openbTwo, seeds)
	begin, tick, over := time.Now(), time.NewTicker(10*time.Second), make(chan struct{})
	go func() {
		for {
			select {
			case <-tick.C:
				fmt.Fprintf(os.Stderr, "openb: %d of %d replays in %s\n", b.done.Load(), all, time.Since(begin).Round(time.Second))
			case <-over:
				return
			}
		}
	}()
	return func() { tick.Stop(); close(over) }
}

func (b *openbBench) load(names []string) (err error) {
	for _, name := range names {
		t, err := openb.Load(b.folder, name)
		if err != nil {
			return err
		}
		b.traces = append(b.traces, t)
	}
	if b.fgd, err = openb.Published(b.folder, "06-FGD"); err != nil {
		return err
	}
	b.bestFit, err = openb.Published(b.folder, "05-BestFit")
	return err
}

// demand knows the nodes and, as yet, no pod.
func demand(t *openb.Trace, tuning pack.Tuning) openb.Policy {
	d := pack.Tuned(tuning)
	for _, n := range t.Nodes {
		d.Have(n.Room(), 1)
	}
	return d
}

// openbRun is the outcome of the seeds of one trace.
type openbRun struct {
	at100, at130 []float64
	rate         []float64 // pods a second
	perCPU       []float64 // pods a second of processor
}

// run replays the seeds, two at a time: each has one core, and a thread to itself.
func (b *openbBench) run(t *openb.Trace, seeds []int, policy func() openb.Policy, tie int64) openbRun {
	n := len(seeds)
	out := openbRun{make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(2, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for i := int(next.Add(1)) - 1; i < n && b.ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				var ties *rand.Rand
				if tie != 0 {
					ties = rand.New(rand.NewSource(tie))
				}
				p := policy()
				begin, used := time.Now(), processor(unix.RUSAGE_THREAD)
				result := t.Replay(int64(seeds[i]), p, ties)
				out.rate[i] = float64(result.Pods) / time.Since(begin).Seconds()
				out.perCPU[i] = float64(result.Pods) / (processor(unix.RUSAGE_THREAD) - used)
				out.at100[i], out.at130[i] = result.Allocated[100], result.Allocated[130]
				b.done.Add(1)
			}
		})
	}
	wg.Wait()
	return out
}

func mean(v []float64) (m float64) {
	for _, x := range v {
		m += x / float64(len(v))
	}
	return m
}

func deviation(v []float64) (s float64) {
	for _, x := range v {
		s += (x - mean(v)) * (x - mean(v)) / float64(max(1, len(v)-1))
	}
	return math.Sqrt(s)
}

// table compares with the published means, trace by trace.
func (b *openbBench) table() {
	fmt.Printf("allocated %% of all devices, mean of seeds %v; FGD and BestFit as published\n", b.report.Seeds)
	fmt.Printf("%-12s | at 100: %-13s %7s %7s | at 130: %-13s %7s %7s\n", "trace", "ours", "FGD", "BestFit", "ours", "FGD", "BestFit")
	for i, t := range b.traces {
		run := b.run(t, b.report.Seeds, func() openb.Policy { return demand(t, pack.Default()) }, 0)
		b.asTheyAre[t.Name] = run
		m100, m130 := mean(run.at100), mean(run.at130)
		fgd, fit := b.fgd[t.Name], b.bestFit[t.Name]
		fmt.Printf("%-12s |         %.2f ± %.2f  %7.2f %7.2f |         %.2f ± %.2f  %7.2f %7.2f\n",
			t.Name, m100, deviation(run.at100), fgd[0], fit[0], m130, deviation(run.at130), fgd[1], fit[1])
		b.report.atLeast(t.Name+" at 100, FGD published [%]", m100, fgd[0]).Among(run.at100)
		b.report.atLeast(t.Name+" at 130, FGD published [%]", m130, fgd[1]).Among(run.at130)
		if i == 0 {
			b.report.atLeast(t.Name+" at 130 [%]", m130, 95.6)
			fmt.Printf("pods/s on one core: %s; median %.0f a second of processor\n", spread(run.rate), median(run.perCPU))
			b.report.atLeast("pods/s on one core, median of the seeds", median(run.rate), 2000).Among(run.rate)
		}
	}
}

// ties shows that ours does not hang on how ties are broken, and FGD's does; and, by the published
// policies run here, that this is the published experiment.
func (b *openbBench) ties() {
	t := b.traces[0]
	fmt.Printf("\n%s at 130, ties by name and at random\n", t.Name)
	worst, byName := 0.0, mean(b.asTheyAre[t.Name].at130)
	for tie := int64(1); tie <= openbTies; tie++ {
		m := mean(b.run(t, b.report.Seeds, func() openb.Policy { return demand(t, pack.Default()) }, tie).at130)
		worst = max(worst, math.Abs(m-byName))
		fmt.Printf("ours: by name %.2f, at random (%d) %.2f\n", byName, tie, m)
	}
	b.report.atMost("random ties away from ties by name, worst of 3", worst, .3)
	fgd := mean(b.run(t, b.report.Seeds, func() openb.Policy { return openb.NewFGD(t) }, 0).at130)
	random := mean(b.run(t, b.report.Seeds, func() openb.Policy { return openb.NewFGD(t) }, 1).at130)
	fit := mean(b.run(t, b.report.Seeds, func() openb.Policy { return openb.BestFit{} }, 0).at130)
	fmt.Printf("FGD run here: by name %.2f (published %.2f), at random %.2f\n", fgd, b.fgd[t.Name][1], random)
	fmt.Printf("BestFit run here: by name %.2f (published %.2f)\n", fit, b.bestFit[t.Name][1])
	if len(b.report.Seeds) == 10 {
		b.report.atMost("FGD run here away from published", math.Abs(fgd-b.fgd[t.Name][1]), .1)
		b.report.atMost("BestFit run here away from published", math.Abs(fit-b.bestFit[t.Name][1]), .1)
	}
}

// sensitivity moves each constant by 30 %, on the first two seeds.
func (b *openbBench) sensitivity() {
	fmt.Println("\npoints above the published FGD on the first two seeds, each constant moved by 30 %")
	two := b.report.Seeds[:min(openbTwo, len(b.report.Seeds))]
	b.margins("as they are", func(t *openb.Trace) openbRun {
		run := b.asTheyAre[t.Name]
		return openbRun{run.at100[:len(two)], run.at130[:len(two)], nil, nil}
	})
	for _, c := range []struct {
		name string
		of   func(*pack.Tuning) *int64
	}{
		{"Depth", func(t *pack.Tuning) *int64 { return &t.Depth }},
		{"Scarcest", func(t *pack.Tuning) *int64 { return &t.Scarcest }},
		{"Fullness", func(t *pack.Tuning) *int64 { return &t.Fullness }},
		{"CoreFullness", func(t *pack.Tuning) *int64 { return &t.CoreFullness }},
	} {
		for _, percent := range []int64{70, 130} {
			tuning := pack.Default()
			*c.of(&tuning) = *c.of(&tuning) * percent / 100
			b.margins(fmt.Sprintf("%s × %d %%", c.name, percent), func(t *openb.Trace) openbRun {
				return b.run(t, two, func() openb.Policy { return demand(t, tuning) }, 0)
			})
		}
	}
}

func (b *openbBench) margins(name string, run func(*openb.Trace) openbRun) {
	worst, where, first, sum := math.Inf(1), "", 0.0, 0.0
	for i, t := range b.traces {
		run := run(t)
		over100, over130 := mean(run.at100)-b.fgd[t.Name][0], mean(run.at130)-b.fgd[t.Name][1]
		if m := min(over100, over130); m < worst {
			worst, where = m, t.Name
		}
		if i == 0 {
			first = over130
		}
		sum += over130 / float64(len(b.traces))
	}
	fmt.Printf("%-22s %s at 130 %+.2f, mean at 130 %+.2f, worst %+.2f (%s)\n", name, b.traces[0].Name, first, sum, worst, where)
}
