package program

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBuilt: the program that is built in is of these sources, and runs from memory.
func TestBuilt(t *testing.T) {
	data, err := fs.ReadFile(built, fileProgram)
	if err != nil {
		if In(t.TempDir()) != "" {
			t.Error("nothing is built in, and yet it is used")
		}
		if os.Getenv("FERMI_BUILT") != "" {
			t.Fatal("the program is not built in: make build")
		}
		return
	}
	said, err := fs.ReadFile(built, fileSources)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, glob := range []string{"../../deed/*.go", "../*.go", "../../../../cmd/inside/*.go"} {
		files, err := filepath.Glob(glob)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if !strings.HasSuffix(f, "_test.go") {
				list = append(list, f)
			}
		}
	}
	h := sha256.New()
	for _, f := range list {
		source, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		h.Write(source)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != strings.TrimSpace(string(said)) {
		t.Errorf("the program that is built in was made of other sources: make build")
	}
	dir := t.TempDir()
	path := In(dir)
	if path == "" || In(dir) != path {
		t.Fatalf("laid at %q, then at %q", path, In(dir))
	}
	err = exec.Command(path).Run() // by another name than process 1's
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 {
		t.Errorf("run by itself: %v", err)
	}
	err = (&exec.Cmd{Path: path, Args: []string{"fermi-inside"}}).Run() // without an order
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 1 {
		t.Errorf("run as process 1: %v", err)
	}
	if err := os.Truncate(path, 100); err != nil { // as after a power cut
		t.Fatal(err)
	}
	if In(dir) != path {
		t.Error("a half-written program is not laid anew")
	}
	if got, err := os.ReadFile(path); err != nil || len(got) != len(data) {
		t.Errorf("%d bytes of %d, %v", len(got), len(data), err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left there: %v, %v", left, err)
	}
}
