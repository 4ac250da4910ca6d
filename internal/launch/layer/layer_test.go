package layer

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// TestDiffer: what was written, changed and removed is in the layer, and nothing that is mounted.
func TestDiffer(t *testing.T) {
	base, now := t.TempDir(), t.TempDir()
	when := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	write := func(root, name, text string, mode os.FileMode) {
		t.Helper()
		at := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), mode), os.Chmod(at, mode), os.Chtimes(at, when, when)); err != nil {
			t.Fatal(err)
		}
	}
	for _, root := range []string{base, now} {
		write(root, "etc/same", "x", 0o644)
		write(root, "etc/hosts", root, 0o644) // mounted
	}
	write(base, "etc/removed", "x", 0o644)
	write(base, "old/a", "x", 0o644)
	write(base, "was/folder", "x", 0o644)
	write(base, "etc/mode", "x", 0o644)
	write(now, "etc/mode", "x", 0o755)
	write(base, "etc/longer", "x", 0o644)
	write(now, "etc/longer", "xyz", 0o644)
	write(now, "was", "a file now", 0o644)
	write(base, "etc/inPlace", "x", 0o644) // with its size and time kept
	ctime := func(root string) time.Time {
		info, err := os.Stat(filepath.Join(root, "etc/inPlace"))
		if err != nil {
			t.Fatal(err)
		}
		c := info.Sys().(*syscall.Stat_t).Ctim
		return time.Unix(c.Unix())
	}
	write(now, "etc/inPlace", "y", 0o644)
	for ctime(now).Equal(ctime(base)) { // the kernel's clock for files is coarse
		write(now, "etc/inPlace", "y", 0o644)
	}
	write(now, "new/deep/file", "new", 0o600)
	write(now, "home/lab/replica/file", "mounted", 0o600)
	if err := errors.Join(os.Symlink("/etc/same", filepath.Join(now, "link")), os.Symlink("a", filepath.Join(base, "moved")), os.Symlink("b", filepath.Join(now, "moved"))); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	d := &differ{to: tar.NewWriter(&b), base: base, now: now, skip: map[string]bool{"/etc/hosts": true, "/home/lab/replica": true}}
	if err := errors.Join(d.compare(t.Context(), "."), d.to.Close()); err != nil {
		t.Fatal(err)
	}
	written := b.Bytes()
	got := map[string]string{}
	for r := tar.NewReader(&b); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(r)
		got[h.Name] = string(text) + h.Linkname
	}
	want := map[string]string{
		".wh.old": "", "etc/.wh.removed": "", "etc/mode": "x", "etc/longer": "xyz", "etc/inPlace": "y", "was": "a file now", "new/": "", "new/deep/": "", "new/deep/file": "new", "link": "/etc/same", "moved": "b",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if d.removed != 2 || !strings.Contains(unescape.Replace(`/a\040b`), "/a b") {
		t.Error(d.removed)
	}

	// Over a bare image that has other things mounted it gives the same.
	fresh := t.TempDir()
	if err := os.CopyFS(fresh, os.DirFS(base)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(fresh, "moved")); err != nil { // CopyFS keeps links only where they lead somewhere
		t.Fatal(err)
	}
	for name := range looks(t, fresh) {
		if err := os.Chtimes(filepath.Join(fresh, name), when, when); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a", filepath.Join(fresh, "moved")); err != nil {
		t.Fatal(err)
	}
	if err := lay(t.Context(), bytes.NewReader(written), fresh, map[string]bool{"/etc/hosts": true, "/home/lab/other": true}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"etc/hosts", "home"} {
		if err := errors.Join(os.RemoveAll(filepath.Join(fresh, name)), os.RemoveAll(filepath.Join(now, name))); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(looks(t, now), looks(t, fresh)); diff != "" {
		t.Error(diff)
	}
}

// looks are all files below a folder, with what they are and hold.
func looks(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		said := info.Mode().String()
		switch {
		case d.Type().IsRegular():
			text, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			said += " " + string(text) + " " + info.ModTime().UTC().String()
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(p)
			if err != nil {
				return err
			}
			said += " " + to
		}
		name, err := filepath.Rel(dir, p)
		out[name] = said
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	delete(out, ".")
	return out
}

// TestBadLayers: an archive that somebody else made writes nothing outside of the root, and nothing that a layer can't have.
func TestBadLayers(t *testing.T) {
	for name, h := range map[string]tar.Header{
		"up": {Name: "../out", Typeflag: tar.TypeReg}, "absolute": {Name: "/out", Typeflag: tar.TypeReg}, "itself": {Name: "./", Typeflag: tar.TypeDir}, "removes up": {Name: "a/.wh...", Typeflag: tar.TypeReg},
		"removes nothing": {Name: ".wh.", Typeflag: tar.TypeReg}, "device": {Name: "null", Typeflag: tar.TypeChar}, "hard link": {Name: "x", Typeflag: tar.TypeLink, Linkname: "etc/passwd"}, "pipe": {Name: "p", Typeflag: tar.TypeFifo},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			w := tar.NewWriter(&b)
			h.Uid, h.Gid = os.Getuid(), os.Getgid()
			if err := errors.Join(w.WriteHeader(&h), w.Close()); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			root := filepath.Join(dir, "root")
			if err := os.Mkdir(root, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := lay(t.Context(), &b, root, nil); fault.ReasonOf(err) != "NoLayer" {
				t.Error(err)
			}
			if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
				t.Error(list, err)
			}
		})
	}
	// Through a link of the layer's own nothing leads out.
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	out := t.TempDir()
	for _, h := range []tar.Header{{Name: "link", Typeflag: tar.TypeSymlink, Linkname: out}, {Name: "link/file", Typeflag: tar.TypeReg}} {
		h.Uid, h.Gid = os.Getuid(), os.Getgid()
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := lay(t.Context(), &b, t.TempDir(), nil); err == nil {
		t.Error("a link was followed")
	}
	if list, err := os.ReadDir(out); err != nil || len(list) != 0 {
		t.Error(list, err)
	}
}
