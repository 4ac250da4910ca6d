package gang

import (
	_ "embed"
	"encoding/json"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// Stand is where a member is.
type Stand struct {
	Node    string
	Number  uint32 // the node's
	Zone    string
	Leaf    string
	Rack    string
	Devices uint64
	Virtual bool    // its node is: cores and memory are nominal
	Machine string  // what the node runs on: nodes of one boot, and all virtual ones, share it; "": not known
	Peak    float64 // operations a second that its devices can do; 0: not known
	Usable  bool    // its node takes work
	Closed  bool    // its node was cordoned, or is being deleted: somebody works on it
}

func standOn(n *api.Node, slot api.Slot, peaks Peaks) Stand {
	closed := n.Spec.Cordoned || n.Spec.Lost || n.Meta.DeletedAt != nil
	return Stand{
		Node: n.Meta.Name, Number: slot.Node, Zone: n.Spec.Zone, Leaf: n.Spec.Leaf, Rack: n.Spec.Rack, Devices: slot.Devices, Virtual: n.Spec.Virtual, Machine: machineOf(n),
		Peak: peaks.Of(n, slot.Devices), Usable: n.Status.Ready && !closed && n.Status.Holds.Closed()&slot.Devices == 0, Closed: closed,
	}
}

// machineOf tells nodes apart that have a machine each. Virtual ones are processes of the machine that simulates them.
func machineOf(n *api.Node) string {
	if n.Spec.Virtual {
		return "virtual"
	}
	return n.Status.BootID
}

// DevicesOf are those of a node that a mask names.
func DevicesOf(n *api.Node, mask uint64) []api.Device {
	var out []api.Device
	for bit, d := range n.Spec.Devices {
		if mask&(1<<bit) != 0 {
			out = append(out, d)
		}
	}
	return out
}

//go:embed peaks.json
var peakTable []byte

// Peaks is operations a second by folded type of device.
type Peaks map[string]float64

// LoadPeaks reads the table that is part of the program.
func LoadPeaks() Peaks {
	var rows map[string]float64
	if err := json.Unmarshal(peakTable, &rows); err != nil {
		panic(err) // part of the program; a test reads it
	}
	out := Peaks{}
	for name, tera := range rows {
		out[api.FoldDevice(name)] = tera * 1e12
	}
	return out
}

// Of is what the devices can do together; 0 where one is not in the table, or has no hardware.
func (p Peaks) Of(n *api.Node, mask uint64) (sum float64) {
	if n.Spec.Virtual {
		return 0
	}
	for _, d := range DevicesOf(n, mask) {
		peak := p[api.FoldDevice(d.Type)]
		if peak == 0 {
			return 0
		}
		sum += peak
	}
	return sum
}
