package python

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestWrite: what is written is what the SDK's own tests run, all of it.
func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sdk")
	if err := Write(dir); err != nil {
		t.Fatal(err)
	}
	sources, err := filepath.Glob("src/fermi/*")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, source := range sources {
		if filepath.Base(source) == "__pycache__" {
			continue
		}
		want, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, "fermi", filepath.Base(source)))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v", source, err)
		}
		seen++
	}
	if seen < 10 {
		t.Errorf("only %d files", seen)
	}
	if Write(dir) == nil {
		t.Error("wrote into a folder that was there")
	}
}
