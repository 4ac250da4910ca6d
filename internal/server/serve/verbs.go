package serve

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/logs"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/report"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/train"
	"github.com/fermi-cluster/fermi/internal/server/truth"
	"github.com/fermi-cluster/fermi/internal/store"
)

type scaleBody struct {
	Replicas int `json:"replicas" minimum:"1" maximum:"1000"`
}

// Routes are the verbs of a service and the questions about it.
func (s *Services) Routes(reg *rest.Schemas, rules *access.Rules) []*rest.Route {
	if !there() {
		return nil
	}
	row := api.MustInfo(serving.Kind)
	one := rest.Prefix + "/" + row.Plural + "/{name}"
	both := []rest.Param{rest.ParamProject, rest.ParamRevision}
	ask := func(verb, id, summary string, query []rest.Param, data *huma.Schema, h func(context.Context, *rest.Call, *serving.InferenceService) (*rest.Reply, error)) *rest.Route {
		rules.AsGet(id, row.Kind)
		return &rest.Route{
			Method: http.MethodGet, Path: one + "/" + verb, ID: id, Summary: summary, Tag: row.Plural, Kind: row.Kind, Query: query, Data: data,
			Handle: func(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
				o, err := s.service(ctx, c)
				if err != nil {
					return nil, err
				}
				return h(ctx, c, o)
			},
		}
	}
	do := func(verb, id, summary string, body *rest.BodySpec, h rest.Handler) *rest.Route {
		rules.AsWrite(id, row.Kind)
		return &rest.Route{
			Method: http.MethodPost, Path: one + "/" + verb, ID: id, Summary: summary, Tag: row.Plural, Kind: row.Kind, Verb: verb,
			Query: []rest.Param{rest.ParamProject}, Data: reg.Kind(row), Body: body, Handle: h,
		}
	}
	rules.AsGet("serviceFigures", row.Kind)
	figures := &rest.Route{
		Method: http.MethodGet, Path: one + "/figures", ID: "serviceFigures", Summary: "How it answered, what that cost, and its error budget.", Tag: row.Plural, Kind: row.Kind, Query: figureParams, Data: rest.SchemaOf[Figures](reg),
		Handle: func(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
			o, err := s.service(ctx, c)
			if err != nil {
				return nil, err
			}
			return s.figures(ctx, c, o)
		},
	}
	replicas := rest.Object([]string{"items"}, map[string]*huma.Schema{"items": rest.ListOf(reg.Kind(api.MustInfo(serving.ReplicaKind)))})
	return []*rest.Route{
		figures,
		do("stop", "stopService", "End its replicas; its address stays its own.", nil, s.stop),
		do("start", "startService", "Let it answer again.", nil, s.start),
		do("scale", "scaleService", "Change how many replicas answer.", &rest.BodySpec{Schema: rest.SchemaOf[scaleBody](reg), Media: rest.JsonMedia, Required: true}, s.scale),
		do("promote", "promoteService", "Have a new revision go on to its next step, or take over.", &rest.BodySpec{Schema: rest.SchemaOf[promoteBody](reg), Media: rest.JsonMedia, Required: true}, s.promote),
		do("rollback", "rollbackService", "Go back to an earlier revision.", &rest.BodySpec{Schema: rest.SchemaOf[rollbackBody](reg), Media: rest.JsonMedia, Required: true}, s.rollback),
		ask("why", "explainService", "Why the service is where it is.", both, rest.SchemaOf[train.Explanation](reg), s.why),
		ask("replicas", "listServiceReplicas", "Its replicas, oldest first.", both, replicas, func(ctx context.Context, _ *rest.Call, o *serving.InferenceService) (*rest.Reply, error) {
			list, err := s.replicas(ctx, o)
			return &rest.Reply{Data: map[string]any{"items": list}, Revision: o.Meta.Revision}, err
		}),
		ask("events", "listServiceEvents", "What happened to it.", append(report.EventPage, both...), report.EventsSchema(reg), func(ctx context.Context, c *rest.Call, o *serving.InferenceService) (*rest.Reply, error) {
			return s.Events.Of(ctx, c, history.EventQuery{ObjectID: o.Meta.ID})
		}),
	}
}

// service finds the one that a path names.
func (s *Services) service(ctx context.Context, c *rest.Call) (*serving.InferenceService, error) {
	name := c.R.PathValue("name")
	c.Note.Names(serving.Kind, name)
	f, err := s.Finder.Resolve(ctx, c, api.MustInfo(serving.Kind), name)
	if err != nil {
		return nil, err
	}
	c.Note.About(f.Object)
	return f.Object.(*serving.InferenceService), nil
}

