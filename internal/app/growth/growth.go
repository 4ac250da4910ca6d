package growth

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine/kubeengine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/sched"
	"github.com/fermi-cluster/fermi/sched/advice"
)

// asker is where one cluster's autoscaler sees what waits; kubeengine.Growth.
type asker interface {
	Want(ctx context.Context, wishes []kubeengine.Wish) error
}

// Growth asks. Zones are those that grow; Others are clusters that don't, from which what an earlier leader asked for is taken back once.
type Growth struct {
	Store         store.Reader
	Why           func(id string) (sched.Explanation, bool)
	Zones, Others map[string]asker
	Events        history.Events
	Clock         clock.Clock
	Log           *slog.Logger

	outlooks outlooks
}

const (
	// every is how often it looks: autoscalers look every ten seconds or so.
	every = 10 * time.Second
	// maxGangs and maxReplicas bound what is asked for at a time.
	maxGangs, maxReplicas = 16, 256
)

// Of are the clusters by zone, as those that grow and the others.
func Of(clusters map[string]*kubeengine.Cluster, grow []string, image string, rows []kubeengine.Resource) (zones, others map[string]asker) {
	zones, others = map[string]asker{}, map[string]asker{}
	for zone, c := range clusters {
		into := others
		if slices.Contains(grow, zone) {
			into = zones
		}
		into[zone] = &kubeengine.Growth{Cluster: c, Image: image, Resources: rows}
	}
	return zones, others
}

// Run asks until ctx ends. It begins a moment after the planner, so that what an earlier leader asked for is not taken back while nobody knows who waits.
func (g *Growth) Run(ctx context.Context) error {
	failed := map[string]string{} // why, by zone, as it was logged last
	left := maps.Clone(g.Others)
	for len(g.Zones)+len(left) > 0 {
		select {
		case <-ctx.Done():
			return nil
		case <-g.Clock.After(every):
		}
		for zone, to := range left {
			if g.ask(ctx, zone, to, nil, failed) {
				delete(left, zone)
			}
		}
		if len(g.Zones) == 0 {
			continue
		}
		gangs, err := g.waiting(ctx)
		if err != nil {
			if ctx.Err() == nil {
				g.Log.Warn("what waits can't be read; trying again", "error", err)
			}
			continue
		}
		list := share(gangs, slices.Sorted(maps.Keys(g.Zones)), g.Why)
		g.outlooks.settle(list, g.Clock.Now(), func(id string) (time.Time, bool) { return g.began(ctx, id) }, func(zone string, since time.Time) int { return g.coming(ctx, zone, since) })
		wishes := g.tell(ctx, list)
		for zone, to := range g.Zones {
			g.ask(ctx, zone, to, wishes[zone], failed)
		}
	}
	<-ctx.Done()
	return nil
}

func (g *Growth) ask(ctx context.Context, zone string, to asker, wishes []kubeengine.Wish, failed map[string]string) bool {
	err := to.Want(ctx, wishes)
	if reason := fault.ReasonOf(err); err != nil && ctx.Err() == nil && failed[zone] != reason {
		failed[zone] = reason
		g.Log.Warn("the autoscaler of a cluster can't be asked for nodes; trying again", "zone", zone, "reason", reason, "error", err)
	}
	if err == nil {
		delete(failed, zone)
	}
	return err == nil
}

// waiting is all work that waits, the oldest first.
func (g *Growth) waiting(ctx context.Context) (out []*api.Workload, err error) {
	for _, kind := range []api.Kind{api.KindTrainingTask, devenv.Kind, serving.ReplicaKind} {
		snap, err := g.Store.List(ctx, kind, "", 0)
		if err != nil {
			return nil, err
		}
		snap.Ascend("", func(o api.Object) bool {
			if w, ok := o.(api.Work); ok && o.GetMeta().DeletedAt == nil {
				if v := w.Workload(); v.Phase == api.PhasePending {
					out = append(out, &v)
				}
			}
			return true
		})
	}
	slices.SortFunc(out, func(a, b *api.Workload) int {
		return cmp.Or(a.Meta.CreatedAt.Compare(b.Meta.CreatedAt), cmp.Compare(a.Meta.ID, b.Meta.ID))
	})
	return out, nil
}

// began is when some work got its place, if it has one.
func (g *Growth) began(ctx context.Context, id string) (time.Time, bool) {
	o, err := store.WorkByID(ctx, g.Store, id, 0)
	if err != nil {
		return time.Time{}, false
	}
	w := o.Workload()
	if w.Phase == api.PhasePending || w.Phase.Finished() || w.Ran.PlacedAt == nil {
		return time.Time{}, false
	}
	return *w.Ran.PlacedAt, true
}

