package v1

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// all is what a created secret is refused for: its values by Validate, its gaps by the server.
func all(t SecretType, data map[string]string) []fault.Field {
	s := &Secret{Spec: SecretSpec{Type: t, Data: data}}
	s.Default()
	return append(s.Validate(), MissingSecretKeys(s.Spec.Type, func(key string) bool { return data[key] != "" })...)
}

func TestSecretTypes(t *testing.T) {
	type values = map[string]string
	registry := values{"server": "registry.example.org:5000", "username": "li", "password": "p w"}
	s3 := values{"accessKeyID": "AKIA", "secretAccessKey": "a/b+c=", "sessionToken": "t", "endpoint": "https://[::1]:9000/x", "region": "cn-north-1"}
	with := func(data values, key, value string) values {
		out := values{}
		for k, v := range data {
			out[k] = v
		}
		out[key] = value
		return out
	}
	for _, c := range []struct {
		name string
		kind SecretType
		data values
		path string // "": accepted
	}{
		{"opaque", "", values{"anything": "a\nb"}, ""},
		{"registry", SecretRegistry, registry, ""},
		{"registry address", SecretRegistry, with(registry, "server", "https://index.example.org/v1/"), ""},
		{"registry ipv6", SecretRegistry, with(registry, "server", "[::1]:5000"), ""},
		{"s3", SecretS3, s3, ""},
		{"s3 least", SecretS3, values{"accessKeyID": "a", "secretAccessKey": "b"}, ""},
		{"git password", SecretGit, values{"password": "x"}, ""},
		{"git ssh", SecretGit, values{"ssh-privatekey": "-----BEGIN\nx\n", "known_hosts": "h ssh-ed25519 A\n"}, ""},

		{"no type", "gitt", values{"password": "x"}, "spec.type"},
		{"registry no server", SecretRegistry, with(registry, "server", ""), "spec.data.server"},
		{"registry no user", SecretRegistry, with(registry, "username", ""), "spec.data.username"},
		{"registry no password", SecretRegistry, with(registry, "password", ""), "spec.data.password"},
		{"registry other key", SecretRegistry, with(registry, "region", "x"), "spec.data.region"},
		{"registry path", SecretRegistry, with(registry, "server", "registry.example.org/team"), "spec.data.server"},
		{"registry port", SecretRegistry, with(registry, "server", "registry.example.org:0"), "spec.data.server"},
		{"registry no port", SecretRegistry, with(registry, "server", "reg.example.com:"), "spec.data.server"},
		{"registry password in it", SecretRegistry, with(registry, "server", "u:p@registry.example.org"), "spec.data.server"},
		{"registry scheme", SecretRegistry, with(registry, "server", "ftp://registry.example.org"), "spec.data.server"},
		{"registry quote", SecretRegistry, with(registry, "server", `a"b`), "spec.data.server"},
		{"registry colon", SecretRegistry, with(registry, "username", "a:b"), "spec.data.username"},
		{"registry line end", SecretRegistry, with(registry, "password", "p\n"), "spec.data.password"},
		{"s3 no id", SecretS3, values{"secretAccessKey": "b"}, "spec.data.accessKeyID"},
		{"s3 no key", SecretS3, values{"accessKeyID": "b"}, "spec.data.secretAccessKey"},
		{"s3 line", SecretS3, with(s3, "secretAccessKey", "a\n[default]\nrole_arn=x"), "spec.data.secretAccessKey"},
		{"s3 comment", SecretS3, with(s3, "secretAccessKey", "a #b"), "spec.data.secretAccessKey"},
		{"s3 long", SecretS3, with(s3, "sessionToken", strings.Repeat("a", 16<<10+1)), "spec.data.sessionToken"},
		{"s3 endpoint", SecretS3, with(s3, "endpoint", "store.example.com"), "spec.data.endpoint"},
		{"s3 endpoint user", SecretS3, with(s3, "endpoint", "https://a:b@s3.example.org"), "spec.data.endpoint"},
		{"s3 endpoint query", SecretS3, with(s3, "endpoint", "https://s3.example.org?x=y"), "spec.data.endpoint"},
		{"s3 region", SecretS3, with(s3, "region", "a b"), "spec.data.region"},
		{"s3 misspelt", SecretS3, with(s3, "accessKeyId", "x"), "spec.data.accessKeyId"},
		{"git nothing", SecretGit, values{"username": "x"}, "spec.data.password"},
		{"git no hosts", SecretGit, values{"ssh-privatekey": "x"}, "spec.data.known_hosts"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := all(c.kind, c.data)
			if c.path == "" && len(got) > 0 || c.path != "" && (len(got) != 1 || got[0].Path != c.path) {
				t.Fatalf("%+v, wanted %q", got, c.path)
			}
			for _, f := range got {
				if f.Message.EN == "" || f.Message.ZH == "" {
					t.Errorf("%+v is not in both languages", f)
				}
				if v := c.data[strings.TrimPrefix(f.Path, "spec.data.")]; len(v) > 3 && strings.Contains(f.Message.EN+f.Message.ZH, v) {
					t.Errorf("the text repeats the value: %+v", f)
				}
			}
		})
	}
}

