package output

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/launch/steward"
)

// TestLeft: what is new or changed against the code is kept, and nothing else; too much is named.
func TestLeft(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("train.py", "code")
	put("table.csv", "1")
	if err := os.Chtimes(filepath.Join(dir, "table.csv"), time.Unix(5, 0), time.Unix(5, 0)); err != nil {
		t.Fatal(err)
	}
	folder := steward.New(nil).In(dir)
	l := NewLeft(folder, "ckpt", "./logs/", "")
	var told []string
	note := func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) }
	if got := l.Take(note); got != nil {
		t.Error("nobody knows what was there", got)
	}
	if err := l.Begin(); err != nil {
		t.Fatal(err)
	}
	if got := l.Take(note); got != nil || told != nil {
		t.Error(got, told)
	}
	for _, name := range []string{"model/weights.pt", "ckpt/step-5", "logs/a", "__pycache__/x.pyc", ".cache/y", ".fermi-kept-task/1"} {
		put(name, "new")
	}
	put("table.csv", "2")
	got := l.Take(note)
	if want := []string{"model/weights.pt", "table.csv"}; !slices.Equal(got, want) || len(told) != 1 || !strings.Contains(told[0], "model/weights.pt, table.csv") {
		t.Fatal(got, told)
	}
	set := New(nil, nil, clock.Real, slog.New(slog.DiscardHandler), nil)
	set.Also(folder, LeftPrefix, got)
	found := set.Scan()
	if _, ok := found["workdir/model/weights.pt"]; !ok || len(found) != 2 {
		t.Error(found)
	}
	for i := range leftFiles {
		put(fmt.Sprintf("many/%d", i), "")
	}
	if got := l.Take(note); got != nil || !strings.Contains(told[len(told)-1], "$FERMI_OUTPUT") {
		t.Error(len(got), told)
	}
	var none *Left
	if none.Begin() != nil || none.Take(note) != nil {
		t.Error("none has something")
	}
}
