package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// Journal is a file to which test tasks write when they start and end, outside of everything
// Fermi knows: the witness of what really ran.
type Journal struct{ Path string }

// Task appends "S replica pid" and, seconds later, "E replica pid". A second start of the same
// replica, or an end that is missing, shows.
func (j Journal) Task(name string, seconds float64, restarts int) *api.TrainingTask {
	_ = os.Chmod(filepath.Dir(j.Path), 0o777) // where projects are kept apart the task is somebody else
	script := fmt.Sprintf(`echo "S $FERMI_REPLICA $$" >> %[1]s; sleep %[2]g; echo "E $FERMI_REPLICA $$" >> %[1]s`, filepath.Base(j.Path), seconds)
	t := &api.TrainingTask{
		Meta: api.Meta{Name: name},
		// As the code folder the journal's is seen there, and nothing else of /tmp.
		Spec: api.TrainingTaskSpec{Code: &api.Code{Folder: filepath.Dir(j.Path)}, Roles: []api.Role{{
			Name: "worker", Replicas: 1, Command: []string{"/bin/sh", "-c", script},
			Resources: api.Resources{CPU: 1000, Memory: 1 << 28},
		}}},
	}
	if restarts > 0 {
		t.Spec.Restart = &api.RestartPolicy{MaxRestarts: restarts}
	}
	return t
}

// Lives reads the journal: how often each replica started and ended.
func (j Journal) Lives() (starts, ends map[string]int, err error) {
	raw, err := os.ReadFile(j.Path)
	if err != nil && !os.IsNotExist(err) {
		return nil, nil, err
	}
	starts, ends = map[string]int{}, map[string]int{}
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			return nil, nil, fmt.Errorf("torn journal line %q", line)
		}
		switch f[0] {
		case "S":
			starts[f[1]]++
		case "E":
			ends[f[1]]++
		}
	}
	return starts, ends, nil
}
