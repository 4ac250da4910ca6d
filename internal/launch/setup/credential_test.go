package setup

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	api "github.com/fermi-cluster/fermi/api/v1"
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
