package gang

import (
	"iter"
	"math/bits"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// Assignment has one slot a replica, by role in the workload's order.
type Assignment [][]api.Slot

// Stands are the nodes where it stands, with the devices on each, in the order of its slots: one that comes back to a node
// has it twice.
func (a Assignment) Stands() iter.Seq2[uint32, int] {
	return func(yield func(node uint32, devices int) bool) {
		var last uint32
		devices, some := 0, false
		for _, slots := range a {
			for _, s := range slots {
				if some && last != s.Node {
					if !yield(last, devices) {
						return
					}
					devices = 0
				}
				last, some = s.Node, true
				devices += bits.OnesCount64(s.Devices)
			}
		}
		if some {
			yield(last, devices)
		}
	}
}
