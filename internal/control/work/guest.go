package work

import (
	"maps"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/store"
)

// guests are who runs inside whom: by the id of who lends its place, by the id of who borrows it, the name. Who locks it owns it.
type guests map[string]map[string]string

// note files a placement, and gives the ids of those of whom it is news.
func (g guests) note(ch store.Change) (news []string) {
	each := func(o api.Object, file func(host, guest, name string)) {
		p, ok := o.(*api.Placement)
		if !ok {
			return
		}
		for _, l := range p.Spec.Inside {
			file(l.TaskID, p.Spec.TaskID, p.OwnerName())
			news = append(news, l.TaskID)
		}
	}
	each(ch.Old, func(host, guest, _ string) {
		delete(g[host], guest)
		if len(g[host]) == 0 {
			delete(g, host)
		}
	})
	each(ch.New, func(host, guest, name string) {
		if g[host] == nil {
			g[host] = map[string]string{}
		}
		g[host][guest] = name
	})
	return news
}

// in is who is inside; "": nobody.
func (g guests) in(host string) string {
	for _, id := range slices.Sorted(maps.Keys(g[host])) {
		return g[host][id]
	}
	return ""
}
