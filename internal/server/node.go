package server

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
)

// nodes serves nodes: their hooks, and what operators do to them.
type nodes struct {
	truth *truth
	judge *judge
	live  clusterLive
	clock clock.Clock
}

func newNodes(t *truth, j *judge, live clusterLive, c clock.Clock) *nodes {
	return &nodes{truth: t, judge: j, live: live, clock: c}
}

// hooks is the row of Node: the agents write nodes, people only keep work away from them.
func (s *nodes) hooks() *hooks {
	return &hooks{kind: api.KindNode, access: kindAccess{read: readAll, write: writeOperators}}
}

// nodeVerb is what an operator does to a node, or to one of its devices.
type nodeVerb struct {
	word, summary, reason string
	text                  fault.Text
	// change makes the wish true; device is -1 for the whole node.
	change func(spec *api.NodeSpec, device int)
}

var nodeVerbs = []nodeVerb{
	{"cordon", "Keep new work away.", "Cordoned", fault.T("New work is kept away.", "已停止接收新任务。"), cordon},
	{"uncordon", "Let new work in.", "Uncordoned", fault.T("New work is let in.", "已恢复接收新任务。"), uncordon},
	{"drain", "Keep new work away and make what runs there leave; it is placed elsewhere.", "Draining", fault.T("New work is kept away, and what runs here leaves.", "已停止接收新任务，正在迁出运行中的任务。"),
		func(spec *api.NodeSpec, device int) {
			cordon(spec, device)
			spec.Drain = true
		}},
}

func cordon(spec *api.NodeSpec, device int) {
	if device < 0 {
		spec.Cordoned = true
	} else if !slices.Contains(spec.CordonedDevices, device) {
		spec.CordonedDevices = append(slices.Clone(spec.CordonedDevices), device)
		slices.Sort(spec.CordonedDevices)
	}
}

func uncordon(spec *api.NodeSpec, device int) {
	if device < 0 {
		spec.Cordoned, spec.CordonedDevices = false, nil
	} else {
		spec.CordonedDevices = slices.DeleteFunc(slices.Clone(spec.CordonedDevices), func(d int) bool { return d == device })
	}
	spec.Drain = spec.Drain && (spec.Cordoned || len(spec.CordonedDevices) > 0)
}

// routes keep work away from nodes and devices, or let it in again.
func (s *nodes) routes(reg *schemas) []*route {
	row := api.MustInfo(api.KindNode)
	var out []*route
	for _, v := range nodeVerbs {
		out = append(out, &route{
			method: http.MethodPost, path: prefix + "/nodes/{name}/" + v.word, id: v.word + "Node", summary: v.summary, tag: row.Plural,
			kind: row.Kind, verb: v.word, data: reg.kind(row),
			query:  []param{{name: "device", form: formInt, min: 0, max: 63, doc: "Only this device, by index; the whole node when absent."}},
			handle: func(ctx context.Context, c *call) (*reply, error) { return s.changeNode(ctx, c, row, v) },
		})
	}
	return append(out, &route{
		method: http.MethodGet, path: prefix + "/nodes/{name}/drain", id: "previewDrain", tag: row.Plural, kind: row.Kind,
		summary: "Where each task that stands on this node would go if it were drained now, or why it would wait. Nothing changes.",
		query:   []param{{name: "device", form: formInt, min: 0, max: 63, doc: "Only this device, by index; the whole node when absent."}},
		data:    schemaOf[api.Outage](reg), handle: s.previewDrain,
	})
}

func (s *nodes) previewDrain(ctx context.Context, c *call) (*reply, error) {
	if s.live == nil {
		return nil, noPlanner
	}
	row, place := api.MustInfo(api.KindNode), c.r.PathValue("name")
	if _, err := s.truth.find(ctx, api.Key{Kind: row.Kind, Name: place}, 0); fault.Is(err, fault.NotFound) {
		return nil, missing(row, place)
	} else if err != nil {
		return nil, err
	}
	if c.q.has("device") {
		place += "/" + strconv.FormatInt(c.q.number("device"), 10)
	}
	out, err := s.live.Drained(ctx, place)
	if err != nil {
		return nil, err
	}
	return &reply{data: out}, nil
}

func (s *nodes) changeNode(ctx context.Context, c *call, row api.KindInfo, v nodeVerb) (*reply, error) {
	name, device := c.r.PathValue("name"), -1
	if c.q.has("device") {
		device = int(c.q.number("device"))
	}
	c.note.names(row.Kind, name)
	var err error
	var minimum int64
	for range retries {
		var o api.Object
		if o, err = s.truth.find(ctx, api.Key{Kind: row.Kind, Name: name}, minimum); fault.Is(err, fault.NotFound) {
			return nil, missing(row, name)
		} else if err != nil {
			return nil, err
		}
		node := o.(*api.Node)
		c.note.before(node)
		if err := s.judge.mayWrite(ctx, c.who, node); err != nil {
			return nil, err
		}
		if device >= len(node.Spec.Devices) {
			return nil, invalid("query.device", fault.T("%s has %d [device|devices], numbered from 0.", "%s 有 %d 张卡，编号从 0 开始。", name, len(node.Spec.Devices)))
		}
		next := store.Clone(node)
		v.change(&next.Spec, device)
		if next.Spec.Cordoned == node.Spec.Cordoned && next.Spec.Drain == node.Spec.Drain && slices.Equal(next.Spec.CordonedDevices, node.Spec.CordonedDevices) {
			c.note.skip = true
			return &reply{data: node, revision: node.Meta.Revision}, nil
		}
		next.Meta.UpdatedAt = s.clock.Now().UTC()
		var rev int64
		if rev, err = s.truth.write(ctx, store.Update(next)); err == nil {
			c.note.after(next)
			c.tell(next, v.reason, v.text)
			return &reply{data: next, revision: rev}, nil
		}
		if fault.ReasonOf(err) != "Stale" {
			return nil, err
		}
		minimum = node.Meta.Revision + 1
	}
	return nil, err
}
