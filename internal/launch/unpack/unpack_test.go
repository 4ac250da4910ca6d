package unpack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/fermi-cluster/fermi/internal/fault"
)

type entry struct {
	name, body, link string
	kind             byte
	mode             int64
}

func file(name, body string) entry {
	return entry{name: name, body: body, kind: tar.TypeReg, mode: 0o644}
}
func link(name, to string) entry { return entry{name: name, link: to, kind: tar.TypeSymlink} }
func hard(name, to string) entry { return entry{name: name, link: to, kind: tar.TypeLink} }
func folder(name string) entry   { return entry{name: name, kind: tar.TypeDir, mode: 0o755} }

func archive(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		if err := w.WriteHeader(&tar.Header{Name: e.name, Linkname: e.link, Typeflag: e.kind, Mode: e.mode, Size: int64(len(e.body))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func gz(t testing.TB, data []byte) []byte {
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	w.Close()
	return buf.Bytes()
}

func zst(t testing.TB, data []byte) []byte {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return w.EncodeAll(data, nil)
}

// tree is what lies in dir: file → content, link → "→target", folder → "/".
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		switch {
		case d.IsDir():
			got[rel] = "/"
		case d.Type()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(p)
			got[rel] = "→" + to
		case d.Type().IsRegular():
			data, _ := os.ReadFile(p)
			got[rel] = string(data)
		default:
			t.Fatalf("%s is a %v", rel, d.Type())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestUnpack(t *testing.T) {
	data := archive(t, folder("./"), file("./run.sh", "x"), file("a/b/c", "deep"), link("l", "a/b/c"), link("a/up", "../run.sh"),
		hard("h", "run.sh"), file("模型", "中"), file("run.sh", "later wins"), link("dangling", "none"))
	want := map[string]string{
		"run.sh": "later wins", "a": "/", "a/b": "/", "a/b/c": "deep", "l": "→a/b/c", "a/up": "→../run.sh", "h": "x", "模型": "中", "dangling": "→none",
	}
	for name, in := range map[string][]byte{"tar": data, "gzip": gz(t, data), "zstd": zst(t, data)} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			stats, err := Unpack(context.Background(), bytes.NewReader(in), dir, DefaultLimits)
			if err != nil || stats.Entries != 9 {
				t.Fatal(stats, err)
			}
			if d := cmp.Diff(want, tree(t, dir)); d != "" {
				t.Fatal(d)
			}
		})
	}
}

func TestModes(t *testing.T) {
	dir := t.TempDir()
	data := archive(t, entry{name: "su", kind: tar.TypeReg, mode: 0o6755}, entry{name: "d", kind: tar.TypeDir, mode: 0o1000})
	if _, err := Unpack(context.Background(), bytes.NewReader(data), dir, DefaultLimits); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{"su": 0o755, "d": fs.ModeDir | 0o700} {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
}

func TestRefused(t *testing.T) {
	big := archive(t, file("a", strings.Repeat("x", 2000)))
	for name, in := range map[string][]byte{
		"dot dot":       archive(t, file("../evil", "x")),
		"inner dot dot": archive(t, file("a/../../evil", "x")),
		"absolute":      archive(t, file("/evil", "x")),
		"link out":      archive(t, link("l", "../evil")),
		"link absolute": archive(t, link("l", "/etc")),
		"through link":  archive(t, link("l", "."), link("l/../../m", "x")),
		"file in link":  archive(t, link("l", "/tmp"), file("l/evil", "x")),
		"hard out":      archive(t, hard("h", "../evil")),
		"hard absent":   archive(t, hard("h", "none")),
		"turning link":  archive(t, folder("a/b/c"), link("a/b/c/d", "../../.."), link("a/b/c/z", "d/../evil")),
		"device":        archive(t, entry{name: "d", kind: tar.TypeChar}),
		"fifo":          archive(t, entry{name: "p", kind: tar.TypeFifo}),
		"garbage":       bytes.Repeat([]byte("garbage!"), 200),
		"cut":           big[:1000],
		"cut gzip":      gz(t, big)[:40],
		"cut zstd":      zst(t, big)[:20],
		"too big":       archive(t, file("a", strings.Repeat("x", 5001))),
		"together":      archive(t, file("a", strings.Repeat("x", 3000)), file("b", strings.Repeat("x", 3000))),
		"too many":      archive(t, file("a", ""), file("b", ""), file("c", ""), file("d", ""), file("e", ""), file("f", "")),
		"file as dir":   archive(t, file("a", "x"), file("a/b", "x")),
		"long name":     archive(t, file(strings.Repeat("n", 300), "x")),
	} {
		t.Run(name, func(t *testing.T) {
			outer := t.TempDir()
			dir := filepath.Join(outer, "in", "code")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if name == "turning link" {
				if err := os.WriteFile(filepath.Join(outer, "in", "evil"), []byte("secret"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, err := Unpack(context.Background(), bytes.NewReader(in), dir, Limits{Bytes: 5000, Entries: 5})
			if fault.CodeOf(err) != fault.Invalid {
				t.Fatal(err)
			}
			if f := fault.From(err); f.Message.ZH == "" || f.Message.EN == "" {
				t.Error("one language is missing")
			}
			names, _ := os.ReadDir(filepath.Join(outer, "in"))
			if len(names) != 1 && name != "turning link" {
				t.Errorf("something was written outside: %v", names)
			}
		})
	}
}

// TestSourceFailure stays what it is, so that the caller may try again.
func TestSourceFailure(t *testing.T) {
	away := errors.New("the network is away")
	data := archive(t, file("a", strings.Repeat("x", 100_000)))
	for name, in := range map[string][]byte{"tar": data, "gzip": gz(t, data), "zstd": zst(t, data)} {
		for _, n := range []int{0, 10, len(in) / 2} {
			r := io.MultiReader(bytes.NewReader(in[:n]), &failing{away})
			if _, err := Unpack(context.Background(), r, t.TempDir(), DefaultLimits); !errors.Is(err, away) || fault.CodeOf(err) == fault.Invalid {
				t.Errorf("%s at %d: %v", name, n, err)
			}
		}
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

// FuzzUnpack: whatever the bytes, nothing appears outside, no link leads outside, amounts are bounded.
func FuzzUnpack(f *testing.F) {
	seed := archive(f, folder("d"), file("d/a", "x"), link("l", "d/a"), hard("h", "d/a"), file("../e", "x"))
	f.Add(seed)
	f.Add(gz(f, seed))
	f.Add(zst(f, seed))
	f.Add(archive(f, link("l", "../.."), file("l/x", "y")))
	f.Add(archive(f, folder("a/b/c"), link("a/b/c/d", "../../.."), link("a/b/c/z", "d/../evil")))
	f.Fuzz(func(t *testing.T, data []byte) {
		outer := t.TempDir()
		dir := filepath.Join(outer, "code")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		stats, err := Unpack(context.Background(), bytes.NewReader(data), dir, Limits{Bytes: 1 << 16, Entries: 20})
		names, _ := os.ReadDir(outer)
		if len(names) != 1 {
			t.Fatalf("outside: %v", names)
		}
		if stats.Bytes > 1<<16+1 || stats.Entries > 21 {
			t.Fatalf("over the limits: %+v", stats)
		}
		if err != nil {
			return
		}
		for name, body := range tree(t, dir) {
			if !strings.HasPrefix(body, "→") {
				continue
			}
			if real, err := filepath.EvalSymlinks(filepath.Join(dir, name)); err == nil {
				if base, _ := filepath.EvalSymlinks(dir); real != base && !strings.HasPrefix(real, base+"/") {
					t.Fatalf("%s leads to %s", name, real)
				}
			}
		}
	})
}
