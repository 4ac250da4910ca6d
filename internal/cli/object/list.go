package object

import (
	"fmt"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/show"
)

// object prints one object in the format asked for.
func object(s *call.Session, obj api.Object) error {
	if s.Structured() {
		return s.Data(call.Manifest{Obj: obj})
	}
	return objects(s, obj.Kind(), []api.Object{obj})
}

// List prints several objects in the format asked for.
func List(s *call.Session, kind api.Kind, objs []api.Object) error {
	if !s.Structured() {
		return objects(s, kind, objs)
	}
	items := make([]call.Manifest, len(objs))
	for i, o := range objs {
		items[i] = call.Manifest{Obj: o}
	}
	return s.Data(map[string]any{"items": items})
}

func objects(s *call.Session, kind api.Kind, objs []api.Object) error {
	if s.Flags.Output == "name" {
		for _, o := range objs {
			fmt.Fprintf(s.Out, "%s/%s\n", api.MustInfo(kind).Singular, o.GetMeta().Name)
		}
		return nil
	}
	if len(objs) == 0 {
		s.Say("Nothing found.", "没有结果。")
		return nil
	}
	cols, rows := sheet(s, kind, objs)
	return show.Write(s.Out, cols, rows, s.Lang, show.ScreenOf(s.Out))
}
