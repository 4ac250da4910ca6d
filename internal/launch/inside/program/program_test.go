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
		if Path() != "" {
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
	path, err := memory(data)
	if err != nil {
		t.Fatal(err)
	}
	err = (&exec.Cmd{Path: path, Args: []string{"fermi-inside"}}).Run() // without an order
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 1 {
		t.Errorf("run from memory: %v", err)
	}
	if f, err := os.OpenFile(path, os.O_RDWR, 0); err == nil {
		if _, err := f.Write([]byte("x")); err == nil {
			t.Error("the program in memory can be written to")
		}
		f.Close()
	}
}
