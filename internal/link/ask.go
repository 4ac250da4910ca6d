package link

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
	"github.com/fermi-cluster/fermi/internal/link/message"
)

// Probed answers the last probe; only the newest answer is kept.
func (c *Client) Probed(p message.Probed) {
	c.tell(func() {
		c.facts.probed = &linkpb.Probed{
			Id: p.ID, RefusedEn: message.CutText(p.Refused.EN, message.MaxText), RefusedZh: message.CutText(p.Refused.ZH, message.MaxText),
			Text: message.CutText(p.Text, message.MaxProbed), AtUnixNano: p.At.UnixNano(),
		}
	})
}

// AskRank asks the replica's launcher about one of its ranks and waits for the answer, at most until
// ctx ends. Fault Unavailable when the launcher is not attached, or does not answer.
func (h *Hub) AskRank(ctx context.Context, name engine.Name, p message.Probe) (message.Probed, error) {
	p.ID = rand.Text()
	answer := make(chan message.Probed, 1)
	h.mu.Lock()
	h.probes[p.ID] = answer
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.probes, p.ID)
		h.mu.Unlock()
	}()
	if err := h.probe(name, p); err != nil {
		return message.Probed{}, err
	}
	select {
	case a := <-answer:
		return a, nil
	case <-ctx.Done():
		return message.Probed{}, fault.New(fault.Unavailable, "NoAnswer", fault.T("The replica's launcher did not answer.", "该副本的启动器没有应答。")).Because(ctx.Err())
	}
}

func (h *Hub) probe(name engine.Name, p message.Probe) error {
	return h.order(name, func(to *peer) error {
		to.post(func(out *outbox) {
			out.probe = &linkpb.Probe{Id: p.ID, Generation: p.Generation, Rank: int32(p.Rank), Kind: p.Kind}
		})
		return nil
	})
}

// answered hands an answer to who waits for it here; mu held.
func (h *Hub) answered(m *linkpb.Probed) {
	if to := h.probes[m.GetId()]; to != nil {
		delete(h.probes, m.GetId()) // one answer is enough
		to <- message.Probed{
			ID: m.GetId(), Refused: fault.Text{EN: m.GetRefusedEn(), ZH: m.GetRefusedZh()}, Text: m.GetText(), At: time.Unix(0, m.GetAtUnixNano()).UTC(),
		}
	}
}
