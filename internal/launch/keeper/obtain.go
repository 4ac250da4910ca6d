package keeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/shm"
	"github.com/fermi-cluster/fermi/internal/link"
)

const (
	obtainFor   = 20 * time.Second // that sources may be out of reach
	obtainAgain = 50 * time.Millisecond
	obtainWidth = 4                      // ranks at a time
	obtainLook  = 200 * time.Millisecond // how often it is looked whether it is still wanted
)

// Obtain brings the state of the step that a generation goes on from to those of our ranks that lack it,
// before they start, from whoever the leader says has it. Each is checked whole before it takes the place
// of a slot.
func (r *restorer) Obtain(ctx context.Context, g link.Generation) error {
	r.peer = false
	if r.peers == nil || g.Restore == 0 || len(g.Sources) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { r.whileWanted(ctx, cancel, g.Number, obtainLook) })
	gate, errs, came := make(chan struct{}, obtainWidth), make([]error, r.peers.ranks), make([]bool, r.peers.ranks)
	var all sync.WaitGroup
	for local := range r.peers.ranks {
		gate <- struct{}{}
		all.Go(func() {
			defer func() { <-gate }()
			came[local], errs[local] = r.obtainOne(ctx, g, local)
		})
	}
	all.Wait()
	r.peer = slices.Contains(came, true)
	return errors.Join(errs...)
}

// obtainOne says whether the state came from a peer; otherwise it was here.
func (r *restorer) obtainOne(ctx context.Context, g link.Generation, local int) (came bool, err error) {
	s := shm.State{Rank: g.FirstRank + local, Step: g.Restore}
	if own, err := r.slots().Own(local, s, g.World); err == nil {
		return false, own.Close()
	}
	for begin := time.Now(); ; {
		errs, final := []error{fmt.Errorf("step %d of rank %d was not had", s.Step, s.Rank)}, true
		for _, from := range g.Sources {
			if s.Rank < from.First || s.Rank >= from.First+from.Ranks {
				continue
			}
			err := r.fetchState(ctx, g, from.Address, local, s)
			if err == nil {
				r.log.Info("a state came from a peer", "rank", s.Rank, "step", s.Step)
				return true, nil
			}
			var no errRefused
			final = final && (errors.As(err, &no) || fault.Is(err, fault.Invalid) || fault.Is(err, fault.Full))
			errs = append(errs, err)
		}
		if final || ctx.Err() != nil || time.Since(begin) > obtainFor {
			return false, errors.Join(errs...)
		}
		select {
		case <-ctx.Done():
		case <-time.After(obtainAgain):
		}
	}
}

// fetchState brings one state, and puts it where the rank looks for it.
func (r *restorer) fetchState(ctx context.Context, g link.Generation, address string, local int, s shm.State) error {
	conn, err := r.peers.ask(ctx, address, askGet, s)
	if err != nil {
		return err
	}
	defer conn.Close()
	memory, name := r.slots(), fmt.Sprintf("for-%d", local)
	f, err := memory.Folder.Replace(name, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = ckpt.ReceiveInto(conn, f, func(h ckpt.Header) error {
		if int(h.Rank) != s.Rank || int64(h.Step) != s.Step || int(h.World) != g.World {
			return fault.New(fault.Invalid, "OtherState", fault.T("The peer gave another state than was asked for.", "对端给出的状态与请求不符。"))
		}
		return nil
	})
	if err == nil {
		err = memory.Folder.Rename(name, memory.Spare(local))
	}
	if err != nil {
		_ = memory.Folder.Remove(name)
	}
	return err
}
