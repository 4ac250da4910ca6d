package app

import (
	"context"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/blob/ledger"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/server/tenant"
)

// stored counts the bytes that are kept for projects: once after the start over everything there is, then
// with every write, and again now and then for what other servers and launchers wrote.
type stored struct {
	p      *part
	ledger ledger.Ledger
	mu     sync.Mutex
	names  map[string]string    // task id → project, of tasks that came lately
	looked map[string]time.Time // task id → when its checkpoints were last added up
	told   map[string]time.Time // task id → when its people were last told that there is no room
	look   chan *api.TrainingTask
}

const (
	countEvery = time.Hour
	lookEvery  = time.Minute // at the checkpoints of one task
	listPage   = 1000
	maxNames   = 10_000
	grantsAt   = "granted/archives/projects/"
)

func newStored(p *part) *stored {
	return &stored{p: p, names: map[string]string{}, looked: map[string]time.Time{}, told: map[string]time.Time{}, look: make(chan *api.TrainingTask, 256)}
}

// run counts everything, again and again, until ctx ends.
func (s *stored) run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.p.store.Ready():
	}
	for {
		if err := s.count(ctx); err != nil && ctx.Err() == nil {
			s.p.cfg.Log.Warn("what projects keep could not be counted; trying again", "error", err)
		}
		wait := countEvery
		if !s.ledger.Counted() {
			wait = time.Minute
		}
		s.lookUntil(ctx, clock.Real.After(wait))
		if ctx.Err() != nil {
			return nil
		}
	}
}

// lookUntil adds up the checkpoints of tasks that are asked about.
func (s *stored) lookUntil(ctx context.Context, end <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-end:
			return
		case t := <-s.look:
			shared, err := s.p.shared()
			if err != nil || shared == nil {
				continue
			}
			sum := int64(0)
			if err := each(ctx, shared, t.Meta.ID+"/", func(o blob.Info) { sum += o.Size }); err == nil {
				s.ledger.Set(t.Meta.Project, t.Meta.ID, ledger.Checkpoints, sum)
			}
		}
	}
}

func (s *stored) count(ctx context.Context) error {
	s.ledger.Begin()
	bytes := map[string]ledger.Sums{} // by task id
	add := func(store lister, prefix string, class ledger.Class) error {
		return each(ctx, store, prefix, func(o blob.Info) {
			task, _, _ := strings.Cut(strings.TrimPrefix(o.Key, prefix), "/")
			sums := bytes[task]
			sums[class] += o.Size
			bytes[task] = sums
		})
	}
	if err := add(s.p.blob, "outputs/", ledger.Outputs); err != nil {
		return err
	}
	if err := add(s.p.blob, "logs/", ledger.Logs); err != nil {
		return err
	}
	if shared, err := s.p.shared(); err == nil && shared != nil {
		if err := add(shared, "", ledger.Checkpoints); err != nil {
			return err
		}
	}
	found := map[string]ledger.Entry{}
	for task, sums := range bytes {
		if project := s.projectOf(ctx, task); project != "" {
			found[task] = ledger.Entry{Project: project, Bytes: sums}
		}
	}
	if err := s.countArchives(ctx, found); err != nil {
		return err
	}
	s.ledger.Replace(found)
	return ctx.Err()
}

// countArchives adds up the code that was opened to each project; the size stands in the grant.
func (s *stored) countArchives(ctx context.Context, found map[string]ledger.Entry) error {
	ids := map[string]string{}
	snap, err := s.p.store.List(ctx, api.KindProject, "", 0)
	if err != nil {
		return err
	}
	snap.Ascend("", func(o api.Object) bool {
		ids[o.GetMeta().ID] = o.GetMeta().Name
		return true
	})
	return each(ctx, s.p.blob, grantsAt, func(o blob.Info) {
		id, _, _ := strings.Cut(strings.TrimPrefix(o.Key, grantsAt), "/")
		name := ids[id]
		r, _, err := s.p.blob.Open(ctx, o.Key)
		if name == "" || err != nil {
			return
		}
		defer r.Close()
		text, _ := io.ReadAll(io.LimitReader(r, 32))
		n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		e := found[archivesOf(name)]
		e.Project = name
		e.Bytes[ledger.Archives] += max(n, 0)
		found[archivesOf(name)] = e
	})
}

func archivesOf(project string) string { return "archives of " + project }

// lister is what a store of bytes has for this.
type lister interface {
	List(ctx context.Context, prefix, after string, limit int) ([]blob.Info, error)
}

func each(ctx context.Context, store lister, prefix string, do func(blob.Info)) error {
	for after := ""; ; {
		list, err := store.List(ctx, prefix, after, listPage)
		if err != nil {
			return err
		}
		for _, o := range list {
			do(o)
		}
		if len(list) < listPage {
			return nil
		}
		after = list[len(list)-1].Key
	}
}

