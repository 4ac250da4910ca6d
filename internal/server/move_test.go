package server

import (
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/server/train"
)

func TestMoveRoute(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "full"} {
		w.put(&api.Zone{Meta: api.Meta{Name: name}, Spec: api.ZoneSpec{Region: "r"}})
	}
	w.put(&api.Node{Meta: api.Meta{Name: "n1"}, Spec: api.NodeSpec{Number: 1, Zone: "a"}})
	task := w.submit("t")
	path := "/api/v1/training-tasks/" + task.Meta.Name + "/move"
	var m api.Move
	w.ok("POST", path, `{"zone":"a","preview":true}`, &m)
	if m.Moving || !m.Fits {
		t.Errorf("%+v", m)
	}
	w.ok("POST", path, `{"zone":"a","nodes":["n1"]}`, &m)
	if !m.Moving || m.To.Zones[0].Zone != "a" {
		t.Errorf("%+v", m)
	}
	w.refused("POST", path, `{"zone":"full"}`, 409, "DevicesBusy")
	w.refused("POST", path, `{"zone":"none"}`, 400, "InvalidField")
	w.refused("POST", path, `{"zone":"NO SUCH"}`, 400, "InvalidField")
	w.refused("POST", path, `{"nodes":["none"]}`, 400, "InvalidField")
	w.refused("POST", path, `{"away":["none"]}`, 400, "InvalidField")
	w.ok("POST", path, `{"away":["n1"],"preview":true}`, &m)
	w.refused("POST", path, `{"nodes":["`+strings.Repeat(`n1","`, train.MaxMoveNodes)+`n1"]}`, 400, "InvalidField")
	w.refused("POST", path, `{}`, 400, "InvalidField")
	w.refused("POST", path, `{"zone":"a","more":1}`, 400, "BadBody")
	w.refused("POST", "/api/v1/training-tasks/none/move", `{"zone":"a"}`, 404, "NotFound")
	w.change(task, func(t *api.TrainingTask) { t.Spec.Stop = true })
	w.refused("POST", path, `{"zone":"a"}`, 409, "NotRunning")
	w = w.over(func(c *Config) { c.Live = nil })
	w.refused("POST", path, `{"zone":"a"}`, 503, "NoPlanner")
}
