package train

import (
	"context"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// vouch keeps with the checkpoint that a generation began from that all of it was read, once. A leader that is new says
// it again, with the same time.
func (c *Controller) vouch(ctx context.Context, w *watermarks, s *seen, v *saving) {
	tier, at := s.restoredFrom(v.generation)
	if v.vouched || tier == "" {
		return
	}
	v.vouched = true
	from, world := *s.task.Status.Rendezvous.Origin, uint32(s.world)
	w.commits.Go(func() {
		repo, err := c.cfg.Repo(tier, from.TaskID)
		if err == nil && repo != nil {
			err = repo.Vouch(ctx, from.Name, world, at)
		}
		if err != nil && ctx.Err() == nil && !fault.Is(err, fault.NotFound) { // it may have gone meanwhile
			c.cfg.Log.Warn("that a checkpoint was read whole is not noted", "task", from.TaskID, "checkpoint", from.Name, "error", err)
		}
	})
}

// restoredFrom is the tier that all ranks of the generation were filled from, and when the first were. "": there is no
// one tier, nor for a script that saves itself, of whose files each replica has its own.
func (s *seen) restoredFrom(generation int64) (tier string, at time.Time) {
	r := s.task.Status.Rendezvous
	if r == nil || r.Origin == nil || s.task.Spec.CheckpointFolder() != "" {
		return "", at
	}
	for i := range s.members {
		said := &s.members[i].said
		if said.Generation != generation || said.Restored == "" || i > 0 && said.Restored != tier {
			return "", at
		}
		if tier = said.Restored; i == 0 || said.RestoredAt.Before(at) {
			at = said.RestoredAt
		}
	}
	return tier, at
}
