package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/app"
	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/blob/logbook"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/control/save"
	"github.com/fermi-cluster/fermi/internal/control/train"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history/sqlstore"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/link/endpoint"
	"github.com/fermi-cluster/fermi/internal/run"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/embedded"
)

const (
	rendezvousTask = "task-rendezvous"
	rendezvousKey  = "a key of the bench, which nobody else uses"
)

var rendezvousTaskKey = api.Key{Kind: api.KindTrainingTask, Project: api.DefaultProject, Name: "rendezvous"}

// calm is a clock on which an hour passes between two generations, so that none is held back as one
// of a task that fails all the time.
type calm struct{ hours *atomic.Int64 }

func (c calm) Now() time.Time {
	return time.Now().Add(time.Duration(c.hours.Load()) * time.Hour)
}
func (c calm) After(d time.Duration) <-chan time.Time { return time.After(d) }

// rendezvousServer is a server process: etcd, store, history, link and training controller as in
// fermi serve; only the engine has no processes.
func rendezvousServer(ctx context.Context, dir string) error {
	app.CollectSeldom()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	etcd, err := embedded.Start(ctx, embedded.Config{Dir: filepath.Join(dir, "etcd"), Log: log})
	if err != nil {
		return err
	}
	blobs, err := folder.Open(filepath.Join(dir, "blobs"))
	if err != nil {
		return err
	}
	past, err := sqlstore.Open(ctx, sqlstore.Config{Path: filepath.Join(dir, "history.db"), Log: log, Clock: clock.Real})
	if err != nil {
		return err
	}
	w := &rendezvousWatch{acks: map[int64]int{}, known: make([]int64, rendezvousLaunchers()), heardOf: make([]bool, rendezvousLaunchers())}
	w.store = store.New(store.Config{Client: etcd.Client(), Log: log, Clock: clock.Real})
	book := logbook.New(logbook.Config{Blob: blobs, Log: log, Clock: clock.Real})
	var control *train.Controller
	var saves *save.Controller
	w.hub = link.NewHub(link.HubConfig{
		Blob: blobs, Logs: book, Tokens: link.NewTokens([]byte(rendezvousKey)), Log: log, Clock: clock.Real,
		Notify: func(taskID string, name engine.Name) { w.note(name); control.Notify(taskID, name) },
		Saved:  func(taskID string, anew bool) { saves.Saved(taskID, anew) },
		Fetched: link.Fetched{ArchiveOf: func(context.Context, string) (string, error) {
			return "", fault.New(fault.NotFound, "NoArchive", fault.T("There is no code.", "没有代码。"))
		}},
	})
	hands := &idleEngine{hub: w.hub, started: map[engine.Name]bool{}}
	gangs := train.NewGangs(w.store, hands, w.hub)
	saves = save.New(save.Config{Store: w.store, Hub: w.hub, Events: past, Gangs: gangs, Clock: calm{&w.hours}, Log: log})
	control = train.New(train.Config{
		Store: w.store, History: past, Engine: hands, Hub: w.hub, Gangs: gangs, Checkpoints: saves, Clock: calm{&w.hours}, Log: log,
		EraseBytes: func(context.Context, string) error { return nil }, ArchiveAfter: 1000 * time.Hour, Workers: 8,
	})
	var g run.Group
	g.Add("store", w.store.Run)
	g.Add("logbook", book.Run)
	g.Add("leader", func(ctx context.Context) error {
		<-w.store.Ready()
		if err := w.store.ForgetLeaders(ctx); err != nil {
			return err
		}
		return w.store.Campaign(ctx, "bench", func(ctx context.Context, epoch store.Epoch) error {
			return w.lead(ctx, epoch, dir, hands, control, saves)
		})
	})
	return g.Run(ctx)
}

