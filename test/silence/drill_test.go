package silence

import (
	"fmt"
	"math/rand/v2"
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
}

// TestDrills: one of four replicas is frozen, killed or cut off, or all in one zone are, in gangs of every shape.
func TestDrills(t *testing.T) {
	n, seed := harness.EnvInt("FERMI_SILENCE", 2), harness.EnvInt("FERMI_SILENCE_SEED", 1)
	w := newWorld(t)
	defer w.holders()()
	for i := range n {
		random := rand.New(rand.NewPCG(uint64(seed), uint64(i)))
		s := shapes[i%len(shapes)]
		what := "freeze"
		switch random.IntN(4) {
		case 0:
			what = "kill"
		case 1:
			what = "zone"
		}
		t.Run(fmt.Sprintf("%d-%s-%s", i, what, s.name), func(t *testing.T) {
			one := &world{t, w.c, w.cl}
			one.drill(random, fmt.Sprintf("drill-%d", i), what, s)
		})
		if t.Failed() {
			t.Fatalf("FERMI_SILENCE_SEED=%d", seed)
		}
	}
}

// drill is one fault in one gang.
func (w *world) drill(random *rand.Rand, name, what string, s shape) {
	w.t.Helper()
	tr := w.train(name, s.make)
	w.ready(tr, s)
	all := tr.replicas()
	victims := []client.Replica{all[random.IntN(len(all))]}
	if what == "zone" {
		for _, r := range all {
			if r.Zone == victims[0].Zone && r.Name != victims[0].Name {
				victims = append(victims, r)
			}
		}
	}
	before, at := tr.status(), time.Now()
	for _, v := range victims {
		if what == "kill" {
			_ = syscall.Kill(w.launcher(v.Name), syscall.SIGKILL)
		} else {
			w.freeze(v.Name)
			defer w.thaw(v.Name)
		}
	}
	found := time.Time{}
	harness.Eventually(w.t, "it is found", func() bool {
		tr.status()
		found = tr.event(at, "LauncherSilent", engine.ReasonLauncherLost)
		return !found.IsZero()
	})
	tr.steps(before.Generation + 1)
	again := time.Since(at)
	w.t.Logf("%d of %d: found after %s, steps after %s", len(victims), len(all), found.Sub(at).Round(time.Millisecond), again.Round(time.Millisecond))
	bound := againWithin
	if s.soon && len(victims) == 1 {
		bound = soonWithin
	}
	if found.Sub(at) > foundWithin || again > bound*time.Duration(harness.EnvInt("FERMI_SLOWER", 1)) {
		w.t.Errorf("found after %s, steps after %s: the bounds are %s and %s", found.Sub(at), again, foundWithin, bound)
	}
	if w.t.Failed() {
		tr.tell()
	}
	for _, v := range victims {
		w.thaw(v.Name)
	}
	if err := w.cl.Stop(w.t.Context(), "default", name); err != nil {
		w.t.Fatal(err)
	}
	harness.Eventually(w.t, "it has ended", func() bool { return harness.Task(w.t, w.cl, name).Status.Phase.Finished() })
	harness.Eventually(w.t, "all devices are free", func() bool {
		for _, v := range victims {
			if len(w.node(v.Node).Status.Holds) > 0 {
				return false
			}
		}
		return true
	})
}

// ready waits until what a shape goes on with is there.
func (w *world) ready(tr *training, s shape) {
	w.t.Helper()
	switch s.name {
	case "spare":
		harness.Eventually(w.t, "its spare waits", func() bool {
			spares := tr.status().Spares
			return len(spares) == 1 && spares[0].State != api.SpareStarting
		})
	case "peer":
		at := tr.lines()
		harness.Eventually(w.t, "it saved some steps", func() bool { return tr.lines() > at+40 })
	}
}

// TestNoFalseLoss: a server that was paused or killed gives nobody up for its own sleep, and neither does one beside busy loops.
func TestNoFalseLoss(t *testing.T) {
	n, seed := harness.EnvInt("FERMI_SILENCE", 2), harness.EnvInt("FERMI_SILENCE_SEED", 1)
	w := newWorld(t)
	tr := w.train("calm", nil)
	at := time.Now()
	random := rand.New(rand.NewPCG(uint64(seed), 1<<32))
	for i := range n {
		pause := time.Duration(5+random.IntN(40)) * time.Second
		if n <= 4 {
			pause = min(pause, 12*time.Second)
		}
		switch i % 3 {
		case 0:
			t.Logf("paused for %s", pause)
			_ = w.c.Signal(syscall.SIGSTOP)
			time.Sleep(pause)
			_ = w.c.Signal(syscall.SIGCONT)
		case 1:
			t.Logf("killed for %s", pause)
			w.c.Kill()
			time.Sleep(pause)
			harness.Ready(t, w.c)
		case 2:
			t.Logf("six busy loops for %s", pause)
			busy(pause)
		}
		from := tr.lines()
		harness.Eventually(t, "it goes on", func() bool { return tr.lines() > from+20 })
	}
	watch := 15 * time.Second // the re-attach window is 20 s, and then somebody could be called silent
	if n > 4 {
		watch = 45 * time.Second
	}
	time.Sleep(watch)
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