// coming counts the nodes of a zone that came after a time and are not ready yet.
func (g *Growth) coming(ctx context.Context, zone string, since time.Time) (n int) {
	snap, err := g.Store.List(ctx, api.KindNode, "", 0)
	if err != nil {
		return 0
	}
	snap.Ascend("", func(o api.Object) bool {
		if isComing(o.(*api.Node), zone, since) {
			n++
		}
		return true
	})
	return n
}

// asked is a gang and where it is asked for.
type asked struct {
	work *api.Workload
	zone string
	list []kubeengine.Wish
}

// lacksRoom are the reasons to wait that more nodes would end.
var lacksRoom = []string{advice.ReasonNeverFits, advice.ReasonNoNodes, advice.ReasonFragmented, advice.ReasonDevicesBusy, advice.ReasonNodesFull, advice.ReasonSpot}

// share says which gangs are asked for in which of the zones, whole or not at all.
func share(gangs []*api.Workload, zones []string, why func(id string) (sched.Explanation, bool)) (out []asked) {
	replicas := 0
	for _, w := range gangs {
		zone, ok := zoneFor(w.Wish.Zones, zones)
		list := wishesOf(w)
		if !ok || len(list) == 0 || replicas+len(list) > maxReplicas {
			continue
		}
		if ex, waits := why(w.Meta.ID); !waits || !slices.Contains(lacksRoom, ex.Reason) {
			continue
		}
		replicas += len(list)
		if out = append(out, asked{w, zone, list}); len(out) == maxGangs {
			break
		}
	}
	return out
}

// zoneFor is the first zone that the rules leave. Who fixes how many replicas go where, or needs several zones, is not helped by one.
func zoneFor(z *api.ZoneRules, zones []string) (string, bool) {
	if z != nil && (len(z.Split) > 0 || z.SurviveZoneLoss) {
		return "", false
	}
	i := slices.IndexFunc(zones, func(zone string) bool {
		return z == nil || (len(z.Allow) == 0 || slices.Contains(z.Allow, zone)) && !slices.Contains(z.Deny, zone)
	})
	if i < 0 {
		return "", false
	}
	return zones[i], true
}

// wishesOf are the replicas of a gang at its least size; none where it needs a certain node, or a part of a device, which clusters don't give.
func wishesOf(w *api.Workload) (out []kubeengine.Wish) {
	if w.Wish.Node != "" || len(w.Wish.Inside) > 0 {
		return nil
	}
	for i := range w.Roles {
		r := &w.Roles[i]
		low, high := r.Range()
		if low == high {
			low = r.Placed()
		}
		if r.Resources.Accelerators.Share != 0 || len(out)+low > maxReplicas {
			return nil
		}
		one := kubeengine.Wish{TaskID: w.Meta.ID, Task: w.Meta.Name, Owner: w.Meta.Owner, Role: r.Name, Resources: r.Resources}
		if w.Wish.Zones != nil {
			one.Spot = w.Wish.Zones.Spot
		}
		for k := range low {
			one.Index = k
			out = append(out, one)
		}
	}
	return out
}

// tell says to those who wait that nodes were asked for, once for each attempt, and sorts the wishes by zone.
func (g *Growth) tell(ctx context.Context, list []asked) map[string][]kubeengine.Wish {
	out := map[string][]kubeengine.Wish{}
	var events []history.Event
	for _, a := range list {
		out[a.zone] = append(out[a.zone], a.list...)
		m := a.work.Meta
		events = append(events, history.Event{
			Time: g.Clock.Now(), Kind: a.work.Kind, Project: m.Project, Name: m.Name, ID: m.ID, Type: "Normal", Reason: "NodesRequested", Actor: "growth", Dedup: "grow/" + m.ID + "/" + a.zone,
			Message: fault.T("No node has room for it: the autoscaler of zone %s was asked for nodes for %d [replica|replicas].", "没有节点能放下：已请求可用区 %s 的自动扩缩容为 %d 个副本增加节点。", a.zone, len(a.list)),
		})
	}
	if len(events) > 0 {
		if err := g.Events.AddEvents(ctx, events...); err != nil && ctx.Err() == nil {
			g.Log.Warn("it could not be noted that nodes were asked for", "error", err)
		}
	}
	return out
}

// Spare is refuse, but nothing is refused as too large for the cluster that may stand in a zone which grows.
func Spare(grow []string, refuse func(context.Context, api.Work, int64) error) func(context.Context, api.Work, int64) error {
	if len(grow) == 0 {
		return refuse
	}
	return func(ctx context.Context, t api.Work, minRevision int64) error {
		err := refuse(ctx, t, minRevision)
		v := t.Workload()
		if _, grows := zoneFor(v.Wish.Zones, grow); grows && slices.Contains(lacksRoom, fault.ReasonOf(err)) {
			return nil
		}
		return err
	}
}
