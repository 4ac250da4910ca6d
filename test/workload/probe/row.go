package probe

import (
	"reflect"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/internal/app/kinds"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server"
)

// Row is all that the program is told of the kind.
var Row = kinds.Work{
	Row: api.KindInfo{
		Kind: Kind, Singular: "probe", Plural: "probes", IDPrefix: "probe", Project: true, Phased: true, Users: true, Class: "environment",
		New: func() api.Object { return &Probe{} },
	},
	Door: server.WorkRow{
		Queue: func(o api.Work, queue string) { o.(*Probe).Spec.Queue = queue },
		Begin: func(o api.Work, reason string, why fault.Text) {
			o.(*Probe).Status = work.Status{Phase: api.PhasePending, Reason: reason, Message: why}
		},
		Change:  change,
		Example: map[string]any{"metadata": map[string]any{"name": "p"}, "spec": map[string]any{"role": map[string]any{"command": []string{"true"}}}},
	},
	New: func(cfg work.Config, _ devenv.Policy) work.Keeper {
		cfg.Rules = rules{}
		return work.New(cfg)
	},
}

func change(next, current, given api.Work) error {
	n, c, g := next.(*Probe), current.(*Probe), given.(*Probe)
	n.Spec = g.Spec
	same := g.Spec
	same.Note, same.Queue = c.Spec.Note, c.Spec.Queue
	if !reflect.DeepEqual(same, c.Spec) {
		return fault.New(fault.Invalid, "Immutable", fault.T("Only the note of a probe may change.", "探针只有 note 可以修改。"))
	}
	n.Spec.Queue = c.Spec.Queue
	return nil
}
