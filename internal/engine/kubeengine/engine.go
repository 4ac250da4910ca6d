package kubeengine

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/kubeengine/pull"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Config is what an engine needs.
type Config struct {
	Cluster *Cluster
	// Dir is where the engine notes what it knew last; several leaders may have it one after the other.
	Dir string
	// Instance is this Fermi, so that no other shares its namespace.
	Instance string
	// Epoch is our leadership.
	Epoch int64
	// Image has the fermi program as its entry point. Replicas that name no image run in it, too.
	Image string
	// Account is the service account of pods; "default" when "".
	Account string
	// Resources are rows before those of the table.
	Resources []Resource
	// RDMA is the extended resource of the fast network, of which each pod with devices gets one on nodes that have it; "": none.
	RDMA string
	// Endpoints are the targets at which launchers reach servers, one a line.
	Endpoints func() string
	// Heard is how far a launcher said over the link that it is; Tell gives it a stop. Both must be given.
	Heard func(engine.Name) (engine.State, bool)
	Tell  func(name engine.Name, grace time.Duration) error
	// Last are the nodes of the zone as they were written down last; nil: nobody knows.
	Last    func() []api.Node
	Version string
	Log     *slog.Logger
	Clock   clock.Clock
}

const (
	// beat is how often the cluster is asked whether it is there and whether we still lead.
	beat = 5 * time.Second
	// ailing is how long a cluster may be silent before its nodes take no more work.
	ailing = 15 * time.Second
	// firstPatience is how long a cluster may be away at the start before the others go on without it.
	firstPatience = 10 * time.Second
	// slowest is the longest pause between two attempts to reach it.
	slowest = 30 * time.Second
)

// Engine is a leader's, of one cluster. Safe for concurrent use.
type Engine struct {
	*engine.Board
	cfg     Config
	pods    pods
	ready   chan struct{}
	stopped chan struct{} // closed when Run has ended
	settle  func()        // closes ready, once

	ground *ground
	fence  *fence
	stops  *stops
	notes  *notes

	mu      sync.Mutex
	seen    map[engine.Name]*corev1.Pod // our pods
	synced  bool                        // they are all there
	ending  map[types.UID]bool          // pods that were given up, on their way out
	removed map[types.UID]bool          // pods that were let go, until they are gone
}

// New makes an engine. It starts nothing, and asks nobody.
func New(cfg Config) (*Engine, error) {
	if cfg.Cluster == nil || cfg.Cluster.Zone == "" || cfg.Cluster.Namespace == "" || cfg.Image == "" || cfg.Dir == "" || cfg.Endpoints == nil || cfg.Heard == nil || cfg.Tell == nil {
		return nil, fault.New(fault.Internal, "BadEngineConfig", fault.T(
			"The engine of a cluster needs a zone, a namespace, an image, a folder, and a way to launchers.", "集群引擎需要可用区、命名空间、镜像、目录以及与启动器通信的途径。"))
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.Real
	}
	board := engine.NewBoard()
	e := &Engine{
		Board: board, cfg: cfg, ready: make(chan struct{}), stopped: make(chan struct{}), seen: map[engine.Name]*corev1.Pod{},
		ground: newGround(cfg, board), fence: &fence{cfg.Cluster, cfg.Instance, cfg.Epoch, cfg.Endpoints}, notes: &notes{dir: cfg.Dir, zone: cfg.Cluster.Zone, board: board, log: cfg.Log, clock: cfg.Clock},
		pods: pods{
			cluster: cfg.Cluster, image: cfg.Image, account: cmp.Or(cfg.Account, "default"), config: recordName(cfg.Cluster.Zone), version: cfg.Version, resources: table(cfg.Resources), rdma: cfg.RDMA,
		},
		ending: map[types.UID]bool{}, removed: map[types.UID]bool{},
	}
	e.pods.pulls = pull.New(e.pods.registry(), map[string]string{LabelManaged: Managed, LabelZone: cfg.Cluster.Zone}, cfg.Clock)
	e.stops = &stops{cluster: cfg.Cluster, fence: e.fence, tell: cfg.Tell, log: cfg.Log, clock: cfg.Clock, wishes: map[engine.Name]deadline{}}
	e.settle = sync.OnceFunc(func() { close(e.ready) })
	return e, nil
}

var (
	_ engine.Adapter  = (*Engine)(nil)
	_ engine.Prompted = (*Engine)(nil)
	_ engine.Briefed  = (*Engine)(nil)
)

// Ready is closed when everything that runs was found again; or, where the cluster is away, when what was known last was.
func (e *Engine) Ready() <-chan struct{} { return e.ready }

