package atrest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/internal/fault"
)

func TestAtRest(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(want string, keys ...string) {
		t.Helper()
		changed, err := Check(dir)
		if fault.ReasonOf(err) != want || !slices.Equal(changed, keys) {
			t.Fatalf("%v %v, want %q %v", changed, err, want, keys)
		}
	}
	check("")
	for _, name := range append(slices.Clone(databases), keys...) {
		put(name, name)
	}
	leave := func() {
		t.Helper()
		if err := Write(dir); err != nil {
			t.Fatal(err)
		}
	}
	leave()
	check("")
	put("history.db", "killed, not ended") // no note: nothing to compare with
	check("")
	leave()
	put("history.db", "hIstory.db")
	check("FileDamaged")
	check("FileDamaged") // the note stays
	put("history.db", "killed, not ended")
	check("")
	leave()
	put("link.key", strings.Repeat("k", 32))
	check("", "link.key")
	leave()
	raw, err := os.ReadFile(filepath.Join(dir, noteFile))
	if err != nil {
		t.Fatal(err)
	}
	raw[3] ^= 1
	put(noteFile, string(raw))
	check("") // a damaged note accuses nobody
}
