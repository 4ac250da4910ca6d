package depot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// shelf is a version as a server has it.
type shelf struct {
	t     *testing.T
	files map[string][]byte
	m     *asset.Manifest
	raw   []byte
	v     Version
	whole []byte
	// asked are the chunks that were asked for; cut is after how many bytes of chunks it breaks off, 0 never; spoil changes what is sent.
	mu    sync.Mutex
	asked []int
	cut   int
	spoil func(chunk int, p []byte) []byte
}

func newShelf(t *testing.T, files map[string][]byte) *shelf {
	t.Helper()
	s := &shelf{t: t, files: files}
	var list []asset.File
	for path, data := range files {
		list = append(list, asset.File{Path: path, Size: int64(len(data)), Exec: strings.HasSuffix(path, ".sh")})
	}
	slices.SortFunc(list, func(a, b asset.File) int { return asset.Compare(a.Path, b.Path) })
	m, err := asset.Build(t.Context(), list, func(path string) (io.ReadCloser, error) {
		return struct {
			io.ReadSeeker
			io.Closer
		}{bytes.NewReader(files[path]), io.NopCloser(nil)}, nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.m = m
	raw, sum := m.Encode()
	s.raw, s.v = raw, Version{UID: os.Geteuid(), Digest: sum.String(), Bytes: m.Size()}
	for _, f := range list {
		s.whole = append(s.whole, files[f.Path]...)
	}
	return s
}

func (s *shelf) fetch(_ context.Context, first, count int, w io.Writer) error {
	if count == 0 {
		_, err := w.Write(s.raw)
		return err
	}
	at := 0
	for i, c := range s.m.Chunks {
		if i >= first && i < first+count {
			s.mu.Lock()
			s.asked = append(s.asked, i)
			p := s.whole[at : at+int(c.Bytes)]
			if s.spoil != nil {
				p = s.spoil(i, slices.Clone(p))
			}
			stop := false
			if s.cut > 0 {
				if s.cut -= len(p); s.cut <= 0 {
					p, stop = p[:len(p)/2], true
				}
			}
			s.mu.Unlock()
			if _, err := w.Write(p); err != nil {
				return err
			}
			if stop {
				return errors.New("cut")
			}
		}
		at += int(c.Bytes)
	}
	return nil
}

// lay is what a launcher does, in one process.
func (s *shelf) lay(ctx context.Context, place string) error {
	ours, theirs := net.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = Relay(ctx, ours, s.fetch)
		_ = ours.Close()
	})
	err := Lay(ctx, place, s.v, theirs, func(int64, int64) {})
	_ = theirs.Close()
	wg.Wait()
	return err
}

func (s *shelf) check(root string) {
	s.t.Helper()
	n := 0
	err := filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		want, ok := s.files[rel]
		if !ok || !bytes.Equal(data, want) {
			return fmt.Errorf("%s is not what it was (known: %v)", rel, ok)
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if exec := info.Mode()&0o100 != 0; exec != strings.HasSuffix(rel, ".sh") {
			return fmt.Errorf("%s has mode %v", rel, info.Mode())
		}
		n++
		return nil
	})
	if err != nil || n != len(s.files) {
		s.t.Fatalf("%d of %d files are there: %v", n, len(s.files), err)
	}
}

func some(n int, seed byte) []byte {
	out := make([]byte, n)
	x := uint32(seed) + 1
	for i := range out {
		x = x*1664525 + 1013904223
		out[i] = byte(x >> 24)
	}
	return out
}

func mixed() map[string][]byte {
	files := map[string][]byte{"big.bin": some(9<<20+17, 1), "empty": {}, "a/b/run.sh": []byte("#!/bin/sh\n"), "数据/说明.txt": []byte("数据")}
	for i := range 600 {
		files["small/"+strconv.Itoa(i)] = some(i*7, byte(i))
	}
	return files
}

func newDepot(t *testing.T, most int64) *Depot {
	return &Depot{Dir: filepath.Join(t.TempDir(), "assets"), Most: most, Drop: func(_ context.Context, _ int, place, digest string) error {
		return Drop(place, digest)
	}}
}

func TestHold(t *testing.T) {
	s, d := newShelf(t, mixed()), newDepot(t, 0)
	h, err := d.Hold(t.Context(), s.v, s.lay)
	if err != nil {
		t.Fatal(err)
	}
	s.check(h.Root)
	asked := len(s.asked)
	again, err := d.Hold(t.Context(), s.v, func(context.Context, string) error { return errors.New("it is there") })
	if err != nil || again.Root != h.Root || len(s.asked) != asked {
		t.Fatal(err)
	}
	if err := errors.Join(h.Close(), again.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestManyHold: many at once lay it out once.
func TestManyHold(t *testing.T) {
	s, d := newShelf(t, map[string][]byte{"x": some(100, 1)}), newDepot(t, 0)
	var mu sync.Mutex
	laid := 0
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			h, err := d.Hold(t.Context(), s.v, func(ctx context.Context, place string) error {
				mu.Lock()
				laid++
				mu.Unlock()
				return s.lay(ctx, place)
			})
			if err != nil {
				t.Error(err)
				return
			}
			s.check(h.Root)
			_ = h.Close()
		})
	}
	wg.Wait()
	if laid != 1 {
		t.Errorf("laid out %d times", laid)
	}
}