// lead opens the door when the task is there and what runs is known.
func (w *rendezvousWatch) lead(ctx context.Context, epoch store.Epoch, dir string, hands *idleEngine, control *train.Controller, saves *save.Controller) error {
	revision, err := writeRendezvousTask(ctx, w.store)
	if err != nil {
		return err
	}
	o, err := w.store.Get(ctx, rendezvousTaskKey, revision)
	if err != nil {
		return err
	}
	if o.(*api.TrainingTask).Status.Generation > 0 { // the records of another server, as on disk
		hands.all()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	target, err := endpoint.Target(l.Addr().String(), []byte(rendezvousKey))
	if err != nil {
		return err
	}
	if err := os.WriteFile(endpointsFile(dir), []byte(target+"\n"), 0o600); err != nil {
		return err
	}
	w.hub.Lead(epoch.Revision)
	defer w.hub.Lead(0)
	fmt.Println("listening")
	var g run.Group
	cfg := endpoint.ServerTLS(func() [][]byte { return [][]byte{[]byte(rendezvousKey)} })
	g.Add("link", func(ctx context.Context) error { return w.hub.Serve(ctx, tls.NewListener(l, cfg)) })
	g.Add("train", func(ctx context.Context) error { return control.Run(ctx, epoch) })
	g.Add("save", func(ctx context.Context) error { return saves.Run(ctx, epoch) })
	g.Add("watch", w.follow)
	return g.Run(ctx)
}

// rendezvousWatch takes the times, in the process that it is about.
type rendezvousWatch struct {
	store *store.Store
	hub   *link.Hub
	hours atomic.Int64

	mu       sync.Mutex
	heardOf  []bool  // by replica: attached, and its ranks were told
	attached int     // how many of them
	known    []int64 // generation, by replica
	acks     map[int64]int
	heard    time.Time // the failure
	cpu      float64   // seconds used until then
	last     time.Time // the last ack
}

// note looks at what a replica said; it is called for every such change.
func (w *rendezvousWatch) note(name engine.Name) {
	parts, err := link.ParseName(name)
	r, ok := w.hub.Ranks(name)
	if err != nil || !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	i := parts.Index
	if !w.heardOf[i] {
		w.heardOf[i] = true
		if w.attached++; w.attached == rendezvousLaunchers() {
			fmt.Println("attached")
		}
	}
	if r.Failed != nil {
		w.heard, w.cpu = time.Now(), cpuSeconds()
	}
	if r.Generation > w.known[i] {
		w.known[i] = r.Generation
		if w.acks[r.Generation]++; w.acks[r.Generation] == rendezvousLaunchers() {
			w.last = time.Now()
		}
	}
}

// follow sees generations as they are written, and tells what each took once it is written that all of
// it runs.
func (w *rendezvousWatch) follow(ctx context.Context) error {
	feed := w.store.Subscribe(api.KindTrainingTask)
	defer feed.Close()
	told := 0
	for {
		changes, err := feed.Next(ctx)
		if err != nil {
			return ctx.Err()
		}
		for _, ch := range changes {
			t, ok := ch.New.(*api.TrainingTask)
			if !ok || t.Status.Phase != api.PhaseRunning || t.Status.Generation <= told {
				continue
			}
			told = t.Status.Generation
			if len(t.Status.Restarts) == 0 {
				fmt.Println("running")
				continue
			}
			w.mu.Lock()
			decided := t.Status.Restarts[len(t.Status.Restarts)-1].Add(-time.Duration(w.hours.Load()) * time.Hour)
			fmt.Println("generation", w.last.Sub(w.heard).Seconds(), w.last.Sub(decided).Seconds(),
				(cpuSeconds()-w.cpu)*1e6/float64(rendezvousLaunchers()), time.Since(w.heard).Seconds())
			w.hours.Add(1)
			w.mu.Unlock()
		}
	}
}

// idleEngine has no hands: a replica is there when it is ordered and runs when its launcher says so.
type idleEngine struct {
	hub     *link.Hub
	mu      sync.Mutex
	started map[engine.Name]bool // true: it was running before this server
}

func (e *idleEngine) all() {
	for i := range rendezvousLaunchers() {
		e.started[engine.NameOf(rendezvousTask, "worker", i, 1)] = true
	}
}

func (e *idleEngine) Start(_ context.Context, r engine.Replica) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.started[r.Name] = false
	return nil
}

func (e *idleEngine) Stop(_ context.Context, name engine.Name, _ time.Duration) error {
	return errors.New("nothing is stopped here: " + string(name))
}

func (e *idleEngine) Remove(context.Context, engine.Name) error { return nil }

func (e *idleEngine) Replica(engine.Name) (engine.Observation, bool) {
	return engine.Observation{}, false
}

func (e *idleEngine) Replicas(string) []engine.Observation {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]engine.Observation, 0, len(e.started))
	for name, before := range e.started {
		o := engine.Observation{Name: name, TaskID: rendezvousTask, State: engine.StateCreated, Address: "127.0.0.1", LauncherAddress: "127.0.0.1"}
		if state, ok := e.hub.State(name); before || (ok && state == engine.StateRunning) {
			o.State, o.Started = engine.StateRunning, benchTime
		}
		out = append(out, o)
	}
	return out
}

// writeRendezvousTask writes the task, its place and the nodes of it; what is there stays. It gives the
// revision of the last write.
func writeRendezvousTask(ctx context.Context, st *store.Store) (revision int64, err error) {
	meta := func(id, project, name string) api.Meta {
		return api.Meta{ID: id, Project: project, Name: name, CreatedAt: benchTime, UpdatedAt: benchTime}
	}
	ops := []store.Op{store.Create(&api.Zone{Meta: meta("zone-a", "", "a")})}
	for i := range rendezvousLaunchers() / 8 {
		ops = append(ops, store.Create(&api.Node{
			Meta: meta(fmt.Sprintf("node-%d", i+1), "", fmt.Sprintf("n%d", i+1)),
			Spec: api.NodeSpec{Number: uint32(i + 1), Zone: "a", Leaf: fmt.Sprintf("leaf%d", i/64), CPU: 128000, Memory: 1 << 40, Virtual: true},
		}))
	}
	slots := make(api.Slots, rendezvousLaunchers())
	for i := range slots {
		slots[i] = api.Slot{Node: uint32(i/8 + 1)}
	}
	task := &api.TrainingTask{Meta: meta(rendezvousTask, rendezvousTaskKey.Project, rendezvousTaskKey.Name), Spec: api.TrainingTaskSpec{
		Roles:   []api.Role{{Name: "worker", Replicas: rendezvousLaunchers(), Command: []string{"/bin/true"}}},
		Restart: &api.RestartPolicy{MaxRestarts: 1000, Window: api.Duration(1000 * time.Hour)},
	}}
	task.Status.Phase = api.PhasePending
	ops = append(ops, store.Create(task), store.Create(&api.Placement{
		Meta: meta("place-rendezvous", rendezvousTaskKey.Project, rendezvousTask),
		Spec: api.PlacementSpec{TaskID: rendezvousTask, Attempt: 1, PlacedAt: benchTime, Roles: []api.RoleAssignment{{Role: "worker", Slots: slots}}},
	}))
	for part := range slices.Chunk(ops, 100) {
		at, err := st.Commit(ctx, store.Txn{Ops: part})
		if err != nil && fault.ReasonOf(err) != "NameTaken" {
			return 0, err
		}
		revision = max(revision, at)
	}
	return revision, nil
}