// Run finds the pods, then follows them and the nodes until ctx ends. All pods are left running.
func (e *Engine) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer close(e.stopped)
	defer wg.Wait()
	defer cancel()
	e.notes.remember()
	late := e.cfg.Clock.After(firstPatience)
	if err := e.reach(ctx, late); err != nil || ctx.Err() != nil {
		return err
	}
	w := e.watchers()
	for _, one := range w {
		wg.Go(func() { one.RunWithContext(ctx) })
	}
	if err := e.whole(ctx, w, late); err != nil || ctx.Err() != nil {
		return err
	}
	e.adopt()
	e.settle()
	wg.Go(func() { e.ground.reportNodes(ctx) })
	wg.Go(func() { e.ground.reportClaims(ctx) })
	return e.follow(ctx)
}

// reach enters our epoch, as soon as somebody answers.
func (e *Engine) reach(ctx context.Context, late <-chan time.Time) error {
	for pause := time.Second; ; pause = min(2*pause, slowest) {
		err := e.fence.enter(ctx)
		if err == nil {
			e.cfg.Cluster.calm()
			return nil
		}
		if fault.ReasonOf(err) == newerLeader {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		e.fret(err)
		if !e.await(ctx, pause, &late) {
			return nil
		}
	}
}

// await waits; when it gets late, others go on without this cluster. False: it is over.
func (e *Engine) await(ctx context.Context, pause time.Duration, late *<-chan time.Time) bool {
	next := e.cfg.Clock.After(pause)
	for {
		select {
		case <-ctx.Done():
			return false
		case <-*late:
			*late = nil
			e.cfg.Log.Warn("the cluster does not answer; what was known of it last counts until it does", "zone", e.cfg.Cluster.Zone)
			e.ground.hide()
			e.settle()
		case <-next:
			return true
		}
	}
}

// whole waits until all lists are there.
func (e *Engine) whole(ctx context.Context, list []watcher, late <-chan time.Time) error {
	for asked := e.cfg.Clock.Now(); ; {
		missing := slices.ContainsFunc(list, func(w watcher) bool { return !w.told.HasSynced() })
		if !missing {
			return nil
		}
		if !e.await(ctx, 20*time.Millisecond, &late) {
			return nil
		}
		if now := e.cfg.Clock.Now(); now.Sub(asked) >= beat {
			asked = now
			if err := e.fence.rule(ctx); fault.ReasonOf(err) == newerLeader {
				return err
			}
		}
	}
}

// follow asks now and then whether we lead and the cluster answers, and does what has become due.
func (e *Engine) follow(ctx context.Context) error {
	var failing time.Time // since when
	asked := e.cfg.Clock.Now()
	ways := roads{cluster: e.cfg.Cluster, log: e.cfg.Log}
	for {
		select {
		case <-ctx.Done():
			e.notes.note(true)
			return nil
		case <-e.cfg.Clock.After(time.Second):
		}
		e.stops.press(ctx, e.pod)
		e.notes.note(false)
		now := e.cfg.Clock.Now()
		if now.Sub(asked) < beat {
			continue
		}
		asked = now
		e.lookAgain()
		err := e.fence.rule(ctx)
		switch {
		case ctx.Err() != nil:
		case fault.ReasonOf(err) == newerLeader:
			return err
		case err != nil:
			e.fret(err)
			if failing.IsZero() {
				failing = now
			} else if now.Sub(failing) >= ailing {
				e.ground.hide()
			}
		default:
			if !failing.IsZero() {
				e.cfg.Log.Info("the cluster answers again", "zone", e.cfg.Cluster.Zone)
				failing = time.Time{}
			}
			e.cfg.Cluster.calm()
			e.ground.show()
			ways.pave(ctx, e.list())
		}
	}
}

// fret takes down that the cluster does not answer, or not as it should.
func (e *Engine) fret(err error) {
	if f := fault.From(err); e.cfg.Cluster.upset(f) {
		e.cfg.Log.Warn("a cluster can't be used; trying again", "zone", e.cfg.Cluster.Zone, "reason", f.Reason, "error", err)
	}
}

// waitReady holds a caller until the lists are whole; it refuses one where they can't be had.
func (e *Engine) waitReady(ctx context.Context) error {
	select {
	case <-e.ready:
	case <-ctx.Done():
		return fault.From(ctx.Err())
	case <-e.stopped:
	}
	select {
	case <-e.stopped:
		return fault.New(fault.Unavailable, "EngineStopped", fault.T("The engine is shutting down.", "引擎正在关闭。"))
	default:
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.synced {
		return nil
	}
	if why := e.cfg.Cluster.Trouble(); why != nil {
		return why
	}
	return fault.New(fault.Unavailable, "ClusterUnreachable", fault.T("Cluster %s has not answered yet.", "集群 %s 尚未响应。", e.cfg.Cluster.Zone))
}

// pod is the one of a replica as it was seen last; nil: none was.
func (e *Engine) pod(name engine.Name) *corev1.Pod {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.seen[name]
}
