package ckpt

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// copiedSlot is a slot as a rank leaves it that lets its launcher sum.
func copiedSlot(t *testing.T, data uint64, step uint64) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "slot")
	s, err := createSlot(path, data, []byte(`{"y":[0,1]}`))
	if err != nil {
		t.Fatal(err)
	}
	state := make([]byte, data)
	rnd := rand.New(rand.NewPCG(1, data))
	for i := range state {
		state[i] = byte(rnd.Uint32())
	}
	if err := s.WriteAt(state, 0); err != nil {
		t.Fatal(err)
	}
	if err := s.seal(Header{Rank: 1, World: 2, Generation: 3, Step: step}); err != nil {
		t.Fatal(err)
	}
	var raw [slotHeader]byte
	if _, err := s.f.ReadAt(raw[:], 0); err != nil {
		t.Fatal(err)
	}
	h, err := unpackHeader(raw[:])
	if err != nil {
		t.Fatal(err)
	}
	h.tableCRC = 0
	b := h.pack()
	binary.LittleEndian.PutUint32(b[8:], slotCopied)
	binary.LittleEndian.PutUint32(b[slotHeader-4:], crc32.ChecksumIEEE(b[:slotHeader-4]))
	if _, err := s.f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.f.WriteAt(make([]byte, h.Table), slotData+int64(h.Data+h.Tree)); err != nil {
		t.Fatal(err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSeal(t *testing.T) {
	for _, data := range []uint64{0, 64, sumPiece + 64, slotSum, 2*slotSum + 3*64} {
		path := copiedSlot(t, data, 5)
		if _, err := OpenSlot(path); err == nil {
			t.Fatal("a slot without sums counts as whole")
		}
		if err := SealSlot(path, 4); err == nil {
			t.Fatal("another step was sealed")
		}
		if err := SealSlot(path, 5); err != nil {
			t.Fatal(err)
		}
		if err := SealSlot(path, 5); err == nil {
			t.Fatal("a whole slot was sealed")
		}
		s, err := OpenSlot(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.verify(3); err != nil || s.Header.Step != 5 || s.Header.Data != data {
			t.Fatalf("%d bytes: %+v, %v", data, s.Header, err)
		}
		s.Close()
		if err := CheckSlot(path, 5, 2); err != nil {
			t.Fatal(err)
		}
		if data == 0 {
			continue
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		at, b := slotData+int64(data)-1, []byte{0}
		if _, err := f.ReadAt(b, at); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 1
		if _, err := f.WriteAt(b, at); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if err := CheckSlot(path, 4, 1); err != nil {
			t.Fatalf("nobody asked for it: %v", err)
		}
		if err := CheckSlot(path, 5, 2); err == nil {
			t.Fatal("a flipped bit was not seen")
		}
		if err := WipeSlot(path); err != nil {
			t.Fatal(err)
		}
		if err := CheckSlot(path, 5, 2); err != nil {
			t.Fatalf("an empty slot: %v", err)
		}
	}
	if err := CheckSlot(filepath.Join(t.TempDir(), "none"), 5, 1); err != nil {
		t.Fatalf("no slot: %v", err)
	}
}

// TestSealStrange: what is no slot, or one that claims more than is there, is refused.
func TestSealStrange(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	short := copiedSlot(t, slotSum, 5)
	if err := os.Truncate(short, slotData+100); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "none"), filepath.Join(dir, "link"), dir, short} {
		if err := SealSlot(path, 5); err == nil {
			t.Errorf("%s was sealed", path)
		}
	}
}
