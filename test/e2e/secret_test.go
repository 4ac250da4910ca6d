package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// planted are the values that TestSecret looks for: one in an opaque secret, the others as
// credentials; and what docker's file makes of a password.
const planted = "plAnted-s3cret-value-0815"

var plantedCredentials = []string{
	"plAnted-pass-word-0816", "plAntedAccessKey0817", "plAnted/secret+key/0818", "plAnted-session-token-0819",
	base64.StdEncoding.EncodeToString([]byte("li:plAnted-pass-word-0816")),
}

// TestSecret plants values and looks for them everywhere but where they belong.
func TestSecret(t *testing.T) {
	w := up(t, "--demo")
	w.must("secret", "set", "hub", "token="+valueFile(t, planted))
	w.must("secret", "set", "images", "--type", "registry", "--plain", "server=images.example.org", "--plain", "username=li", "password="+valueFile(t, plantedCredentials[0]))
	w.must("secret", "set", "store", "--type", "s3", "--plain", "endpoint=https://s3.example.org", "--plain", "region=cn-north-1",
		"accessKeyID="+valueFile(t, plantedCredentials[1]), "secretAccessKey="+valueFile(t, plantedCredentials[2]), "sessionToken="+valueFile(t, plantedCredentials[3]))
	task := shell("user", 1, `printf %s "$TOKEN" | sha256sum; sha256sum < $FERMI_SECRETS/t; echo "value $TOKEN and again $TOKEN"; cat $FERMI_SECRETS/t
cat $REGISTRY_AUTH_FILE $AWS_SHARED_CREDENTIALS_FILE $AWS_CONFIG_FILE; trap 'exit 0' TERM; echo printed; while :; do sleep 0.05; done`)
	task.Spec.Roles[0].Env = []api.EnvVar{{Name: "TOKEN", ValueFrom: &api.SecretRef{Secret: "hub", Key: "token"}}}
	task.Spec.Roles[0].SecretFiles = []api.SecretFile{{Name: "t", Secret: "hub", Key: "token"}}
	task.Spec.Credentials = []api.CredentialRef{{Secret: "images"}, {Secret: "store"}}
	w.submit(task)
	w.until("user", "printed", func(*api.TrainingTask) bool { return strings.Contains(w.must("logs", "user"), "printed") })
	for _, value := range append(plantedCredentials, planted) {
		if shown := processes("cmdline", value); len(shown) > 0 {
			t.Errorf("in process lists: %v", shown)
		}
	}
	for _, value := range plantedCredentials {
		if shown := processes("environ", value); len(shown) > 0 {
			t.Errorf("in environments: %v", shown)
		}
	}
	if len(processes("environ", planted)) == 0 {
		t.Error("no process has the variable; nothing was looked at")
	}
	w.must("train", "stop", "user")
	w.phase("user", api.PhaseStopped)
	log := w.must("logs", "user")
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(planted)))
	if strings.Count(log, sum) != 2 {
		t.Errorf("the process did not get the value as variable and file:\n%s", log)
	}
	contains(t, log, "value *** and again ***", `{"images.example.org":{"auth":"***"}}`, "aws_secret_access_key = ***", "aws_session_token = ***", "endpoint_url = https://s3.example.org")
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
	contains(t, string(audit), `"verb":"use","kind":"Secret","project":"default","name":"hub"`, `\"replica\":\"worker-0\"`)
	seen := map[string]string{
		"the log": log, "get -o yaml": w.must("get", "secrets", "-o", "yaml") + w.must("get", "tasks", "-o", "yaml"),
		"describe": w.must("describe", "secret", "hub") + w.must("describe", "secret", "images") + w.must("describe", "secret", "store"), "events": w.must("events"), "the audit": string(audit), "the server's log": w.LogTail(), "the backup": string(backup),
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
		for _, value := range append(plantedCredentials, planted) {
			if strings.Contains(text, value) {
				t.Errorf("a value is in %s", where)
			}
		}
	}
	t.Logf("looked for %d values in %d places, %d of them files, and in all command lines and environments", 1+len(plantedCredentials), len(seen), places)
	if key, err := os.ReadFile(filepath.Join(w.Dir, "secret.key")); err != nil || bytes.Contains(backup, key) {
		t.Errorf("the key is in the backup, or not there: %v", err)
	}
}

// processes are the files of all processes, cmdline or environ, that hold a text.
func processes(file, text string) []string {
	var found []string
	lines, _ := filepath.Glob("/proc/[0-9]*/" + file)
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
