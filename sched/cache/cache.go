package cache

import (
	"maps"
	"slices"
)

// What is remembered at most: versions, and nodes of each.
const (
	mostVersions = 4096
	mostNodes    = 64
)

// Version is one that work reads.
type Version struct {
	Digest string
	Bytes  int64
}

// Book is what was seen. The zero value is empty. Not safe for concurrent use.
type Book struct {
	by    map[string][]uint32 // nodes by digest, the one seen last at the end
	order []string            // digests, the one seen last at the end
}

// Saw notes that a node has a version.
func (b *Book) Saw(digest string, node uint32) {
	if b.by == nil {
		b.by = map[string][]uint32{}
	}
	nodes, known := b.by[digest]
	if known && nodes[len(nodes)-1] == node && b.order[len(b.order)-1] == digest {
		return
	}
	nodes = append(slices.DeleteFunc(nodes, func(n uint32) bool { return n == node }), node)
	b.by[digest] = nodes[max(0, len(nodes)-mostNodes):]
	if known {
		b.order = slices.Delete(b.order, slices.Index(b.order, digest), slices.Index(b.order, digest)+1)
	}
	if b.order = append(b.order, digest); len(b.order) > mostVersions {
		delete(b.by, b.order[0])
		b.order = b.order[1:]
	}
}

// Has says whether a node was seen with a version.
func (b *Book) Has(digest string, node uint32) bool { return slices.Contains(b.by[digest], node) }

// Most is, of the best place and those as good, the one whose node has most bytes of some versions: the best itself where none has more. at is the place
// of a node that is as good as the best, otherwise -1.
func (b *Book) Most(reads []Version, best int32, at func(node uint32) int32) int32 {
	if len(reads) == 0 || len(b.by) == 0 {
		return best
	}
	has := map[int32]int64{}
	for _, v := range reads {
		for _, node := range b.by[v.Digest] {
			if place := at(node); place >= 0 {
				has[place] += v.Bytes + 1
			}
		}
	}
	for _, place := range slices.Sorted(maps.Keys(has)) {
		if has[place] > has[best] {
			best = place
		}
	}
	return best
}
