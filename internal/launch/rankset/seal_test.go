package rankset

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

// copySlot puts a state of so many bytes into a slot, without sums, as the Python SDK does.
func copySlot(t *testing.T, path string, step uint64, data []byte) {
	t.Helper()
	tree := []byte(`{"y":[0,1]}`)
	le := binary.LittleEndian
	h := []byte("FERMIL0\x01")
	for _, v := range []uint32{1, 0, 1, 0} {
		h = le.AppendUint32(h, v)
	}
	for _, v := range []uint64{4, step, uint64(len(data)), uint64(len(tree)), 4} {
		h = le.AppendUint64(h, v)
	}
	h = le.AppendUint32(le.AppendUint32(h, crc32.ChecksumIEEE(tree)), 0)
	h = le.AppendUint32(h, crc32.ChecksumIEEE(h))
	file := append(append(append(h, make([]byte, 4096-len(h))...), data...), tree...)
	if err := os.WriteFile(path, append(file, 0, 0, 0, 0), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestSealed: a rank copies, the launcher sums, and what counts is what it could read. A word of an ended generation
// touches no slot.
func TestSealed(t *testing.T) {
	told := make(chan link.Ranks, 100)
	r, memory := newSet(1, func(s link.Ranks) { told <- s }), t.TempDir()
	r.Progress.SeenIn(slotsIn(memory))
	r.Begin(link.Generation{Number: 4, Membership: link.Membership{World: 1}})
	r.Started(4000)
	a := connect(t, r)
	a.say(`{"hello":{"pid":1,"rank":0,"generation":4,"version":"x"}}`)
	if got := a.hear(); got != `{"welcome":{"generation":4,"restore":null,"offers":true,"at":true}}` {
		t.Fatal(got)
	}
	copySlot(t, slotPath(memory, 0, 0), 6, bytes.Repeat([]byte{7}, 64))
	a.say(`{"copied":{"step":5,"slot":1,"bytes":64}}`) // there is none: nothing comes of it
	a.say(`{"copied":{"step":6,"slot":0,"bytes":64}}`)
	if got := a.hear(); got != `{"watermark":{"step":6}}` {
		t.Fatal(got)
	}
	s, err := ckpt.OpenSlot(slotPath(memory, 0, 0))
	if err != nil || s.Header.Step != 6 {
		t.Fatal(s, err)
	}
	s.Close()
	copySlot(t, slotPath(memory, 0, 1), 7, bytes.Repeat([]byte{7}, 64))
	late := &rankConn{of: 3}
	r.seal(late, &word.Copied{Step: 7, Slot: 1})
	if s, err := ckpt.OpenSlot(slotPath(memory, 0, 1)); err == nil {
		s.Close()
		t.Fatal("a word of an ended generation made a slot whole")
	}
	for deadline := time.After(time.Minute); ; {
		select {
		case s := <-told:
			if slices.Equal(s.Held, []int64{6}) {
				return
			}
		case <-deadline:
			t.Fatal("never told")
		}
	}
}
