package app

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/internal/app/growth"
	"github.com/fermi-cluster/fermi/internal/app/handover"
	"github.com/fermi-cluster/fermi/internal/app/hosts"
	"github.com/fermi-cluster/fermi/internal/app/kinds"
	"github.com/fermi-cluster/fermi/internal/app/lending"
	"github.com/fermi-cluster/fermi/internal/asset"
	"github.com/fermi-cluster/fermi/internal/control/placement"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/current"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/server"
	"github.com/fermi-cluster/fermi/sched"
)

// live answers what only the leader knows: from memory, or by asking it.
type live struct {
	envs   devenv.Policy
	assets *asset.Repo
	place  *placement.Controller
	engine *current.Engine
	hub    *link.Hub
	crew   *kinds.Crew
	hosts  *hosts.Hosts
	others *company
	disk   *guarded
	mint   func(engine.Name) string
	queues *handover.Desk
	grows  atomic.Pointer[growth.Growth] // of the newest leadership
}

// Assets keeps the bytes of datasets and models.
func (l *live) Assets() *asset.Repo { return l.assets }

// Why explains what waits from the planner, any other from its status.
func (l *live) Why(ctx context.Context, t api.Work) (server.Explanation, error) {
	e, err := l.why(ctx, t)
	return l.disk.withDisk(e), err
}

func (l *live) why(ctx context.Context, t api.Work) (server.Explanation, error) {
	var told server.Explanation
	if asked, err := l.others.ask(ctx, askWhy, t.GetMeta().ID, &told); asked {
		return told, err
	}
	if ex, ok := l.place.Why(t.GetMeta().ID); ok {
		out := server.Explanation{Reason: ex.Reason, Message: ex.Message, Action: ex.Action}
		for _, e := range ex.Evidence {
			out.Evidence = append(out.Evidence, api.T("%d %s", "%d %s", e.Count, ""))
			last := &out.Evidence[len(out.Evidence)-1]
			last.EN, last.ZH = last.EN+e.Text.EN, last.ZH+e.Text.ZH
		}
		if ex.Ahead > 0 {
			out.Evidence = append(out.Evidence, api.T("%d [task|tasks] with the same wish came first", "同类任务中有 %d 个排在前面", ex.Ahead))
		}
		if !ex.Start.IsZero() {
			out.EstimatedStart = &ex.Start
			const at = "2006-01-02 15:04:05"
			out.Evidence = append(out.Evidence, api.T("expected to start at %s UTC, between %s and %s", "预计于 %s（UTC）启动，区间 %s 至 %s",
				ex.Start.UTC().Format(at), ex.Early.UTC().Format(at), ex.Late.UTC().Format(at)))
		}
		l.awaited(t.GetMeta().ID, &out)
		out.Moves = l.place.WouldAdmit(t.GetMeta().ID)
		return out, nil
	}
	w := t.Workload()
	out := server.Explanation{Reason: w.Ran.Reason, Message: w.Ran.Message}
	if l.queues.Explain(t.GetMeta().ID, &out) {
		return out, nil
	}
	if why, ok := l.place.Smaller(t); ok {
		out.Evidence = append(out.Evidence, why)
	}
	if had, ok := l.place.Had(t.GetMeta().ID); ok {
		out.Evidence = append(out.Evidence, had)
	}
	out.Evidence = append(out.Evidence, lending.Waits(l.hub, l.engine.Replicas(t.GetMeta().ID))...)
	return out, nil
}

// awaited adds that nodes were asked for.
func (l *live) awaited(id string, out *server.Explanation) {
	g := l.grows.Load()
	if g == nil {
		return
	}
	o, ok := g.Expect(id)
	if !ok {
		return
	}
	out.Evidence = append(out.Evidence, api.T("the autoscaler of zone %s was asked for nodes for %d [replica|replicas] at %s UTC", "已于 %[3]s（UTC）请求可用区 %[1]s 的自动扩缩容为 %[2]d 个副本增加节点",
		o.Zone, o.Replicas, o.Since.UTC().Format(time.DateTime)))
	if o.Coming > 0 {
		out.Evidence = append(out.Evidence, api.T("%d [node has come and is|nodes have come and are] not ready yet", "%d 个新节点已加入，尚未就绪", o.Coming))
	}
	out.Action = api.T("Nothing: it starts when the nodes are there.", "无需操作：节点就绪后自动启动。")
	if out.EstimatedStart == nil && !o.Start.IsZero() {
		out.EstimatedStart = &o.Start
		out.Evidence = append(out.Evidence, api.T("expected to start about %s UTC, as others did that such nodes came for", "按以往此类节点到位的时间，预计约于 %s（UTC）启动", o.Start.UTC().Format(time.DateTime)))
	}
}

