package homecopy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// look is a folder as people see it: type, permissions, time and content of everything in it.
func look(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		what := info.Mode().String()
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(p)
			if err != nil {
				return err
			}
			what = "link to " + to
		case d.IsDir():
			what += " " + info.ModTime().UTC().Format(time.RFC3339Nano)
		default:
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			what += " " + info.ModTime().UTC().Format(time.RFC3339Nano) + " " + string(data)
		}
		out[strings.TrimPrefix(p, dir+"/")] = what
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// home is one with everything that homes have.
func home(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"code/empty", "venv/bin", "closed"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range map[string]string{
		".bashrc": "alias ll=ls\n", "code/train.py": "print()", "venv/bin/tool": "#!/bin/sh\n", "empty": "", "closed/key": "secret",
		"a\\b": "odd 1", "tab\there": "odd 2", "\xff\xfe": "odd 3", strings.Repeat("d", 200) + "/" + strings.Repeat("e", 200): "long",
	} {
		p := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(data), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	then := time.Date(2024, 2, 3, 4, 5, 6, 789, time.UTC)
	err := errors.Join(
		os.Symlink("python3.12", filepath.Join(dir, "venv/bin/python")), os.Symlink("/etc/passwd", filepath.Join(dir, "out")), os.Symlink("nowhere", filepath.Join(dir, "broken")),
		os.Chmod(filepath.Join(dir, "venv/bin/tool"), 0o755), os.Chmod(filepath.Join(dir, "closed/key"), 0o400),
		os.Chtimes(filepath.Join(dir, "code/train.py"), then, then), os.Chtimes(filepath.Join(dir, "code/empty"), then, then),
		os.Chmod(filepath.Join(dir, "closed"), 0o500),
	)
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "closed"), 0o700) })
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// version lays a scanned home out as a node does: nothing but paths, bytes and whether one may run it.
func version(t *testing.T, c *Copy) string {
	t.Helper()
	dir := t.TempDir()
	for i, f := range c.Files {
		if err := asset.CheckPath(f.Path); err != nil {
			t.Fatal(err)
		}
		if i > 0 && asset.Compare(c.Files[i-1].Path, f.Path) >= 0 {
			t.Fatalf("%q is out of order", f.Path)
		}
		in, err := c.Open(f)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		if err != nil || int64(len(data)) != f.Size {
			t.Fatalf("%q: %d bytes instead of %d, %v", f.Path, len(data), f.Size, err)
		}
		p := filepath.Join(dir, f.Path)
		if err := errors.Join(in.Close(), os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, data, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func scanned(t *testing.T, dir string) *Copy {
	t.Helper()
	c, err := Scan(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestThereAndBack(t *testing.T) {
	from := home(t)
	c := scanned(t, from)
	if len(c.Skipped) > 0 {
		t.Errorf("left out: %q", c.Skipped)
	}
	v, to := version(t, c), t.TempDir()
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(to, "closed"), 0o700) })
	filled, err := Fill(t.Context(), v, to)
	if err != nil || !filled {
		t.Fatalf("%v, %v", filled, err)
	}
	want := look(t, from)
	if diff := cmp.Diff(want, look(t, to)); diff != "" {
		t.Error(diff)
	}
	// The same home is written down in the same bytes.
	again := scanned(t, from)
	if diff := cmp.Diff(c.Files, again.Files); diff != "" || !bytes.Equal(c.list, again.list) {
		t.Errorf("another list of the same home: %s", diff)
	}
	// A home with something in it is its user's.
	if err := os.Remove(filepath.Join(to, ".bashrc")); err != nil {
		t.Fatal(err)
	}
	if filled, err := Fill(t.Context(), v, to); err != nil || filled {
		t.Errorf("%v, %v", filled, err)
	}
	if _, err := os.Lstat(filepath.Join(to, ".bashrc")); err == nil {
		t.Error("a file that its user deleted is back")
	}
}

// TestCut: a Fill that was cut anywhere is gone on with.
func TestCut(t *testing.T) {
	from := home(t)
	v := version(t, scanned(t, from))
	want := look(t, from)
	steps := len(want)
	for at := range steps {
		to := t.TempDir()
		root, err := os.OpenRoot(to)
		if err != nil {
			t.Fatal(err)
		}
		ver, err := os.OpenRoot(v)
		if err != nil {
			t.Fatal(err)
		}
		if fresh, err := begin(root); err != nil || !fresh {
			t.Fatalf("%v, %v", fresh, err)
		}
		f := &filler{home: root, version: ver}
		raw, err := os.ReadFile(filepath.Join(v, index))
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range bytes.Split(bytes.TrimSpace(raw), []byte("\n")) {
			if i == at {
				break
			}
			var e entry
			if err := errors.Join(json.Unmarshal(line, &e), f.put(e)); err != nil {
				t.Fatal(err)
			}
		}
		if at%2 == 0 { // the last one is half written
			_ = filepath.WalkDir(to, func(p string, d fs.DirEntry, _ error) error {
				if d.Type().IsRegular() && d.Name() != marker {
					_ = os.Chmod(p, 0o600)
					_ = os.WriteFile(p, []byte("half"), 0o600)
				}
				return nil
			})
		}
		if filled, err := Fill(t.Context(), v, to); err != nil || !filled {
			t.Fatalf("cut at %d: %v, %v", at, filled, err)
		}
		if diff := cmp.Diff(want, look(t, to)); diff != "" {
			t.Errorf("cut at %d: %s", at, diff)
		}
		_ = os.Chmod(filepath.Join(to, "closed"), 0o700)
		_, _ = root.Close(), ver.Close()
	}
}

// TestRefused: a list made by somebody else leads nowhere.
func TestRefused(t *testing.T) {
	outside := t.TempDir()
	for name, lines := range map[string]string{
		"a way out":             `{"path":"Li4veA==","mode":420,"at":"x"}`,                                                                          // ../x
		"absolute":              `{"path":"L3RtcC94","mode":420,"at":"x"}`,                                                                          // /tmp/x
		"through a link":        `{"path":"bA==","mode":134218239,"link":"` + base64(outside) + `"}` + "\n" + `{"path":"bC94","mode":420,"at":"x"}`, // l, l/x
		"a device":              `{"path":"ZA==","mode":67109298}`,
		"a file from elsewhere": `{"path":"eA==","mode":420,"at":"../../etc/passwd"}`,
		"no list":               "x",
		"a file that is none":   `{"path":"eA==","mode":420,"at":".fermi-home"}`,
	} {
		v, to := t.TempDir(), t.TempDir()
		if err := errors.Join(os.Mkdir(filepath.Join(v, folder), 0o755), os.WriteFile(filepath.Join(v, index), []byte(lines), 0o644), os.WriteFile(filepath.Join(v, "x"), []byte("x"), 0o644)); err != nil {
			t.Fatal(err)
		}
		if filled, err := Fill(t.Context(), v, to); err == nil || filled {
			t.Errorf("%s: %v, %v", name, filled, err)
		}
		if list, _ := os.ReadDir(outside); len(list) > 0 {
			t.Errorf("%s: something is outside", name)
		}
	}
	if _, err := Fill(t.Context(), t.TempDir(), t.TempDir()); fault.ReasonOf(err) != "NoSnapshot" {
		t.Errorf("a version without a list: %v", err)
	}
}

func base64(text string) string {
	raw, _ := json.Marshal([]byte(text))
	return strings.Trim(string(raw), `"`)
}

func TestGivenUp(t *testing.T) {
	v := version(t, scanned(t, home(t)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if filled, err := Fill(ctx, v, t.TempDir()); !errors.Is(err, context.Canceled) || filled {
		t.Errorf("%v, %v", filled, err)
	}
}

// TestLayer: what was written over an image goes with a home and is no file of it.
func TestLayer(t *testing.T) {
	home, version := t.TempDir(), t.TempDir()
	archive := filepath.Join(t.TempDir(), "layer.tar")
	if err := errors.Join(os.WriteFile(filepath.Join(home, "mine"), []byte("x"), 0o644), os.WriteFile(archive, []byte("written"), 0o600)); err != nil {
		t.Fatal(err)
	}
	c, err := Scan(home)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.With(Layer{Image: "sha256:1", Archive: archive}); err != nil {
		t.Fatal(err)
	}
	for _, f := range c.Files {
		in, err := c.Open(f)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		at := filepath.Join(version, f.Path)
		if err = errors.Join(err, in.Close(), os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, data, 0o644)); err != nil || int64(len(data)) != f.Size {
			t.Fatalf("%s: %d bytes, %v", f.Path, len(data), err)
		}
	}
	filled := t.TempDir()
	if fresh, err := Fill(t.Context(), version, filled); err != nil || !fresh {
		t.Fatal(err)
	}
	if diff := cmp.Diff(look(t, home), look(t, filled)); diff != "" {
		t.Error(diff)
	}
	if got, err := ImageOf(version); err != nil || got != "sha256:1" {
		t.Error(got, err)
	}
	in, err := OpenLayer(version)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(in); err != nil || string(data) != "written" {
		t.Error(string(data), err)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if got, err := ImageOf(filled); err != nil || got != "" {
		t.Error("a version without one has", got, err)
	}
}
