package server

import (
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/seal"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

func newSecretWorld(t *testing.T) *world {
	t.Helper()
	box, err := seal.New(seal.NewKey())
	must(t, err)
	return newWorld(t, func(c *Config) { c.Box = box })
}

func secret(name string, kind api.SecretType, pairs ...string) *api.Secret {
	x := &api.Secret{Meta: api.Meta{Name: name}, Spec: api.SecretSpec{Type: kind, Data: map[string]string{}}}
	for i := 0; i < len(pairs); i += 2 {
		x.Spec.Data[pairs[i]] = pairs[i+1]
	}
	return x
}

func TestSecretTypes(t *testing.T) {
	w := newSecretWorld(t)
	at := func(a answerOf, path string) {
		t.Helper()
		if len(a.Fields) != 1 || a.Fields[0].Path != path || strings.Contains(string(a.raw), "geheim") {
			t.Errorf("wanted %s: %s", path, a.raw)
		}
	}
	at(w.refused("POST", "/api/v1/secrets", secret("r", "registry", "server", "h:5000", "username", "li"), 400, "InvalidField"), "spec.data.password")
	at(w.refused("POST", "/api/v1/secrets", secret("r", "registri", "server", "geheim"), 400, "InvalidField"), "spec.type")
	at(w.refused("POST", "/api/v1/secrets", secret("r", "s3", "accessKeyID", "a", "secretAccessKey", "geheim x"), 400, "InvalidField"), "spec.data.secretAccessKey")
	var x api.Secret
	w.ok("POST", "/api/v1/secrets", secret("r", "registry", "server", "h:5000", "username", "li", "password", "geheim"), &x)
	if x.Spec.Type != api.SecretRegistry || len(x.Spec.Data)+len(x.Spec.Sealed) > 0 || len(x.Status.Keys) != 3 {
		t.Errorf("%+v", x)
	}
	change := func(kind api.SecretType, pairs ...string) *api.Secret {
		next := secret("r", kind, pairs...)
		next.Meta.Revision = x.Meta.Revision
		return next
	}
	at(w.refused("PUT", "/api/v1/secrets/r", change("s3"), 400, "Immutable"), "spec.type")
	at(w.refused("PUT", "/api/v1/secrets/r", change("opaque", "k", "v"), 400, "Immutable"), "spec.type")
	at(w.refused("PUT", "/api/v1/secrets/r", change("registry", "password", ""), 400, "InvalidField"), "spec.data.password")
	at(w.refused("PUT", "/api/v1/secrets/r", change("", "region", "x"), 400, "InvalidField"), "spec.data.region")
	w.ok("PUT", "/api/v1/secrets/r", change("", "password", "geheim2"), &x) // the rest stays
	if x.Spec.Type != api.SecretRegistry || len(x.Status.Keys) != 3 {
		t.Errorf("%+v", x)
	}

	// A secret older than types is opaque.
	w.put(&api.Secret{Meta: api.Meta{Name: "old", Project: "default"}, Spec: api.SecretSpec{Sealed: map[string]string{"password": "v1:x"}}})
	w.ok("POST", "/api/v1/secrets", secret("plain", "", "password", "geheim"), &x)
	if x.Spec.Type != api.SecretOpaque {
		t.Errorf("%+v", x)
	}
	w.ok("POST", "/api/v1/secrets", secret("g", "git", "password", "geheim"), nil)
	name := 0
	use := func(edit func(*api.TrainingTaskSpec)) *api.TrainingTask {
		name++
		return manifest("t"+string(rune('a'+name)), func(t *api.TrainingTask) { edit(&t.Spec) })
	}
	creds := func(names ...string) func(*api.TrainingTaskSpec) {
		return func(s *api.TrainingTaskSpec) {
			for _, n := range names {
				s.Credentials = append(s.Credentials, api.CredentialRef{Secret: n})
			}
		}
	}
	git := func(name string) func(*api.TrainingTaskSpec) {
		return func(s *api.TrainingTaskSpec) {
			s.Code = &api.Code{Git: &api.Git{URL: "https://example.org/a.git", Secret: name}}
		}
	}
	w.ok("POST", "/api/v1/training-tasks", use(creds("r")), nil)
	for _, n := range []string{"old", "plain", "g"} {
		w.ok("POST", "/api/v1/training-tasks", use(git(n)), nil)
		at(w.refused("POST", "/api/v1/training-tasks", use(creds("r", n)), 400, "InvalidField"), "spec.credentials[1].secret")
	}
	at(w.refused("POST", "/api/v1/training-tasks", use(git("r")), 400, "InvalidField"), "spec.code.git.secret")
	at(w.refused("POST", "/api/v1/training-tasks", use(creds("nobody")), 400, "InvalidField"), "spec.credentials[0].secret")
	at(w.refused("POST", "/api/v1/training-tasks", use(creds("r", "r")), 400, "InvalidField"), "spec.credentials[1].secret")
}

// TestSecretAdmittedAgain: what admission looked at may move before the commit; the values must
// still be there for the second time, and sealed for the name they get then.
func TestSecretAdmittedAgain(t *testing.T) {
	w := newSecretWorld(t)
	x := secret("first", "", "k", "geheim")
	x.Meta.Project = "default"
	must(t, api.Prepare(x, id.Default.Random))
	root, err := w.store.Get(t.Context(), api.Key{Kind: api.KindUser, Name: "root"}, 0)
	must(t, err)
	c := &rest.Call{Who: &access.Caller{User: root.(*api.User)}}
	for _, name := range []string{"first", "second"} {
		x.Meta.Name = name
		b := objects.Birth{Object: x}
		must(t, w.server.kinds.Of(api.KindSecret).Admit(t.Context(), c, &b, false))
		made := b.Object.(*api.Secret)
		value, err := w.cfg.Box.Open(made.Spec.Sealed["k"], api.SealContext("default", name, "k"))
		if err != nil || value != "geheim" || len(made.Spec.Data) > 0 {
			t.Errorf("%s: %q %v", name, value, err)
		}
	}
}
