package workbench

import (
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/test/harness"
)

// TestInside: in an environment fermi and import fermi work with nothing set, as its owner and in its project alone; what it shows for that is in
// no process list and no variable, makes no tokens and reads no secrets, and is worth nothing after the stop.
func TestInside(t *testing.T) {
	w := newWorld(t)
	if _, err := client.Create(t.Context(), w.people["ann"], &api.Secret{Meta: api.Meta{Name: "s", Project: "lab"}, Spec: api.SecretSpec{Data: map[string]string{"k": "hush-hush"}}}); err != nil {
		t.Fatal(err)
	}
	w.must("ann", "env", "create", "home", "--cpu", "500m", "--memory", "512Mi")
	in := func(line string) string {
		t.Helper()
		out, _ := w.fermi("ann", "", "env", "shell", "home", "--", "bash", "-lc", line)
		return out
	}
	if out := in("fermi env list -o json"); !strings.Contains(out, `"home"`) {
		t.Fatalf("fermi env list: %s", out)
	}
	if out := in("python3 -c 'import fermi; print(fermi.__name__, \"imported\")'"); !strings.Contains(out, "fermi imported") {
		t.Errorf("import fermi: %s", out)
	}
	if out := in("fermi train run --name inner --cpu 100m --memory 64Mi -- sh -c 'echo from within'"); strings.Contains(out, "Error") {
		t.Errorf("fermi train run: %s", out)
	}
	harness.Eventually(t, "what was submitted there runs as its owner's", func() bool {
		task, err := client.Get[*api.TrainingTask](t.Context(), w.people["ann"], "lab", "inner")
		return err == nil && task.Meta.Owner == "ann" && task.Status.Phase == api.PhaseCompleted
	})
	for _, line := range []string{"fermi token create more", "fermi get secret s -o yaml; fermi secret create t --from-literal a=b", "fermi get project other", "fermi user key add - </dev/null"} {
		if out := in(line + "; echo status $?"); strings.Contains(out, "status 0") || strings.Contains(out, "hush-hush") {
			t.Errorf("%s: %s", line, out)
		}
	}
	if out := in("cat $FERMI_TOKEN_FILE"); !strings.HasPrefix(out, "fermireplica_") {
		t.Fatalf("its pass: %q", out)
	}
	pass := strings.TrimSpace(in("cat $FERMI_TOKEN_FILE"))
	if out := in("cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -c " + pass[len(pass)-20:]); strings.TrimSpace(out) != "1" && strings.TrimSpace(out) != "0" && strings.TrimSpace(out) != "2" { // the grep and the shell that it was asked of
		t.Errorf("its pass stands in variables or arguments: %s", out)
	}
	holder, err := client.New(client.Config{Server: "http://" + w.Addr, Token: pass})
	if err != nil {
		t.Fatal(err)
	}
	if me, err := holder.WhoAmI(t.Context()); err != nil || me.User != "ann" {
		t.Errorf("with the pass: %+v, %v", me, err)
	}
	w.must("bob", "env", "create", "bobs", "--cpu", "200m", "--memory", "128Mi")
	if out, _ := w.fermi("bob", "", "env", "shell", "bobs", "--", "bash", "-lc", "fermi env stop home --project lab; echo status $?; ls "+strings.TrimSpace(in("dirname $FERMI_TOKEN_FILE"))); strings.Contains(out, "status 0") || strings.Contains(out, "token") && !strings.Contains(out, "cannot access") {
		t.Errorf("from another's: %s", out)
	}
	// In an environment that is shared anybody of the project may be behind the pass: it opens nothing that is its owner's alone.
	w.must("ann", "env", "create", "open", "--shared", "--cpu", "200m", "--memory", "128Mi")
	for _, line := range []string{"fermi env shell home -- cat $HOME/x", "fermi env stop home", "fermi train run --no-code --inside home -- true", "fermi cp home:x /tmp/x", "fermi train run --no-code --cpu 100m --memory 64Mi -- fermi env stop home", "fermi env create more"} {
		if out, _ := w.fermi("bob", "", "env", "shell", "open", "--", "bash", "-lc", line+"; echo status $?"); strings.Contains(out, "status 0") || !strings.Contains(out, "ann") {
			t.Errorf("bob, with the pass of what ann shares: %s: %s", line, out)
		}
	}
	if out, _ := w.fermi("bob", "", "env", "shell", "open", "--", "bash", "-lc", "fermi env list"); !strings.Contains(out, "open") {
		t.Errorf("bob, in what ann shares: %s", out)
	}
	w.must("ann", "env", "stop", "home")
	if _, err := holder.WhoAmI(t.Context()); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("after the stop: %v", err)
	}
}
