package save

import (
	"time"

	"github.com/fermi-cluster/fermi/internal/control/gang"
)

// vouch has it kept with the checkpoint that a generation began from that all of it was read, once. A leader that is new says
// it again, with the same time.
func (d *decision) vouch(u *gang.Unit, v *saving) {
	tier, at := restoredFrom(u, v.generation)
	if v.vouched || tier == "" {
		return
	}
	v.vouched = true
	d.plan.vouch = &voucher{tier, *u.Rendezvous.Origin, uint32(u.World), at}
}

// restoredFrom is the tier that all ranks of the generation were filled from, and when the first were. "": there is no
// one tier, nor for a script that saves itself, of whose files each replica has its own.
func restoredFrom(u *gang.Unit, generation int64) (tier string, at time.Time) {
	r := u.Rendezvous
	if r == nil || r.Origin == nil || u.Task.Spec.CheckpointFolder() != "" {
		return "", at
	}
	for i := range u.Members {
		said := &u.Members[i].Said
		if said.Generation != generation || said.Restored == "" || i > 0 && said.Restored != tier {
			return "", at
		}
		if tier = said.Restored; i == 0 || said.RestoredAt.Before(at) {
			at = said.RestoredAt
		}
	}
	return tier, at
}
