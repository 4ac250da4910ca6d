package server

import (
	"context"
	"fmt"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// zoneNames translate what people call zones, such as 北京-1, into their names, wherever a request names one.
type zoneNames struct {
	byShown map[string]string // display name in lower case: name; "" where several zones share it
	list    []string
}

func (s *Server) zoneNames(ctx context.Context) (zoneNames, error) {
	z := zoneNames{byShown: map[string]string{}}
	snap, err := s.Store.List(ctx, api.KindZone, "", 0)
	if err != nil {
		return z, err
	}
	snap.Ascend("", func(o api.Object) bool {
		m := o.GetMeta()
		shown, said := strings.ToLower(m.DisplayName), m.Name
		if m.DisplayName != m.Name && shown != "" {
			said = fmt.Sprintf("%s (%s)", m.Name, m.DisplayName)
		}
		name := m.Name
		if _, twice := z.byShown[shown]; twice {
			name = ""
		}
		z.byShown[shown], z.list = name, append(z.list, said)
		return true
	})
	return z, nil
}

// of is the name of a zone, where it is called by its display name.
func (z zoneNames) of(text string) string {
	if name := z.byShown[strings.ToLower(strings.TrimSpace(text))]; name != "" && !api.IsName(text) {
		return name
	}
	return text
}

// zoneNamed is the name of the zone in a path or a body.
func (s *Server) zoneNamed(ctx context.Context, text string) (string, error) {
	if api.IsName(text) {
		return text, nil
	}
	z, err := s.zoneNames(ctx)
	return z.of(text), err
}

// nameZones puts names in the place of display names in the zone rules of a task.
func (s *Server) nameZones(ctx context.Context, o api.Object) error {
	t, ok := o.(*api.TrainingTask)
	if !ok || t.Spec.Zones == nil {
		return nil
	}
	z, err := s.zoneNames(ctx)
	if err != nil {
		return err
	}
	var bad []fault.Field
	name := func(path, text string) string {
		named := z.of(text)
		if !api.IsName(named) && text != "" {
			bad = append(bad, fault.Field{Path: path, Message: fault.T("There is no zone %q; there are: %s.", "没有可用区 %q；可用的有：%s。", clip(text, 64), strings.Join(z.list, ", "))})
		}
		return named
	}
	r := t.Spec.Zones
	each := func(path string, list []string) {
		for i := range list {
			list[i] = name(fmt.Sprintf("spec.zones.%s[%d]", path, i), list[i])
		}
	}
	each("allow", r.Allow)
	each("deny", r.Deny)
	for i := range r.Data {
		each(fmt.Sprintf("data[%d].zones", i), r.Data[i].Zones)
	}
	if len(r.Split) > 0 {
		split := make(map[string]int, len(r.Split))
		for text, n := range r.Split {
			split[name("spec.zones.split", text)] += n
		}
		r.Split = split
	}
	if len(bad) == 0 {
		return nil
	}
	at := bad[0]
	return fault.New(fault.Invalid, "NoSuchZone", fault.Text{EN: at.Path + ": " + at.Message.EN, ZH: at.Path + ": " + at.Message.ZH}).WithFields(bad...)
}
