package keeper

import (
	"context"
	"log/slog"
	"net/http"
	"sync"

	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/launch/rankset"
	"github.com/fermi-cluster/fermi/internal/launch/shm"
	"github.com/fermi-cluster/fermi/internal/launch/steward"
	"github.com/fermi-cluster/fermi/internal/link"
)

// Config is what a keeper is made of.
type Config struct {
	Replica engine.Replica
	Ranks   *rankset.Set
	Records manifests
	// Slots are the states of the ranks in memory. It is asked when they are needed, and not before the ranks' memory is there.
	Slots func() shm.Slots
	// Code is where the code lies: sub in base, and nothing leads out of base.
	Code func() (base, sub string, err error)
	// Steward opens what lies there.
	Steward *steward.Steward
	// Writers are the files that ranks have open for writing, by inode; all: everybody was asked. nil: nobody is.
	Writers func() (open map[uint64]bool, all bool)
	// Note is a line of our own in the user's log; nil: there is none.
	Note func(format string, args ...any)
	// Stores opens the places that checkpoints go to; nil: they stay in memory.
	Stores Stores
	Tiers  record.Tiers
	// Sign proves a request to the shared store, where its credentials are not here.
	Sign func(context.Context, *http.Request) error
	// Wanted says that a generation is still to be begun.
	Wanted func(generation int64) bool
	Stops  stopping
	Clock  clock.Clock
	Log    *slog.Logger
}

// Keeper keeps what the ranks of a replica save: in memory, at a peer, in tiers, and in the folder that a script saves to
// itself; and brings it back to those that start.
type Keeper struct {
	restorer
	persister persister
	open      bool // there are tiers
	stops     stopping
	flush     chan chan struct{}
}

// New opens nothing.
func New(cfg Config) *Keeper {
	local := max(cfg.Replica.Ranks, 1)
	places := &tiers{
		records: cfg.Records, taskID: cfg.Replica.TaskID, clock: cfg.Clock,
		stores: sync.OnceValue(func() map[string]ckpt.Store { return openStores(cfg) }),
	}
	var saved *saveFolder
	if cfg.Replica.CheckpointFolder != "" {
		saved = newFolder(cfg)
	}
	k := &Keeper{open: cfg.Stores != nil, stops: cfg.Stops, flush: make(chan chan struct{})}
	k.restorer = restorer{
		tiers: places, Folder: saved, ranks: cfg.Ranks, local: local, slots: cfg.Slots, wanted: cfg.Wanted, note: cfg.Note, clock: cfg.Clock, log: cfg.Log,
	}
	k.persister = persister{
		tiers: places, folder: saved, ranks: cfg.Ranks, local: local, slots: cfg.Slots, keep: ckpt.Keeping(cfg.Replica.KeepLocal), flush: k.flush, log: cfg.Log,
	}
	return k
}

// OpenPeers lets others hand us their states, and us them ours; the returned closes that.
func (k *Keeper) OpenPeers() (stop func(), err error) {
	if k.peers, err = openPeers(k.local, k.log, k.ranks.Report.Copied); err != nil {
		return nil, err
	}
	return func() { k.peers.listener.Close() }, nil
}

// HasPeers says that states are kept by other launchers, too.
func (k *Keeper) HasPeers() bool { return k.peers != nil }

// ResumeFrom is where the script finds what the generation begins from ($FERMI_RESUME_FROM); "": nowhere.
func (k *Keeper) ResumeFrom() string { return k.resume }

// Meet takes the key for peers of an order, which comes before its generation begins.
func (k *Keeper) Meet(g link.Generation) {
	if k.peers != nil {
		k.peers.meet(g)
	}
}

// Watermark is the leader's word about what is safe.
func (k *Keeper) Watermark(w link.Watermark) {
	if kept, ok := k.ranks.Watermark(w); ok && k.peers != nil {
		k.peers.keep(w.Generation, kept)
	}
}

// Serve hands states to peers and takes theirs, until ctx ends; the returned is the port for that, 0: there are no peers.
func (k *Keeper) Serve(ctx context.Context, wg *sync.WaitGroup) (port int) {
	if k.peers == nil {
		return 0
	}
	wg.Go(func() { k.peers.serve(ctx) })
	wg.Go(func() { k.peers.send(ctx) })
	return k.peers.port()
}

// Run persists what ranks save, until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	if k.Folder != nil {
		wg.Go(func() { k.Folder.watch(ctx) })
	}
	k.persister.run(ctx)
}

// Begin is a new generation, whose ranks have not started: what they go on from is checked.
func (k *Keeper) Begin(g link.Generation) {
	k.Check(g)
	if k.Folder != nil {
		k.Folder.begin(g, k.local, k.clock.Now())
	}
	if k.peers != nil {
		k.peers.begin(g)
	}
}

// SettleIn is told once where the memory of the ranks is; other is the folder, ours alone, for what peers hand us.
func (k *Keeper) SettleIn(other string, limit int64) error {
	if k.peers == nil {
		return nil
	}
	return k.peers.settle(k.slots(), other, limit)
}
