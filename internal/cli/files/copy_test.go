package files

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pkg/sftp"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// remote is a folder as a replica serves it.
func remote(t *testing.T, dir string) Remote {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	s, err := sftp.NewServer(struct {
		io.Reader
		io.WriteCloser
	}{inR, outW}, sftp.WithServerWorkingDirectory(dir))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = s.Serve()
		_ = outW.Close()
	}()
	c, err := sftp.NewClientPipe(outR, inW, Options()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return Remote{c}
}

func local(t *testing.T, dir string) Local {
	t.Helper()
	r, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return Local{r}
}

// tree makes some files, and says what they are.
func tree(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	big := make([]byte, 2*piece+12345)
	rand.Read(big)
	out := map[string][]byte{"a/b/big": big, "a/empty": {}, "a/äöü 文件": []byte("x"), "a/run.sh": []byte("#!/bin/sh\n")}
	for name, data := range out {
		at := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, data, 0o640), os.Chtimes(at, time.Unix(1e9, 0), time.Unix(1e9, 0))); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(filepath.Join(dir, "a/run.sh"), 0o750), os.Symlink("/etc/passwd", filepath.Join(dir, "a/link"))); err != nil {
		t.Fatal(err)
	}
	return out
}

func same(t *testing.T, dir string, want map[string][]byte) {
	t.Helper()
	for name, data := range want {
		got, err := os.ReadFile(filepath.Join(dir, name))
		info, serr := os.Stat(filepath.Join(dir, name))
		if err != nil || serr != nil || !bytes.Equal(got, data) || info.ModTime().Unix() != 1e9 {
			t.Errorf("%s: %d bytes of %d, %v, %v", name, len(got), len(data), err, serr)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "a/run.sh")); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("its rights: %v, %v", info, err)
	}
	left, _ := filepath.Glob(filepath.Join(dir, "a", partPrefix+"*"))
	if len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// TestCopy: both ways, whole, with time and rights; a second time nothing is carried; links stay where they are.
func TestCopy(t *testing.T) {
	here, there, back := t.TempDir(), t.TempDir(), t.TempDir()
	want := tree(t, here)
	far := remote(t, there)
	up := &Copier{From: local(t, here), To: far}
	if err := up.Copy(t.Context(), "a", "a"); err != nil {
		t.Fatal(err)
	}
	same(t, there, want)
	if r := up.Report(); r.Files != len(want) || r.Links != 1 {
		t.Errorf("%+v", r)
	}
	down := &Copier{From: far, To: local(t, back)}
	if err := down.Copy(t.Context(), "a", "a"); err != nil {
		t.Fatal(err)
	}
	same(t, back, want)
	again := &Copier{From: far, To: local(t, back)}
	if err := again.Copy(t.Context(), "a", "a"); err != nil || again.Report().Bytes != 0 || again.Report().Same != len(want) {
		t.Errorf("again: %+v, %v", again.Report(), err)
	}
	if err := down.Copy(t.Context(), "nothing", "x"); !fault.Is(err, fault.NotFound) {
		t.Errorf("nothing: %v", err)
	}
}

// TestResume: a copy that broke goes on where it was, and what was acknowledged is not carried again.
func TestResume(t *testing.T) {
	here, there := t.TempDir(), t.TempDir()
	want := tree(t, here)
	far := remote(t, there)
	ctx, cancel := context.WithCancel(t.Context())
	first := &Copier{From: local(t, here), To: far, Tell: func(r Report) {
		if strings.HasSuffix(r.Name, "big") && r.Done >= piece {
			cancel()
		}
	}}
	if err := first.Copy(ctx, "a/b", "a/b"); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	second := &Copier{From: local(t, here), To: far}
	if err := second.Copy(t.Context(), "a", "a"); err != nil {
		t.Fatal(err)
	}
	same(t, there, want)
	size := int64(len(want["a/b/big"]))
	if carried := second.Report().Bytes; carried >= size {
		t.Errorf("%d bytes were carried again, of %d", carried, size)
	}
}

// liar tells names that lead elsewhere.
type liar struct {
	Source
	name string
}

type lie struct {
	fs.FileInfo
	name string
}

func (l lie) Name() string { return l.name }

func (l liar) List(dir string) ([]fs.FileInfo, error) {
	list, err := l.Source.List(dir)
	for i := range list {
		list[i] = lie{list[i], l.name}
	}
	return list, err
}

// TestNames: whatever the other side tells, nothing is written outside of the folder that was named; also not through a link that is there.
func TestNames(t *testing.T) {
	there, back := t.TempDir(), t.TempDir()
	tree(t, there)
	for _, name := range []string{"..", "../evil", "/etc/evil", "a/../../evil", "", "."} {
		c := &Copier{From: liar{remote(t, there), name}, To: local(t, back)}
		if err := c.Copy(t.Context(), "a", "a"); fault.ReasonOf(err) != "BadName" {
			t.Errorf("%q: %v", name, err)
		}
	}
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(back, "out")); err != nil {
		t.Fatal(err)
	}
	c := &Copier{From: remote(t, there), To: local(t, back)}
	if err := c.Copy(t.Context(), "a", "out/a"); err == nil {
		t.Error("it went through a link")
	}
	if list, err := os.ReadDir(outside); err != nil || len(list) > 0 {
		t.Errorf("outside: %v, %v", list, err)
	}
}
