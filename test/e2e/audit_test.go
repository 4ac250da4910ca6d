package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// TestAudit: who tries, reads and uses is in the audit, which is exported, verified online and offline, and says
// where somebody changed it.
func TestAudit(t *testing.T) {
	w := up(t, "--demo")
	w.must("secret", "set", "hub", "token="+valueFile(t, planted))
	task := shell("user", 1, `echo "$TOKEN" | wc -c`)
	task.Spec.Roles[0].Env = []api.EnvVar{{Name: "TOKEN", ValueFrom: &api.SecretRef{Secret: "hub", Key: "token"}}}
	w.submit(task)
	w.phase("user", api.PhaseCompleted)
	w.must("logs", "user")
	for range 40 { // a refused token
		w.fermiIn("", []string{"FERMI_TOKEN=fermi_laptop_" + strings.Repeat("A", 43)}, "get", "tasks")
	}
	list := w.must("audit", "-o", "wide")
	contains(t, list, "WHO", "create", "task/user", "use", "secret/hub", "read-log", "authenticate", "token/laptop", "BadToken", `"replica":"worker-0"`)
	if n := strings.Count(list, "BadToken"); n != 1 {
		t.Errorf("%d entries of one who tries again and again", n)
	}
	contains(t, w.must("audit", "--refused"), "BadToken")
	contains(t, w.must("audit", "verify"), "none is missing", "--expect")
	if err := w.Stop(); err != nil { // what was counted is written
		t.Fatal(err)
	}
	w.start()
	contains(t, w.must("audit", "--verb", "authenticate", "-o", "json"), `"count":`)
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	w.must("audit", "export", file)
	contains(t, w.must("audit", "verify", file), "none is missing")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), planted) || strings.Contains(string(raw), strings.Repeat("A", 43)) {
		t.Error("the audit holds a value")
	}
	lines := strings.SplitAfter(string(raw), "\n")
	var third api.AuditEntry
	if err := json.Unmarshal([]byte(lines[3]), &third); err != nil {
		t.Fatal(err)
	}
	lines[3] = strings.Replace(lines[3], `"actor":"`+third.Actor+`"`, `"actor":"nobody-at-all"`, 1)
	if err := os.WriteFile(file, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := w.fermi("audit", "verify", file); got.code == 0 || !strings.Contains(got.err, "Record 3 ") {
		t.Errorf("%+v", got)
	}
}

// TestRotate replaces all keys under a running task, which never notices.
func TestRotate(t *testing.T) {
	w := up(t, "--demo")
	w.must("secret", "set", "hub", "token="+valueFile(t, planted))
	task := shell("runs", 1, `i=0; while :; do i=$((i+1)); echo "tick $i"; sleep 0.1; done`)
	w.submit(task)
	w.until("runs", "ticking", func(*api.TrainingTask) bool { return strings.Contains(w.must("logs", "runs"), "tick 3") })
	before, err := os.ReadFile(filepath.Join(w.Dir, "secret.key"))
	if err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(filepath.Join(w.Dir, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	contains(t, w.must("rotate", "all"), "secret-key: Secrets sealed anew: 1.", "link-key: New replicas use", "tls: This server has no certificate of its own", "admin-token: The new token is in")
	if got := w.fermiIn("", []string{"FERMI_TOKEN=" + strings.TrimSpace(string(old))}, "get", "tasks"); got.code == 0 {
		t.Error("the old token still works")
	}
	if after, err := os.ReadFile(filepath.Join(w.Dir, "secret.key")); err != nil || len(after) != 64 || string(after[32:]) != string(before) {
		t.Errorf("%d bytes, %v", len(after), err)
	}
	cl, err := w.Client() // with the new token
	if err != nil {
		t.Fatal(err)
	}
	w.api = cl
	ticks := func(what string) {
		t.Helper()
		has := strings.Count(w.must("logs", "runs"), "tick")
		w.until("runs", what, func(x *api.TrainingTask) bool {
			return x.Status.Phase == api.PhaseRunning && x.Status.Attempt == 1 && strings.Count(w.must("logs", "runs"), "tick") > has+5
		})
	}
	ticks("ticking on")
	w.submit(shell("meanwhile", 1, "true")) // a token of the new key
	w.phase("meanwhile", api.PhaseCompleted)
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}
	w.start()
	ticks("ticking after a restart")
	next := shell("next", 1, `printf %s "$TOKEN" | wc -c`)
	next.Spec.Roles[0].Env = []api.EnvVar{{Name: "TOKEN", ValueFrom: &api.SecretRef{Secret: "hub", Key: "token"}}}
	w.submit(next)
	w.phase("next", api.PhaseCompleted)
	w.must("train", "stop", "runs")
	w.phase("runs", api.PhaseStopped)
}

// TestEncryptedBackup: nobody reads it without the passphrase, and with secret.key the secrets in it work.
func TestEncryptedBackup(t *testing.T) {
	w := up(t, "--demo")
	w.must("secret", "set", "hub", "token="+valueFile(t, planted))
	w.submit(shell("kept", 1, "echo remember me"))
	w.phase("kept", api.PhaseCompleted)
	dir := t.TempDir()
	file, phrase, wrong := filepath.Join(dir, "backup.tar.age"), valueFile(t, "correct horse battery"), valueFile(t, "another horse")
	got := w.fermi("backup", "--encrypt", "--passphrase-file", phrase, file)
	if got.code != 0 || !strings.Contains(got.err, "It does not hold secret.key") {
		t.Fatalf("%+v", got)
	}
	raw, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(raw), "remember me") {
		t.Fatalf("in the clear, or %v", err)
	}
	key := filepath.Join(w.Dir, "secret.key")
	fresh := filepath.Join(filepath.Dir(w.Dir), "restored")
	for name, args := range map[string][]string{
		"no passphrase": {"restore", file, "--data", fresh}, "another one": {"restore", file, "--data", fresh, "--passphrase-file", wrong},
		"no key": {"restore", file, "--data", fresh, "--passphrase-file", phrase, "--secret-key", phrase},
	} {
		if got := w.fermi(args...); got.code == 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	cut := filepath.Join(dir, "cut")
	if err := os.WriteFile(cut, raw[:len(raw)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	if got := w.fermi("restore", cut, "--data", fresh, "--passphrase-file", phrase); got.code == 0 {
		t.Errorf("a cut one: %+v", got)
	}
	got = w.fermi("restore", file, "--data", fresh, "--passphrase-file", phrase)
	if got.code != 0 || !strings.Contains(got.err, "The backup holds no secret.key. Put the one of the old folder (fingerprint ") || !strings.Contains(got.err, ") to "+filepath.Join(fresh, "secret.key")) {
		t.Errorf("%+v", got)
	}
	if err := os.RemoveAll(fresh); err != nil {
		t.Fatal(err)
	}
	w.must("restore", file, "--data", fresh, "--passphrase-file", phrase, "--secret-key", key)
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}
	w.Dir = fresh
	w.start()
	contains(t, w.must("logs", "kept"), "remember me")
	next := shell("next", 1, `printf %s "$TOKEN" | wc -c`)
	next.Spec.Roles[0].Env = []api.EnvVar{{Name: "TOKEN", ValueFrom: &api.SecretRef{Secret: "hub", Key: "token"}}}
	w.submit(next)
	w.phase("next", api.PhaseCompleted)
}
