package server

import (
	"context"
	"fmt"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// zoneNames translate what people call zones, such as 北京-1, into their names, wherever a request names one.
type zoneNames struct {
	byShown map[string]string // display name in lower case: name; "" where several zones share it
	list    []string
}

// newZoneNames reads the zones of now.
func newZoneNames(ctx context.Context, t *truth) (zoneNames, error) {
	z := zoneNames{byShown: map[string]string{}}
	snap, err := t.List(ctx, api.KindZone, "", 0)
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
func zoneNamed(ctx context.Context, t *truth, text string) (string, error) {
	if api.IsName(text) {
		return text, nil
	}
	z, err := newZoneNames(ctx, t)
	return z.of(text), err
}
