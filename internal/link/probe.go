package link

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
)

// MaxProbed bounds the text of an answer to a probe.
const MaxProbed = 64 << 10

// Probe asks a launcher for something about one of its ranks: to hurt it, or to look at it.
type Probe struct {
	ID         string // of this question; made by Ask
	Generation int64
	Rank       int
	Kind       string
}

// Probed is the answer.
type Probed struct {
	ID      string
	Refused fault.Text // zero: it was done
	Text    string     // what was seen
	At      time.Time
}

func checkProbe(p *linkpb.Probe) error {
	if p.GetId() == "" || len(p.GetId()) > 64 || p.GetGeneration() <= 0 || p.GetRank() < 0 || p.GetRank() >= MaxWorld || len(p.GetKind()) > 32 {
		return fmt.Errorf("probe of nothing")
	}
	return nil
}

func checkProbed(p *linkpb.Probed) error {
	if len(p.GetId()) > 64 || len(p.GetRefusedEn()) > maxText || len(p.GetRefusedZh()) > maxText || len(p.GetText()) > MaxProbed {
		return refuse("the answer to a probe is too long")
	}
	return nil
}

func probeOf(m *linkpb.Probe) Probe {
	return Probe{ID: m.GetId(), Generation: m.GetGeneration(), Rank: int(m.GetRank()), Kind: m.GetKind()}
}

// Probed answers the last probe; only the newest answer is kept.
func (c *Client) Probed(p Probed) {
	c.tell(func() {
		c.facts.probed = &linkpb.Probed{
			Id: p.ID, RefusedEn: cutText(p.Refused.EN, maxText), RefusedZh: cutText(p.Refused.ZH, maxText),
			Text: cutText(p.Text, MaxProbed), AtUnixNano: p.At.UnixNano(),
		}
	})
}

// AskRank asks the replica's launcher about one of its ranks and waits for the answer, at most until
// ctx ends. Fault Unavailable when the launcher is not attached, or does not answer.
func (h *Hub) AskRank(ctx context.Context, name engine.Name, p Probe) (Probed, error) {
	p.ID = rand.Text()
	answer := make(chan Probed, 1)
	h.mu.Lock()
	h.probes[p.ID] = answer
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.probes, p.ID)
		h.mu.Unlock()
	}()
	if err := h.probe(name, p); err != nil {
		return Probed{}, err
	}
	select {
	case a := <-answer:
		return a, nil
	case <-ctx.Done():
		return Probed{}, fault.New(fault.Unavailable, "NoAnswer", fault.T("The replica's launcher did not answer.", "该副本的启动器没有应答。")).Because(ctx.Err())
	}
}

func (h *Hub) probe(name engine.Name, p Probe) error {
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
		to <- Probed{
			ID: m.GetId(), Refused: fault.Text{EN: m.GetRefusedEn(), ZH: m.GetRefusedZh()}, Text: m.GetText(), At: time.Unix(0, m.GetAtUnixNano()).UTC(),
		}
	}
}
