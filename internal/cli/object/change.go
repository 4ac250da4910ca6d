package object

import (
	"context"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Change reads, edits and writes an object of the whole cluster, again when somebody was faster.
func Change[T api.Object](ctx context.Context, s *call.Session, name string, edit func(T)) (T, error) {
	for try := 0; ; try++ {
		obj, err := client.Get[T](ctx, s.Client, "", name)
		if err != nil {
			return obj, err
		}
		edit(obj)
		made, err := client.Update(ctx, s.Client, obj)
		if fault.Is(err, fault.Conflict) && try < 5 {
			continue
		}
		return made, err
	}
}

func Create(ctx context.Context, s *call.Session, obj api.Object) error {
	made, err := s.Client.Create(ctx, obj, false)
	if err != nil {
		return err
	}
	if s.Structured() {
		return s.Data(call.Manifest{Obj: made})
	}
	Tell(s, Outcome{Kind: made.Kind(), Name: made.GetMeta().Name, Result: "created"})
	return nil
}
