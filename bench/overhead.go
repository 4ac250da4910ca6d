package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine/cgroup"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/test/harness"
)

//go:embed overhead/train.py
var overheadScript []byte

const (
	overheadSeed   = 1
	overheadStep   = 200  // ms that a step is aimed at; 100 to 300 are allowed
	overheadTuning = 20   // steps of a block that only measures how much work a step is
	overheadStolen = 0.02 // a pair of which the host gave more to others says little, and is made again, within reason
	resamples      = 10000
	overheadRounds = 5
	overheadTurn   = 10 // steps until it is the other's turn; few, for the machine is not as fast in every second
	savingMiB      = 256
	savingToDisk   = 100 // steps
)

// racer trains in blocks, when it is told to.
type racer struct {
	*contender             // other processes in each round
	blocks     int         // they were asked for so far
	turns      [][]float64 // of the pair under way: seconds of each step
	median     []float64   // seconds a step, of each pair
	mean       []float64
	data       string  // of the server whose launchers count for it; "": none
	spent      float64 // seconds of CPU by them within blocks
}

// cost is in seconds: CPU, and for how long saves held up the training.
type cost struct {
	ranks, sdk, launcher, stalled float64
	saves                         int
}

func (c cost) plus(later, earlier cost) cost {
	return cost{
		c.ranks + later.ranks - earlier.ranks, c.sdk + later.sdk - earlier.sdk, c.launcher + later.launcher - earlier.launcher,
		c.stalled + later.stalled - earlier.stalled, c.saves + later.saves - earlier.saves,
	}
}

// race is of us against torchrun.
type race struct {
	ranks, mib     int
	pairs, steps   int     // wanted; of each
	aim            float64 // seconds that a step should take
	repeats        int     // work that makes a step of the length aimed at; 0: not known yet
	again          int     // pairs that did not count
	a, b           racer   // ours and torchrun's
	medians, means []float64
	used, others   cost    // ours and torchrun's
	anon           float64 // MB of the largest launcher
}

// benchOverhead: with nothing failing, the same training under Fermi with the SDK and under plain torchrun, in ABBA order.
func benchOverhead(ctx context.Context, r *report) error {
	x, err := againstTorchrun(ctx, harness.EnvInt("FERMI_RANKS", recoveryRanks), 0)
	if err != nil {
		return err
	}
	return judgeOverhead(r, x)
}

// benchSaving: the same with one rank whose state is of 256 MiB, all of which changes in every step, saved in memory every tenth step
// and from there to the disk every hundredth; torchrun saves nothing.
func benchSaving(ctx context.Context, r *report) error {
	x, err := againstTorchrun(ctx, 1, savingMiB)
	if err != nil {
		return err
	}
	return judgeSaving(r, x)
}

