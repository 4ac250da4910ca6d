package server

import (
	"context"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/store"
)

// WorkRow is what a kind of work has of its own at the door; all else, from the queue to the archive, is as with
// every other. All of it must be there but Fresh.
type WorkRow struct {
	Kind api.Kind
	// Fresh refuses or clears what a new object must not carry.
	Fresh func(o api.Work) error
	// Queue takes the queue that was settled for a new object, Begin its first status: Pending, for this reason.
	Queue func(o api.Work, queue string)
	Begin func(o api.Work, reason string, why fault.Text)
	// Change takes over into next what may change of an object, and refuses the rest. Who changes it may write it.
	Change func(next, current, given api.Work) error
	// Example is the manifest that the document shows.
	Example map[string]any
}

// further are the kinds of work beside training tasks.
var further []WorkRow

// Register adds a kind of work, before a server is made.
func Register(r WorkRow) { further = append(further, r) }

// works serves kinds of work beside training tasks. Safe for concurrent use.
type works struct {
	gate   *gate
	desk   *desk
	left   *leftovers
	events *events
	live   Live // nil: nobody knows what the leader does
}

// hooks is the row of one of them.
func (s *works) hooks(r WorkRow) *hooks {
	return &hooks{
		kind:   r.Kind,
		access: kindAccess{read: readOwn, write: rule{all, none, own, none, tasks, false}, task: true},
		read:   reading{example: r.Example},
		fresh: func(o api.Object, _ *caller) error {
			if r.Fresh == nil {
				return nil
			}
			return r.Fresh(o.(api.Work))
		},
		references: func(ctx context.Context, c *call, o api.Object) error { return s.gate.references(ctx, c, o.(api.Work)) },
		admit: func(ctx context.Context, c *call, b *birth, dry bool) error {
			o := b.object.(api.Work)
			return s.gate.admit(ctx, c, b, newWork{
				work:  o,
				queue: func(name string) { r.Queue(o, name) },
				begin: func(reason string, why fault.Text) { r.Begin(o, reason, why) },
			}, dry)
		},
		change: func(_ context.Context, _ *call, a *alteration) func() error {
			err := r.Change(a.next.(api.Work), a.current.(api.Work), a.given.(api.Work))
			return func() error { return err }
		},
		filter: &filtering{phases: phaseWords(), by: func(o api.Object) (queue, phase string) {
			w := o.(api.Work).Workload()
			return w.Queue, string(w.Phase)
		}},
		remove: removing{mark: s.markDeleted, bytes: s.left.erase, forgotten: s.left.forget},
	}
}

// markDeleted has the controller end work and remove it.
func (s *works) markDeleted(ctx context.Context, c *call, o api.Object) (*reply, error) {
	for range retries {
		if o.GetMeta().DeletedAt == nil {
			now := s.desk.clock.Now().UTC()
			next := store.Clone(o)
			next.GetMeta().DeletedAt, next.GetMeta().UpdatedAt = &now, now
			_, err := s.desk.truth.write(ctx, store.Update(next))
			if fault.ReasonOf(err) == "Stale" {
				if o, err = s.desk.truth.Get(ctx, api.KeyOf(o), o.GetMeta().Revision+1); err == nil {
					continue
				}
			}
			if err != nil {
				return nil, err
			}
			c.tell(next, "DeleteRequested", fault.T("Deletion was asked for.", "已请求删除。"))
			o = next
		}
		c.note.after(o)
		return &reply{message: fault.T("It is being deleted", "正在删除"), data: o, revision: o.GetMeta().Revision}, nil
	}
	return nil, fault.New(fault.Conflict, "Stale", fault.T("It changes all the time; try again.", "该对象频繁变化，请重试。"))
}

// routes are the questions about one of a kind: why it is where it is, its replicas, its events.
func (s *works) routes(reg *schemas, r *rules, kind api.Kind) []*route {
	row, word := api.MustInfo(kind), string(kind)
	both := []param{paramProject, paramRevision}
	ask := func(verb, id, summary string, query []param, data *huma.Schema, h func(context.Context, *call, found) (*reply, error)) *route {
		r.by[id] = r.by["get"+word]
		return &route{
			method: http.MethodGet, path: prefix + "/" + row.Plural + "/{name}/" + verb, id: id, summary: summary, tag: row.Plural, kind: kind, query: query, data: data,
			handle: func(ctx context.Context, c *call) (*reply, error) {
				name := c.r.PathValue("name")
				c.note.names(kind, name)
				f, err := s.desk.finder.resolve(ctx, c, row, name)
				if err != nil {
					return nil, err
				}
				return h(ctx, c, f)
			},
		}
	}
	return []*route{
		ask("why", "explain"+word, fmt.Sprintf("Why the %s is where it is.", row.Singular), both, schemaOf[Explanation](reg), s.why),
		ask("replicas", "list"+word+"Replicas", "Where its replicas run or ran.", both, object([]string{"items"}, map[string]*huma.Schema{"items": listOf(schemaOf[ReplicaView](reg))}), s.replicas),
		ask("events", "list"+word+"Events", "What happened to it.", append(eventPage, both...), eventsSchema(reg), func(ctx context.Context, c *call, f found) (*reply, error) {
			return s.events.of(ctx, c, history.EventQuery{ObjectID: f.object.GetMeta().ID})
		}),
	}
}

func (s *works) why(ctx context.Context, _ *call, f found) (*reply, error) {
	o := f.object.(api.Work)
	w := o.Workload()
	e := Explanation{Reason: w.Ran.Reason, Message: w.Ran.Message}
	if s.live != nil && !f.archived && !w.Phase.Finished() {
		var err error
		if e, err = s.live.Why(ctx, o); err != nil {
			return nil, err
		}
		e.Moves = nil // they may name work of others
	}
	return &reply{data: e, revision: w.Meta.Revision}, nil
}

func (s *works) replicas(ctx context.Context, _ *call, f found) (items *reply, err error) {
	id := f.object.GetMeta().ID
	var live []ReplicaView
	if s.live != nil && !f.archived {
		if live, err = s.live.Replicas(ctx, id); err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
	}
	rows, err := s.desk.finder.history.UsageOf(ctx, id)
	if err != nil {
		return nil, err
	}
	return &reply{data: map[string]any{"items": withStays(live, id, rows)}, revision: f.object.GetMeta().Revision}, nil
}
