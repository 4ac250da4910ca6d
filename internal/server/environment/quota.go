package environment

import (
	"context"
	"reflect"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
)

// Admit refuses an environment that its operator does not allow, or that its owner or project has no room for. was is nil of a new one.
func (s *Environments) Admit(ctx context.Context, _ *access.Caller, was, o api.Work) error {
	e := o.(*devenv.DevEnvironment)
	before, _ := was.(*devenv.DevEnvironment)
	if before == nil || before.Spec.Starts != e.Spec.Starts || before.Spec.Storage != e.Spec.Storage || !reflect.DeepEqual(before.Spec.Resources, e.Spec.Resources) || !reflect.DeepEqual(before.Spec.Idle, e.Spec.Idle) {
		if bad := s.policy.Refuse(e); len(bad) > 0 {
			return fault.New(fault.Invalid, "NotAllowed", fault.Text{EN: bad[0].Path + ": " + bad[0].Message.EN, ZH: bad[0].Path + "：" + bad[0].Message.ZH}).WithFields(bad...)
		}
	}
	wants := devenv.Needs(e)
	if from := e.Spec.From; before == nil && from != nil && api.Bytes(from.Size) > wants.Storage {
		return refuse.Invalid("spec.storage", fault.T("The snapshot holds %v, the new home may hold %v; ask for more storage.", "快照为 %v，而新主目录容量为 %v；请申请更大的存储。", api.Bytes(from.Size), wants.Storage))
	}
	if before != nil && devenv.Needs(before).Covers(wants) {
		return nil
	}
	return s.room.Room(ctx, e, wants)
}