// againstTorchrun lets both train, in rounds of some pairs with processes of their own: two processes of the same program are not equally
// fast from one start to the next, for reasons that were not found.
func againstTorchrun(ctx context.Context, ranks, mib int) (*race, error) {
	x := &race{ranks: ranks, mib: mib, pairs: harness.EnvInt("FERMI_PAIRS", 30), steps: harness.EnvInt("FERMI_STEPS", 60)}
	x.aim = float64(harness.EnvInt("FERMI_STEP_MS", overheadStep)) / 1000
	for n := range overheadRounds {
		if err := x.round(ctx, (n+1)*x.pairs/overheadRounds); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// round starts both and lets them train until there are so many pairs.
func (x *race) round(ctx context.Context, until int) error {
	root, err := harness.MakeShared()
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	c, cl, err := demo(ctx)
	if err != nil {
		return err
	}
	defer c.Cleanup()
	ours, err := newContender("sdk", root, overheadScript)
	if err != nil {
		return err
	}
	ours.size = x.ranks
	if x.mib > 0 { // in memory every 10 steps, on the disk every 100
		ours.checkpoint = &api.Checkpoints{Local: &api.CheckpointTier{EverySteps: savingToDisk}}
	}
	state := api.EnvVar{Name: "STATE_MIB", Value: strconv.Itoa(x.mib)}
	standby := &api.Standby{Preload: []string{"torch"}}
	if err := ours.submit(ctx, c, cl, standby, []api.EnvVar{{Name: "SDK", Value: "1"}, state}); err != nil {
		return err
	}
	plain, err := newContender("torchrun", root, overheadScript)
	if err != nil {
		return err
	}
	plain.size, plain.env = x.ranks, []string{state.Name + "=" + state.Value}
	leave, err := plain.inGroup(ctx)
	defer leave()
	if err != nil {
		return err
	}
	ours.look, plain.look = 20*time.Millisecond, 20*time.Millisecond
	x.a.contender, x.a.blocks, x.a.data = ours, 0, c.Dir
	x.b.contender, x.b.blocks = plain, 0
	if err := x.tune(ctx); err != nil {
		return err
	}
	before, err := x.a.cost()
	others, oerr := x.b.cost()
	if err := errors.Join(err, oerr); err != nil {
		return err
	}
	for len(x.medians) < until {
		if err := x.pair(ctx); err != nil {
			return err
		}
	}
	after, err := x.a.cost()
	last, oerr := x.b.cost()
	anon, merr := launcherMB(c.Dir)
	x.used, x.others, x.anon = x.used.plus(after, before), x.others.plus(last, others), max(x.anon, anon)
	return errors.Join(err, oerr, merr)
}

// pair has each make the steps of one in a few turns, ABBA.
func (x *race) pair(ctx context.Context) error {
	from, order := readTicks(), []*racer{&x.a, &x.b}
	if len(x.medians)%2 == 1 {
		slices.Reverse(order)
	}
	for left := x.steps; left > 0; left -= overheadTurn {
		for _, one := range order {
			if err := one.race(ctx, min(overheadTurn, left), x.repeats); err != nil {
				return err
			}
		}
		slices.Reverse(order)
	}
	stolen := readTicks().stolenSince(from)
	byMedians, byMeans := sideBySide(x.a.turns, x.b.turns, middle), sideBySide(x.a.turns, x.b.turns, average)
	x.a.endPair()
	x.b.endPair()
	last := len(x.medians)
	fmt.Printf("pair %2d  sdk %6.1f ms  torchrun %6.1f ms a step (medians)  %+.2f %%, by means %+.2f %%; %.1f %% of the processors taken by the host",
		last+1, 1000*x.a.median[last], 1000*x.b.median[last], percent(byMedians-1), percent(byMeans-1), percent(stolen))
	if stolen > overheadStolen && x.again < 2*x.pairs {
		x.again++
		x.a.dropPair()
		x.b.dropPair()
		fmt.Println(": again")
		return nil
	}
	fmt.Println()
	x.medians, x.means = append(x.medians, byMedians), append(x.means, byMeans)
	return nil
}

// sideBySide is how much longer a step takes in a's turns than in b's: each turn against the one beside it, a few seconds away,
// since the machine is not as fast in every second; of these ratios the geometric mean, in which none is left out.
func sideBySide(a, b [][]float64, of func([]float64) float64) float64 {
	sum := 0.
	for i := range a {
		sum += math.Log(of(a[i]) / of(b[i]))
	}
	return math.Exp(sum / float64(len(a)))
}

// inGroup runs torchrun in a control group beside those of the tasks, where there are any: else the kernel would weigh each of its
// processes as much as all of a task's together, and whatever else runs on the machine would slow down only us.
func (x *contender) inGroup(ctx context.Context) (leave func(), err error) {
	stop, err := x.torchrun(ctx)
	if err != nil || cgroup.Detect().Version == 0 {
		return stop, err
	}
	g, err := cgroup.Create(fmt.Sprintf("bench-%d", x.pid), cgroup.Limits{})
	if err != nil {
		return stop, err
	}
	return func() {
		stop()
		if err := g.Remove(); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	}, g.AddPID(x.pid)
}

// tune finds how much work makes a step of the length aimed at, of the plain one: the other is slow until it has made its first saves.
// Both make their first steps in it, which are slower than later ones, so each round has some. A round of which the host took much is
// made again, within reason.
func (x *race) tune(ctx context.Context) error {
	find, wanted := x.repeats == 0, 2
	if find {
		x.repeats, wanted = 1, 4
	}
	for calm, tries := 0, 0; calm < wanted && tries < 40; tries++ {
		from := readTicks()
		if err := x.a.race(ctx, overheadTuning, x.repeats); err != nil {
			return err
		}
		if err := x.b.race(ctx, overheadTuning, x.repeats); err != nil {
			return err
		}
		if find {
			x.repeats = max(1, int(math.Round(float64(x.repeats)*x.aim/middle(x.b.turns[0]))))
		}
		x.a.turns, x.b.turns = nil, nil
		if !find || readTicks().stolenSince(from) <= overheadStolen {
			calm++
		}
	}
	return nil
}

// endPair sums up the steps since the last one.
func (x *racer) endPair() {
	all := slices.Concat(x.turns...)
	x.median, x.mean, x.turns = append(x.median, middle(all)), append(x.mean, average(all)), nil
}

func (x *racer) dropPair() {
	x.median, x.mean = x.median[:len(x.median)-1], x.mean[:len(x.mean)-1]
}

// ticks are what the processors did since the machine was started; stolen: they would have, but the host gave them to others.
type ticks struct{ all, stolen float64 }

func readTicks() (t ticks) {
	raw, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(raw), "\n")
	for i, word := range strings.Fields(line) {
		n, _ := strconv.ParseFloat(word, 64) // 0 of "cpu"
		if i <= 8 {                          // guests' time behind it is within the first
			t.all += n
		}
		if i == 8 {
			t.stolen = n
		}
	}
	return t
}

// stolenSince is the share of the time.
func (t ticks) stolenSince(from ticks) float64 {
	return (t.stolen - from.stolen) / max(t.all-from.all, 1)
}

// race runs one block.
func (x *racer) race(ctx context.Context, steps, repeats int) error {
	n := strconv.Itoa(x.blocks)
	x.blocks++
	before, err := launcherCPU(x.data)
	if err != nil {
		return err
	}
	file := filepath.Join(x.dir, "block."+n)
	if err := errors.Join(os.WriteFile(file+".new", fmt.Appendf(nil, "%d %d", steps, repeats), 0o644), os.Rename(file+".new", file)); err != nil {
		return err
	}
	var raw []byte
	if err := x.until(ctx, "the end of block "+n, func() bool {
		var err error
		raw, err = os.ReadFile(filepath.Join(x.dir, "done."+n))
		return err == nil
	}); err != nil {
		return fmt.Errorf("%s: %w", x.name, err)
	}
	after, err := launcherCPU(x.data)
	if err != nil {
		return err
	}
	x.spent += after - before
	words := strings.Fields(string(raw))
	if len(words) != steps {
		return fmt.Errorf("%s made %d steps of %d", x.name, len(words), steps)
	}
	turn := make([]float64, steps)
	for i, word := range words {
		if turn[i], err = strconv.ParseFloat(word, 64); err != nil {
			return err
		}
	}
	x.turns = append(x.turns, turn)
	return nil
}

// cost is what was used up to the end of the last block.
func (x *racer) cost() (sum cost, err error) {
	for rank := range x.size {
		raw, err := os.ReadFile(filepath.Join(x.dir, fmt.Sprintf("cpu.%d.%d", x.blocks-1, rank)))
		var one cost
		if _, serr := fmt.Sscan(string(raw), &one.ranks, &one.sdk, &one.stalled, &one.saves); err != nil || serr != nil {
			return sum, errors.Join(err, serr)
		}
		sum = cost{sum.ranks + one.ranks, sum.sdk + one.sdk, 0, sum.stalled + one.stalled, sum.saves + one.saves}
	}
	sum.launcher = x.spent
	return sum, nil
}

// launcherCPU is what the launchers of a server have used, in seconds; "" has none.
func launcherCPU(data string) (sum float64, err error) {
	if data == "" {
		return 0, nil
	}
	launchers, err := launchersOf(data)
	for _, p := range launchers {
		st, serr := record.ReadStat(p.PID)
		err = errors.Join(err, serr)
		sum += float64(st.UserTicks+st.KernTicks) / 100
	}
	return sum, err
}

// tell prints who ran, and how the two compare; it gives the upper end of the slowdown, by the means and the medians of turns.
func (x *race) tell(r *report) (means, medians float64, err error) {
	r.Seeds = []int{overheadSeed}
	versions, err := exec.Command(debianPython, "-c", "import sys, torch; print('Python', sys.version.split()[0] + ', torch', torch.__version__)").Output()
	if err != nil {
		return 0, 0, err
	}
	fmt.Printf("%s; %d pairs in %d rounds with processes of their own, bootstrap over pairs\n", strings.TrimSpace(string(versions)), len(x.medians), overheadRounds)
	for _, one := range []*racer{&x.a, &x.b} {
		fmt.Printf("%-9s median of medians %6.1f ms, from %6.1f to %6.1f ms\n", one.name, 1000*middle(one.median), 1000*slices.Min(one.median), 1000*slices.Max(one.median))
	}
	low, mid, whole := slowdown(ratios(x.a.median, x.b.median))
	fmt.Printf("slowdown by the medians of whole pairs %+.2f %% (95 %%: %+.2f to %+.2f)\n", percent(mid), percent(low), percent(whole))
	low, mid, whole = slowdown(ratios(x.a.mean, x.b.mean))
	fmt.Printf("slowdown by the means of whole pairs   %+.2f %% (95 %%: %+.2f to %+.2f)\n", percent(mid), percent(low), percent(whole))
	low, mid, means = slowdown(x.means)
	fmt.Printf("slowdown turn by turn, by their means   %+.2f %% (95 %%: %+.2f to %+.2f)\n", percent(mid), percent(low), percent(means))
	low, mid, medians = slowdown(x.medians)
	fmt.Printf("slowdown turn by turn, by their medians %+.2f %% (95 %%: %+.2f to %+.2f)\n", percent(mid), percent(low), percent(medians))
	r.atLeast("pairs", float64(len(x.medians)), 20)
	r.atLeast("torchrun's step, median, not too short [ms]", 1000*middle(x.b.median), 100)
	r.atMost("torchrun's step, median, not too long [ms]", 1000*middle(x.b.median), 300)
	return means, medians, nil
}

func judgeOverhead(r *report, x *race) error {
	_, high, err := x.tell(r)
	if err != nil {
		return err
	}
	used := x.used
	fmt.Printf("CPU: ranks %.1f s, of it the SDK %.2f s; launcher %.2f s; torchrun's ranks %.1f s\n", used.ranks, used.sdk, used.launcher, x.others.ranks)
	r.atMost("slowdown, upper end of its 95 % interval [%]", percent(high), 3).Among(slower(x.medians))
	r.tell("slowdown, middle [%]", percent(middle(x.medians)-1))
	r.atMost("CPU of launcher + SDK [% of the ranks']", 100*(used.launcher+used.sdk)/(used.ranks-used.sdk), 1)
	r.atMost("launcher's anonymous memory [MB]", x.anon, 20)
	return nil
}

// judgeSaving goes by the means: only one step in ten saves.
func judgeSaving(r *report, x *race) error {
	high, _, err := x.tell(r)
	if err != nil {
		return err
	}
	used := x.used
	steps, wall := harness.EnvInt("FERMI_STEPS", 60), 0. // that count
	for _, mean := range x.a.mean {
		wall += mean * float64(steps)
	}
	each, counted := used.stalled/float64(max(used.saves, 1)), len(x.a.mean)*steps/10
	fmt.Printf("%d saves of %d MiB, every %d steps one to the disk; stall × saves ÷ wall of the pairs: %.1f ms × %d ÷ %.0f s = %.2f %%\n",
		used.saves, savingMiB, savingToDisk, 1000*each, counted, wall, percent(each*float64(counted)/wall))
	fmt.Printf("CPU: ranks %.1f s, of it the SDK %.2f s; launcher %.2f s; torchrun's ranks %.1f s\n", used.ranks, used.sdk, used.launcher, x.others.ranks)
	r.atLeast("saves", float64(used.saves), float64(counted))
	r.atMost("slowdown with saves, upper end of its 95 % interval [%]", percent(high), 5).Among(slower(x.means))
	r.tell("slowdown with saves, middle [%]", percent(middle(x.means)-1))
	r.tell("stall × saves ÷ wall [%]", percent(each*float64(counted)/wall))
	return nil
}

func percent(x float64) float64 { return 100 * x }

// slower says by how many percent each pair was.
func slower(ratios []float64) []float64 {
	out := make([]float64, len(ratios))
	for i, r := range ratios {
		out[i] = percent(r - 1)
	}
	return out
}

func ratios(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] / b[i]
	}
	return out
}

// slowdown is the median of the ratios of pairs less one, and its 95 % interval by resampling pairs.
func slowdown(ratios []float64) (low, mid, high float64) {
	rnd := rand.New(rand.NewPCG(overheadSeed, 2))
	found, drawn := make([]float64, resamples), make([]float64, len(ratios))
	for i := range found {
		for k := range drawn {
			drawn[k] = ratios[rnd.IntN(len(ratios))]
		}
		found[i] = quantile(drawn, .5)
	}
	return quantile(found, .025) - 1, middle(ratios) - 1, quantile(found, .975) - 1
}

func middle(list []float64) float64 { return quantile(list, .5) }

// quantile lies between its neighbours.
func quantile(list []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

func average(list []float64) (sum float64) {
	for _, x := range list {
		sum += x
	}
	return sum / float64(len(list))
}
