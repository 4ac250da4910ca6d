package quota

import (
	"context"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/blob/ledger"
	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Past is what a Book asks history, and tells it.
type Past interface {
	// GetArchived fails with fault NotFound.
	GetArchived(ctx context.Context, kind api.Kind, project, nameOrID string) (history.Archived, error)
	AddEvents(ctx context.Context, events ...history.Event) error
}

// Config is what a Book counts.
type Config struct {
	Store   store.Reader
	History Past
	Blob    blob.Store
	// Shared is where checkpoints of all nodes are; nil, nil: nowhere.
	Shared func() (ckpt.Store, error)
	// Ready is closed when Store knows everything.
	Ready <-chan struct{}
	// Work finds work that lives.
	Work func(ctx context.Context, id string) (api.Work, error)
	// Images are the bytes of images that the project with this uid has on a node; nil: nobody has any.
	Images func(uid int) int64
	// Server names this process, for several that share Blob; "": it is alone.
	Server string
	Log    *slog.Logger
}

// Book counts the bytes that are kept for projects: once after the start over everything there is, then
// with every write, and again now and then for what other servers and launchers wrote. Safe for concurrent use.
type Book struct {
	cfg    Config
	ledger ledger.Ledger
	mu     sync.Mutex
	names  map[string]string    // task id → project, of tasks that came lately
	looked map[string]time.Time // task id → when its checkpoints were last added up
	told   map[string]time.Time // task id → when its people were last told that there is no room
	look   chan *api.TrainingTask
	// Run's alone: what each server had written when the last count began, and what this one said last, and when.
	base   map[string]map[string]ledger.Sums
	said   map[string]ledger.Sums
	saidAt time.Time
}

const (
	countEvery = time.Hour
	lookEvery  = time.Minute // at the checkpoints of one task
	listPage   = 1000
	maxNames   = 10_000
	grantsAt   = "granted/archives/projects/"
	assetsAt   = "assets/"
)

// New makes a book that has counted nothing yet; it starts nothing.
func New(cfg Config) *Book {
	return &Book{cfg: cfg, names: map[string]string{}, looked: map[string]time.Time{}, told: map[string]time.Time{}, look: make(chan *api.TrainingTask, 256)}
}

// Run counts everything, again and again, until ctx ends.
func (b *Book) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-b.cfg.Ready:
	}
	b.recall(ctx)
	for {
		if err := b.count(ctx); err != nil && ctx.Err() == nil {
			b.cfg.Log.Warn("what projects keep could not be counted; trying again", "error", err)
		}
		wait := countEvery
		if !b.ledger.Counted() {
			wait = time.Minute
		}
		b.lookUntil(ctx, clock.Real.After(wait))
		if ctx.Err() != nil {
			return nil
		}
	}
}

// lookUntil adds up the checkpoints of tasks that are asked about.
func (b *Book) lookUntil(ctx context.Context, end <-chan time.Time) {
	tick := clock.Real.After(tellEvery)
	for {
		select {
		case <-ctx.Done():
			return
		case <-end:
			return
		case <-tick:
			if err := b.exchange(ctx); err != nil && ctx.Err() == nil {
				b.cfg.Log.Debug("what other servers wrote is not known; trying again", "error", err)
			}
			tick = clock.Real.After(tellEvery)
		case t := <-b.look:
			shared, err := b.cfg.Shared()
			if err != nil || shared == nil {
				continue
			}
			sum := int64(0)
			if err := each(ctx, shared, t.Meta.ID+"/", func(o blob.Info) { sum += o.Size }); err == nil {
				b.ledger.Set(t.Meta.Project, t.Meta.ID, ledger.Checkpoints, sum)
			}
		}
	}
}

