package work

import (
	"context"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/image"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/report"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/train"
	"github.com/fermi-cluster/fermi/internal/server/truth"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Row is what a kind of work has of its own; all else is as with every other. All of it must be there but Fresh, Zone, Images and Settle.
type Row struct {
	Kind api.Kind
	// Fresh refuses or clears what a new object must not carry.
	Fresh func(o api.Work) error
	// Zone is where an object names its zone, which may be by its display name.
	Zone func(o api.Work) *string
	// Images is where an object names images.
	Images func(o api.Work) []image.Field
	// Queue takes the queue that was settled for a new object, Begin its first status: Pending, for this reason.
	Queue func(o api.Work, queue string)
	Begin func(o api.Work, reason string, why fault.Text)
	// Change takes over into next what may change of an object, and refuses the rest. Who changes it may write it.
	Change func(next, current, given api.Work) error
	// Settle brings what a changed object needs; it may be absent.
	Settle func(ctx context.Context, c *rest.Call, next, current api.Work) error
	// Private: only its owner and administrators change or delete it, whatever the project.
	Private bool
	// InUse is the task that runs inside an object and would end with it; "": none does. It may be absent.
	InUse func(o api.Work) string
	// Verbs are what people do with it beside changing it.
	Verbs []Verb
	// Example is the manifest that the document shows.
	Example map[string]any
}

// Works serves kinds of work beside training tasks. Safe for concurrent use.
type Works struct {
	Rows   []Row
	Gate   *train.Gate
	Finder *objects.Finder
	Left   *train.Leftovers
	Events *report.Events
	Live   train.Live // nil: nobody knows what the leader does
	// Admission refuses, by kind, what an operator does not let work be or begin; was is nil of new work. Absent: all is let.
	Admission map[api.Kind]func(ctx context.Context, who *access.Caller, was, o api.Work) error
	Clock     clock.Clock
}

// Hooks are the rows of all of them.
func (s *Works) Hooks() (out []*objects.Hooks) {
	for _, r := range s.Rows {
		out = append(out, s.hooks(r))
	}
	return out
}

func (s *Works) hooks(r Row) *objects.Hooks {
	return &objects.Hooks{
		Kind:   r.Kind,
		Serial: s.Admission[r.Kind] != nil, // what is counted must not come twice at once
		Access: access.Kind{Read: access.ReadOwn, Write: access.WriteTasks, Task: true},
		Read: objects.Reading{Example: r.Example, Settle: func(ctx context.Context, o api.Object) error {
			if r.Zone == nil {
				return nil
			}
			return s.Gate.NameZone(ctx, "spec.zone", r.Zone(o.(api.Work)))
		}},
		Fresh: func(o api.Object, _ *access.Caller) error {
			if r.Fresh == nil {
				return nil
			}
			return r.Fresh(o.(api.Work))
		},
		References: func(ctx context.Context, c *rest.Call, o api.Object) error {
			return s.Gate.References(ctx, c, o.(api.Work))
		},
		Admit: func(ctx context.Context, c *rest.Call, b *objects.Birth, dry bool) error {
			o := b.Object.(api.Work)
			return s.Gate.Admit(ctx, c, b, train.NewWork{
				Work: o, Images: func() []image.Field { return r.images(o) },
				Queue: func(name string) { r.Queue(o, name) },
				Begin: func(reason string, why fault.Text) { r.Begin(o, reason, why) },
				Own: func(ctx context.Context) error {
					if err := r.MayMake(c.Who); err != nil {
						return err
					}
					return s.admit(ctx, c.Who, nil, o)
				},
			}, dry)
		},
		Change: func(ctx context.Context, c *rest.Call, a *objects.Alteration) func() error {
			if err := r.May(c.Who, a.Current); err != nil {
				return func() error { return err }
			}
			next, current := a.Next.(api.Work), a.Current.(api.Work)
			err := r.Change(next, current, a.Given.(api.Work))
			return func() error {
				if err == nil && r.Settle != nil {
					err = r.Settle(ctx, c, next, current)
				}
				if err == nil {
					err = s.admit(ctx, c.Who, current, next)
				}
				if err == nil {
					a.Guards, err = s.Gate.MayChange(ctx, c, next, current, r.images(next))
				}
				if err == nil {
					var held []store.Op
					held, err = s.Gate.SettleAssets(ctx, c.Who, next)
					a.Guards = append(a.Guards, held...)
				}
				return err
			}
		},
		Filter: &objects.Filtering{Phases: train.PhaseWords(), By: func(o api.Object) (queue, phase string) {
			w := o.(api.Work).Workload()
			return w.Queue, string(w.Phase)
		}},
		Remove: objects.Removing{Mark: func(ctx context.Context, c *rest.Call, o api.Object) (*rest.Reply, error) {
			if err := r.May(c.Who, o); err != nil {
				return nil, err
			}
			if err := r.free(c, o); err != nil {
				return nil, err
			}
			return s.markDeleted(ctx, c, o)
		}, Params: r.force(), Bytes: s.Left.Erase, Forgotten: s.Left.Forget},
	}
}

func (s *Works) admit(ctx context.Context, who *access.Caller, was, o api.Work) error {
	if f := s.Admission[o.Kind()]; f != nil {
		return f(ctx, who, was, o)
	}
	return nil
}

// images is where an object names images.
func (r *Row) images(o api.Work) []image.Field {
	if r.Images == nil {
		return nil
	}
	return r.Images(o)
}

// May refuses who may not change an object of the kind although the project's members may.
func (r *Row) May(who *access.Caller, o api.Object) error {
	if r.Private && !who.Owns(o) {
		return fault.New(fault.Forbidden, "NotOwner", fault.T("It belongs to %s; only its owner may do this.", "该对象属于 %s，只有其所有者可以执行此操作。", o.GetMeta().Owner))
	}
	return nil
}

// MayMake refuses who may not make one: what is its owner's alone is made by its owner, not by whoever else is behind a pass.
func (r *Row) MayMake(who *access.Caller) error {
	if r.Private && who.Lent {
		return fault.New(fault.Forbidden, "NotOwner", fault.T(
			"Others of the project may be behind this pass, and what you make would be %s's alone.", "该通行证可能被项目中的其他人使用，而新建的对象将只属于 %s。", who.Name())).WithHint(
			fault.T("Make it from your own machine, the console, or an environment that is not shared.", "请在您自己的电脑、控制台或未共享的环境中创建。"))
	}
	return nil
}

// free refuses to end what another runs inside of, unless the caller insists.
func (r *Row) free(c *rest.Call, o api.Object) error {
	if r.InUse == nil || c.Query.Yes(rest.ParamForce.Name) {
		return nil
	}
	w := o.(api.Work)
	by := r.InUse(w)
	if by == "" || w.Workload().Stop {
		return nil
	}
	return fault.New(fault.Conflict, "InUse", fault.T("The task %q trains inside it and would end with it.", "任务 %q 正在其中训练，将随之结束。", by)).WithHint(fault.T(
		"Wait for its end, or insist: --yes, or force=true.", "请等待其结束；若确定，请使用 --yes 或 force=true。"))
}

// force is how to insist, where there is something to insist on.
func (r *Row) force() []rest.Param {
	if r.InUse == nil {
		return nil
	}
	return []rest.Param{rest.ParamForce}
}

// markDeleted has the controller end work and remove it.
func (s *Works) markDeleted(ctx context.Context, c *rest.Call, o api.Object) (*rest.Reply, error) {
	for range truth.Retries {
		if o.GetMeta().DeletedAt == nil {
			now := s.Clock.Now().UTC()
			next := store.Clone(o)
			next.GetMeta().DeletedAt, next.GetMeta().UpdatedAt = &now, now
			_, err := s.Finder.Truth.Write(ctx, store.Update(next))
			if fault.ReasonOf(err) == "Stale" {
				if o, err = s.Finder.Truth.Get(ctx, api.KeyOf(o), o.GetMeta().Revision+1); err == nil {
					continue
				}
			}
			if err != nil {
				return nil, err
			}
			c.Tell(next, "DeleteRequested", fault.T("Deletion was asked for.", "已请求删除。"))
			o = next
		}
		c.Note.After(o)
		return &rest.Reply{Message: fault.T("It is being deleted", "正在删除"), Data: o, Revision: o.GetMeta().Revision}, nil
	}
	return nil, errBusy
}

// Routes are the questions about one of each kind: why it is where it is, its replicas, its events.
func (s *Works) Routes(reg *rest.Schemas, rules *access.Rules) (out []*rest.Route) {
	for _, r := range s.Rows {
		out = append(out, s.routes(reg, rules, api.MustInfo(r.Kind))...)
		out = append(out, s.verbs(&r, reg, rules, api.MustInfo(r.Kind))...)
	}
	return out
}

func (s *Works) routes(reg *rest.Schemas, rules *access.Rules, row api.KindInfo) []*rest.Route {
	word := string(row.Kind)
	both := []rest.Param{rest.ParamProject, rest.ParamRevision}
	ask := func(verb, id, summary string, query []rest.Param, data *huma.Schema, h func(context.Context, *rest.Call, objects.Found) (*rest.Reply, error)) *rest.Route {
		rules.AsGet(id, row.Kind)
		return &rest.Route{
			Method: http.MethodGet, Path: rest.Prefix + "/" + row.Plural + "/{name}/" + verb, ID: id, Summary: summary, Tag: row.Plural, Kind: row.Kind,
			Query: query, Data: data,
			Handle: func(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
				name := c.R.PathValue("name")
				c.Note.Names(row.Kind, name)
				f, err := s.Finder.Resolve(ctx, c, row, name)
				if err != nil {
					return nil, err
				}
				return h(ctx, c, f)
			},
		}
	}
	replicas := rest.Object([]string{"items"}, map[string]*huma.Schema{"items": rest.ListOf(rest.SchemaOf[train.ReplicaView](reg))})
	return []*rest.Route{
		ask("why", "explain"+word, fmt.Sprintf("Why the %s is where it is.", row.Singular), both, rest.SchemaOf[train.Explanation](reg), s.why),
		ask("replicas", "list"+word+"Replicas", "Where its replicas run or ran.", both, replicas, s.replicas),
		ask("events", "list"+word+"Events", "What happened to it.", append(report.EventPage, both...), report.EventsSchema(reg), func(ctx context.Context, c *rest.Call, f objects.Found) (*rest.Reply, error) {
			return s.Events.Of(ctx, c, history.EventQuery{ObjectID: f.Object.GetMeta().ID})
		}),
	}
}

func (s *Works) why(ctx context.Context, _ *rest.Call, f objects.Found) (*rest.Reply, error) {
	o := f.Object.(api.Work)
	w := o.Workload()
	e := train.Explanation{Reason: w.Ran.Reason, Message: w.Ran.Message}
	if s.Live != nil && !f.Archived && !w.Phase.Finished() {
		var err error
		if e, err = s.Live.Why(ctx, o); err != nil {
			return nil, err
		}
		e.Moves = nil // they may name work of others
	}
	return &rest.Reply{Data: e, Revision: w.Meta.Revision}, nil
}

func (s *Works) replicas(ctx context.Context, _ *rest.Call, f objects.Found) (items *rest.Reply, err error) {
	id := f.Object.GetMeta().ID
	var live []train.ReplicaView
	if s.Live != nil && !f.Archived {
		if live, err = s.Live.Replicas(ctx, id); err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
	}
	rows, err := s.Finder.History.UsageOf(ctx, id)
	if err != nil {
		return nil, err
	}
	return &rest.Reply{Data: map[string]any{"items": train.WithStays(live, id, rows)}, Revision: f.Object.GetMeta().Revision}, nil
}
