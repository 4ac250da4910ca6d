package where

import (
	"encoding/json"

	"github.com/fermi-cluster/fermi/api/v1/quantity"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Topology is how a gang lies in racks. JSON: "pack", "spread" or {"maxPerRack": 2}.
type Topology struct {
	Mode TopologyMode
	// MaxPerRack goes with TopologyBounded only.
	MaxPerRack int
}

// TopologyMode is one of the three forms.
type TopologyMode string

// The forms.
const (
	TopologyPack    TopologyMode = "pack"   // as few racks as possible: the fastest network
	TopologySpread  TopologyMode = "spread" // as many racks as possible: the smallest loss with one of them
	TopologyBounded TopologyMode = "maxPerRack"
)

type topologyBound struct {
	MaxPerRack int `json:"maxPerRack"`
}

// MarshalJSON writes the short form where there is one.
func (t Topology) MarshalJSON() ([]byte, error) {
	if t.Mode == TopologyBounded {
		return json.Marshal(topologyBound{t.MaxPerRack})
	}
	return json.Marshal(string(t.Mode))
}

// UnmarshalJSON reads a word or the bound.
func (t *Topology) UnmarshalJSON(data []byte) error {
	var word string
	if json.Unmarshal(data, &word) == nil {
		if mode := TopologyMode(word); mode == TopologyPack || mode == TopologySpread {
			*t = Topology{Mode: mode}
			return nil
		}
		return badTopology()
	}
	var bound map[string]int
	n, ok := 0, json.Unmarshal(data, &bound) == nil && len(bound) == 1
	if ok {
		n, ok = bound["maxPerRack"]
	}
	if !ok || n < 1 || n > MostReplicas {
		return badTopology()
	}
	*t = Topology{TopologyBounded, n}
	return nil
}

func badTopology() error {
	return quantity.Wrong("Expected pack, spread or {maxPerRack: n} with n from 1 to %d.", "此处应为 pack、spread 或 {maxPerRack: n}，n 为 1 到 %d。", MostReplicas)
}

// Check lists what can't be.
func (t *Topology) Check(at string) []fault.Field {
	if t == nil {
		return nil
	}
	switch t.Mode {
	case TopologyPack, TopologySpread:
	case TopologyBounded:
		return inRange(at+".maxPerRack", t.MaxPerRack, 1, MostReplicas)
	default:
		return []fault.Field{{Path: at, Message: fault.T("%q is no topology; use pack, spread or {maxPerRack: n}.", "%q 不是合法的拓扑，请使用 pack、spread 或 {maxPerRack: n}。", string(t.Mode))}}
	}
	return nil
}

func inRange(at string, n, low, high int) []fault.Field {
	if n < low || n > high {
		return []fault.Field{{Path: at, Message: fault.T("%d is out of range: %d to %d are allowed.", "%d 超出范围：允许 %d 到 %d。", n, low, high)}}
	}
	return nil
}
