package devenv

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/activity"
	"github.com/fermi-cluster/fermi/api/v1/asset"
	kind "github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/idle"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/quota"
	"github.com/fermi-cluster/fermi/internal/store"
)

// askFor is how long a launcher may take to look at its signals.
const askFor = 8 * time.Second

// Asker reaches launchers, wherever they are attached.
type Asker interface {
	AskRank(ctx context.Context, name engine.Name, p link.Probe) (link.Probed, error)
}

// Signals asks the launcher of an environment what its signals are at this moment. Fault Unavailable: it can't be asked now.
func Signals(ctx context.Context, hub Asker, e *kind.DevEnvironment) (t activity.Table, err error) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	name := engine.NameOf(e.Meta.ID, kind.Role, 0, e.Status.Attempt)
	told, err := hub.AskRank(ctx, name, link.Probe{Generation: int64(e.Status.Attempt), Kind: activity.Ask})
	if err != nil {
		return t, err
	}
	if !told.Refused.IsZero() { // of an earlier version
		return t, fault.New(fault.Conflict, "NoSignals", told.Refused)
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(told.Text)))
	dec.DisallowUnknownFields()
	if err = dec.Decode(&t); err == nil {
		err = t.Check()
	}
	if err != nil {
		return activity.Table{}, fmt.Errorf("what the launcher of %s says: %w", e.Meta.ID, err)
	}
	return t, nil
}

// watch keeps the newest table of each environment for which one is needed: a launcher is asked when the judgement by the last answer is due,
// and not before. Nothing of it is written down: a new leader asks again.
type watch struct {
	hub    Asker
	policy kind.Policy
	room   quota.Environments
	store  store.ReadWriter
	drop   func(ctx context.Context, name, zone string) error

	mu    sync.Mutex
	known map[string]table // by id
}

// table is what was told last, and by which attempt.
type table struct {
	work.Signals
	attempt int
}

func newWatch(hub Asker, p kind.Policy, room quota.Environments, s store.ReadWriter, drop func(ctx context.Context, name, zone string) error) *watch {
	return &watch{hub: hub, policy: p, room: room, store: s, drop: drop, known: map[string]table{}}
}

// Look asks for the signals of an environment that may be idle.
func (w *watch) Look(ctx context.Context, s *work.Seen, now time.Time) {
	e := s.Work.(*kind.DevEnvironment)
	if begins := begun(e, now); begins != nil {
		s.NoRoom = w.room.Begin(ctx, begins, kind.Needs(begins))
	}
	w.move(ctx, s, e)
	if e.Saves() && len(s.Members) == 1 && s.Members[0].Known.State == engine.StateDone {
		s.Made = w.made(ctx, e)
	}
	w.mu.Lock()
	last, known := w.known[e.Meta.ID]
	if !rests(s) || last.attempt != e.Status.Attempt {
		delete(w.known, e.Meta.ID)
		known = false
	}
	w.mu.Unlock()
	if !rests(s) || e.IdleAfter(w.policy) <= 0 {
		return
	}
	if known {
		if s.Signals = &last.Signals; now.Before(judge(s, w.policy, now).Look) {
			return
		}
	}
	t, err := Signals(ctx, w.hub, e)
	if err != nil {
		return // it is asked again
	}
	s.Signals = &work.Signals{Table: t, Heard: now}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known[e.Meta.ID] = table{*s.Signals, e.Status.Attempt}
}

// rests says that an environment runs and can be asked.
func rests(s *work.Seen) bool {
	e := s.Work.(*kind.DevEnvironment)
	return e.Status.Phase == api.PhaseRunning && !e.Saves() && !s.View.Stop && len(s.Members) == 1 && s.Members[0].Attached && s.Members[0].Known.State == engine.StateRunning
}

// judge applies its rule to what was seen; only where there are signals.
func judge(s *work.Seen, p kind.Policy, now time.Time) idle.Verdict {
	e := s.Work.(*kind.DevEnvironment)
	return Judge(e, p, s.Signals.Table, s.Signals.Heard, now)
}

// Judge applies an environment's rule to a table.
func Judge(e *kind.DevEnvironment, p kind.Policy, t activity.Table, heard, now time.Time) idle.Verdict {
	seen := idle.Seen{Table: e.WithTraining(t, heard), Heard: heard}
	if k := e.Spec.Kept; k != nil {
		seen.Kept = *k
	}
	if i := e.Status.Idle; i != nil && i.WarnedAt != nil {
		seen.Warned = *i.WarnedAt
	}
	return idle.Judge(idle.Rule{After: e.IdleAfter(p), Counts: e.IdleCounts()}, seen, now)
}

// made is the dataset that has the snapshots of a home; an empty one where there is none that is its owner's; nil: that is not known now.
func (w *watch) made(ctx context.Context, e *kind.DevEnvironment) api.Object {
	// Everything committed so far is looked at, not only what the cache has seen.
	rev, err := w.store.Commit(ctx, store.Txn{Ops: []store.Op{store.Unchanged(api.KeyOf(e), e.Meta.Revision)}})
	if err != nil {
		return nil
	}
	o, err := w.store.Get(ctx, api.Key{Kind: asset.DatasetKind, Project: e.Meta.Project, Name: e.Status.Snapshot.Dataset}, rev)
	switch {
	case fault.Is(err, fault.NotFound), err == nil && o.GetMeta().Owner != e.Meta.Owner:
		return &asset.Dataset{}
	case err != nil:
		return nil
	}
	return o
}

// move brings what a turn about a move needs: the version that the new home begins with, and that a home which nobody needs is gone. Names of homes
// are never used again, so that a leader which slept deletes nothing that is in use.
func (w *watch) move(ctx context.Context, s *work.Seen, e *kind.DevEnvironment) {
	m := kind.Moves{Of: e}
	if snap := e.Status.Snapshot; m.Due() && snap != nil && snap.Version > 0 {
		o, err := w.store.Get(ctx, api.Key{Kind: asset.VersionKind, Project: e.Meta.Project, Name: asset.VersionName(asset.DatasetKind, snap.Dataset, snap.Version)}, 0)
		if err == nil && o.GetMeta().Owner == e.Meta.Owner {
			s.Made = o
		}
	}
	if moved := e.Status.Moved; moved != nil && moved.Left != nil && !m.Keeps(moved.Left.Home) {
		s.Dropped = w.drop(ctx, moved.Left.Home, moved.Left.Zone) == nil
	}
}
