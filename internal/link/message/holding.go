package message

import (
	"time"

	"github.com/fermi-cluster/fermi/internal/link/linkpb"
)

// Holding is which states a launcher has, of its own ranks and of others, and what became of them.
type Holding struct {
	Held       []int64     // steps that all its ranks hold whole in memory, rising
	Frozen     bool        // Held stays until the next generation
	PeerPort   int         // where other launchers hand it states; 0: nowhere
	Copies     []Copy      // states that it holds and keeps
	Missed     int64       // a step to restore that could not be had; 0: none
	Persisted  []Persisted // the newest of each tier
	Restored   string      // the one tier that all its ranks were filled from for this generation; "": several, or none
	RestoredAt time.Time   // when that was done
	Refused    *Origin     // the last checkpoint that could not be restored here
	Keeping    Keeping
	Mark       int64 // the watermark that it was told in this generation
	Every      int64 // of the generation, as it was told last
	Offer      int64 // grows when a rank offers to give up steps, which Held then has no more
}

func (h Holding) into(out *linkpb.Ranks) {
	out.Held, out.Frozen = h.Held, h.Frozen
	out.PeerPort, out.Copies, out.Missed = int32(h.PeerPort), copyMessages(h.Copies), h.Missed
	out.Mark, out.Offer, out.Every = h.Mark, h.Offer, h.Every
	out.Persisted, out.Refused, out.Restored, out.Keeping = persistedMessages(h.Persisted), h.Refused.Message(), h.Restored, h.Keeping.message()
	if h.Restored != "" {
		out.RestoredAtUnixNano = h.RestoredAt.UnixNano()
	}
}

func holdingOf(m *linkpb.Ranks) Holding {
	h := Holding{
		Held: m.GetHeld(), Frozen: m.GetFrozen(), PeerPort: int(m.GetPeerPort()), Copies: copiesOf(m.GetCopies()), Missed: m.GetMissed(),
		Mark: m.GetMark(), Offer: m.GetOffer(), Every: m.GetEvery(),
		Persisted: persistedOf(m.GetPersisted()), Refused: OriginOf(m.GetRefused()), Restored: m.GetRestored(), Keeping: keepingOf(m.GetKeeping()),
	}
	if h.Restored != "" {
		h.RestoredAt = time.Unix(0, m.GetRestoredAtUnixNano()).UTC()
	}
	return h
}
