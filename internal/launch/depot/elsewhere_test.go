package depot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// listed is a folder with its listing, and who gives the listing.
func listed(t *testing.T, files map[string]string) (dir string, m *asset.Manifest, v Version, conn io.ReadWriteCloser) {
	t.Helper()
	dir = t.TempDir()
	for path, text := range files {
		at := filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	list, _, err := asset.Walk(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	m = &asset.Manifest{Version: asset.Format, Files: list}
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	go func() {
		_ = Relay(t.Context(), ours, func(_ context.Context, _, _ int, w io.Writer) error {
			_, err := w.Write(raw)
			return err
		})
	}()
	t.Cleanup(func() { _ = errors.Join(ours.Close(), theirs.Close()) })
	return dir, m, Version{UID: os.Geteuid(), Digest: asset.Sum(raw).String(), Bytes: m.Size()}, theirs
}

func TestCompare(t *testing.T) {
	files := map[string]string{"a/1": "one", "a/2": "two", "b": "three"}
	dir, _, v, conn := listed(t, files)
	if err := Compare(dir, "", v.Digest, conn); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(dir, "b"), time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{"a/1": "longer", "new": ""} {
		if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "a/2")); err != nil {
		t.Fatal(err)
	}
	err := Compare(dir, "", v.Digest, conn)
	if fault.ReasonOf(err) != "SourceChanged" {
		t.Fatal(err)
	}
	for _, want := range []string{"a/1 has 6 bytes, not 3", "a/2 is gone", "b was written since", "new is new"} {
		if said := fault.From(err).Message.EN; !strings.Contains(said, want) {
			t.Errorf("no %q in %s", want, said)
		}
	}
}

// TestCompareBelow: a folder in a named one; a link in its place that leads out is not followed.
func TestCompareBelow(t *testing.T) {
	dir, _, v, conn := listed(t, map[string]string{"1": "one"})
	if err := Compare(filepath.Dir(dir), filepath.Base(dir), v.Digest, conn); err != nil {
		t.Fatal(err)
	}
	in := t.TempDir()
	if err := Compare(in, "gone", v.Digest, conn); fault.ReasonOf(err) != "SourceChanged" {
		t.Error(err)
	}
	if err := os.Symlink(dir, filepath.Join(in, "link")); err != nil {
		t.Fatal(err)
	}
	if err := Compare(in, "link", v.Digest, conn); err == nil || fault.ReasonOf(err) == "SourceChanged" {
		t.Error(err)
	}
}

func TestLayFrom(t *testing.T) {
	files := map[string]string{"empty": "", "big": strings.Repeat("x", 3<<20)}
	for i := range 50 {
		files["s/"+strconv.Itoa(i)] = strconv.Itoa(i)
	}
	_, _, v, conn := listed(t, files)
	place := t.TempDir()
	broken := true
	open := func(_ context.Context, f asset.File) io.ReadCloser {
		text := []byte(files[f.Path])
		if broken && f.Path == "big" {
			text = text[:len(text)/2]
		}
		return io.NopCloser(bytes.NewReader(text))
	}
	if err := LayFrom(t.Context(), place, v, conn, open, func(int64, int64) {}); err == nil || isLaid(place, v) {
		t.Fatal("half of a file is in its place:", err)
	}
	broken = false
	if err := LayFrom(t.Context(), place, v, conn, open, func(int64, int64) {}); err != nil || !isLaid(place, v) {
		t.Fatal(err)
	}
	for path, want := range files {
		if got, err := os.ReadFile(filepath.Join(place, v.Digest, dirRoot, path)); err != nil || string(got) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}
