package domain_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/fermi-cluster/fermi/sched/domain"
)

// TestDomainsAreRanges: every node is in the range of each of its domains, children are within their parents, and nodes of
// one rack of a zone are in one rack of the tree, whatever spans what.
func TestDomainsAreRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tree domain.Tree
		var nodes []domain.Node
		var zoneOf []int
		for zone := range rapid.IntRange(1, 3).Draw(t, "zones") {
			var list []domain.Node
			for i := range rapid.IntRange(1, 9).Draw(t, "nodes") {
				name := func(of string) string {
					if k := rapid.IntRange(0, 3).Draw(t, of); k > 0 {
						return fmt.Sprint(of, k)
					}
					return ""
				}
				list = append(list, domain.Node{Number: uint32(len(nodes) + i + 1), Rack: name("rack"), Leaf: name("leaf")})
			}
			for _, i := range tree.Add(list) {
				nodes, zoneOf = append(nodes, list[i]), append(zoneOf, zone)
			}
		}
		for at, n := range nodes {
			inner := int32(at)
			for level := range domain.Levels {
				id := tree.Of[level][at]
				if lo, hi := tree.Nodes(level, id); int32(at) < lo || int32(at) >= hi {
					t.Fatalf("node %d is not in its domain of level %d", at, level)
				}
				if d := tree.Levels[level][id]; inner < d.KidLo || inner >= d.KidHi {
					t.Fatalf("domain %d is not below domain %d of level %d", inner, id, level)
				}
				if lo, hi := tree.Inside(level, zoneOf[at]); id < lo || id >= hi {
					t.Fatalf("domain %d of level %d is not in its zone", id, level)
				}
				inner = id
			}
			for other, m := range nodes {
				level, rack := tree.Rack(int32(at))
				_, its := tree.Rack(int32(other))
				same := zoneOf[at] == zoneOf[other] && (at == other || n.Rack != "" && n.Rack == m.Rack)
				if same != (rack == its && tree.Of[level][other] == rack && zoneOf[at] == zoneOf[other]) {
					t.Fatalf("nodes %+v and %+v: racks %d and %d", n, m, rack, its)
				}
			}
		}
	})
}
