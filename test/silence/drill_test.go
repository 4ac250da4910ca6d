package silence

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/test/harness"
)

// The bounds of a drill, from the fault on.
const (
	foundWithin = 15 * time.Second
	againWithin = 45 * time.Second
	soonWithin  = 15 * time.Second // where a spare or a peer's copy waits
)

// shape is a way of a gang to go on without one of its replicas.
type shape struct {
	name string
	soon bool
	make func(*api.TrainingTask)
}

var shapes = []shape{
	{"spare", true, func(t *api.TrainingTask) { t.Spec.Roles[0].Spares = 1 }},
	{"plain", false, nil},
	{"peer", true, func(t *api.TrainingTask) { t.Spec.Checkpoint = &api.Checkpoints{Peer: true} }},
	{"elastic", false, func(t *api.TrainingTask) {
		low, high := 2, 4
		t.Spec.Roles[0].MinReplicas, t.Spec.Roles[0].MaxReplicas = &low, &high
		t.Spec.Preemptible, t.Spec.PriorityClass = true, "preemptible"
	}},
	{"single", false, func(t *api.TrainingTask) { t.Spec.Roles[0].Replicas = 1 }}, // nobody can tell that it stands still
}

// The faults.
const (
	faultFreeze = "freeze" // a machine that hangs
	faultKill   = "kill"   // of the launcher
	faultCut    = "cut"    // off the network, alive
	faultZone   = "zone"   // all of one zone, frozen or cut off
	faultOutage = "outage" // the operator takes the zone out, while all of it is frozen or well
)

var faults = []string{faultFreeze, faultKill, faultCut, faultZone, faultOutage}

// drill is one fault in one gang.
type drill struct {
	number int
	fault  string
	shape
	cut    bool // by the network, not by freezing
	well   bool // nothing but the operator's word happens
	random *rand.Rand
}

// drillOf is the drill of a number: 25 in a row are all faults in all shapes.
func drillOf(seed, i int) drill {
	d := drill{number: i, fault: faults[i%len(faults)], shape: shapes[(i+i/len(faults))%len(shapes)], random: rand.New(rand.NewPCG(uint64(seed), uint64(i)))}
	coin := d.random.IntN(2) == 0
	d.cut = d.fault == faultCut || d.fault == faultZone && coin
	d.well = d.fault == faultOutage && coin
	return d
}

func (d drill) String() string {
	how := map[bool]string{true: "-cut", false: "-frozen"}[d.cut]
	switch {
	case d.well:
		how = "-well"
	case d.fault != faultZone && d.fault != faultOutage:
		how = ""
	}
	return fmt.Sprintf("%d-%s%s-%s", d.number, d.fault, how, d.name)
}

// part is which drills are done: FERMI_SILENCE of them from FERMI_SILENCE_FROM on, and none is begun after FERMI_SILENCE_FOR seconds.
func part() (seed int, numbers func(yield func(int) bool)) {
	n, from, most := harness.EnvInt("FERMI_SILENCE", 2), harness.EnvInt("FERMI_SILENCE_FROM", 0), harness.EnvInt("FERMI_SILENCE_FOR", 0)
	begun := time.Now()
	return harness.EnvInt("FERMI_SILENCE_SEED", 1), func(yield func(int) bool) {
		for i := from; i < from+n; i++ {
			if most > 0 && time.Since(begun) > time.Duration(most)*time.Second || !yield(i) {
				return
			}
		}
	}
}

// slower is how much more time a loaded machine gets.
func slower(d time.Duration) time.Duration {
	return d * time.Duration(harness.EnvInt("FERMI_SLOWER", 1))
}

// TestDrills: one of four replicas is frozen, killed or cut off, or all in one zone are, in gangs of every shape.
func TestDrills(t *testing.T) {
	seed, numbers := part()
	worlds := map[bool]*world{}
	for i := range numbers {
		d := drillOf(seed, i)
		w := worlds[d.cut]
		if w == nil {
			w = start(t, d.cut)
			defer w.holders()()
			worlds[d.cut] = w
		}
		t.Run(d.String(), func(t *testing.T) { w.in(t).drill(d) })
		if t.Failed() {
			t.Fatalf("FERMI_SILENCE_SEED=%d FERMI_SILENCE_FROM=%d", seed, i)
		}
	}
}

// victims are whom a drill hits.
func (d drill) victims(all []client.Replica) []client.Replica {
	one := all[d.random.IntN(len(all))]
	if d.fault != faultZone && d.fault != faultOutage {
		return []client.Replica{one}
	}
	return slices.DeleteFunc(slices.Clone(all), func(r client.Replica) bool { return r.Zone != one.Zone })
}

// strike makes the fault.
func (w *world) strike(d drill, victims []client.Replica) {
	w.t.Helper()
	for _, v := range victims {
		switch {
		case d.well:
		case d.fault == faultKill:
			_ = syscall.Kill(w.launcher(v.Name), syscall.SIGKILL)
		case d.cut:
			w.cutOff(v.Name)
		default:
			w.freeze(v.Name)
			w.t.Cleanup(func() { w.thaw(v.Name) })
		}
	}
	if d.fault == faultOutage {
		w.fermi("zone", "outage", victims[0].Zone, "--yes")
		w.t.Cleanup(func() { w.fermi("zone", "recover", victims[0].Zone) })
	}
}

