package past

import (
	"fmt"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/sched/cache"
)

// mostHad is how many versions that were on their nodes are named.
const mostHad = 3

// Reads are what the nodes of gangs that stand had of what those read, by task id.
type Reads map[string]*had

// had is what was there before the gang came, and whether it is counted that it is there now.
type had struct {
	versions []string
	counted  bool
}

// versions are those that are brought to the nodes of work; a folder of the machines is not.
func versions(t *api.Workload) (refs []mount.AssetRef) {
	for _, list := range [][]mount.AssetRef{t.Program.Datasets, t.Program.Models} {
		for _, r := range list {
			if r.Digest != "" && (r.Source == nil || r.Source.Folder == "") {
				refs = append(refs, r)
			}
		}
	}
	return refs
}

// Versions is what the planner counts of what work reads.
func Versions(t *api.Workload) (out []cache.Version) {
	for _, r := range versions(t) {
		out = append(out, cache.Version{Digest: r.Digest, Bytes: r.Size})
	}
	return out
}

// Follow takes up how far work is that stands at p: what its nodes had already and, once its processes run, that they have it now. Launchers start none
// before every byte was verified.
func (x Reads) Follow(t *api.Workload, p *api.Placement, nodes map[uint32]*api.Node, book *cache.Book) {
	refs := versions(t)
	if p == nil || len(refs) == 0 {
		return
	}
	h := x[t.Meta.ID]
	fresh := h == nil
	if fresh {
		h = &had{}
		x[t.Meta.ID] = h
	}
	runs := t.Phase == api.PhaseRunning && !h.counted
	if !fresh && !runs {
		return
	}
	for _, role := range p.Spec.Roles {
		for _, at := range role.Slots {
			for _, r := range refs {
				if n := nodes[at.Node]; fresh && len(h.versions) < mostHad && n != nil && book.Has(r.Digest, at.Node) {
					h.versions = append(h.versions, fmt.Sprintf("%s: %s@%s", n.Meta.Name, r.Name, r.Version))
				}
				if runs {
					book.Saw(r.Digest, at.Node)
				}
			}
		}
	}
	h.counted = h.counted || runs
}

// Had says which versions that work reads were on its nodes when it came there; ok is false where there were none that are known of.
func (x Reads) Had(id string) (text fault.Text, ok bool) {
	if h := x[id]; h != nil && len(h.versions) > 0 {
		return fault.T("its data was there already (%s)", "数据已在节点缓存中（%s）", strings.Join(h.versions, ", ")), true
	}
	return text, false
}
