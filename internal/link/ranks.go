package link

import (
	"google.golang.org/protobuf/proto"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
	"github.com/fermi-cluster/fermi/internal/link/message"
)

// Ranks is what the replica's launcher told last about its ranks.
func (h *Hub) Ranks(name engine.Name) (message.Ranks, bool) {
	k, epoch, _ := h.roll.said(name)
	if k.ranks == nil {
		return message.Ranks{}, false
	}
	r := message.RanksOf(k.ranks)
	r.Fresh = k.ranks.GetEpoch() == epoch
	return r, true
}

// Go tells the launcher that this generation of the attempt may start, with our epoch. It may be
// said again; the launcher starts each once. Fault Unavailable when the launcher is not attached:
// say it again when Notify tells that it is.
func (h *Hub) Go(name engine.Name, attempt int, g message.Generation) error {
	return h.roll.order(name, func(p *peer, epoch int64) error {
		if p.parts.Attempt != attempt {
			return fault.New(fault.Conflict, "OtherAttempt",
				fault.T("The replica is of another attempt.", "该副本属于另一次尝试。"))
		}
		if len(g.Ports) > 0 {
			g.Key = h.cfg.Tokens.MintTask(p.parts.TaskID, attempt)
		}
		if g.Peer != "" || len(g.Sources) > 0 {
			g.PeerKey = h.cfg.Tokens.MintPeer(p.parts.TaskID, attempt)
		}
		order := g.Order(epoch, attempt)
		if proto.Equal(order, p.told) {
			return nil // on its way already: what a stream took arrives, or the stream ends
		}
		p.told = order
		p.post(func(out *outbox) { out.start = order })
		return nil
	})
}

// Watermark tells the launcher the newest step that every rank of the generation holds, and which others
// stay besides.
func (h *Hub) Watermark(name engine.Name, w message.Watermark) error {
	return h.roll.order(name, func(p *peer, _ int64) error {
		p.post(func(out *outbox) { out.watermark = w.Message() })
		return nil
	})
}

// noteRanks keeps the newest and says whether more changed than what is held and how far it is; mu held.
func (k *known) noteRanks(m *linkpb.Ranks) (changed bool) {
	old := k.ranks
	k.ranks = m
	return old == nil || old.GetGeneration() != m.GetGeneration() || old.GetPort() != m.GetPort() || old.GetAddress() != m.GetAddress() ||
		old.GetFailed().GetAtUnixNano() != m.GetFailed().GetAtUnixNano() || old.GetFailed().GetRank() != m.GetFailed().GetRank() ||
		(old.GetSteppedAtUnixNano() == 0) != (m.GetSteppedAtUnixNano() == 0) || old.GetHungAtUnixNano() != m.GetHungAtUnixNano() || old.GetPrepared() != m.GetPrepared() || old.GetFrozen() != m.GetFrozen() ||
		old.GetServe() != m.GetServe() || old.GetPeerPort() != m.GetPeerPort() || old.GetMissed() != m.GetMissed() || old.GetRoleTable() != m.GetRoleTable() || old.GetPreflight().GetRound() != m.GetPreflight().GetRound() ||
		(old.GetUse() == nil) != (m.GetUse() == nil) || !proto.Equal(old.GetRefused(), m.GetRefused()) || !proto.Equal(old.GetKeeping(), m.GetKeeping()) || old.GetWarm() != m.GetWarm() || !proto.Equal(old.GetServing(), m.GetServing())
}

// tellRanks passes on what a launcher said of its ranks: a change of members is the task's business,
// a saved step only the watermark's.
func (h *Hub) tellRanks(taskID string, name engine.Name, changed, held bool) {
	if changed {
		h.cfg.Notify(taskID, name)
	}
	if held {
		h.cfg.Saved(taskID, changed)
	}
}
