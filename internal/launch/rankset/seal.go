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
	r.seals[c.local].Lock()
	defer r.seals[c.local].Unlock()
	begun := time.Now()
	if !r.Conns.current(c) { // a new process may have the slot
		return
	}
	err := r.Progress.slots().Change(c.local, w.Slot, func(f *os.File) error {
		err := ckpt.Seal(f, uint64(w.Step))
		if err != nil { // its rank sees that it is empty
			err = errors.Join(err, ckpt.Wipe(f))
		}
		return err
	})
	if err != nil {
		r.log.Warn("a state was not summed", "rank", c.local, "step", w.Step, "error", err)
		return
	}
	r.takeFrom(c, word.Word{Saved: &word.Saved{Step: w.Step, Bytes: w.Bytes, Seconds: time.Since(begun).Seconds()}})
}

// HoldSlots keeps slots from being summed until release: what was copied before is not any more.
func (r *Set) HoldSlots() (release func()) {
	for i := range r.seals {
		r.seals[i].Lock()
	}
	return func() {
		for i := range r.seals {
			r.seals[i].Unlock()
		}
	}
}
