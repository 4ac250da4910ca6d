package placement

import (
	"maps"
	"reflect"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/sched"
	"github.com/fermi-cluster/fermi/sched/advice"
)

// settling is for how long after a node or zone came nothing is refused: others may be on their way.
const settling = 5 * time.Second

// judge is nil, or the fault of a task that can never start.
func (p *Possible) judge(t api.Work) error {
	if p.clock.Now().Sub(p.newest) < settling {
		return nil
	}
	r, impossible := sched.Impossible(p.m.cluster, p.m.queues, workload(t, nil))
	if !impossible {
		return nil
	}
	if n, ok := p.hasUnused(t); ok && (r.Wrong == advice.WrongType || r.Wrong == advice.WrongDevices) {
		r.Hint = fault.Text{EN: "Node " + n.Meta.Name + " has some: " + n.Status.Message.EN, ZH: "节点 " + n.Meta.Name + " 上有：" + n.Status.Message.ZH}
	}
	return fault.New(fault.Invalid, r.Reason, fault.T("It could never start on this cluster.", "该任务在此集群上永远无法启动。")).
		WithFields(fault.Field{Path: r.Field(), Message: r.Message}).WithHint(r.Hint)
}

// hasUnused is a node that some work may use, with devices that nobody here can; false: there is none.
func (p *Possible) hasUnused(t api.Work) (api.Node, bool) {
	rules := t.Workload().Wish.Zones
	for _, name := range slices.Sorted(maps.Keys(p.unused)) {
		if n := p.unused[name]; rules == nil || (len(rules.Allow) == 0 || slices.Contains(rules.Allow, n.Spec.Zone)) && !slices.Contains(rules.Deny, n.Spec.Zone) {
			return n, true
		}
	}
	return api.Node{}, false
}

var possibleKinds = []api.Kind{api.KindZone, api.KindNode, api.KindQueue}

func (p *Possible) change(ch store.Change) {
	switch o := ch.New.(type) {
	case *api.Zone:
		p.came(&o.Meta)
		well := *o
		well.Spec.Outage = false
		p.m.setZone(&well)
	case *api.Queue:
		p.m.setQueue(o)
	case *api.Node:
		p.came(&o.Meta)
		p.setNode(o)
	case nil:
		switch ch.Key.Kind {
		case api.KindZone:
			p.m.dropZone(ch.Key.Name)
		case api.KindQueue:
			p.m.tree.drop(ch.Key.Name)
		case api.KindNode:
			delete(p.told, ch.Key.Name)
			delete(p.unused, ch.Key.Name)
			p.m.dropNode(ch.Key.Name)
		}
	}
}

func (p *Possible) came(m *api.Meta) {
	if m.CreatedAt.After(p.newest) {
		p.newest = m.CreatedAt
	}
}

// setNode tells of a node as it would be with nothing wrong; most changes of a node are about that.
func (p *Possible) setNode(n *api.Node) {
	if delete(p.unused, n.Meta.Name); n.Status.Ready && n.Status.Reason == engine.DevicesUnused {
		p.unused[n.Meta.Name] = *n
	}
	spec := n.Spec
	spec.Cordoned, spec.CordonedDevices, spec.Drain, spec.Virtual, spec.DeviceOrders, spec.Lost = false, nil, false, false, nil, false
	if old, ok := p.told[n.Meta.Name]; ok && reflect.DeepEqual(old, spec) {
		return
	}
	p.told[n.Meta.Name] = spec
	p.m.setNode(&api.Node{Meta: api.Meta{Name: n.Meta.Name}, Spec: spec, Status: api.NodeStatus{Ready: true}})
}
