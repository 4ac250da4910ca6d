package restore

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// TestWhole: a part that is gone is named, and nothing is made in its place; a first start that was cut off goes on.
func TestWhole(t *testing.T) {
	make1 := func(names ...string) string {
		dir := t.TempDir()
		for _, name := range names {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	for _, tc := range []struct {
		want  string
		past  Past
		names []string
	}{
		{"", Past{}, nil},
		{"", Past{}, []string{"format", "secret.key.tmp"}},
		{"", Past{}, []string{"format", "history.db", "secret.key", "link.key"}}, // cut off before the store was made
		{"", Past{}, []string{"format", "history.db", "secret.key", "link.key", "admin.token", "etcd/member"}},
		{"StoreMissing", Past{}, []string{"format", "history.db", "secret.key", "link.key", "admin.token"}},
		{"HistoryMissing", Past{}, []string{"format", "etcd/member", "secret.key", "link.key", "admin.token"}},
		{"", Past{URL: "postgres://x"}, []string{"format", "etcd/member", "secret.key", "link.key", "admin.token"}},
	} {
		dir := make1(tc.names...)
		if err := Whole(dir, dir, tc.past, false); fault.ReasonOf(err) != tc.want {
			t.Errorf("%v: %v, want %s", tc.names, err, tc.want)
		}
	}
	dir := make1("format", "history.db", "secret.key", "admin.token", "etcd/member", "engine/replicas/r/lock")
	if err := record.Write(filepath.Join(dir, "engine/replicas/r"), record.FileLauncher, record.Self()); err != nil {
		t.Fatal(err)
	}
	if err := Whole(dir, dir, Past{}, false); fault.ReasonOf(err) != "LinkKeyMissing" {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "link.key"), make([]byte, 32), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Whole(dir, dir, Past{}, false); err != nil {
		t.Error(err)
	}
}
