package slot_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermi-cluster/fermi/internal/slot"
)

var update = flag.Bool("update", false, "write the SDK's file anew")

const python = "../../sdk/python/src/fermi/_layout.py"

// TestPython: the SDK's numbers are these.
func TestPython(t *testing.T) {
	want := fmt.Sprintf(`"""The layout of a slot: docs/reference/rank-protocol.md. Generated from internal/slot by go generate."""

MAGIC = b"FERMIL0\x%02x"
COPIED = %d
WHOLE = %d
HEADER = %d
DATA = %d
SUM = %d
ROOM = %d
`, slot.Magic[7], slot.Copied, slot.Whole, slot.Header, slot.Data, slot.Sum, slot.Room)
	if *update {
		if err := os.WriteFile(python, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(python)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("go generate ./internal/slot writes %s anew:\n%s", python, diff)
	}
	if slot.Magic[:7] != "FERMIL0" || len(slot.Magic) != 8 {
		t.Errorf("%q is not the magic of files that are there", slot.Magic)
	}
}
