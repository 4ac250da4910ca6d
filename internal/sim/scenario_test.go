package sim

import (
	"context"
	"reflect"
	"testing"
)

// TestScenarios: each can be played to its end, the same seed gives the same one, and another another.
func TestScenarios(t *testing.T) {
	for _, name := range Scenarios() {
		t.Run(name, func(t *testing.T) {
			cfg, err := Scenario(name, 3)
			if err != nil {
				t.Fatal(err)
			}
			again, _ := Scenario(name, 3)
			other, _ := Scenario(name, 4)
			if !reflect.DeepEqual(cfg, again) || reflect.DeepEqual(cfg, other) {
				t.Error("a scenario is not what its seed says")
			}
			cfg.Trace.Jobs = cfg.Trace.Jobs[:min(len(cfg.Trace.Jobs), 150)]
			cfg.Preemptible = true
			r, err := Run(context.Background(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if r.Ended != len(cfg.Trace.Jobs) {
				t.Errorf("%d of %d jobs ended", r.Ended, len(cfg.Trace.Jobs))
			}
			if waits := name == "deferral" || name == "deadlines"; waits != (r.Due > 0) {
				t.Errorf("%d have a deadline", r.Due)
			}
		})
	}
	if _, err := Scenario("none", 1); err == nil {
		t.Error("a scenario that there is none of")
	}
}
