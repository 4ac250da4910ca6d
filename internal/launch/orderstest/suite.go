package orderstest

import (
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/launch"
)

// Leader is the other side: the engine, which says what is to run, and leaders, which say who leads and who is to stop.
type Leader interface {
	Spec(r engine.Replica) error
	Lead(epoch int64) error
	Stop(epoch int64, grace time.Duration) error
}

// Run is the suite; open gives fresh orders and their other side.
func Run(t *testing.T, open func(t *testing.T) (launch.Orders, Leader)) {
	t.Run("nothing to run", func(t *testing.T) {
		o, _ := open(t)
		if _, _, err := o.Spec(); err == nil {
			t.Error("there is nothing to run, and nobody says so")
		}
	})
	t.Run("what to run", func(t *testing.T) {
		o, leader := open(t)
		want := engine.Replica{Name: "task-1-worker-0-1", TaskID: "task-1", Attempt: 1, Ranks: 2, Command: []string{"python", "a b"}}
		must(t, leader.Spec(want))
		got, ends, err := o.Spec()
		if err != nil || got.Name != want.Name || got.Ranks != 2 || got.Command[1] != "a b" || ends.Endpoints == "" {
			t.Errorf("%+v %+v %v", got, ends, err)
		}
	})
	t.Run("a go is kept", func(t *testing.T) {
		o, leader := open(t)
		must(t, leader.Spec(engine.Replica{Name: "x", Command: []string{"true"}}))
		if _, ok, err := o.Said(); ok || err != nil {
			t.Errorf("a go that nobody said: %v %v", ok, err)
		}
		for generation := range int64(3) {
			must(t, o.Keep(record.Go{Epoch: 4, Attempt: 1, Generation: generation + 1, At: time.Unix(5, 0).UTC()}))
			if said, ok, err := o.Said(); !ok || err != nil || said.Epoch != 4 || said.Generation != generation+1 {
				t.Errorf("%+v %v %v", said, ok, err)
			}
		}
	})
	t.Run("the current leader's stop", func(t *testing.T) { stops(t, open) })
}

// stops: only that of the leader of the current epoch is found by it, and the shortest way to see that another's lies there is AnyStop.
func stops(t *testing.T, open func(t *testing.T) (launch.Orders, Leader)) {
	o, leader := open(t)
	must(t, leader.Spec(engine.Replica{Name: "x", Command: []string{"true"}}))
	if _, _, err := o.Spec(); err != nil {
		t.Fatal(err)
	}
	must(t, leader.Lead(3))
	must(t, leader.Lead(4))
	must(t, leader.Lead(3)) // too late
	if epoch, err := o.Epoch(); err != nil || epoch != 4 {
		t.Fatalf("epoch %d, %v", epoch, err)
	}
	if _, ok, err := o.Stop(4); ok || err != nil || o.AnyStop() {
		t.Errorf("a stop that nobody ordered: %v %v", ok, err)
	}
	must(t, leader.Stop(3, time.Minute))
	if _, ok, err := o.Stop(4); ok || err != nil || !o.AnyStop() {
		t.Errorf("the stop of a leader whose time is over: %v %v, any %v", ok, err, o.AnyStop())
	}
	must(t, leader.Stop(4, time.Second))
	if wish, ok, err := o.Stop(4); !ok || err != nil || wish.Grace != time.Second {
		t.Errorf("%+v %v %v", wish, ok, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