// fermi runs the command line as the administrator.
func (w *world) fermi(args ...string) {
	w.t.Helper()
	cmd := exec.Command(w.c.Bin, args...)
	cmd.Env = append(cmd.Environ(), "FERMI_SERVER=http://"+w.c.Addr, "FERMI_TOKEN="+w.token())
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("fermi %v: %v\n%s", args, err, out)
	}
}

// drill is one fault in one gang.
func (w *world) drill(d drill) {
	w.t.Helper()
	tr := w.train(fmt.Sprintf("drill-%d", d.number), d.make)
	w.ready(tr, d.shape)
	all := tr.replicas()
	victims := d.victims(all)
	before, at := tr.status(), time.Now()
	w.strike(d, victims)
	found := at
	if !d.well {
		w.until("it is found", func() bool {
			tr.status()
			found = tr.event(at, "LauncherSilent", engine.ReasonLauncherLost)
			return !found.IsZero()
		})
	}
	tr.steps(before.Generation + 1)
	again := time.Since(at)
	w.t.Logf("%d of %d: found after %s, steps after %s", len(victims), len(all), found.Sub(at).Round(time.Millisecond), again.Round(time.Millisecond))
	bound := againWithin
	if d.soon && len(victims) == 1 && d.fault != faultOutage {
		bound = soonWithin
	}
	if found.Sub(at) > slower(foundWithin) || again > slower(bound) {
		w.t.Errorf("found after %s, steps after %s: the bounds are %s and %s", found.Sub(at), again, foundWithin, bound)
	}
	if w.t.Failed() {
		tr.tell()
	}
	if d.fault == faultOutage {
		if zones := tr.status().Zones; slices.Contains(zones, victims[0].Zone) {
			w.t.Errorf("it is in %v, and %s is out", zones, victims[0].Zone)
		}
	}
	w.comeBack(d, tr, victims, before.Generation)
	if err := w.cl.Stop(w.t.Context(), "default", tr.name); err != nil {
		w.t.Fatal(err)
	}
	w.until("it has ended", func() bool { return harness.Task(w.t, w.cl, tr.name).Status.Phase.Finished() })
	w.until("all devices are free", func() bool {
		return !slices.ContainsFunc(victims, func(v client.Replica) bool { return len(w.node(v.Node).Status.Holds) > 0 })
	})
}

// comeBack lets the victims go on. Who was cut off has something to hand over, and none of it is taken.
func (w *world) comeBack(d drill, tr *training, victims []client.Replica, generation int) {
	w.t.Helper()
	if d.cut {
		for _, v := range victims {
			w.leave(v.Name)
		}
	}
	at := time.Now()
	for _, v := range victims {
		w.thaw(v.Name)
		w.join(v.Name)
	}
	if !d.cut {
		return
	}
	w.until("they have ended", func() bool {
		return !slices.ContainsFunc(victims, func(v client.Replica) bool { return alive(w.launcher(v.Name)) })
	})
	tr.committed(generation, at)
}

// ready waits until what a shape goes on with is there.
func (w *world) ready(tr *training, s shape) {
	w.t.Helper()
	switch s.name {
	case "spare":
		w.until("its spare waits", func() bool {
			spares := tr.status().Spares
			return len(spares) == 1 && spares[0].State != api.SpareStarting
		})
	case "peer":
		at := tr.lines()
		w.until("it saved some steps", func() bool { return tr.lines() > at+40 })
	}
}

// TestNoFalseLoss: a server that was paused or killed gives nobody up for its own sleep, and neither does one beside busy loops.
func TestNoFalseLoss(t *testing.T) {
	seed, numbers := part()
	w := newWorld(t)
	tr := w.train("calm", nil)
	at, short := time.Now(), harness.EnvInt("FERMI_SILENCE", 2) <= 4
	for i := range numbers {
		random := rand.New(rand.NewPCG(uint64(seed), 1<<32+uint64(i)))
		pause := time.Duration(5+random.IntN(40)) * time.Second
		if short && harness.EnvInt("FERMI_SILENCE_FROM", -1) < 0 {
			pause = min(pause, 12*time.Second)
		}
		switch i % 3 {
		case 0:
			t.Logf("%d: paused for %s", i, pause)
			_ = w.c.Signal(syscall.SIGSTOP)
			time.Sleep(pause)
			_ = w.c.Signal(syscall.SIGCONT)
		case 1:
			t.Logf("%d: killed for %s", i, pause)
			w.c.Kill()
			time.Sleep(pause)
			harness.Ready(t, w.c)
		case 2:
			t.Logf("%d: six busy loops for %s", i, pause)
			busy(pause)
		}
		from := tr.lines()
		w.until("it goes on", func() bool { return tr.lines() > from+20 })
	}
	time.Sleep(60 * time.Second) // the re-attach window is 20 s; then somebody could be silent at 10 s and lost at 30 s
	if s := tr.status(); s.Attempt != 1 || s.Failure != nil && s.Failure.Reason == engine.ReasonSilent || !tr.event(at, "SilentLost", "SilentReplaced").IsZero() {
		tr.tell()
		t.Errorf("attempt %d, %+v", s.Attempt, s.Failure)
	}
}

// busy keeps all processors busy for a while.
func busy(d time.Duration) {
	end := time.Now().Add(d)
	done := make(chan struct{})
	for range 6 {
		go func() {
			for time.Now().Before(end) { //nolint:revive // that is what it is for
			}
			done <- struct{}{}
		}()
	}
	for range 6 {
		<-done
	}
}
