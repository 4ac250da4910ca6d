package rankset

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/launch/shmtest"
	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

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
	shmtest.Copied(t, slotPath(memory, 0, 0), 6, bytes.Repeat([]byte{7}, 64))
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
	shmtest.Copied(t, slotPath(memory, 0, 1), 7, bytes.Repeat([]byte{7}, 64))
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
