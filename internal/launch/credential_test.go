package launch

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
)

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

// TestCredentialFiles: the files say to the clients' own parsers what the secrets say.
func TestCredentialFiles(t *testing.T) {
	refs := []api.CredentialRef{{Secret: "one"}, {Secret: "store"}, {Secret: "two"}, {Secret: "other"}}
	values := fetched(map[string]map[string]string{
		"one":   {"server": "a.example.org:5000", "username": "li", "password": `p"w: \ 密`},
		"two":   {"server": "b.example.org", "username": "wang", "password": "x"},
		"store": {"accessKeyID": "AKIA1", "secretAccessKey": "a/b+c=%$[]!", "sessionToken": "tok=", "endpoint": "http://127.0.0.1:9000", "region": "cn-north-1"},
		"other": {"accessKeyID": "AKIA2", "secretAccessKey": "k2"},
	})
	c, err := readCredentials(refs, values)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "s")
	if err := c.write(dir, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	vars := c.variables(dir)
	for name, value := range vars {
		t.Setenv(name, value)
		info, err := os.Stat(value)
		if err != nil || info.Mode().Perm()&0o077 != 0 || !strings.HasPrefix(value, dir) {
			t.Errorf("%s=%s: %v %v", name, value, info, err)
		}
	}
	if len(vars) != 4 {
		t.Errorf("%v", vars)
	}
	for server, want := range map[string]authn.AuthConfig{
		"a.example.org:5000": {Username: "li", Password: `p"w: \ 密`}, "b.example.org": {Username: "wang", Password: "x"}, "c.example.org": {},
	} {
		registry, err := name.NewRegistry(server)
		if err != nil {
			t.Fatal(err)
		}
		auth, err := authn.DefaultKeychain.Resolve(registry)
		if err != nil {
			t.Fatal(err)
		}
		got, err := auth.Authorization()
		if err != nil || got.Username != want.Username || got.Password != want.Password {
			t.Errorf("%s: %v %v", server, got, err)
		}
	}
	for profile, want := range map[string][]string{
		"store":   {"AKIA1", "a/b+c=%$[]!", "tok=", "cn-north-1", "http://127.0.0.1:9000"},
		"default": {"AKIA1", "a/b+c=%$[]!", "tok=", "cn-north-1", "http://127.0.0.1:9000"},
		"other":   {"AKIA2", "k2", "", "", ""},
	} {
		got := loadProfile(t, vars, profile)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, not %q", profile, got, want)
		}
	}
}

// loadProfile is what the S3 client's own parser finds.
func loadProfile(t *testing.T, vars map[string]string, profile string) []string {
	t.Helper()
	p, err := config.LoadSharedConfigProfile(context.Background(), profile, func(o *config.LoadSharedConfigOptions) {
		o.CredentialsFiles, o.ConfigFiles = []string{vars["AWS_SHARED_CREDENTIALS_FILE"]}, []string{vars["AWS_CONFIG_FILE"]}
	})
	if err != nil {
		t.Fatalf("%s: %v", profile, err)
	}
	return []string{p.Credentials.AccessKeyID, p.Credentials.SecretAccessKey, p.Credentials.SessionToken, p.Region, p.BaseEndpoint}
}

// FuzzProfile: whatever is accepted as a credential comes out of the client's parser as it went in.
func FuzzProfile(f *testing.F) {
	f.Add("AKIA", "a=b%", "t", "http://127.0.0.1:1", "r")
	f.Add("[x]", "=", "!", "https://h/p%20q", "-")
	f.Fuzz(func(t *testing.T, id, key, token, endpoint, region string) {
		values := fetched(map[string]map[string]string{"s": {"accessKeyID": id, "secretAccessKey": key, "sessionToken": token, "endpoint": endpoint, "region": region}})
		c, err := readCredentials([]api.CredentialRef{{Secret: "s"}}, values)
		if err != nil {
			return
		}
		dir := t.TempDir()
		if err := c.write(dir, func(string) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if got, want := loadProfile(t, c.variables(dir), "default"), []string{id, key, token, region, endpoint}; !slices.Equal(got, want) {
			t.Fatalf("%q, not %q", got, want)
		}
	})
}

func TestCredentialsThatCantBe(t *testing.T) {
	registry := map[string]string{"server": "h", "username": "u", "password": "p"}
	for name, secrets := range map[string]map[string]map[string]string{
		"two of one registry": {"a": registry, "b": registry},
		"half a registry":     {"a": {"server": "h"}},
		"nothing":             {},
		"a line end":          {"a": {"accessKeyID": "a", "secretAccessKey": "b\n"}},
	} {
		if _, err := readCredentials([]api.CredentialRef{{Secret: "a"}, {Secret: "b"}}, fetched(secrets)); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

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
