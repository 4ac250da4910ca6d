package e2e

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// TestSecret plants a value and looks for it everywhere but where it belongs.
func TestSecret(t *testing.T) {
	w := up(t, "--demo")
	const planted = "plAnted-s3cret-value-0815"
	file := filepath.Join(t.TempDir(), "value")
	if err := os.WriteFile(file, []byte(planted), 0o600); err != nil {
		t.Fatal(err)
	}
	w.must("secret", "set", "hub", "token="+file)
	task := shell("user", 1, `printf %s "$TOKEN" | sha256sum; sha256sum < $FERMI_SECRETS/t; echo "value $TOKEN and again $TOKEN"; cat $FERMI_SECRETS/t; sleep 1`)
	task.Spec.Roles[0].Env = []api.EnvVar{{Name: "TOKEN", ValueFrom: &api.SecretRef{Secret: "hub", Key: "token"}}}
	task.Spec.Roles[0].SecretFiles = []api.SecretFile{{Name: "t", Secret: "hub", Key: "token"}}
	w.submit(task)
	w.phase("user", api.PhaseRunning)
	if shown := commandLines(planted); len(shown) > 0 {
		t.Errorf("in process lists: %v", shown)
	}
	w.phase("user", api.PhaseCompleted)
	log := w.must("logs", "user")
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(planted)))
	if strings.Count(log, sum) != 2 {
		t.Errorf("the process did not get the value as variable and file:\n%s", log)
	}
	contains(t, log, "value *** and again ***")
	file2 := filepath.Join(t.TempDir(), "backup.tar")
	w.must("backup", file2)
	backup, err := os.ReadFile(file2)
	if err != nil {
		t.Fatal(err)
	}
	audit, err := w.api.Raw(t.Context(), "/audit", nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{
		"the log": log, "get -o yaml": w.must("get", "secrets", "-o", "yaml") + w.must("get", "tasks", "-o", "yaml"),
		"describe": w.must("describe", "secret", "hub"), "events": w.must("events"), "the audit": string(audit), "the server's log": w.LogTail(), "the backup": string(backup),
	}
	if err := w.Stop(); err != nil { // everything is on disk now
		t.Fatal(err)
	}
	places := 0
	err = filepath.WalkDir(w.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		seen[path] = string(raw)
		places++
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for where, text := range seen {
		if strings.Contains(text, planted) {
			t.Errorf("the value is in %s", where)
		}
	}
	t.Logf("looked for the value in %d places, %d of them files", len(seen), places)
	if key, err := os.ReadFile(filepath.Join(w.Dir, "secret.key")); err != nil || bytes.Contains(backup, key) {
		t.Errorf("the key is in the backup, or not there: %v", err)
	}
}

func commandLines(text string) []string {
	var found []string
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		if raw, err := os.ReadFile(path); err == nil && bytes.Contains(raw, []byte(text)) {
			found = append(found, path)
		}
	}
	return found
}

func TestSecretsThatAreNotThereAreRefused(t *testing.T) {
	w := up(t, "--demo")
	task := shell("user", 1, "true")
	task.Spec.Roles[0].Env = []api.EnvVar{{Name: "TOKEN", ValueFrom: &api.SecretRef{Secret: "nobody", Key: "token"}}}
	_, err := w.api.Submit(t.Context(), task, false)
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "spec.roles[0].env[0].valueFrom.secret") {
		t.Errorf("an unknown secret: %v", err)
	}
	if _, err := w.api.Create(t.Context(), &api.Secret{Meta: api.Meta{Name: "s"}, Spec: api.SecretSpec{Data: map[string]string{"a": "1234567"}}}, false); err != nil {
		t.Fatal(err)
	}
	task.Spec.Roles[0].Env[0].ValueFrom = &api.SecretRef{Secret: "s", Key: "b"}
	_, err = w.api.Submit(t.Context(), task, false)
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "valueFrom.key") {
		t.Errorf("an unknown key: %v", err)
	}
	_, err = w.api.Create(t.Context(), &api.Secret{Meta: api.Meta{Name: "bad"}, Spec: api.SecretSpec{Data: map[string]string{"a/b": "1"}}}, false)
	if !fault.Is(err, fault.Invalid) {
		t.Errorf("a bad key: %v", err)
	}
	o, err := w.api.Get(t.Context(), api.KindSecret, "default", "s")
	if err != nil {
		t.Fatal(err)
	}
	x := o.(*api.Secret)
	if len(x.Spec.Data)+len(x.Spec.Sealed) != 0 || len(x.Status.Keys) != 1 {
		t.Errorf("shown: %+v", x)
	}
	x.Spec.Data = map[string]string{"b": "another-value"} // a stays
	if _, err := w.api.Update(t.Context(), x, false); err != nil {
		t.Fatal(err)
	}
	w.submit(task)
	w.phase("user", api.PhaseCompleted)
}
