package serve

import (
	"context"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
)

const (
	// keepMinutes is how long figures are known by the minute; those of hours stay.
	keepMinutes = 7 * 24 * time.Hour
	// mostBudgets bounds the keys that one report asks about.
	mostBudgets = 500
)

// books remembers when the minutes were cleaned up last. Safe for concurrent use.
type books struct {
	mu    sync.Mutex
	swept time.Time
}

// due says that the minutes are to be cleaned up, once an hour.
func (b *books) due(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.swept) < time.Hour {
		return false
	}
	b.swept = now
	return true
}

// account writes down what a gateway carried, and says what the keys among it that have a budget used of it.
func (c *Controller) account(ctx context.Context, r *serving.LoadReport) (*serving.LoadReply, error) {
	reply := &serving.LoadReply{}
	if err := c.print(ctx, r, reply); err != nil {
		return nil, err
	}
	if len(r.Served) == 0 {
		return reply, nil
	}
	now := c.cfg.Clock.Now()
	if err := c.cfg.History.PutServed(ctx, r.Served...); err != nil {
		return nil, err
	}
	if c.books.due(now) {
		if err := c.cfg.History.ForgetMinutes(ctx, now.Add(-keepMinutes)); err != nil {
			return nil, err
		}
	}
	asked := map[string]bool{}
	for i := range r.Served {
		key := r.Served[i].Key
		if key == "" || asked[key] || len(asked) >= mostBudgets {
			continue
		}
		asked[key] = true
		o, err := c.cfg.Store.Get(ctx, api.Key{Kind: api.KindToken, Name: key}, 0)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if l := o.(*api.Token).Spec.Limits; l == nil || l.RequestsPerMonth == 0 && l.TokensPerMonth == 0 {
			continue
		}
		sum, err := c.cfg.History.SumServed(ctx, history.ServedQuery{Width: serving.Hour, Key: key, From: serving.MonthOf(now), To: now.Add(time.Hour)})
		if err != nil {
			return nil, err
		}
		spent := serving.KeySpent{Key: key, Requests: sum[key].Requests, Tokens: sum[key].Tokens}
		reply.Spent = append(reply.Spent, spent)
	}
	return reply, nil
}

// print keeps what a gateway says of requests, as part of the services' logs.
func (c *Controller) print(ctx context.Context, r *serving.LoadReport, reply *serving.LoadReply) error {
	for _, piece := range r.Logs {
		_, err := c.cfg.Store.GetByID(ctx, serving.Kind, piece.ServiceID, 0)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		to := piece.Offset + int64(len(piece.Data)) // of a service that is gone nothing is kept
		if err == nil && c.cfg.Print != nil {
			to, err = c.cfg.Print(ctx, piece.ServiceID, piece.ServiceID+"-requests-"+r.Gateway, piece.Offset, piece.Data)
			if fault.ReasonOf(err) == "LogGap" { // what was there before is lost: it can't go on
				to, err = piece.Offset+int64(len(piece.Data)), nil
			}
			if err != nil {
				return err
			}
		}
		reply.Logged = append(reply.Logged, serving.LogPiece{ServiceID: piece.ServiceID, Offset: to})
	}
	return nil
}
