package train

import (
	"context"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/selection"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/truth"
)

// surroundings finds what others may train inside.
type surroundings struct{ truth *truth.Truth }

// environments finds running environments, and tasks of one replica, in the project, by name or id, in which the caller may train; at is where they
// are asked for.
func (s *surroundings) environments(ctx context.Context, who *access.Caller, project, at string, ids []string) ([]selection.Node, error) {
	numbers := map[uint32]*api.Node{}
	snap, err := s.truth.List(ctx, api.KindNode, "", 0)
	if err != nil {
		return nil, err
	}
	snap.Ascend("", func(o api.Object) bool {
		numbers[o.(*api.Node).Spec.Number] = o.(*api.Node)
		return true
	})
	var nodes []selection.Node
	var fields []fault.Field
	for i, id := range ids {
		n, why, err := s.environment(ctx, who, project, id, numbers)
		if err != nil {
			return nil, err
		}
		if why != nil {
			fields = append(fields, fault.Field{Path: refuse.Indexed(at, i), Message: *why})
			continue
		}
		nodes = append(nodes, n)
	}
	if len(fields) > 0 {
		return nil, selection.Refuse(fields)
	}
	return nodes, nil
}

// environment is one; why says what makes it no environment to train in.
func (s *surroundings) environment(ctx context.Context, who *access.Caller, project, id string, numbers map[uint32]*api.Node) (n selection.Node, why *fault.Text, err error) {
	no := func(en, zh string, args ...any) (selection.Node, *fault.Text, error) {
		text := fault.T(en, zh, args...)
		return selection.Node{}, &text, nil
	}
	shown := refuse.Clip(id, 64)
	w, err := s.host(ctx, project, id)
	switch {
	case err != nil:
		return n, nil, err
	case w == nil:
		return no("There is no environment %q in the project; choose a running one.", "项目中没有环境 %q，请选择运行中的环境。", shown)
	case w.Phase != api.PhaseRunning || w.Stop || w.Host.Home != "" && !w.Host.Lends: // its home is being saved
		return no("%q does not run; choose a running environment.", "%q 未在运行，请选择运行中的环境。", shown)
	case len(w.Wish.Inside) > 0:
		return no("%q runs inside others; choose those.", "%q 在其他环境内运行，请选择那些环境。", shown)
	case !w.Host.Lends:
		return no("%q has several replicas; an environment is one.", "%q 有多个副本，而环境只有一个。", shown)
	case !admits(who, w):
		return no("%q belongs to %s, who does not share it.", "%q 属于 %s，且未共享。", shown, w.Meta.Owner)
	}
	po, err := s.truth.Find(ctx, w.PlaceKey(), 0)
	if fault.Is(err, fault.NotFound) {
		return no("%q has no place any more; choose a running environment.", "%q 已无放置，请选择运行中的环境。", shown)
	}
	if err != nil {
		return n, nil, err
	}
	p := po.(*api.Placement)
	if p.Spec.TaskID != w.Meta.ID || len(p.Spec.Roles) != 1 || len(p.Spec.Roles[0].Slots) != 1 || numbers[p.Spec.Roles[0].Slots[0].Node] == nil {
		return no("%q has no place any more; choose a running environment.", "%q 已无放置，请选择运行中的环境。", shown)
	}
	slot := p.Spec.Roles[0].Slots[0]
	host, res := numbers[slot.Node], w.Roles[0].Resources
	n = selection.Node{ID: id, Key: w.Meta.ID, Name: w.Meta.Name, Node: host.Meta.Name, Zone: host.Spec.Zone, CPU: res.CPU, Memory: res.Memory}
	for bit, d := range host.Spec.Devices {
		if slot.Devices&(1<<bit) != 0 {
			n.Devices = append(n.Devices, d)
		}
	}
	return n, nil, nil
}

// host is the work of the project that has this name, or this id; nil: there is none.
func (s *surroundings) host(ctx context.Context, project, id string) (*api.Workload, error) {
	if !api.IsName(id) {
		return nil, nil
	}
	for _, kind := range slices.Backward(api.WorkKinds()) { // environments before tasks
		o, err := s.truth.Find(ctx, api.Key{Kind: kind, Project: project, Name: id}, 0)
		if w, ok := api.WorkloadOf(o); err == nil && ok {
			return &w, nil
		} else if err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
	}
	kind, ok := api.KindOfID(id)
	if !ok {
		return nil, nil
	}
	o, err := s.truth.GetByID(ctx, kind, id, 0)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if w, ok := api.WorkloadOf(o); err == nil && ok && w.Meta.Project == project {
		return &w, nil
	}
	return nil, err
}

// admits says that what the caller submits may run inside some work.
func admits(who *access.Caller, w *api.Workload) bool {
	return !w.Host.Private || !who.Lent && w.Host.Admit(w.Meta.Owner, who.Name())
}

// measuredStarts is how many starts are looked at.
const measuredStarts = 32

// startSeconds is how long the last tasks inside environments of a project took from their place to their first process, the median; 0: none did.
func (s *surroundings) startSeconds(ctx context.Context, project string) (float64, error) {
	snap, err := s.truth.List(ctx, api.KindTrainingTask, project, 0)
	if err != nil {
		return 0, err
	}
	var done []*api.TrainingTask
	snap.Ascend("", func(o api.Object) bool {
		t := o.(*api.TrainingTask)
		if at, from := t.Status.StartedAt, t.Status.PlacedAt; len(t.Spec.Inside) > 0 && at != nil && from != nil && at.After(*from) {
			done = append(done, t)
		}
		return true
	})
	slices.SortFunc(done, func(a, b *api.TrainingTask) int { return b.Status.StartedAt.Compare(*a.Status.StartedAt) })
	var took []float64
	for _, t := range done[:min(len(done), measuredStarts)] {
		took = append(took, t.Status.StartedAt.Sub(*t.Status.PlacedAt).Seconds())
	}
	if len(took) == 0 {
		return 0, nil
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// roundTrip is what is declared or measured between two zones, in milliseconds.
func (s *surroundings) roundTrip(ctx context.Context) func(a, b string) (float64, bool) {
	one := func(a, b string) (float64, bool) {
		o, err := s.truth.Find(ctx, api.Key{Kind: api.KindZone, Name: a}, 0)
		if err != nil {
			return 0, false
		}
		z := o.(*api.Zone)
		if m, ok := z.Status.Measured[b]; ok && !m.Stale {
			return m.P50Ms, true
		}
		ms, ok := z.Spec.LatencyMs[b]
		return ms, ok
	}
	return func(a, b string) (float64, bool) {
		if ms, ok := one(a, b); ok {
			return ms, true
		}
		return one(b, a)
	}
}
