package past

import (
	"strconv"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/diagnose"
)

// FaultsCount is for how long a fault of a node is held against it: others of the same kind are used first.
const FaultsCount = 24 * time.Hour

// placeCauses are the causes that speak against the place of who failed.
var placeCauses = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{}
	for _, r := range diagnose.Load() {
		out[r.ID] = r.Place
	}
	return out
})

// Faults are those of nodes, by node and by which it was: a task tells its faults again with each change, and is forgotten
// before they are.
type Faults map[string]map[string]time.Time

// Note takes up what a task tells; changed are the nodes that have another number of faults now.
func (f Faults) Note(t *api.Workload) (changed []string) {
	for i := range t.Ran.Known.Faults {
		one := &t.Ran.Known.Faults[i]
		key := t.Meta.ID + " " + one.Role + " " + strconv.Itoa(one.Generation) + " " + one.At.String()
		if _, known := f[one.Node][key]; known || one.Node == "" || one.Planned || !placeCauses()[one.Cause] {
			continue
		}
		if f[one.Node] == nil {
			f[one.Node] = map[string]time.Time{}
		}
		f[one.Node][key] = one.At
		changed = append(changed, one.Node)
	}
	return changed
}

// Of is how many a node had lately.
func (f Faults) Of(node string, now time.Time) (n int) {
	for key, at := range f[node] {
		if now.Sub(at) >= FaultsCount {
			delete(f[node], key)
			continue
		}
		n++
	}
	if len(f[node]) == 0 {
		delete(f, node)
	}
	return n
}
