package v1

import "time"

// StragglerRule is what is done about a rank that the others wait for.
type StragglerRule string

// The rules.
const (
	StragglersReport  StragglerRule = "report"
	StragglersReplace StragglerRule = "replace"
)

// MaxStragglers bounds those that a status names.
const MaxStragglers = 8

// Straggler is a rank that needs much longer than the others for its own part of a step.
type Straggler struct {
	Rank       int       `json:"rank"`
	Replica    string    `json:"replica"`
	Role       string    `json:"role"`
	Node       string    `json:"node"`
	Own        Duration  `json:"own" doc:"Its own part of a step, without waiting for others: the mean, less the slowest quarter."`
	Others     Duration  `json:"others" doc:"The median of the other ranks'."`
	Steps      int       `json:"steps" doc:"Over how many of its last steps."`
	Generation int       `json:"generation"`
	Since      time.Time `json:"since"`
	Replacing  bool      `json:"replacing,omitempty" doc:"Another place was asked for, as spec.stragglers says."`
}

// MaxPastFaults bounds the failures that are remembered.
const MaxPastFaults = 32

// PastFault is a failure within the restart window, as later ones are held against it.
type PastFault struct {
	At          time.Time `json:"at,omitzero"`
	Generation  int       `json:"generation,omitempty"`
	Role        string    `json:"role"`
	Node        string    `json:"node"`
	Rack        string    `json:"rack,omitempty"`
	Leaf        string    `json:"leaf,omitempty"`
	Zone        string    `json:"zone,omitempty"`
	Cause       string    `json:"cause,omitempty"`
	Planned     bool      `json:"planned,omitempty" doc:"Its node was cordoned when it was lost: that says nothing of the place."`
	Fingerprint string    `json:"fingerprint,omitempty"`
	Step        int64     `json:"step,omitempty"`
}

// Places are the parts of a cluster, the smallest first, that a task may keep away from.
var Places = []string{"node", "rack", "leaf", "zone"}

// In is the place of a kind, "" where it has none. A rack's and a leaf's name count within their zone.
func (f *PastFault) In(kind string) string {
	name := map[string]string{"node": f.Node, "rack": f.Rack, "leaf": f.Leaf, "zone": f.Zone}[kind]
	if name == "" || kind == "zone" {
		return name
	}
	return f.Zone + "/" + name
}
