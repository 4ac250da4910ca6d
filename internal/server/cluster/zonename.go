package cluster

import (
	"context"
	"fmt"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/server/truth"
)

// ZoneNames translate what people call zones, such as 北京-1, into their names, wherever a request names one.
type ZoneNames struct {
	byShown map[string]string // display name in lower case: name; "" where several zones share it
	names   map[string]bool
	List    []string
}

// NewZoneNames reads the zones of now.
func NewZoneNames(ctx context.Context, t *truth.Truth) (ZoneNames, error) {
	z := ZoneNames{byShown: map[string]string{}, names: map[string]bool{}}
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
		z.names[m.Name] = true
		z.byShown[shown], z.List = name, append(z.List, said)
		return true
	})
	return z, nil
}

// Of is the name of a zone, where it is called by its display name.
func (z ZoneNames) Of(text string) string {
	if name := z.byShown[strings.ToLower(strings.TrimSpace(text))]; name != "" && !api.IsName(text) {
		return name
	}
	return text
}

// Has says that there is a zone of this name.
func (z ZoneNames) Has(name string) bool { return z.names[name] }

// ZoneNamed is the name of the zone in a path or a body.
func ZoneNamed(ctx context.Context, t *truth.Truth, text string) (string, error) {
	if api.IsName(text) {
		return text, nil
	}
	z, err := NewZoneNames(ctx, t)
	return z.Of(text), err
}
