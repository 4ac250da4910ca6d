package cluster

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strconv"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/card"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/truth"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Nodes serves nodes: their hooks, and what operators do to them.
type Nodes struct {
	truth *truth.Truth
	judge *access.Judge
	live  Live
	clock clock.Clock
}

func NewNodes(t *truth.Truth, j *access.Judge, live Live, c clock.Clock) *Nodes {
	return &Nodes{truth: t, judge: j, live: live, clock: c}
}

// Hooks is the row of Node: the agents write nodes, people only keep work away from them.
func (s *Nodes) Hooks() *objects.Hooks {
	return &objects.Hooks{Kind: api.KindNode, Access: access.Kind{Read: access.ReadAll, Write: access.WriteOperators}}
}

// nodeVerb is what an operator does to a node, or to one of its devices.
type nodeVerb struct {
	word, summary, reason string
	text                  fault.Text
	// change makes the wish true; device is -1 for the whole node.
	change func(spec *api.NodeSpec, device int)
	// order is what the verb means for devices that health closed; "": nothing.
	order string
}

var nodeVerbs = []nodeVerb{
	{"cordon", "Keep new work away.", "Cordoned", fault.T("New work is kept away.", "已停止接收新任务。"), cordon, ""},
	{"uncordon", "Let new work in.", "Uncordoned", fault.T("New work is let in.", "已恢复接收新任务。"), uncordon, card.OrderReturn},
	{"drain", "Keep new work away and make what runs there leave; it is placed elsewhere.", "Draining", fault.T("New work is kept away, and what runs here leaves.", "已停止接收新任务，正在迁出运行中的任务。"),
		func(spec *api.NodeSpec, device int) {
			cordon(spec, device)
			spec.Drain = true
		}, ""},
	{"test", "Test devices that were closed for a fault again: they were repaired.", "TestAsked", fault.T("A test of closed devices was asked for.", "已请求检测停用的加速卡。"), func(*api.NodeSpec, int) {}, card.OrderTest},
	{"lost", "Say that the machine is gone: what ran there is given up at once, its devices hold nothing any more, and new work is kept away until it is uncordoned.", "NodeLost",
		fault.T("The machine is gone, somebody said: what ran here is given up.", "已确认该机器丢失：其上的任务已被放弃。"),
		func(spec *api.NodeSpec, _ int) { spec.Cordoned, spec.Lost = true, true }, ""},
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
		spec.Cordoned, spec.CordonedDevices, spec.Lost = false, nil, false
	} else {
		spec.CordonedDevices = slices.DeleteFunc(slices.Clone(spec.CordonedDevices), func(d int) bool { return d == device })
	}
	spec.Drain = spec.Drain && (spec.Cordoned || len(spec.CordonedDevices) > 0)
}

// Routes keep work away from nodes and devices, or let it in again.
func (s *Nodes) Routes(reg *rest.Schemas) []*rest.Route {
	row := api.MustInfo(api.KindNode)
	var out []*rest.Route
	for _, v := range nodeVerbs {
		one := []rest.Param{{Name: "device", Form: rest.FormInt, Min: 0, Max: 63, Doc: "Only this device, by index; the whole node when absent."}}
		if v.word == "lost" {
			one = nil // a machine is gone as a whole
		}
		out = append(out, &rest.Route{
			Method: http.MethodPost, Path: rest.Prefix + "/nodes/{name}/" + v.word, ID: v.word + "Node", Summary: v.summary, Tag: row.Plural,
			Kind: row.Kind, Verb: v.word, Data: reg.Kind(row),
			Query:  one,
			Handle: func(ctx context.Context, c *rest.Call) (*rest.Reply, error) { return s.changeNode(ctx, c, row, v) },
		})
	}
	return append(out, s.faultRoute(reg, row), &rest.Route{
		Method: http.MethodGet, Path: rest.Prefix + "/nodes/{name}/drain", ID: "previewDrain", Tag: row.Plural, Kind: row.Kind,
		Summary: "Where each task that stands on this node would go if it were drained now, or why it would wait. Nothing changes.",
		Query:   []rest.Param{{Name: "device", Form: rest.FormInt, Min: 0, Max: 63, Doc: "Only this device, by index; the whole node when absent."}},
		Data:    rest.SchemaOf[api.Outage](reg), Handle: s.previewDrain,
	})
}

func (s *Nodes) previewDrain(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	if s.live == nil {
		return nil, refuse.NoPlanner
	}
	row, place := api.MustInfo(api.KindNode), c.R.PathValue("name")
	if _, err := s.truth.Find(ctx, api.Key{Kind: row.Kind, Name: place}, 0); fault.Is(err, fault.NotFound) {
		return nil, refuse.Missing(row, place)
	} else if err != nil {
		return nil, err
	}
	if c.Query.Has("device") {
		place += "/" + strconv.FormatInt(c.Query.Number("device"), 10)
	}
	out, err := s.live.Drained(ctx, place)
	if err != nil {
		return nil, err
	}
	return &rest.Reply{Data: out}, nil
}

func (s *Nodes) changeNode(ctx context.Context, c *rest.Call, row api.KindInfo, v nodeVerb) (*rest.Reply, error) {
	ctx = store.Urgent(ctx) // work that is kept away fills no disk
	device := -1
	if c.Query.Has("device") {
		device = int(c.Query.Number("device"))
	}
	return s.write(ctx, c, row, func(node, next *api.Node) (string, fault.Text, error) {
		if device >= len(node.Spec.Devices) {
			return "", fault.Text{}, refuse.Invalid("query.device", fault.T("%s has %d [device|devices], numbered from 0.", "%s 有 %d 张卡，编号从 0 开始。", node.Meta.Name, len(node.Spec.Devices)))
		}
		v.change(&next.Spec, device)
		return v.reason, v.text, give(v.order, node, next, device, s.clock.Now().UTC())
	})
}

// write changes a node as an operator wants it, again when others were faster; a change to nothing else writes nothing.
func (s *Nodes) write(ctx context.Context, c *rest.Call, row api.KindInfo, change func(node, next *api.Node) (string, fault.Text, error)) (*rest.Reply, error) {
	name := c.R.PathValue("name")
	c.Note.Names(row.Kind, name)
	var err error
	var minimum int64
	for range truth.Retries {
		var o api.Object
		if o, err = s.truth.Find(ctx, api.Key{Kind: row.Kind, Name: name}, minimum); fault.Is(err, fault.NotFound) {
			return nil, refuse.Missing(row, name)
		} else if err != nil {
			return nil, err
		}
		node := o.(*api.Node)
		c.Note.Before(node)
		if err := s.judge.MayWrite(ctx, c.Who, node); err != nil {
			return nil, err
		}
		next := store.Clone(node)
		reason, text, bad := change(node, next)
		if bad != nil {
			return nil, bad
		}
		if reflect.DeepEqual(next.Spec, node.Spec) {
			c.Note.Skip = true
			return &rest.Reply{Data: node, Revision: node.Meta.Revision}, nil
		}
		next.Meta.UpdatedAt = s.clock.Now().UTC()
		var rev int64
		if rev, err = s.truth.Write(ctx, store.Update(next)); err == nil {
			c.Note.After(next)
			c.Tell(next, reason, text)
			return &rest.Reply{Data: next, Revision: rev}, nil
		}
		if fault.ReasonOf(err) != "Stale" {
			return nil, err
		}
		minimum = node.Meta.Revision + 1
	}
	return nil, err
}
