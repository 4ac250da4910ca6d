package ckpt

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/fermi-cluster/fermi/internal/fault"
)

func sent(t testing.TB, raw []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := open(t, raw).Send(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func small(h Header) error {
	if h.Size() > 64<<20 {
		return fault.New(fault.Full, "NoMemory", fault.T("Too large.", "过大。"))
	}
	return nil
}

// TestCopy: what arrives is the slot; cut off anywhere, or with any bit flipped, nothing does.
func TestCopy(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	raw := slotOf(Header{Rank: 1, World: 2, Generation: 3, Step: 9}, []blobOf{{name: "w", raw: noise(rng, 9<<20+5)}, {name: "b", raw: noise(rng, 100)}})
	path, all := filepath.Join(t.TempDir(), "slot"), sent(t, raw)
	h, err := Receive(bytes.NewReader(all), path, small)
	if err != nil || h.Step != 9 || h.Rank != 1 {
		t.Fatal(h, err)
	}
	got, err := OpenSlot(path)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if want := open(t, raw); !bytes.Equal(data(t, got), data(t, want)) || !bytes.Equal(got.Tree, want.Tree) || got.Header != want.Header {
		t.Error("the copy is another state")
	}
	other := filepath.Join(t.TempDir(), "other")
	refused := func(what string, b []byte) {
		t.Helper()
		if _, err := Receive(bytes.NewReader(b), other, small); err == nil {
			t.Errorf("%s was taken", what)
		}
		if _, err := os.Stat(other); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s left something: %v", what, err)
		}
	}
	for range 20 {
		refused("a part", all[:rng.IntN(len(all))])
		flipped := bytes.Clone(all)
		flipped[rng.IntN(len(all))] ^= 1 << rng.IntN(8)
		refused("a flipped bit", flipped)
	}
	refused("a frame without its sum", all[:len(all)-4])
}

// TestCopyAdmits: nothing is taken that is not wanted.
func TestCopyAdmits(t *testing.T) {
	all := sent(t, slotOf(Header{World: 1, Generation: 1, Step: 1}, []blobOf{{name: "w", raw: []byte("abc")}}))
	no := errors.New("no")
	path := filepath.Join(t.TempDir(), "slot")
	if _, err := Receive(bytes.NewReader(all), path, func(Header) error { return no }); !errors.Is(err, no) {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func FuzzReceive(f *testing.F) {
	f.Add(sent(f, slotOf(Header{World: 1, Generation: 1, Step: 1}, []blobOf{{name: "w", raw: []byte("abc")}})))
	f.Add([]byte("FERMIL0\x01"))
	path := filepath.Join(f.TempDir(), "slot")
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := Receive(bytes.NewReader(b), path, small)
		if err != nil {
			return
		}
		s, err := OpenSlot(path)
		if err != nil || s.Header != h {
			t.Fatal("what was taken is no slot: ", err)
		}
		_ = data(t, s)
		s.Close()
	})
}
