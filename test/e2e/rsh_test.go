package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/test/harness"
)

// program is what mpirun does, by the agent that it is told: a command in every replica, each a
// process of that replica; it fails with the first that does.
const program = `#!/bin/sh
for host in $(cut -d' ' -f1 "$2"); do
	echo "to $host" | "$OMPI_MCA_plm_rsh_agent" "$host" sh task.sh || exit
done
`

// TestRsh: a program in the first replica starts processes in the others; a failed one there is the
// task's failure, and after a restart of the ranks all is well.
func TestRsh(t *testing.T) {
	w := up(t, "--demo")
	dir := harness.Folder(t)
	if err := harness.Share(t.Context(), w.api); err != nil {
		t.Fatal(err)
	}
	task := `read line; echo "$line: $FERMI_REPLICA of generation $FERMI_GENERATION"
[ "$FERMI_INDEX" = 0 ] || [ "$FERMI_GENERATION" -gt "${LEAST:-0}" ] || exit 5
`
	for name, text := range map[string]string{"mpirun": program, "task.sh": task} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run := func(name, least string, restarts int) *api.TrainingTask {
		m := shell(name, 3, "")
		m.Spec.Framework, m.Spec.Code = "mpi", &api.Code{Folder: dir}
		m.Spec.Restart = &api.RestartPolicy{MaxRestarts: restarts}
		m.Spec.Roles[0].Command, m.Spec.Roles[0].Args = []string{"unused"}, nil
		m.Spec.Roles[0].Env = []api.EnvVar{{Name: "PATH", Value: dir + ":/usr/bin:/bin"}, {Name: "LEAST", Value: least}}
		w.submit(m)
		return w.until(name, "finished", func(t *api.TrainingTask) bool { return t.Status.Phase.Finished() })
	}
	if got := run("fails", "9", 0); got.Status.Phase != api.PhaseFailed || got.Status.Failure == nil || got.Status.Failure.ExitCode != 5 {
		t.Errorf("%+v", got.Status)
	}
	got := run("again", "1", 2)
	logs := w.must("logs", "again")
	if got.Status.Phase != api.PhaseCompleted || got.Status.Generation != 2 || len(got.Status.Rendezvous.Ports) != 3 {
		t.Fatalf("%+v\n%s", got.Status, logs)
	}
	for _, replica := range []string{"worker-0", "worker-1", "worker-2"} {
		want := "to " + replica + ": " + got.Meta.ID + "-" + replica + "-1 of generation 2\n"
		if !strings.Contains(logs, want) {
			t.Errorf("no %q in\n%s", want, logs)
		}
	}
}
