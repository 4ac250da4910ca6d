package sim

import (
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// TestMoves: two halves of nodes are free, and one that needs a whole node waits. With moves one of those
// that run goes beside the other once it pays, loses its restart alone, and the one that waits starts.
func TestMoves(t *testing.T) {
	trace := jobs([3]int{4, 0, 3000}, [3]int{4, 1, 10}, [3]int{4, 2, 3000}, [3]int{8, 20, 4000})
	for i := range trace.Jobs { // so that nobody has to give way to what is shorter
		trace.Jobs[i].Task.Spec.ExpectedTime = api.Duration(trace.Jobs[i].Length)
	}
	cfg := config(trace, 2)
	cfg.Preemptible = true
	stays := mustRun(t, cfg)
	if got := stays.Lives[3].Start; got < 3000*time.Minute || stays.Moves != 0 {
		t.Fatalf("it started at %s after %d moves", got, stays.Moves)
	}
	moves, err := cfg.With(Change{Moves: true})
	if err != nil {
		t.Fatal(err)
	}
	r := mustRun(t, moves)
	if got := r.Lives[3].Start; r.Moves != 1 || got < 60*time.Minute || got > 3*time.Hour {
		t.Errorf("it started at %s after %d moves", got, r.Moves)
	}
	if r.Lives[3].Stops != 0 || r.Lives[0].Stops+r.Lives[2].Stops != 1 || r.Lives[0].Wait+r.Lives[2].Wait != 0 || r.Lost != 0 {
		t.Errorf("%+v", r.Lives)
	}
	if late := r.Lives[0].End + r.Lives[2].End - stays.Lives[0].End - stays.Lives[2].End; late != cfg.Restart {
		t.Errorf("they end %s later", late)
	}
	for _, never := range []func(*Config){
		func(c *Config) { c.Preemptible = false },
		func(c *Config) { c.Checkpoint = 0 },
	} {
		odd := moves
		if never(&odd); odd.validate() == nil {
			t.Errorf("taken: preemptible %t, checkpoint %s", odd.Preemptible, odd.Checkpoint)
		}
	}
}
