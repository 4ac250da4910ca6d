package seal_test

import (
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/internal/seal"
)

func box(t testing.TB, key []byte) *seal.Box {
	t.Helper()
	b, err := seal.New(key)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestOnlyTheSameKeyAndPlaceOpen(t *testing.T) {
	key := seal.NewKey()
	b := box(t, key)
	sealed := b.Seal("hunter2 密码", "p/name/key")
	if strings.Contains(sealed, "hunter2") || sealed == b.Seal("hunter2 密码", "p/name/key") {
		t.Error("it shows, or repeats")
	}
	if got, err := box(t, key).Open(sealed, "p/name/key"); err != nil || got != "hunter2 密码" {
		t.Error(got, err)
	}
	for name, open := range map[string]func() (string, error){
		"another key":   func() (string, error) { return box(t, seal.NewKey()).Open(sealed, "p/name/key") },
		"another place": func() (string, error) { return b.Open(sealed, "p/name/other") },
		"cut":           func() (string, error) { return b.Open(sealed[:len(sealed)-4], "p/name/key") },
		"plain":         func() (string, error) { return b.Open("hunter2", "p/name/key") },
		"empty":         func() (string, error) { return b.Open("", "p/name/key") },
	} {
		if got, err := open(); err == nil || got != "" {
			t.Errorf("%s opened: %q", name, got)
		}
	}
	if _, err := seal.New([]byte("short")); err == nil {
		t.Error("a short key")
	}
}

func FuzzOpen(f *testing.F) {
	b := box(f, make([]byte, seal.KeyBytes))
	f.Add("v1:AAAA", "x")
	f.Add(b.Seal("a", "x"), "x")
	f.Fuzz(func(t *testing.T, sealed, context string) {
		if plain, err := b.Open(sealed, context); err == nil && sealed != "" {
			if again, err := b.Open(b.Seal(plain, context), context); err != nil || again != plain {
				t.Fatal("no round trip")
			}
		}
	})
}
