// Package packtest makes folders to pack and looks into what was packed, for tests.
//
// Place: beside pack, used by tests alone. Promise: an archive that says who packed it, or when, fails the test. Enemies: two tests that read archives
// differently.
package packtest

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Names are those in an archive, in its order.
func Names(t *testing.T, archive []byte) []string {
	t.Helper()
	z, err := zstd.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	var names []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || !h.ModTime.Equal(time.Unix(0, 0)) {
			t.Errorf("%s carries who and when: %+v", h.Name, h)
		}
		names = append(names, h.Name)
	}
}

// Write makes files below a folder, by their path in it.
func Write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