// TestBrokenOff: whatever is cut off, nothing is in its place, and the next try asks for what is missing alone.
func TestBrokenOff(t *testing.T) {
	s, d := newShelf(t, mixed()), newDepot(t, 0)
	s.cut = 6 << 20
	if _, err := d.Hold(t.Context(), s.v, s.lay); err == nil {
		t.Fatal("it was cut off")
	}
	place := filepath.Join(d.Dir, strconv.Itoa(s.v.UID))
	if isLaid(place, s.v) {
		t.Fatal("half of it is in its place")
	}
	// One that was written is damaged meanwhile; a bit of another is lost with the power.
	first := slices.Clone(s.asked)
	s.asked, s.cut = nil, 0
	big := filepath.Join(place, prefixNew+s.v.Digest, dirRoot, "big.bin")
	f, err := os.OpenFile(big, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("damage"), 100); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	h, err := d.Hold(t.Context(), s.v, s.lay)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	s.check(h.Root)
	if len(s.asked) >= len(s.m.Chunks) || len(s.asked) == 0 {
		t.Errorf("first %v, then %v of %d were asked for", first, s.asked, len(s.m.Chunks))
	}
}

// TestBadBytes: what is not what its digest says is never in its place.
func TestBadBytes(t *testing.T) {
	for name, spoil := range map[string]func(*shelf){
		"a bit of a chunk": func(s *shelf) { s.spoil = func(_ int, p []byte) []byte { p[0] ^= 1; return p } },
		"a short chunk":    func(s *shelf) { s.spoil = func(_ int, p []byte) []byte { return p[:len(p)-1] } },
		"a long chunk":     func(s *shelf) { s.spoil = func(_ int, p []byte) []byte { return append(p, 0) } },
		"another list":     func(s *shelf) { s.raw = append(slices.Clone(s.raw), ' ') },
		"another size":     func(s *shelf) { s.v.Bytes-- },
	} {
		s, d := newShelf(t, map[string][]byte{"x": some(2<<20, 1), "y": some(10, 2)}), newDepot(t, 0)
		spoil(s)
		if h, err := d.Hold(t.Context(), s.v, s.lay); err == nil {
			t.Errorf("%s: it is at %s", name, h.Root)
		}
		if isLaid(filepath.Join(d.Dir, strconv.Itoa(s.v.UID)), s.v) {
			t.Errorf("%s: it is in its place", name)
		}
	}
}

// TestHostileList: a list that leads out of its folder lays nothing out.
func TestHostileList(t *testing.T) {
	for _, path := range []string{"../x", "/etc/x", "a/../../x", "a//b", "a\\b", ".", "a\x00"} {
		s, d := newShelf(t, map[string][]byte{"x": some(10, 1)}), newDepot(t, 0)
		s.m.Files[0].Path = path
		raw, sum := s.m.Encode()
		s.raw, s.v.Digest = raw, sum.String()
		if _, err := d.Hold(t.Context(), s.v, s.lay); err == nil {
			t.Errorf("%q was laid out", path)
		}
	}
}

// TestRoom: the longest unused goes first, what is held never, and what can't fit is said.
func TestRoom(t *testing.T) {
	d := newDepot(t, 250)
	var all []*shelf
	for i := range 3 {
		all = append(all, newShelf(t, map[string][]byte{"x": some(100, byte(i))}))
	}
	hold := func(i int) *Held {
		h, err := d.Hold(t.Context(), all[i].v, all[i].lay)
		if err != nil {
			t.Fatal(i, err)
		}
		return h
	}
	first := hold(0)
	if err := hold(1).Close(); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour) // the first was used longest ago, and is held
	if err := os.Chtimes(filepath.Join(d.Dir, dirLocks, all[0].v.key()), old, old); err != nil {
		t.Fatal(err)
	}
	third := hold(2)
	place := filepath.Join(d.Dir, strconv.Itoa(os.Geteuid()))
	if !isLaid(place, all[0].v) || isLaid(place, all[1].v) {
		t.Fatal("the wrong one went")
	}
	if _, err := d.Hold(t.Context(), all[1].v, all[1].lay); fault.ReasonOf(err) != "DataCacheFull" {
		t.Fatal(err)
	}
	if err := errors.Join(first.Close(), third.Close()); err != nil {
		t.Fatal(err)
	}
	if err := hold(1).Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDropAgain: what a killed removal left is no hindrance.
func TestDropAgain(t *testing.T) {
	s, d := newShelf(t, map[string][]byte{"x/y": some(10, 1)}), newDepot(t, 0)
	h, err := d.Hold(t.Context(), s.v, s.lay)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	place := filepath.Join(d.Dir, strconv.Itoa(s.v.UID))
	if err := os.MkdirAll(filepath.Join(place, prefixOld+s.v.Digest, "left"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := Drop(place, s.v.Digest); err != nil {
			t.Fatal(err)
		}
	}
	left, err := os.ReadDir(place)
	if err != nil || len(left) != 0 {
		t.Fatal(left, err)
	}
}

// TestGivenUp: who waits for another's layout stops with its context.
func TestGivenUp(t *testing.T) {
	s, d := newShelf(t, map[string][]byte{"x": some(10, 1)}), newDepot(t, 0)
	if err := d.open(filepath.Join(d.Dir, strconv.Itoa(s.v.UID)), s.v.UID); err != nil {
		t.Fatal(err)
	}
	lock, err := openLock(filepath.Join(d.Dir, dirLocks, s.v.key()))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Hold(ctx, s.v, s.lay); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
