package launch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/diagnose"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

const (
	obtainFor   = 20 * time.Second // that sources may be out of reach
	obtainAgain = 50 * time.Millisecond
	obtainWidth = 4 // ranks at a time
)

// obtain brings the state of the step that a generation goes on from to those of our ranks that lack it,
// before they start, from whoever the leader says has it. Each is checked whole before it takes the place
// of a slot.
func (l *launcher) obtain(ctx context.Context, g link.Generation) error {
	if l.peers == nil || g.Restore == 0 || len(g.Sources) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { l.obsolete(ctx, g, cancel) })
	defer cancel()
	gate, errs := make(chan struct{}, obtainWidth), make([]error, l.peers.ranks)
	var all sync.WaitGroup
	for local := range l.peers.ranks {
		gate <- struct{}{}
		all.Go(func() {
			defer func() { <-gate }()
			errs[local] = l.obtainOne(ctx, g, local)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// obsolete ends it when nobody wants the generation any more.
func (l *launcher) obsolete(ctx context.Context, g link.Generation, cancel func()) {
	for {
		if _, asked := l.stop.wish(); asked || l.wishedStop() || l.orders.after(g.Number) != nil {
			cancel()
		}
		select {
		case <-ctx.Done():
			return
		case <-l.clock.After(200 * time.Millisecond):
		}
	}
}

func (l *launcher) obtainOne(ctx context.Context, g link.Generation, local int) error {
	s := stateOf{g.FirstRank + local, g.Restore}
	if own, err := l.slots().own(local, s, g.World); err == nil {
		return own.Close()
	}
	for begin := time.Now(); ; {
		errs, final := []error{fmt.Errorf("step %d of rank %d was not had", s.step, s.rank)}, true
		for _, from := range g.Sources {
			if s.rank < from.First || s.rank >= from.First+from.Ranks {
				continue
			}
			err := l.fetchState(ctx, g, from.Address, local, s)
			if err == nil {
				l.log.Info("a state came from a peer", "rank", s.rank, "step", s.step)
				return nil
			}
			var no errRefused
			final = final && (errors.As(err, &no) || fault.Is(err, fault.Invalid) || fault.Is(err, fault.Full))
			errs = append(errs, err)
		}
		if final || ctx.Err() != nil || time.Since(begin) > obtainFor {
			return errors.Join(errs...)
		}
		select {
		case <-ctx.Done():
		case <-time.After(obtainAgain):
		}
	}
}

// fetchState brings one state, and puts it where the rank looks for it.
func (l *launcher) fetchState(ctx context.Context, g link.Generation, address string, local int, s stateOf) error {
	conn, err := l.peers.ask(ctx, address, askGet, s)
	if err != nil {
		return err
	}
	defer conn.Close()
	memory, name := l.slots(), fmt.Sprintf("for-%d", local)
	f, err := memory.folder.Replace(name, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = ckpt.ReceiveInto(conn, f, func(h ckpt.Header) error {
		if int(h.Rank) != s.rank || int64(h.Step) != s.step || int(h.World) != g.World {
			return fault.New(fault.Invalid, "OtherState", fault.T("The peer gave another state than was asked for.", "对端给出的状态与请求不符。"))
		}
		return nil
	})
	if err == nil {
		err = memory.folder.Rename(name, memory.spare(local))
	}
	if err != nil {
		_ = memory.folder.Remove(name)
	}
	return err
}

// missed tells the leader that a generation can't begin here for want of a state, so that it chooses
// another step; it says whether another one is waited for.
func (l *launcher) missed(g link.Generation, why error) bool {
	l.log.Warn("the state to go on from could not be had", "step", g.Restore, "generation", g.Number, "error", why)
	evidence := diagnose.Evidence{Rank: g.FirstRank, Code: 1, Reason: engine.ReasonNonZero, Words: "fermi: the state to go on from could not be had from a peer"}
	rule := causes().Cause(evidence)
	l.ranks.missed(g, &link.RankExit{
		Rank: g.FirstRank, Code: 1, Reason: engine.ReasonNonZero, At: l.clock.Now(),
		Message:   "the state to go on from could not be had from a peer",
		Diagnosis: engine.Diagnosis{Cause: rule.ID, Fingerprint: diagnose.Fingerprint(evidence, rule), Line: diagnose.Line(evidence, rule), Step: g.Restore},
	})
	return g.Hold
}

// peerLimit is how many bytes of others' states may be in our memory; 0: half of what is free.
func peerLimit(r *engine.Replica) int64 { return int64(r.Resources.SharedMemory) }
