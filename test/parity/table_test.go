package parity

import (
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write docs/parity.md anew")

// TestTable: docs/parity.md says what was seen last, and nothing else.
func TestTable(t *testing.T) {
	want, err := Table("seen")
	if err != nil {
		t.Fatal(err)
	}
	const file = "../../docs/parity.md"
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/parity.md is not what was seen: make parity")
	}
}
