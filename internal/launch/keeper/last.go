package keeper

import (
	"context"
	"time"

	"github.com/fermi-cluster/fermi/internal/engine"
)

// The last save. When its ranks have ended and no other generation follows, what they saved lies in memory
// that goes with the launcher. So it says that it waits: the leader has the newest step that all hold
// persisted, due or not, and then lets go. The grace of the stop bounds it.

// stopping is where wishes to stop come from.
type stopping interface {
	// Asked has one after each wish that changed something.
	Asked() <-chan struct{}
	// Wish is the shortest grace that was asked for, if any was.
	Wish() (grace time.Duration, asked bool)
	// Look looks for a wish on disk, in case its signal was missed, and says whether there is one.
	Look() bool
}

// StopPoll is how often an order to stop is looked for, in case its signal was missed.
const StopPoll = 2 * time.Second

// SaveLast waits until what the ranks hold is persisted, or can't be, and not beyond until.
func (k *Keeper) SaveLast(ctx context.Context, reason string, until time.Time) {
	if kept := k.saveLast(ctx, reason, until); k.Folder != nil && (kept || reason == engine.ReasonSucceeded) {
		k.Folder.dropped(k.Folder.aside.clear()) // otherwise the next launcher may find it
	}
}

// saveLast says whether all that was to be kept is.
func (k *Keeper) saveLast(ctx context.Context, reason string, until time.Time) bool {
	if !k.open || !k.clock.Now().Before(until) {
		return false
	}
	k.hearOut(ctx, until)
	k.Folder.lookLast(reason)
	if !k.ranks.WaitsLast(reason) {
		return false
	}
	k.log.Info("ranks ended; waiting for their last step to be persisted", "until", until)
	for {
		select {
		case <-k.ranks.Released:
			k.settleAll(ctx, until)
			return true
		case <-ctx.Done():
			return false
		case <-k.clock.After(until.Sub(k.clock.Now())):
			k.log.Warn("the last step was not persisted in time")
			k.ranks.Late()
			return false
		case <-k.stops.Asked():
			grace, _ := k.stops.Wish()
			if end := k.clock.Now().Add(grace); end.Before(until) {
				until = end
			}
		case <-k.clock.After(StopPoll):
			k.stops.Look()
		}
	}
}

// hearOut waits until everything that the ranks said before they ended is heard, and what they copied is summed.
func (k *Keeper) hearOut(ctx context.Context, until time.Time) {
	late := k.clock.After(until.Sub(k.clock.Now()))
	for k.ranks.Conns.Talking() {
		select {
		case <-k.ranks.Conns.Gone:
		case <-late:
			return
		case <-ctx.Done():
			return
		}
	}
}

// settleAll has what was committed put into order, as far as there is time.
func (k *Keeper) settleAll(ctx context.Context, until time.Time) {
	late, done := k.clock.After(until.Sub(k.clock.Now())), make(chan struct{})
	select {
	case k.flush <- done:
	case <-late:
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-late:
	case <-ctx.Done():
	}
}
