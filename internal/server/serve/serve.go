package serve

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/image"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/archive"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/report"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/train"
	"github.com/fermi-cluster/fermi/internal/server/work"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Services serves inference services. Safe for concurrent use.
type Services struct {
	Finder   *objects.Finder
	Gate     *train.Gate
	Left     *train.Leftovers
	Archives *archive.Archives
	Blob     blob.Store
	Events   *report.Events
	Live     train.Live // nil: nobody knows what the leader does
	IDs      *id.Source
	Clock    clock.Clock
}

// example is the manifest that the document shows.
var example = map[string]any{
	"metadata": map[string]any{"name": "spiral"},
	"spec":     map[string]any{"replicas": 2, "template": map[string]any{"engine": "sample"}},
}

// there says that the program has services.
func there() bool {
	_, ok := api.InfoOf(serving.Kind)
	return ok
}

// Hooks are the rows of the service, its replicas and its endpoints.
func (s *Services) Hooks() []*objects.Hooks {
	if !there() {
		return nil
	}
	rows := &work.Works{Rows: []work.Row{{
		Kind:  serving.Kind,
		Fresh: fresh,
		Images: func(o api.Work) []image.Field {
			return []image.Field{{Path: "spec.template.image", Image: &o.(*serving.InferenceService).Spec.Template.Image}}
		},
		Queue: func(o api.Work, queue string) { o.(*serving.InferenceService).Spec.Queue = queue },
		Begin: func(o api.Work, _ string, _ fault.Text) {
			o.(*serving.InferenceService).Status = serving.ServiceStatus{
				Phase: serving.PhaseDeploying, Reason: "Deploying", Message: fault.T("Its replicas are being started.", "正在启动副本。"), URL: "/inference/" + o.GetMeta().Name,
			}
		},
		Change:  change,
		Settle:  s.settle,
		Example: example,
	}}, Gate: s.Gate, Finder: s.Finder, Left: s.Left, Events: s.Events, Live: s.Live, Clock: s.Clock}
	service := rows.Hooks()[0]
	admit := service.Admit
	service.Access.Task = false
	service.Read.Settle = func(ctx context.Context, o api.Object) error {
		zones := o.(*serving.InferenceService).Spec.Zones
		for i := range zones {
			if err := s.Gate.NameZone(ctx, fmt.Sprintf("spec.zones[%d].zone", i), &zones[i].Zone); err != nil {
				return err
			}
		}
		return nil
	}
	service.Admit = func(ctx context.Context, c *rest.Call, b *objects.Birth, dry bool) error {
		o := b.Object.(*serving.InferenceService)
		if err := s.zonesAreThere(ctx, o.Spec.Zones, nil); err != nil {
			return err
		}
		if err := s.mountModel(ctx, o); err != nil {
			return err
		}
		if err := s.bringModel(ctx, o, dry); err != nil {
			return err
		}
		if err := admit(ctx, c, b, dry); err != nil {
			return err
		}
		if !dry {
			b.Ops = append(b.Ops, store.Create(s.address(o)))
		}
		return nil
	}
	return []*objects.Hooks{
		service,
		{Kind: serving.ReplicaKind, Access: access.Kind{Read: access.ReadOwn}},
		{Kind: serving.EndpointsKind, Access: access.Kind{Read: access.ReadOperators}},
	}
}

func fresh(o api.Work) error {
	s := o.(*serving.InferenceService)
	s.Status = serving.ServiceStatus{}
	if s.Spec.Traffic != nil {
		s.Spec.Traffic.Promote = nil
	}
	if s.Spec.Stop {
		return fault.New(fault.Invalid, "BadManifest", fault.T("A new service can't be stopped already.", "新建的服务不能处于停止状态。")).
			WithFields(fault.Field{Path: "spec.stop", Message: fault.T("Leave it out; stop the service later.", "请去掉此字段，创建后再停止服务。")})
	}
	return nil
}

// zonesAreThere refuses a zone that is not there: its replicas would wait for ever. One that went since the service was made stays.
func (s *Services) zonesAreThere(ctx context.Context, zones, before []serving.ServiceZone) error {
	var all refuse.Gathered
	for i, z := range zones {
		if !slices.ContainsFunc(before, func(o serving.ServiceZone) bool { return o.Zone == z.Zone }) {
			all.Take(train.ZoneIsThere(ctx, s.Finder.Truth, fmt.Sprintf("spec.zones[%d].zone", i), z.Zone))
		}
	}
	return all.Err()
}

// settle brings the model of a changed service.
func (s *Services) settle(ctx context.Context, c *rest.Call, next, current api.Work) error {
	n, o := next.(*serving.InferenceService), current.(*serving.InferenceService)
	if err := s.zonesAreThere(ctx, n.Spec.Zones, o.Spec.Zones); err != nil {
		return err
	}
	if err := s.mountModel(ctx, n); err != nil {
		return err
	}
	if reflect.DeepEqual(n.Spec.Template.Model, o.Spec.Template.Model) && reflect.DeepEqual(n.Spec.Template.Code, o.Spec.Template.Code) {
		return nil
	}
	return s.bringModel(ctx, n, c.Query.Yes("dryRun"))
}

// change takes the wish over: all of it may change but the queue, which its replicas were admitted to.
func change(next, current, given api.Work) error {
	n, c, g := next.(*serving.InferenceService), current.(*serving.InferenceService), given.(*serving.InferenceService)
	n.Spec = g.Spec
	if g.Spec.Queue != "" && g.Spec.Queue != c.Spec.Queue {
		return fault.New(fault.Invalid, "Immutable", fault.T("The queue of a service never changes.", "服务的队列不可更改。")).
			WithFields(fault.Field{Path: "spec.queue", Message: fault.T("It is %s.", "当前为 %s。", c.Spec.Queue)})
	}
	n.Spec.Queue = c.Spec.Queue
	if c.Spec.Priority == nil && g.Spec.Priority != nil || c.Spec.Priority != nil && g.Spec.Priority != nil && *g.Spec.Priority > *c.Spec.Priority {
		return fault.New(fault.Invalid, "Immutable", fault.T("The priority of a service can't be raised.", "服务的优先级不能提高。")).
			WithFields(fault.Field{Path: "spec.priority", Message: fault.T("Make the service anew to have another one.", "如需更高优先级，请重新创建服务。")})
	}
	return nil
}

// address is the object that makes a service's name its own in the whole cluster, before it answers.
func (s *Services) address(o *serving.InferenceService) *serving.ServiceEndpoints {
	now := s.Clock.Now().UTC()
	return &serving.ServiceEndpoints{
		Meta: api.Meta{
			ID: s.IDs.New(api.MustInfo(serving.EndpointsKind).IDPrefix), Name: o.Meta.Name, DisplayName: o.Meta.Name, Owner: o.Meta.Owner, CreatedAt: now, UpdatedAt: now,
		},
		Spec: serving.ServiceEndpointsSpec{
			ServiceID: o.Meta.ID, Project: o.Meta.Project, Contract: o.Spec.Contract, Timeout: o.Spec.Timeout, MaxConcurrency: o.Spec.MaxConcurrency, MaxQueue: o.Spec.MaxQueue, Gateway: o.Spec.Gateway, Slow: o.Spec.SLO.Slow(),
		},
	}
}
