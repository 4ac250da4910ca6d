package serve

import (
	"context"
	"slices"

	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/store"
)

type promoteBody struct {
	All bool `json:"all,omitempty" doc:"All steps at once: the new revision takes over."`
}

type rollbackBody struct {
	Revision int `json:"revision,omitempty" minimum:"0" doc:"To this one; the stable one or, without a canary, the one before when absent."`
}

var errNoCanary = fault.New(fault.Conflict, "NoCanary", fault.T("No new revision is being tried out.", "当前没有进行中的灰度发布。")).
	WithHint(fault.T("Set spec.traffic.canary, then change the template.", "请设置 spec.traffic.canary 后修改模板。"))

// promote passes the step that a canary is at, or all of them.
func (s *Services) promote(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	var body promoteBody
	if err := c.ReadJSON(&body, "all"); err != nil {
		return nil, err
	}
	o, err := s.service(ctx, c)
	if err != nil {
		return nil, err
	}
	at := o.Status.Canary
	if at == nil || at.Verdict != "" || o.Spec.Traffic == nil || o.Spec.Traffic.Canary == nil {
		return nil, errNoCanary
	}
	return s.edit(ctx, c, fault.T("Revision %d goes on", "修订版 %d 继续推进", at.Revision), "PromoteRequested", func(o *serving.InferenceService) bool {
		t := o.Spec.Traffic
		if t == nil || t.Canary == nil {
			return false
		}
		next := *t
		next.Promote = &serving.Promotion{Revision: at.Revision, Step: at.Step + 1}
		if body.All {
			next.Promote.Step = len(t.Canary.Steps)
		}
		was := t.Promote
		o.Spec.Traffic = &next
		return was == nil || *was != *next.Promote
	})
}

// rollback makes an earlier revision the wish again.
func (s *Services) rollback(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	var body rollbackBody
	if err := c.ReadJSON(&body, "revision"); err != nil {
		return nil, err
	}
	o, err := s.service(ctx, c)
	if err != nil {
		return nil, err
	}
	to := body.Revision
	if to == 0 && o.Status.Canary != nil {
		to = o.Status.Canary.Stable
	}
	list := o.Status.Revisions
	if to == 0 && len(list) > 1 {
		to = list[len(list)-2].Number
	}
	i := slices.IndexFunc(list, func(r serving.ServiceRevision) bool { return r.Number == to })
	if i < 0 {
		return nil, refuse.Invalid("revision", fault.T("There is no revision %d to go back to.", "没有可回滚的修订版 %d。", to))
	}
	template := store.Clone(o).Status.Revisions[i].Template
	return s.edit(ctx, c, fault.T("Back to revision %d", "回滚到修订版 %d", to), "RollbackRequested", func(o *serving.InferenceService) bool {
		o.Spec.Template = template
		if at := o.Status.Canary; o.Spec.Traffic != nil && o.Spec.Traffic.Canary != nil && (at == nil || at.Stable != to) { // it need not prove itself again
			next := *o.Spec.Traffic
			next.Promote = &serving.Promotion{Revision: o.Status.Revision + 1, Step: len(next.Canary.Steps)}
			o.Spec.Traffic = &next
		}
		return true
	})
}
