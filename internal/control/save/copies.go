package save

import (
	"slices"
	"time"

	"github.com/fermi-cluster/fermi/internal/control/gang"
)

// Copies in a peer's memory (spec.checkpoint.peer). Which step goes there is told with the watermark: `safe` is the newest
// that every rank has in two places, `next` the one that is being copied; both stay everywhere.

// copyEvery is the least time between the beginnings of two copies.
const copyEvery = time.Second

// copying is what is being copied to peers.
type copying struct {
	generation, next int64
	at               time.Time
}

// keep is what stays besides the watermark: what is safe, and what is on its way to be. A new step is begun
// only when the last one is safe.
func (d *decision) keep(u *gang.Unit, watermark int64) (steps []int64) {
	if !u.Peered() {
		return nil
	}
	safe := u.Members.Safe(u.World)
	if r := u.Task.Status.Rendezvous; r != nil {
		safe = max(safe, r.Restore) // of another generation: it is not copied again, and stays until a newer one is
	}
	c := d.next.copying[u.Role]
	if c.generation != int64(u.Generation) {
		c = copying{generation: int64(u.Generation), next: safe}
	}
	if c.next <= safe && watermark > safe && d.now.Sub(c.at) >= copyEvery {
		c.next, c.at = watermark, d.now
	}
	d.next.copying[u.Role] = c
	for _, step := range []int64{safe, c.next} {
		if step > 0 && !slices.Contains(steps, step) {
			steps = append(steps, step)
		}
	}
	slices.Sort(steps)
	return steps
}
