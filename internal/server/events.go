package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
)

var eventPage = []param{
	{name: "after", form: formInt, doc: "Only those behind this seq; the newest ones when absent."},
	{name: "limit", form: formInt, min: 1, max: 1000, fallback: "100"},
}

type eventList struct {
	Items []history.Event `json:"items"`
	Next  int64           `json:"next,omitempty" doc:"Give it as after for later ones."`
}

func eventsSchema(reg *schemas) *huma.Schema { return schemaOf[eventList](reg) }

// events serves what happened.
type events struct {
	finder  *finder
	judge   *judge
	history history.History
}

func newEvents(f *finder) *events { return &events{finder: f, judge: f.judge, history: f.history} }

// kindParam names one kind.
func kindParam() param {
	kinds := param{name: "kind", doc: "Only of this kind."}
	for _, row := range api.Kinds {
		kinds.enum = append(kinds.enum, string(row.Kind))
	}
	return kinds
}

// routes are the events of everything.
func (s *events) routes(reg *schemas) []*route {
	return []*route{{
		method: http.MethodGet, path: prefix + "/events", id: "listEvents", summary: "What happened, oldest first.", tag: "events",
		query: append([]param{
			kindParam(), paramProject, {name: "name", doc: "Name or id of an object; needs kind."}, {name: "id", doc: "An object's id."},
		}, eventPage...), data: eventsSchema(reg), handle: s.list,
	}}
}

// list shows events of an object, a kind or a project. Who does not see everything sees
// one project at a time, and the kinds everybody may read.
func (s *events) list(ctx context.Context, c *call) (*reply, error) {
	q := history.EventQuery{Kind: api.Kind(c.q.text("kind")), Project: c.q.text("project"), ObjectID: c.q.text("id")}
	if name := c.q.text("name"); name != "" {
		row, ok := api.InfoOf(q.Kind)
		if !ok {
			return nil, invalid("query.kind", fault.T("A name needs its kind.", "按名称查询需要同时给出 kind。"))
		}
		f, err := s.finder.resolve(ctx, c, row, name)
		if err != nil {
			return nil, err
		}
		return s.of(ctx, c, history.EventQuery{ObjectID: f.object.GetMeta().ID})
	}
	if c.who.seesAll() {
		return s.of(ctx, c, q)
	}
	if q.Kind != "" && c.who.reachOf(s.judge.rules.kinds[q.Kind].read) == all {
		return s.of(ctx, c, q)
	}
	if q.Project == "" {
		home, err := s.judge.home(ctx, c.who)
		if err != nil {
			return nil, err
		}
		q.Project = home
	}
	ok, err := s.judge.memberOf(ctx, c.who, q.Project)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, notMember(q.Project)
	}
	return s.of(ctx, c, q)
}

// of answers a question about events, page by page.
func (s *events) of(ctx context.Context, c *call, q history.EventQuery) (*reply, error) {
	q.After, q.Limit, q.Newest = c.q.number("after"), int(c.q.number("limit")), !c.q.has("after")
	rows, err := s.history.ListEvents(ctx, q)
	if err != nil {
		return nil, err
	}
	out := eventList{Items: rows, Next: q.After}
	if out.Items == nil {
		out.Items = []history.Event{}
	}
	if len(rows) > 0 {
		out.Next = rows[len(rows)-1].Seq
	}
	return &reply{data: out}, nil
}
