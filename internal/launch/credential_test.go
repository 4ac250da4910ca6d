package launch

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
)

// TestCredentialsInALife: the process finds the files, its log does not show them, and afterwards
// they are gone.
func TestCredentialsInALife(t *testing.T) {
	w := newWorld(t)
	w.secrets = fetched(map[string]map[string]string{
		"hub":   {"server": "hub.example.org", "username": "li", "password": "plAnted-1"},
		"store": {"accessKeyID": "plAnted-2", "secretAccessKey": "plAnted-3", "region": "cn-north-1"},
	})
	r := w.replica(func(r *engine.Replica) {
		r.Credentials = []api.CredentialRef{{Secret: "hub"}, {Secret: "store"}}
		r.Env = []api.EnvVar{{Name: "AWS_PROFILE", Value: "store"}}
	}, sh(`stat -c %a $REGISTRY_AUTH_FILE $AWS_CONFIG_FILE $AWS_SHARED_CREDENTIALS_FILE; cat $DOCKER_CONFIG/config.json $AWS_SHARED_CREDENTIALS_FILE $AWS_CONFIG_FILE; cp $DOCKER_CONFIG/config.json $FERMI_OUTPUT/c; env | grep -c plAnted; cat /proc/self/cmdline | tr '\0' ' '`)...)
	if e := r.run(); e.Code != 0 {
		t.Fatalf("%+v", e)
	}
	log := strings.Join(r.lines(), "\n")
	for _, want := range []string{
		"O:600\nO:600\nO:600\n", `O:{"auths":{"hub.example.org":{"auth":"***"}}}`, "aws_access_key_id = ***", "aws_secret_access_key = ***", "region = cn-north-1", "O:0\n",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in the log:\n%s", want, log)
		}
	}
	auth := base64.StdEncoding.EncodeToString([]byte("li:plAnted-1"))
	if strings.Contains(log, "plAnted-") || strings.Contains(log, auth) {
		t.Errorf("the log shows a value:\n%s", log)
	}
	if got, _ := r.stored("c"); got != fmt.Sprintf("{\"auths\":{\"hub.example.org\":{\"auth\":%q}}}\n", auth) {
		t.Errorf("the process saw %q", got)
	}
	if _, err := os.Stat(filepath.Join(r.dir, "secrets")); !os.IsNotExist(err) {
		t.Errorf("the files are still there: %v", err)
	}
	delete(w.secrets, api.SecretRef{Secret: "hub", Key: "password"})
	bad := w.replica(func(r *engine.Replica) { r.Credentials = []api.CredentialRef{{Secret: "hub"}} }, sh("true")...)
	if e := bad.run(); e.Reason != engine.ReasonStartFailed || !strings.Contains(e.Message, "credential") {
		t.Errorf("half a credential: %+v", e)
	}
}

// fetched are the values of some secrets as the link brings them.
func fetched(secrets map[string]map[string]string) map[api.SecretRef]string {
	out := map[api.SecretRef]string{}
	for name, data := range secrets {
		for key, value := range data {
			out[api.SecretRef{Secret: name, Key: key}] = value
		}
	}
	return out
}
