package report

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

var EventPage = []rest.Param{
	{Name: "after", Form: rest.FormInt, Doc: "Only those behind this seq; the newest ones when absent."},
	{Name: "limit", Form: rest.FormInt, Min: 1, Max: 1000, Fallback: "100"},
}

type EventList struct {
	Items []history.Event `json:"items"`
	Next  int64           `json:"next,omitempty" doc:"Give it as after for later ones."`
}

func EventsSchema(reg *rest.Schemas) *huma.Schema { return rest.SchemaOf[EventList](reg) }

// Events serves what happened.
type Events struct {
	finder  *objects.Finder
	judge   *access.Judge
	history history.History
}

func NewEvents(f *objects.Finder) *Events {
	return &Events{finder: f, judge: f.Judge, history: f.History}
}

// KindParam names one kind.
func KindParam() rest.Param {
	kinds := rest.Param{Name: "kind", Doc: "Only of this kind."}
	for _, row := range api.Kinds {
		kinds.Enum = append(kinds.Enum, string(row.Kind))
	}
	return kinds
}

// Routes are the events of everything.
func (s *Events) Routes(reg *rest.Schemas) []*rest.Route {
	return []*rest.Route{{
		Method: http.MethodGet, Path: rest.Prefix + "/events", ID: "listEvents", Summary: "What happened, oldest first.", Tag: "events",
		Query: append([]rest.Param{
			KindParam(), rest.ParamProject, {Name: "name", Doc: "Name or id of an object; needs kind."}, {Name: "id", Doc: "An object's id."},
		}, EventPage...), Data: EventsSchema(reg), Handle: s.list,
	}}
}

// list shows events of an object, a kind or a project. Who does not see everything sees
// one project at a time, and the kinds everybody may read.
func (s *Events) list(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	q := history.EventQuery{Kind: api.Kind(c.Query.Text("kind")), Project: c.Query.Text("project"), ObjectID: c.Query.Text("id")}
	if name := c.Query.Text("name"); name != "" {
		row, ok := api.InfoOf(q.Kind)
		if !ok {
			return nil, refuse.Invalid("query.kind", fault.T("A name needs its kind.", "按名称查询需要同时给出 kind。"))
		}
		f, err := s.finder.Resolve(ctx, c, row, name)
		if err != nil {
			return nil, err
		}
		return s.Of(ctx, c, history.EventQuery{ObjectID: f.Object.GetMeta().ID})
	}
	if c.Who.SeesAll() {
		return s.Of(ctx, c, q)
	}
	if q.Kind != "" && s.judge.ReadsAll(c.Who, q.Kind) {
		return s.Of(ctx, c, q)
	}
	if q.Project == "" {
		home, err := s.judge.Home(ctx, c.Who)
		if err != nil {
			return nil, err
		}
		q.Project = home
	}
	ok, err := s.judge.MemberOf(ctx, c.Who, q.Project)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, refuse.NotMember(q.Project)
	}
	return s.Of(ctx, c, q)
}

// Of answers a question about events, page by page.
func (s *Events) Of(ctx context.Context, c *rest.Call, q history.EventQuery) (*rest.Reply, error) {
	q.After, q.Limit, q.Newest = c.Query.Number("after"), int(c.Query.Number("limit")), !c.Query.Has("after")
	rows, err := s.history.ListEvents(ctx, q)
	if err != nil {
		return nil, err
	}
	out := EventList{Items: rows, Next: q.After}
	if out.Items == nil {
		out.Items = []history.Event{}
	}
	if len(rows) > 0 {
		out.Next = rows[len(rows)-1].Seq
	}
	return &rest.Reply{Data: out}, nil
}
