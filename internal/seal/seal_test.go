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

// TestKeysCanBeReplaced: what an older key sealed opens until that key goes.
func TestKeysCanBeReplaced(t *testing.T) {
	old, now := seal.NewKey(), seal.NewKey()
	b := box(t, old)
	before := b.Seal("x", "p")
	if err := b.Replace(now, old); err != nil {
		t.Fatal(err)
	}
	after := b.Seal("x", "p")
	for sealed, wantCurrent := range map[string]bool{before: false, after: true} {
		if plain, current, err := b.OpenWith(sealed, "p"); err != nil || plain != "x" || current != wantCurrent {
			t.Error(plain, current, err)
		}
	}
	if _, err := box(t, old).Open(after, "p"); err == nil {
		t.Error("it was sealed with the old key")
	}
	if err := b.Replace(now, []byte("short")); err == nil {
		t.Error("a short key")
	}
	if err := b.Replace(now); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Open(before, "p"); err == nil {
		t.Error("the old key still opens")
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