// edit changes a service by a verb: read, change, commit, and again when the controller was faster.
func (s *Services) edit(ctx context.Context, c *rest.Call, said fault.Text, reason string, change func(*serving.InferenceService) bool) (*rest.Reply, error) {
	o, err := s.service(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := s.Finder.Judge.MayWrite(ctx, c.Who, o); err != nil {
		return nil, err
	}
	c.Note.Before(o)
	for range truth.Retries {
		if o.Meta.DeletedAt != nil {
			return nil, fault.New(fault.Conflict, "Deleting", fault.T("%s is being deleted.", "%s 正在删除。", o.Meta.Name))
		}
		next := store.Clone(o)
		if !change(next) {
			c.Note.Skip = true
			return &rest.Reply{Message: fault.T("Nothing to change", "无需修改"), Data: o, Revision: o.Meta.Revision}, nil
		}
		if o.Spec.Stop && !next.Spec.Stop {
			if err := s.Gate.MayReturn(ctx, next); err != nil {
				return nil, err
			}
		}
		next.Meta.UpdatedAt = s.Clock.Now().UTC()
		rev, err := s.Finder.Truth.Write(ctx, store.Update(next))
		if err == nil {
			c.Note.After(next)
			c.Tell(next, reason, said)
			return &rest.Reply{Message: said, Data: next, Revision: rev}, nil
		}
		if fault.ReasonOf(err) != "Stale" {
			return nil, err
		}
		again, err := s.Finder.Truth.Get(ctx, api.KeyOf(o), o.Meta.Revision+1)
		if err != nil {
			return nil, err
		}
		if again.GetMeta().ID != o.Meta.ID {
			return nil, refuse.Missing(api.MustInfo(serving.Kind), o.Meta.Name)
		}
		o = again.(*serving.InferenceService)
	}
	return nil, fault.New(fault.Conflict, "Stale", fault.T("It changes all the time; try again.", "该对象频繁变化，请重试。"))
}

func (s *Services) stop(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	return s.edit(store.Urgent(ctx), c, fault.T("The service is stopping", "服务正在停止"), "StopRequested", func(o *serving.InferenceService) bool {
		was := o.Spec.Stop
		o.Spec.Stop = true
		return !was
	})
}

func (s *Services) start(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	return s.edit(ctx, c, fault.T("The service is starting", "服务正在启动"), "StartRequested", func(o *serving.InferenceService) bool {
		was := o.Spec.Stop
		o.Spec.Stop = false
		return was
	})
}

func (s *Services) scale(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	var body scaleBody
	if err := c.ReadJSON(&body, "replicas"); err != nil {
		return nil, err
	}
	if body.Replicas < 1 || body.Replicas > 1000 {
		return nil, refuse.Invalid("replicas", fault.T("%d is out of range: 1 to 1000 are allowed; stop the service to have none.", "%d 超出范围：允许 1 到 1000；如不需要副本请停止服务。", body.Replicas))
	}
	return s.edit(ctx, c, fault.T("The service has %d replicas now", "服务副本数改为 %d", body.Replicas), "Scaled", func(o *serving.InferenceService) bool {
		was := o.Spec.Replicas
		o.Spec.Replicas = body.Replicas
		return was != body.Replicas
	})
}

// replicas are those of a service, oldest first.
func (s *Services) replicas(ctx context.Context, o *serving.InferenceService) ([]*serving.ServiceReplica, error) {
	snap, err := s.Finder.Truth.List(ctx, serving.ReplicaKind, o.Meta.Project, 0)
	if err != nil {
		return nil, err
	}
	list := []*serving.ServiceReplica{}
	snap.Ascend("", func(x api.Object) bool {
		if r := x.(*serving.ServiceReplica); r.Spec.ServiceID == o.Meta.ID {
			list = append(list, r)
		}
		return true
	})
	return list, nil
}

// why is what the service says, and why the first replica that waits for a place does.
func (s *Services) why(ctx context.Context, _ *rest.Call, o *serving.InferenceService) (*rest.Reply, error) {
	e := train.Explanation{Reason: o.Status.Reason, Message: o.Status.Message}
	list, err := s.replicas(ctx, o)
	if err != nil {
		return nil, err
	}
	for _, r := range list {
		if s.Live == nil || r.Status.Phase != api.PhasePending {
			continue
		}
		if e, err = s.Live.Why(ctx, r); err != nil {
			return nil, err
		}
		e.Moves = nil // they may name work of others
		break
	}
	return &rest.Reply{Data: e, Revision: o.Meta.Revision}, nil
}

// Prints are the replicas whose logs are the service's.
func (s *Services) Prints(ctx context.Context, o api.Object) ([]logs.Part, error) {
	service := o.(*serving.InferenceService)
	list, err := s.replicas(ctx, service)
	out := make([]logs.Part, 0, len(list)+1)
	if g := service.Spec.Gateway; g != nil && g.Log != nil {
		out = append(out, logs.Part{ID: service.Meta.ID, Label: requestsLabel})
	}
	for _, r := range list {
		out = append(out, logs.Part{ID: r.Meta.ID, Label: r.Meta.Name})
	}
	return out, err
}

// requestsLabel is the part of a service's log that its gateways write.
const requestsLabel = "requests"
