package launch

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/cores"
	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

// A rank only copies its state; the sums are taken here, and compared here before a rank that is started goes on
// from it. A processor has instructions for that, which Python has not.

// seal sums a slot; from then on its step is saved.
func (r *ranks) seal(c *rankConn, w *word.Copied) {
	r.sealing[c.local].Lock()
	defer r.sealing[c.local].Unlock()
	begun := time.Now()
	r.mu.Lock()
	memory, late := r.memory, c.of != r.now.Number // a new process may have the slot
	r.mu.Unlock()
	if late {
		return
	}
	err := memory.change(c.local, w.Slot, func(f *os.File) error {
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

// checkSlots reads what the ranks of a generation go on from, every byte, before those that are new start. A slot that is
// not what it was is emptied: its rank says so. Nobody changes a slot now: ranks are dead, or have left.
func (l *launcher) checkSlots(g link.Generation) {
	for i := range l.ranks.sealing { // what was copied before this generation is not summed any more
		l.ranks.sealing[i].Lock()
		defer l.ranks.sealing[i].Unlock()
	}
	if g.Restore == 0 || g.Origin != nil { // nothing, or what was checked on its way here
		return
	}
	fresh, staying := slices.Repeat([]bool{true}, len(l.ranks.sealing)), l.ranks.these(func(c *rankConn) bool { return c.stays })
	for local := range staying {
		fresh[local] = false
	}
	// The ranks' cores are idle now; the launcher's own share of them would take too long.
	defer cores.Borrow(max(runtime.NumCPU()-cores.Own(), 0))()
	atOnce := min(max(runtime.NumCPU()/len(fresh), 1), 8)
	var wg sync.WaitGroup
	for local, is := range fresh {
		if is {
			wg.Go(func() { l.checkRank(local, uint64(g.Restore), atOnce) })
		}
	}
	wg.Wait()
}

func (l *launcher) checkRank(local int, step uint64, atOnce int) {
	l.slots().each(local, func(f *os.File) {
		if err := ckpt.Check(f, step, atOnce); err != nil {
			l.log.Warn("a state in memory is damaged", "rank", local, "step", step, "error", errors.Join(err, ckpt.Wipe(f)))
		}
	})
}