// projectOf finds the project of a task that lives or is in the archive; "" when neither is known.
func (s *stored) projectOf(ctx context.Context, taskID string) string {
	s.mu.Lock()
	name := s.names[taskID]
	s.mu.Unlock()
	if name != "" {
		return name
	}
	if work, err := s.p.workByID(ctx, taskID); err == nil {
		name = work.GetMeta().Project
	} else if kind, ok := api.KindOfID(taskID); ok {
		if row, err := s.p.history.GetArchived(ctx, kind, "", taskID); err == nil && row.Object.GetMeta().ID == taskID {
			name = row.Object.GetMeta().Project
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.names) >= maxNames {
		clear(s.names)
	}
	if name != "" {
		s.names[taskID] = name
	}
	return name
}

// keep is the hub's question before it stores bytes of a task.
func (s *stored) keep(ctx context.Context, taskID string, what link.Kept, bytes int64) error {
	class, field := ledger.Outputs, "outputs"
	if what == link.KeptLogs {
		class, field = ledger.Logs, "logs"
	}
	name := s.projectOf(ctx, taskID)
	if name == "" {
		return nil // a task that is being deleted: its bytes go with it
	}
	if bytes > 0 {
		o, err := s.p.store.Get(ctx, api.Key{Kind: api.KindProject, Name: name}, 0)
		if err == nil {
			err = s.room(o.(*api.Project), class, field, bytes)
		}
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	s.ledger.Add(name, taskID, class, bytes)
	return nil
}

// room refuses bytes that would go over a project's limit.
func (s *stored) room(p *api.Project, class ledger.Class, field string, bytes int64) error {
	limits := p.StorageLimits()
	most := map[ledger.Class]api.Bytes{
		ledger.Logs: limits.Logs, ledger.Outputs: limits.Outputs, ledger.Archives: limits.Archives, ledger.Checkpoints: limits.Checkpoints,
	}[class]
	if used := s.ledger.Used(p.Meta.Name)[class]; bytes > int64(most)-used {
		return tenant.OverLimit(p.Meta.Name, field, api.Bytes(used), api.Bytes(bytes), most)
	}
	return nil
}

// Used is the server's.
func (s *stored) Used(p *api.Project, into *api.ProjectUsage) {
	sums := s.ledger.Used(p.Meta.Name)
	into.Logs, into.Outputs = api.Bytes(sums[ledger.Logs]), api.Bytes(sums[ledger.Outputs])
	into.Archives, into.Checkpoints = api.Bytes(sums[ledger.Archives]), api.Bytes(sums[ledger.Checkpoints])
}

// KeepArchive is the server's.
func (s *stored) KeepArchive(p *api.Project, bytes int64) error {
	if err := s.room(p, ledger.Archives, "archives", bytes); err != nil {
		return err
	}
	s.ledger.Add(p.Meta.Name, archivesOf(p.Meta.Name), ledger.Archives, bytes)
	return nil
}

// Forget is the server's.
func (s *stored) Forget(taskID string) { s.ledger.Drop(taskID) }

// RoomForCheckpoint is the server's.
func (s *stored) RoomForCheckpoint(p *api.Project, bytes int64) error {
	return s.room(p, ledger.Checkpoints, "checkpoints", bytes)
}

// roomForSave says, for the leader, whether another checkpoint of a task may go to the shared store. Who
// writes there are launchers, so what a task has is added up again from time to time, by run.
func (s *stored) roomForSave(ctx context.Context, t *api.TrainingTask) bool {
	if s.passed(s.looked, t.Meta.ID, lookEvery) {
		select {
		case s.look <- t:
		default: // there are many; the next count has it
		}
	}
	o, err := s.p.store.Get(ctx, api.Key{Kind: api.KindProject, Name: t.Meta.Project}, 0)
	if err != nil {
		return true // what is not known refuses nothing
	}
	full := s.room(o.(*api.Project), ledger.Checkpoints, "checkpoints", 1)
	if full == nil {
		return true
	}
	if s.passed(s.told, t.Meta.ID, countEvery) {
		f := fault.From(full)
		s.p.cfg.Log.Warn("a checkpoint stays off the shared store", "task", t.Meta.Name, "project", t.Meta.Project, "error", full)
		err := s.p.history.AddEvents(ctx, history.Event{
			Time: clock.Real.Now().UTC(), Kind: t.Kind(), Project: t.Meta.Project, Name: t.Meta.Name, ID: t.Meta.ID,
			Type: "Warning", Reason: f.Reason, Message: f.Message, Actor: "system",
		})
		if err != nil {
			s.p.cfg.Log.Warn("an event was not kept", "error", err)
		}
	}
	return false
}

// passed says, and notes, that so long has passed since it last said so.
func (s *stored) passed(last map[string]time.Time, id string, long time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock.Real.Now()
	if now.Sub(last[id]) < long {
		return false
	}
	if len(last) >= maxNames {
		clear(last)
	}
	last[id] = now
	return true
}