func (b *Book) count(ctx context.Context) error {
	base, err := b.heard(ctx)
	if err != nil {
		return err
	}
	b.ledger.Begin()
	bytes := map[string]ledger.Sums{} // by task id
	add := func(store lister, prefix string, class ledger.Class) error {
		return each(ctx, store, prefix, func(o blob.Info) {
			task, _, _ := strings.Cut(strings.TrimPrefix(o.Key, prefix), "/")
			sums := bytes[task]
			sums[class] += o.Size
			bytes[task] = sums
		})
	}
	if err := add(b.cfg.Blob, "outputs/", ledger.Outputs); err != nil {
		return err
	}
	if err := add(b.cfg.Blob, "logs/", ledger.Logs); err != nil {
		return err
	}
	if shared, err := b.cfg.Shared(); err == nil && shared != nil {
		if err := add(shared, "", ledger.Checkpoints); err != nil {
			return err
		}
	}
	found := map[string]ledger.Entry{}
	for task, sums := range bytes {
		if project := b.projectOf(ctx, task); project != "" {
			found[task] = ledger.Entry{Project: project, Bytes: sums}
		}
	}
	if err := b.countOwn(ctx, found); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	b.ledger.Replace(found)
	b.base = base
	return b.put(ctx, totalsAt, b.ledger.Totals())
}

