package launch

import (
	"slices"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/cgroup"
)

// grouped launches in a cgroup of its own, as the engine does.
func (r *replica) grouped(limits cgroup.Limits) *launched {
	t := r.w.t
	t.Helper()
	g, err := cgroup.Create("launch-test-"+string(r.spec.Name), limits)
	if err != nil || g == nil {
		t.Skipf("no cgroup here: %v", err)
	}
	t.Cleanup(func() {
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	})
	if err := g.Save(r.dir); err != nil {
		t.Fatal(err)
	}
	l := r.launch()
	if err := g.AddPID(l.cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestInACgroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.replica(nil, sh(`setsid sh -c 'trap "" TERM; (trap "" TERM; while :; do sleep 0.01; done) & exit 0'; echo up; sleep 1000`)...)
	l := r.grouped(cgroup.Limits{})
	r.goes()
	eventually(t, "up", func() bool { return slices.Contains(r.lines(), "O:up") })
	if err := w.server.hub.Stop(r.spec.Name, 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if err := l.wait(); err != nil {
		t.Fatal(err)
	}
	if e := r.exit(); e.Reason != engine.ReasonStopped {
		t.Errorf("%+v", e)
	}
	if left := r.marked(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	if s := cgroup.Detect(); !s.Limited("memory") {
		t.Skipf("no memory limits here: %v", s)
	}
	const limit = 128 << 20
	w := newWorld(t)
	r := w.replica(func(r *engine.Replica) { r.Resources.Memory = api.Bytes(limit) },
		sh(`x=$(head -c 500000000 /dev/zero | tr '\0' x); echo survived`)...)
	l := r.grouped(cgroup.Limits{Memory: limit})
	r.goes()
	if err := l.wait(); err != nil {
		t.Fatal(err)
	}
	if e := r.exit(); e.Reason != engine.ReasonOutOfMemory || e.Signal != "SIGKILL" || e.Message == "" {
		t.Errorf("%+v", e)
	}
}
