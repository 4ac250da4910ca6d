package disk

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

// TestRestore: what becomes of work that ran or waited is what was wished; the stay that went on when the backup was taken ends
// with it; whoever restores or starts with another secret.key is told, with both fingerprints.
func TestRestore(t *testing.T) {
	w := newWorld(t, nil)
	w.up()
	value := filepath.Join(filepath.Dir(w.Dir), "value")
	if err := os.WriteFile(value, []byte("opensesame"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := w.fermi("secret", "set", "key", "value="+value); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	w.submit(shell("runs", "sleep 100000"))
	w.phase("runs", api.PhaseRunning)
	harness.Eventually(t, "its stay is written", func() bool { return w.usageOf(t, "runs").Running == 1 })
	for _, o := range w.nodes(t) {
		if _, err := w.api.NodeVerb(t.Context(), "cordon", o.GetMeta().Name, -1); err != nil {
			t.Fatal(err)
		}
	}
	w.submit(shell("waits", "true"))
	w.phase("waits", api.PhasePending)
	file := filepath.Join(filepath.Dir(w.Dir), "backup.tar")
	if out, err := w.fermi("backup", file); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	taken := time.Now()
	if err := w.api.Stop(t.Context(), "default", "runs"); err != nil {
		t.Fatal(err)
	}
	w.phase("runs", api.PhaseStopped)
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}
	old := w.Dir
	w.Token = w.tokenIn(old)
	for _, c := range []struct {
		how         string
		runs, waits api.Phase
		told        int
	}{
		{"go-on", api.PhaseRunning, api.PhaseCompleted, 0},
		{"stop-running", api.PhaseStopped, api.PhaseCompleted, 1},
		{"stop", api.PhaseStopped, api.PhaseStopped, 2},
	} {
		t.Run(c.how, func(t *testing.T) {
			w.Dir = old + "-" + c.how
			out, err := w.fermi("restore", file, "--data", w.Dir, "--unfinished", c.how, "--secret-key", filepath.Join(old, "secret.key"))
			if err != nil || strings.Contains(out, "WARNING") || strings.Contains(out, "holds no secret.key") {
				t.Fatalf("%v %s", err, out)
			}
			begin := logSize(w)
			w.up()
			if said := logFrom(w, begin); strings.Contains(said, "WARNING") {
				t.Errorf("it warns of the right key: %s", said)
			}
			for _, o := range w.nodes(t) {
				if _, err := w.api.NodeVerb(t.Context(), "uncordon", o.GetMeta().Name, -1); err != nil {
					t.Fatal(err)
				}
			}
			w.phase("waits", c.waits)
			w.phase("runs", c.runs)
			w.onceClosed(t, taken, c.runs == api.PhaseRunning)
			if n := w.stoppedByRestore(t); n != c.told {
				t.Errorf("%d tasks are said to be stopped by the restore, not %d", n, c.told)
			}
			if c.runs == api.PhaseRunning {
				if err := w.api.Stop(t.Context(), "default", "runs"); err != nil {
					t.Fatal(err)
				}
				w.phase("runs", api.PhaseStopped)
			}
			if err := w.Stop(); err != nil {
				t.Fatal(err)
			}
			// What was done is not done again.
			w.up()
			if n := w.stoppedByRestore(t); n != c.told {
				t.Errorf("after another start %d tasks are said to be stopped by the restore", n)
			}
			if err := w.Stop(); err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Run("keys", func(t *testing.T) { w.otherKeys(t, file, old) })
}

// onceClosed: the stay of before ended when the backup was taken, and only one of now may go on.
func (w *world) onceClosed(t *testing.T, taken time.Time, again bool) {
	t.Helper()
	raw, err := w.api.Raw(t.Context(), "/training-tasks/runs/replicas", nil)
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Items []struct {
			Attempt   int        `json:"attempt"`
			Reason    string     `json:"reason"`
			StoppedAt *time.Time `json:"finishedAt"`
		} `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, one := range list.Items {
		if one.Attempt == 1 {
			found = true
			if one.StoppedAt == nil || one.StoppedAt.After(taken) || one.Reason != "Restored" {
				t.Errorf("the stay of before: %s", raw)
			}
		}
	}
	if !found {
		t.Errorf("the stay of before is gone: %s", raw)
	}
	want := 0
	if again {
		want = 1
	}
	harness.Eventually(t, fmt.Sprintf("%d stays go on", want), func() bool { return w.usageOf(t, "runs").Running == want })
}

// stoppedByRestore is how many tasks have the event.
func (w *world) stoppedByRestore(t *testing.T) (n int) {
	t.Helper()
	for _, name := range []string{"runs", "waits"} {
		raw, err := w.api.Raw(t.Context(), "/training-tasks/"+name+"/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		n += strings.Count(string(raw), `"StoppedByRestore"`)
	}
	return n
}

// usageOf is what a task is charged for.
func (w *world) usageOf(t *testing.T, name string) (out struct {
	Key       string  `json:"key"`
	Running   int     `json:"running"`
	CoreHours float64 `json:"coreHours"`
}) {
	t.Helper()
	o, err := w.api.Get(t.Context(), api.KindTrainingTask, "default", name)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := w.api.Raw(t.Context(), "/usage", url.Values{"by": {"task"}, "from": {"2000-01-01T00:00:00Z"}})
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	for _, one := range list.Items {
		if strings.Contains(string(one), o.GetMeta().ID) {
			if err := json.Unmarshal(one, &out); err != nil {
				t.Fatal(err)
			}
		}
	}
	return out
}

// otherKeys: without the key, and with another one, whoever restores is told which it must be; whoever starts is told too.
func (w *world) otherKeys(t *testing.T, file, old string) {
	verified, err := w.fermi("backup", "verify", file)
	if err != nil {
		t.Fatalf("%v %s", err, verified)
	}
	_, print, ok := strings.Cut(strings.TrimSpace(verified), "fingerprint ")
	print = strings.TrimSuffix(print, ".")
	if !ok || len(print) != 16 {
		t.Fatalf("no fingerprint: %s", verified)
	}
	w.Dir = old + "-none"
	out, err := w.fermi("restore", file, "--data", w.Dir, "--unfinished", "stop")
	if err != nil || !strings.Contains(out, "holds no secret.key") || !strings.Contains(out, print) {
		t.Errorf("without a key: %v %s", err, out)
	}
	other := filepath.Join(filepath.Dir(old), "other.key")
	key, err := os.ReadFile(filepath.Join(old, "secret.key"))
	if err != nil {
		t.Fatal(err)
	}
	key[0] ^= 1
	if err := os.WriteFile(other, key, 0o600); err != nil {
		t.Fatal(err)
	}
	w.Dir = old + "-other"
	out, err = w.fermi("restore", file, "--data", w.Dir, "--unfinished", "stop", "--secret-key", other)
	if err != nil || !strings.Contains(out, "WARNING") || !strings.Contains(out, print) {
		t.Errorf("with another key: %v %s", err, out)
	}
	begin := logSize(w)
	w.up()
	harness.Eventually(t, "the start warns", func() bool {
		said := logFrom(w, begin)
		return strings.Contains(said, "is not the key that sealed the secrets of the restored backup ("+print+")") && strings.Contains(said, "1 secrets do not open") && strings.Contains(said, "default/key")
	})
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}
	// The right one heals it.
	key[0] ^= 1
	if err := os.WriteFile(filepath.Join(w.Dir, "secret.key"), key, 0o600); err != nil {
		t.Fatal(err)
	}
	begin = logSize(w)
	w.up()
	if said := logFrom(w, begin); strings.Contains(said, "that sealed the secrets") || strings.Contains(said, "do not open") {
		t.Errorf("it warns of the right key: %s", said)
	}
	if _, err := w.api.List(t.Context(), api.KindSecret, client.ListOptions{}); err != nil {
		t.Error(err)
	}
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"later", ""} {
		if out, err := w.fermi("restore", file, "--data", old+"-bad", "--unfinished="+bad+" "); err == nil || !strings.Contains(out, "go-on") {
			t.Errorf("--unfinished %q: %v %s", bad, err, out)
		}
	}
}
