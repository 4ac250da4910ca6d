package environment

import (
	"context"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// Hooks are the row of templates; none where the program has no environments.
func (s *Environments) Hooks() []*objects.Hooks {
	if _, known := api.InfoOf(devenv.TemplateKind); !known {
		return nil
	}
	return []*objects.Hooks{{
		Kind: devenv.TemplateKind,
		Access: access.Kind{
			Read: access.ReadOwn, Write: access.WriteImages, Of: func(o api.Object) string { return o.(*devenv.EnvironmentTemplate).Spec.Project },
			NotMine: fault.T("Templates for everybody are written by administrators and operators; one of a project by its members.", "面向所有人的模板由管理员与运维人员维护；项目模板由其成员维护。"),
		},
		Read: objects.Reading{Example: map[string]any{
			"metadata": map[string]any{"name": "pytorch"},
			"spec":     map[string]any{"environment": map[string]any{"type": "notebook", "image": "pytorch", "resources": map[string]any{"cpu": 8, "memory": "64Gi"}}},
		}},
		Fresh: func(api.Object, *access.Caller) error { return nil },
		Admit: func(ctx context.Context, _ *rest.Call, b *objects.Birth, _ bool) error {
			return s.admitTemplate(ctx, b.Object.(*devenv.EnvironmentTemplate))
		},
		Change: func(ctx context.Context, _ *rest.Call, a *objects.Alteration) func() error {
			next := a.Next.(*devenv.EnvironmentTemplate)
			next.Spec = a.Given.(*devenv.EnvironmentTemplate).Spec
			return func() error { return s.admitTemplate(ctx, next) }
		},
	}}
}

// admitTemplate refuses one after which nobody could make an environment.
func (s *Environments) admitTemplate(ctx context.Context, t *devenv.EnvironmentTemplate) error {
	if p := t.Spec.Project; p != "" {
		if _, err := s.finder.Truth.Refer(ctx, api.Key{Kind: api.KindProject, Name: p}, "spec.project"); err != nil {
			return err
		}
	}
	bad := s.policy.Refuse(&devenv.DevEnvironment{Spec: t.Spec.Environment})
	if len(bad) == 0 {
		return nil
	}
	for i := range bad {
		bad[i].Path = "spec.environment" + bad[i].Path[len("spec"):]
	}
	return fault.New(fault.Invalid, "NotAllowed", fault.Text{EN: bad[0].Path + ": " + bad[0].Message.EN, ZH: bad[0].Path + "：" + bad[0].Message.ZH}).WithFields(bad...)
}
