package server

import (
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/server/train"
)

func TestProbeRoutes(t *testing.T) {
	w := newWorld(t)
	task := w.submit("t")
	path := "/api/v1/training-tasks/" + task.Meta.Name
	var seen train.ProbeView
	w.ok("POST", path+"/fault", `{"rank":1,"kind":"kill"}`, &seen)
	if seen.Rank != 1 || seen.Kind != "kill" || seen.Node != "n" {
		t.Errorf("%+v", seen)
	}
	w.ok("POST", path+"/profile", `{"rank":2}`, &seen)
	if seen.Rank != 2 || seen.Kind != train.ProfileKind {
		t.Errorf("%+v", seen)
	}
	w.refused("POST", path+"/fault", `{"rank":1,"kind":"net"}`, 409, "Refused")
	w.refused("POST", path+"/fault", `{"rank":1,"kind":"profile"}`, 400, "InvalidField")
	w.refused("POST", path+"/fault", `{"rank":-1,"kind":"kill"}`, 400, "InvalidField")
	w.refused("POST", path+"/profile", `{"rank":1,"kind":"kill"}`, 400, "BadBody")
	w.over(func(c *Config) { c.Live = nil }).refused("POST", path+"/fault", `{"rank":1,"kind":"kill"}`, 503, "NoPlanner")
	w.change(task, func(t *api.TrainingTask) { t.Spec.Stop = true })
	w.refused("POST", path+"/fault", `{"rank":1,"kind":"kill"}`, 409, "NotRunning")
}
