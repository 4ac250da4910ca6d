package program

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// TestReceive: what is whole is kept, and what is not leaves nothing.
func TestReceive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fermi")
	if err := os.WriteFile(path, []byte("old"), 0o755); err != nil {
		t.Fatal(err)
	}
	text := []byte(strings.Repeat("program", 1000))
	give := func(b []byte) func(io.Writer) error {
		return func(w io.Writer) error { _, err := w.Write(b); return err }
	}
	for what, c := range map[string]struct {
		size   int64
		digest string
		fetch  func(io.Writer) error
	}{
		"less":         {int64(len(text)), digest(text), give(text[1:])},
		"more":         {int64(len(text)), digest(text), give(append(bytes.Clone(text), 'x'))},
		"other":        {int64(len(text)), digest(text), give(bytes.ToUpper(text))},
		"nothing":      {0, digest(nil), give(nil)},
		"a size of 2G": {2 << 30, digest(text), give(text)},
		"cut off":      {int64(len(text)), digest(text), func(w io.Writer) error { _, _ = w.Write(text); return io.ErrUnexpectedEOF }},
	} {
		if next, err := Receive(path, c.size, c.digest, c.fetch); err == nil {
			t.Errorf("%s is taken: %s", what, next)
		}
		if _, err := os.Lstat(Next(path)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: something is left: %v", what, err)
		}
	}
	next, err := Receive(path, int64(len(text)), digest(text), give(text))
	if err != nil {
		t.Fatal(err)
	}
	if old, _ := os.ReadFile(path); string(old) != "old" {
		t.Error("it was replaced before it was tried")
	}
	if err := Put(next, path); err != nil {
		t.Fatal(err)
	}
	if now, _ := os.ReadFile(path); !bytes.Equal(now, text) {
		t.Error("it is not there")
	}
}

// TestTry: a program that ends well, one that says why not, one that hangs, and one that is none.
func TestTry(t *testing.T) {
	script := func(text string) string {
		path := filepath.Join(t.TempDir(), "p")
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ctx := t.Context()
	if err := Try(ctx, script("#!/bin/sh\n[ \"$1\" = agent ]\n"), []string{"agent"}, time.Minute, io.Discard); err != nil {
		t.Error(err)
	}
	err := Try(ctx, script("#!/bin/sh\necho one >&2; echo 'no such thing' >&2; exit 3\n"), nil, time.Minute, io.Discard)
	if fault.ReasonOf(err) != "NotUp" || !strings.Contains(err.Error(), "exit status 3): one no such thing") {
		t.Error(err)
	}
	if err := Try(ctx, script("#!/bin/sh\necho waiting >&2; exec sleep 600\n"), nil, 100*time.Millisecond, io.Discard); fault.ReasonOf(err) != "NotUpInTime" {
		t.Error(err)
	}
	if err := Try(ctx, script("\x7fELF nonsense"), nil, time.Minute, io.Discard); fault.ReasonOf(err) != "NotUp" {
		t.Error(err)
	}
}

// TestRunning: what runs is what its file holds.
func TestRunning(t *testing.T) {
	own, err := Running()
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(own.Reader())
	if err != nil || !bytes.Equal(got, raw) || own.Digest != digest(raw) {
		t.Error(len(got), len(raw), err)
	}
}