// Capacity asks the planner what there is.
func (l *live) Capacity(ctx context.Context) ([]server.CapacityView, error) {
	var told []server.CapacityView
	if asked, err := l.others.ask(ctx, askCapacity, "", &told); asked {
		return told, err
	}
	types, ok := l.place.Capacities()
	if !ok {
		return nil, current.ErrNotLeading
	}
	out := make([]server.CapacityView, len(types))
	for i, t := range types {
		devices := func(thousandths int64) float64 { return float64(thousandths) / sched.WholeDevice }
		out[i] = server.CapacityView{
			Type: t.Type, Total: devices(t.Total), Used: devices(t.Used), Free: devices(t.Free),
			Cordoned: devices(t.Closed), Stranded: devices(t.Stranded), Largest: t.Largest,
		}
	}
	return out, nil
}

// Drained asks the planner.
func (l *live) Drained(ctx context.Context, place string) (api.Outage, error) {
	var told api.Outage
	if asked, err := l.others.ask(ctx, askDrained, place, &told); asked {
		return told, err
	}
	return l.place.Drained(place)
}

// Outage asks the planner.
func (l *live) Outage(ctx context.Context, zone string) (api.Outage, error) {
	var told api.Outage
	if asked, err := l.others.ask(ctx, askOutage, zone, &told); asked {
		return told, err
	}
	return l.place.Outage(zone)
}

// Preview asks the planner, here or on the leader.
func (l *live) Preview(ctx context.Context, t api.Work) (api.Preview, error) {
	var told api.Preview
	if asked, err := l.others.askWith(ctx, askPreview, string(t.Kind()), t, &told); asked {
		return told, err
	}
	return l.place.Preview(ctx, t)
}

// Move has the planner do it.
func (l *live) Move(ctx context.Context, t api.Work, wish server.MoveWish) (api.Move, error) {
	var told moveAnswer
	if asked, err := l.others.askWith(ctx, askMove, t.GetMeta().ID, wish, &told); asked {
		return told.result(err)
	}
	return l.place.Move(ctx, t, placement.MoveWish(wish))
}

// Probe has the task's controller do it.
func (l *live) Probe(ctx context.Context, t *api.TrainingTask, wish server.FaultWish) (server.ProbeView, error) {
	var told probeAnswer
	if asked, err := l.others.askWith(ctx, askProbe, t.Meta.ID, wish, &told); asked {
		return told.View, told.refusal(err)
	}
	ctx, cancel := context.WithTimeout(ctx, probeFor)
	defer cancel()
	p, err := l.crew.Train.Probe(ctx, t, wish.Rank, wish.Kind)
	return server.ProbeView{
		Rank: wish.Rank, Kind: wish.Kind, Replica: string(p.Replica), Node: p.Node, Generation: p.Generation, At: p.At, Text: p.Text,
	}, err
}

// probeFor is how long a launcher may take to answer.
const probeFor = 10 * time.Second

// Shares asks the planner how all queues stand.
func (l *live) Shares(ctx context.Context) ([]api.QueueShare, error) {
	var told []api.QueueShare
	if asked, err := l.others.ask(ctx, askShares, "", &told); asked {
		return told, err
	}
	out, ok := l.place.Shares()
	if !ok {
		return nil, current.ErrNotLeading
	}
	return out, nil
}

// Share asks the planner how one queue stands.
func (l *live) Share(ctx context.Context, queue string) (api.QueueShare, error) {
	var told api.QueueShare
	if asked, err := l.others.ask(ctx, askShare, queue, &told); asked {
		return told, err
	}
	out, ok := l.place.Share(queue)
	if !ok {
		return out, current.ErrNotLeading
	}
	return out, nil
}

// Replicas shows what the engine and the link know.
func (l *live) Replicas(ctx context.Context, taskID string) ([]server.ReplicaView, error) {
	var told []server.ReplicaView
	if asked, err := l.others.ask(ctx, askReplicas, taskID, &told); asked {
		return told, err
	}
	var out []server.ReplicaView
	for _, o := range l.engine.Replicas(taskID) {
		v := server.ReplicaView{Name: string(o.Name), State: string(o.State), Attached: l.hub.Attached(o.Name)}
		v.Role, v.Index, v.Attempt = o.Name.Parse(taskID)
		if !o.Started.IsZero() {
			v.StartedAt = &o.Started
		}
		if x := o.Exit; x != nil {
			at := x.Ended(o.Started)
			v.StoppedAt, v.ExitCode, v.Signal, v.Reason, v.Message = &at, &x.Code, x.Signal, x.Reason, x.Message
			v.CPUTime, v.PeakBytes = x.CPUTime, api.Bytes(x.PeakBytes)
		} else if u, ok := l.hub.Usage(o.Name); ok {
			v.CPUTime, v.Memory, v.PeakBytes = u.CPU, api.Bytes(u.RSS), api.Bytes(u.Peak)
		}
		if text := lending.WaitsFor(l.hub, &o); text != (fault.Text{}) {
			v.Message = text.Pack()
		}
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b server.ReplicaView) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Ran is how long a replica has run, by a clock that nobody sets; false where it does not run, or nobody measured.
func (l *live) Ran(replica string) (time.Duration, bool) {
	o, ok := l.engine.Replica(engine.Name(replica))
	if !ok || o.Exit != nil {
		return 0, false
	}
	d := record.Since(o.Boot, o.Up)
	return d, d > 0
}