func TestReadCredentials(t *testing.T) {
	r, err := ReadRegistry(map[string]string{"server": "r:5000", "username": "li", "password": "geheim"})
	if err != nil || r != (RegistryCredential{"r:5000", "li", "geheim"}) {
		t.Error(r, err)
	}
	s, err := ReadS3(map[string]string{"accessKeyID": "a-key-id", "secretAccessKey": "geheim", "sessionToken": "t0ken", "endpoint": "http://h:1", "region": "r"})
	if err != nil || s != (S3Credential{"a-key-id", "geheim", "t0ken", "http://h:1", "r"}) {
		t.Error(s, err)
	}
	for _, shown := range []string{fmt.Sprint(r, s), fmt.Sprintf("%+v %v %s", r, s, s)} {
		for _, hidden := range []string{"geheim", "t0ken", "a-key-id"} {
			if strings.Contains(shown, hidden) {
				t.Errorf("printed: %s", shown)
			}
		}
	}
	if _, err := ReadRegistry(map[string]string{"server": "r"}); !fault.Is(err, fault.Invalid) || !strings.Contains(fmt.Sprint(fault.From(err).Fields), "spec.data.username") {
		t.Error(err)
	}
	if _, err := ReadS3(map[string]string{"accessKeyID": "a", "secretAccessKey": "b\n"}); !fault.Is(err, fault.Invalid) {
		t.Error(err)
	}
}

func TestPublicKeys(t *testing.T) {
	for key, want := range map[string]bool{"server": true, "username": true, "password": false, "nothing": false} {
		if SecretRegistry.Public(key) != want {
			t.Error(key)
		}
	}
	if SecretOpaque.Public("server") || SecretS3.Public("secretAccessKey") || SecretS3.Public("accessKeyID") || !SecretS3.Public("endpoint") || !SecretS3.Has("region") || SecretS3.Has("server") {
		t.Error("the table")
	}
}

// FuzzCredential: whatever is accepted is one line and can't end the line of a file it is put into.
func FuzzCredential(f *testing.F) {
	f.Add("AKIA", "s3cr3t", "", "http://127.0.0.1:1", "us-east-1")
	f.Add("a\n[b]", "x # y", `"`, "http://a b", "-")
	f.Fuzz(func(t *testing.T, id, key, token, endpoint, region string) {
		data := map[string]string{"accessKeyID": id, "secretAccessKey": key, "sessionToken": token, "endpoint": endpoint, "region": region}
		c, err := ReadS3(data)
		if err == nil {
			for _, v := range []string{c.AccessKeyID, c.SecretAccessKey, c.SessionToken, c.Endpoint, c.Region} {
				if strings.ContainsAny(v, " \t\r\n\x00\"'#;\\") {
					t.Errorf("accepted %q", v)
				}
			}
		}
		r, err := ReadRegistry(map[string]string{"server": endpoint, "username": id, "password": key})
		if err == nil && (strings.ContainsAny(r.Server, " \"\n\\") || strings.ContainsAny(r.Username, ":\n") || strings.Contains(r.Password, "\n")) {
			t.Errorf("accepted %q %q %q", r.Server, r.Username, r.Password)
		}
	})
}
