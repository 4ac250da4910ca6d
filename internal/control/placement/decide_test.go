package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/sched"
)

var (
	errConflict = fault.New(fault.Conflict, "Stale", fault.T("Somebody was first.", "已被抢先。"))
	errUnknown  = fault.New(fault.Unavailable, "NoQuorum", fault.T("No quorum.", "无多数派。"))
)

// TestAStartIsTakenBack: a place that was not written is free again, and its task waits again where the write is to be tried again.
func TestAStartIsTakenBack(t *testing.T) {
	for err, waits := range map[*fault.Error]bool{errConflict: false, errUnknown: true} {
		s := newStage(1, 2)
		before := sched.Capacities(s.m.cluster)
		s.Submit(s.work("one", 100, 1))
		_, starts := turn{m: s.m, now: s.now}.plan()
		if len(starts) != 1 || starts[0].of.Meta.ID != "task-one" || starts[0].refused != nil || len(starts[0].place.Spec.Roles) != 1 {
			t.Fatalf("%+v", starts)
		}
		if cmp.Equal(before, sched.Capacities(s.m.cluster)) {
			t.Fatal("the model does not have what was decided")
		}
		if out := starts[0].aim.settle(s.m, err); out != (outcome{retry: waits}) {
			t.Errorf("%s: %+v", err.Reason, out)
		}
		if diff := cmp.Diff(before, sched.Capacities(s.m.cluster)); diff != "" {
			t.Errorf("%s: %s", err.Reason, diff)
		}
		if _, still := s.m.queues.Get("task-one"); still != waits {
			t.Errorf("%s: it waits: %t", err.Reason, still)
		}
	}
}

// TestALeaveIsTakenBack: the reserved place of a wish that was not written is free again; of one that may have been it is held, until the
// placement was written as it was.
func TestALeaveIsTakenBack(t *testing.T) {
	for err, want := range map[*fault.Error]outcome{errConflict: {}, errUnknown: {retry: true, doubt: true}} {
		s := newStage(1, 2)
		p := s.m.stands["task-t0"]
		turn := turn{m: s.m, now: s.now}
		o, _ := turn.leave(p)
		if e := o.place.Spec.Evict; e == nil || len(e.To) != 1 || !e.At.Equal(s.now) || p.Spec.Evict != nil {
			t.Fatalf("%+v", o.place.Spec)
		}
		if out := o.aim.settle(s.m, err); out != want {
			t.Errorf("%s: %+v", err.Reason, out)
		}
		doubts := turn.doubts()
		if _, held := s.m.cluster.Reserved("task-t0"); held != want.doubt || (len(doubts) == 1) != want.doubt {
			t.Errorf("%s: held %t, %d in doubt", err.Reason, held, len(doubts))
		}
		for _, d := range doubts {
			if d.place.Spec.Evict != nil || d.aim.settle(s.m, errUnknown) != (outcome{retry: true}) || d.aim.settle(s.m, nil) != (outcome{}) || len(s.m.doubts) != 0 {
				t.Errorf("%+v stays in doubt: %v", d, s.m.doubts)
			}
		}
	}
}

// TestAGrowthIsTakenBack: replicas that were not written are not there; those that may have been are held until it is known.
func TestAGrowthIsTakenBack(t *testing.T) {
	for err, held := range map[*fault.Error]int{errConflict: 1, errUnknown: 2} {
		s := newStage(1, 2)
		p := s.m.stands["task-t0"]
		at := sched.Assignment{append(api.Slots{}, p.Spec.Roles[0].Slots...)}
		at[0] = append(at[0], api.Slot{Node: 2, Devices: 2})
		if err := sched.Resized(s.now, s.m.cluster, s.m.queues, "task-t0", at); err != nil {
			t.Fatal(err)
		}
		o, ok := turn{m: s.m, now: s.now}.resize(sched.Resize{ID: "task-t0", At: at})
		if !ok || len(o.place.Spec.Roles[0].Slots) != 2 || len(p.Spec.Roles[0].Slots) != 1 {
			t.Fatalf("%+v", o.place)
		}
		if out := o.aim.settle(s.m, err); out != (outcome{retry: held == 2}) {
			t.Errorf("%s: %+v", err.Reason, out)
		}
		if now, _ := s.m.cluster.Held("task-t0"); len(now[0]) != held || (s.m.doubts["task-t0"] == p) != (held == 2) {
			t.Errorf("%s: %v", err.Reason, now)
		}
	}
}