// countOwn adds up what belongs to projects themselves: the code that was opened to each, whose size stands in the grant, datasets and models.
func (b *Book) countOwn(ctx context.Context, found map[string]ledger.Entry) error {
	ids := map[string]string{}
	snap, err := b.cfg.Store.List(ctx, api.KindProject, "", 0)
	if err != nil {
		return err
	}
	snap.Ascend("", func(o api.Object) bool {
		ids[o.GetMeta().ID] = o.GetMeta().Name
		return true
	})
	err = each(ctx, b.cfg.Blob, assetsAt, func(o blob.Info) {
		id, _, _ := strings.Cut(strings.TrimPrefix(o.Key, assetsAt), "/")
		if name := ids[id]; name != "" {
			e := found[assetsOf(name)]
			e.Project = name
			e.Bytes[ledger.Assets] += o.Size
			found[assetsOf(name)] = e
		}
	})
	if err != nil {
		return err
	}
	return each(ctx, b.cfg.Blob, grantsAt, func(o blob.Info) {
		id, _, _ := strings.Cut(strings.TrimPrefix(o.Key, grantsAt), "/")
		name := ids[id]
		r, _, err := b.cfg.Blob.Open(ctx, o.Key)
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
func assetsOf(project string) string   { return "assets of " + project }

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
func (b *Book) projectOf(ctx context.Context, taskID string) string {
	b.mu.Lock()
	name := b.names[taskID]
	b.mu.Unlock()
	if name != "" {
		return name
	}
	if t, err := b.cfg.Work(ctx, taskID); err == nil {
		name = t.GetMeta().Project
	} else if kind, ok := api.KindOfID(taskID); ok {
		if row, err := b.cfg.History.GetArchived(ctx, kind, "", taskID); err == nil && row.Object.GetMeta().ID == taskID {
			name = row.Object.GetMeta().Project
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.names) >= maxNames {
		clear(b.names)
	}
	if name != "" {
		b.names[taskID] = name
	}
	return name
}

// Keep counts bytes of a task that are about to be stored, logs or outputs, or refuses them with fault Full.
func (b *Book) Keep(ctx context.Context, taskID string, what link.Kept, bytes int64) error {
	class, field := ledger.Outputs, "outputs"
	if what == link.KeptLogs {
		class, field = ledger.Logs, "logs"
	}
	name := b.projectOf(ctx, taskID)
	if name == "" {
		return nil // a task that is being deleted: its bytes go with it
	}
	if bytes > 0 {
		o, err := b.cfg.Store.Get(ctx, api.Key{Kind: api.KindProject, Name: name}, 0)
		if err == nil {
			err = b.room(o.(*api.Project), class, field, bytes)
		}
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	b.ledger.Add(name, taskID, class, bytes)
	return nil
}

// room refuses bytes that would go over a project's limit.
func (b *Book) room(p *api.Project, class ledger.Class, field string, bytes int64) error {
	limits := p.StorageLimits()
	most := map[ledger.Class]api.Bytes{
		ledger.Logs: limits.Logs, ledger.Outputs: limits.Outputs, ledger.Archives: limits.Archives, ledger.Checkpoints: limits.Checkpoints, ledger.Assets: limits.Assets,
	}[class]
	if used := b.ledger.Used(p.Meta.Name)[class]; bytes > int64(most)-used {
		return OverLimit(p.Meta.Name, field, api.Bytes(used), api.Bytes(bytes), most)
	}
	return nil
}

// Used is the server's.
func (b *Book) Used(p *api.Project, into *api.ProjectUsage) {
	sums := b.ledger.Used(p.Meta.Name)
	into.Logs, into.Outputs = api.Bytes(sums[ledger.Logs]), api.Bytes(sums[ledger.Outputs])
	into.Archives, into.Checkpoints, into.Assets = api.Bytes(sums[ledger.Archives]), api.Bytes(sums[ledger.Checkpoints]), api.Bytes(sums[ledger.Assets])
	if b.cfg.Images != nil && p.Status.UID != 0 {
		into.Images = api.Bytes(b.cfg.Images(p.Status.UID))
	}
}

// MostImages is how many bytes of images a project may have on a node; launchers hold it to that.
func (b *Book) MostImages(project string) int64 {
	limits := api.DefaultProjectLimits
	if o, err := b.cfg.Store.Get(context.Background(), api.Key{Kind: api.KindProject, Name: project}, 0); err == nil { // from memory
		limits = o.(*api.Project).StorageLimits()
	}
	return int64(limits.Images)
}

// KeepArchive is the server's.
func (b *Book) KeepArchive(p *api.Project, bytes int64) error {
	if err := b.room(p, ledger.Archives, "archives", bytes); err != nil {
		return err
	}
	b.ledger.Add(p.Meta.Name, archivesOf(p.Meta.Name), ledger.Archives, bytes)
	return nil
}

// KeepAsset is the server's.
func (b *Book) KeepAsset(p *api.Project, bytes int64) error {
	if bytes > 0 {
		if err := b.RoomForAsset(p, bytes); err != nil {
			return err
		}
	}
	b.ledger.Add(p.Meta.Name, assetsOf(p.Meta.Name), ledger.Assets, bytes)
	return nil
}

// RoomForAsset is the server's.
func (b *Book) RoomForAsset(p *api.Project, bytes int64) error {
	return b.room(p, ledger.Assets, "assets", bytes)
}

// Forget is the server's.
func (b *Book) Forget(taskID string) { b.ledger.Drop(taskID) }

// RoomForCheckpoint is the server's.
func (b *Book) RoomForCheckpoint(p *api.Project, bytes int64) error {
	return b.room(p, ledger.Checkpoints, "checkpoints", bytes)
}

// RoomForSave says, for the leader, whether another checkpoint of a task may go to the shared store. Who
// writes there are launchers, so what a task has is added up again from time to time, by run.
func (b *Book) RoomForSave(ctx context.Context, t *api.TrainingTask) bool {
	if b.passed(b.looked, t.Meta.ID, lookEvery) {
		select {
		case b.look <- t:
		default: // there are many; the next count has it
		}
	}
	o, err := b.cfg.Store.Get(ctx, api.Key{Kind: api.KindProject, Name: t.Meta.Project}, 0)
	if err != nil {
		return true // what is not known refuses nothing
	}
	full := b.room(o.(*api.Project), ledger.Checkpoints, "checkpoints", 1)
	if full == nil {
		return true
	}
	if b.passed(b.told, t.Meta.ID, countEvery) {
		f := fault.From(full)
		b.cfg.Log.Warn("a checkpoint stays off the shared store", "task", t.Meta.Name, "project", t.Meta.Project, "error", full)
		err := b.cfg.History.AddEvents(ctx, history.Event{
			Time: clock.Real.Now().UTC(), Kind: t.Kind(), Project: t.Meta.Project, Name: t.Meta.Name, ID: t.Meta.ID,
			Type: "Warning", Reason: f.Reason, Message: f.Message, Actor: "system",
		})
		if err != nil {
			b.cfg.Log.Warn("an event was not kept", "error", err)
		}
	}
	return false
}

// passed says, and notes, that so long has passed since it last said so.
func (b *Book) passed(last map[string]time.Time, id string, long time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
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
