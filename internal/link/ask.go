package link

import (
	"context"
	"crypto/rand"
	"sync"
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
	answer, forget := h.roll.probes.ask(p.ID)
	defer forget()
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
	return h.roll.order(name, func(to *peer, _ int64) error {
		to.post(func(out *outbox) {
			out.probe = &linkpb.Probe{Id: p.ID, Generation: p.Generation, Rank: int32(p.Rank), Kind: p.Kind}
		})
		return nil
	})
}

// inquiries are who waits here for an answer, by the id of what was asked. Safe for concurrent use.
type inquiries struct {
	mu   sync.Mutex
	open map[string]chan message.Probed
}

func newInquiries() *inquiries { return &inquiries{open: map[string]chan message.Probed{}} }

// ask waits for an answer until forget is called.
func (q *inquiries) ask(id string) (answer <-chan message.Probed, forget func()) {
	to := make(chan message.Probed, 1)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open[id] = to
	return to, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.open, id)
	}
}

// answered hands an answer to who waits for it here.
func (q *inquiries) answered(m *linkpb.Probed) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if to := q.open[m.GetId()]; to != nil {
		delete(q.open, m.GetId()) // one answer is enough
		to <- message.Probed{
			ID: m.GetId(), Refused: fault.Text{EN: m.GetRefusedEn(), ZH: m.GetRefusedZh()}, Text: m.GetText(), At: time.Unix(0, m.GetAtUnixNano()).UTC(),
		}
	}
}
