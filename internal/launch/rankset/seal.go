package rankset

import (
	"errors"
	"os"
	"time"

	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/launch/word"
)

// A rank only copies its state; the sums are taken here, and compared here before a rank that is started goes on
// from it. A processor has instructions for that, which Python has not.

// seal sums a slot; from then on its step is saved.
func (r *Set) seal(c *rankConn, w *word.Copied) {
	r.sealing[c.local].Lock()
	defer r.sealing[c.local].Unlock()
	begun := time.Now()
	r.mu.Lock()
	memory, late := r.memory, c.of != r.now.Number // a new process may have the slot
	r.mu.Unlock()
	if late {
		return
	}
	err := memory.Change(c.local, w.Slot, func(f *os.File) error {
		err := ckpt.Seal(f, uint64(w.Step))
		if err != nil { // its rank sees that it is empty
			err = errors.Join(err, ckpt.Wipe(f))
		}
		return err
	})
	if err != nil {
		r.Log.Warn("a state was not summed", "rank", c.local, "step", w.Step, "error", err)
		return
	}
	r.takeFrom(c, word.Word{Saved: &word.Saved{Step: w.Step, Bytes: w.Bytes, Seconds: time.Since(begun).Seconds()}})
}

// HoldSlots keeps slots from being summed until release: what was copied before is not any more.
func (r *Set) HoldSlots() (release func()) {
	for i := range r.sealing {
		r.sealing[i].Lock()
	}
	return func() {
		for i := range r.sealing {
			r.sealing[i].Unlock()
		}
	}
}

// Newcomers are the local ranks of the generation that begins whose processes do not stay from the one before.
func (r *Set) Newcomers() (list []int) {
	staying := r.these(func(c *rankConn) bool { return c.stays })
	for local := range r.sealing {
		if !staying[local] {
			list = append(list, local)
		}
	}
	return list
}
