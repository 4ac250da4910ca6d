package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/app/keyfile"
	"github.com/fermi-cluster/fermi/internal/server/door"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/storetest"
)

// worldWithStore is a folder and a store in it.
func worldWithStore(t *testing.T) (dir string, truth *store.Store) {
	t.Helper()
	return t.TempDir(), storetest.Open(t)
}

// TestAdminTokenIsReplaced: the file always holds a token that works, and a crash does not leave the old one.
func TestAdminTokenIsReplaced(t *testing.T) {
	dir, truth := worldWithStore(t)
	a := adminToken{dir, truth}
	meta := func(prefix, name, display string) api.Meta {
		return api.Meta{ID: prefix + "-" + name, Name: name, DisplayName: display}
	}
	if err := a.ensure(t.Context(), meta); err != nil {
		t.Fatal(err)
	}
	read := func() (name, secret string) {
		secret, err := readToken(filepath.Join(dir, tokenFile))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(secret, "_")[1], secret
	}
	works := func(name, secret string) bool {
		now, err := truth.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		o, err := truth.Get(t.Context(), api.Key{Kind: api.KindToken, Name: name}, now)
		return err == nil && o.(*api.Token).Spec.Hash == door.HashSecret(secret)
	}
	first, firstSecret := read()
	if _, err := a.rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	second, secondSecret := read()
	if first == second || works(first, firstSecret) || !works(second, secondSecret) {
		t.Errorf("%s and %s: %v, %v", first, second, works(first, firstSecret), works(second, secondSecret))
	}
	// Killed between the two files, and between the files and the store.
	if err := os.WriteFile(filepath.Join(dir, tokenOldFile), []byte(second+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.ensure(t.Context(), meta); err != nil || !works(second, secondSecret) {
		t.Errorf("the only token is gone: %v", err)
	}
	third, _, err := door.NewSecret("admin-third", bytes.NewReader(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	if err := keyfile.Replace(filepath.Join(dir, tokenFile), []byte(third+"\n")); err != nil {
		t.Fatal(err)
	}
	if err := a.ensure(t.Context(), meta); err != nil || works(second, secondSecret) || !works("admin-third", third) {
		t.Errorf("after a crash: %v, old %v, new %v", err, works(second, secondSecret), works("admin-third", third))
	}
}
