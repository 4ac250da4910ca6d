package rankset

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

// TestSeenAt: a rank that gathered its reports and is gone is at the step that its file says, if that is of this generation.
func TestSeenAt(t *testing.T) {
	r, memory := newSet(2, func(link.Ranks) {}), t.TempDir()
	r.Progress.SeenIn(slotsIn(memory))
	r.Begin(link.Generation{Number: 3, Membership: link.Membership{World: 2}, States: link.States{Restore: 10}})
	at := func(name string, words ...uint64) {
		var raw []byte
		for _, w := range words {
			raw = binary.LittleEndian.AppendUint64(raw, w)
		}
		if err := os.WriteFile(filepath.Join(memory, name), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.take(0, word.Word{Progress: &word.Progress{Step: 12}})
	r.take(1, word.Word{Progress: &word.Progress{Step: 13}})
	at("rank-0.at", 3, 15)
	at("rank-1.at", 2, 99) // of the generation before
	if a, b := r.Progress.StepOf(0), r.Progress.StepOf(1); a != 15 || b != 13 {
		t.Fatalf("seen at %d and %d, not at 15 and 13", a, b)
	}
	if s := r.Progress.StateOf(0, time.Now()); s.Step != 15 {
		t.Fatalf("a silent rank is at %d, not at 15", s.Step)
	}
	for _, raw := range [][]uint64{{3}, {3, 1 << 63}, {}} { // what else may be there
		at("rank-1.at", raw...)
		if b := r.Progress.StepOf(1); b != 13 {
			t.Fatalf("%x: seen at %d, not at 13", raw, b)
		}
	}
	if err := os.Remove(filepath.Join(memory, "rank-1.at")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("rank-0.at", filepath.Join(memory, "rank-1.at")); err != nil {
		t.Fatal(err)
	}
	if b := r.Progress.StepOf(1); b != 13 {
		t.Fatalf("a link was followed: %d", b)
	}
	r.Begin(link.Generation{Number: 4, Membership: link.Membership{World: 2}, States: link.States{Restore: 14}})
	if a := r.Progress.StepOf(0); a != 14 {
		t.Fatalf("the next generation begins at %d, not at 14", a)
	}
}
