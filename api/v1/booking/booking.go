package booking

import (
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Kind is its name.
const Kind api.Kind = "Booking"

// Row is its row in the table of kinds.
var Row = api.KindInfo{
	Kind: Kind, Singular: "booking", Plural: "bookings", Aliases: []string{"reservation", "reservations"}, IDPrefix: "book",
	Users: true, New: func() api.Object { return &Booking{} },
}

// Booking keeps nodes for projects, or for nobody: then it is a maintenance.
type Booking struct {
	Meta   api.Meta      `json:"metadata"`
	Spec   BookingSpec   `json:"spec"`
	Status BookingStatus `json:"status,omitzero"`
}

// Kind is Booking.
func (*Booking) Kind() api.Kind { return Kind }

// GetMeta is the metadata.
func (b *Booking) GetMeta() *api.Meta { return &b.Meta }

// BookingSpec is what an operator says.
type BookingSpec struct {
	From time.Time `json:"from,omitzero" doc:"When it begins; now when absent."`
	To   time.Time `json:"to" doc:"When it ends."`
	// Zone, Nodes and Labels say which nodes: those that all of them name.
	Zone     string            `json:"zone,omitempty" doc:"Nodes of this zone."`
	Nodes    []string          `json:"nodes,omitempty" maxItems:"1000" doc:"These nodes."`
	Labels   map[string]string `json:"labels,omitempty" doc:"Nodes with these labels; rack and leaf are labels too."`
	Devices  *Devices          `json:"devices,omitempty" doc:"So many accelerators, of those nodes or of any: the nodes are chosen when it is written, and are then in nodes."`
	Projects []string          `json:"projects,omitempty" maxItems:"100" doc:"Whose work may stand there meanwhile; nobody's when absent: a maintenance."`
	Notice   api.Duration      `json:"notice,omitempty" doc:"Work of unknown length is kept away so long before it begins; 24h when absent."`
	Reason   string            `json:"reason,omitempty" maxLength:"256" doc:"Shown to those whose work waits because of it."`
}

// BookingPhase is how a booking stands to the present.
type BookingPhase string

// The phases.
const (
	Upcoming BookingPhase = "Upcoming"
	Active   BookingPhase = "Active"
	Over     BookingPhase = "Over"
)

// BookingStatus is filled in when it is read.
type BookingStatus struct {
	Phase BookingPhase `json:"phase,omitempty" enum:"Upcoming,Active,Over"`
	Nodes []string     `json:"nodes,omitempty" doc:"The nodes that it is about now."`
}

// PhaseAt is how it stands to a time.
func (s *BookingSpec) PhaseAt(now time.Time) BookingPhase {
	switch {
	case !now.Before(s.To):
		return Over
	case now.Before(s.From):
		return Upcoming
	}
	return Active
}

// Maintenance says that nobody's work may stand there.
func (s *BookingSpec) Maintenance() bool { return len(s.Projects) == 0 }

// Covers says that it is about a node.
func (s *BookingSpec) Covers(n *api.Node) bool {
	if s.Devices != nil && len(s.Nodes) == 0 {
		return false // none was chosen
	}
	if s.Zone != "" && s.Zone != n.Spec.Zone || len(s.Nodes) > 0 && !slices.Contains(s.Nodes, n.Meta.Name) {
		return false
	}
	for k, v := range s.Labels {
		if labelOf(n, k) != v {
			return false
		}
	}
	return true
}

func labelOf(n *api.Node, key string) string {
	switch key {
	case "rack":
		return n.Spec.Rack
	case "leaf":
		return n.Spec.Leaf
	}
	if v, ok := n.Meta.Labels[key]; ok {
		return v
	}
	if a := n.Spec.Agent; a != nil {
		return a.Labels[key]
	}
	return ""
}

// Overlaps says that two have a time in common.
func (s *BookingSpec) Overlaps(o *BookingSpec) bool {
	return s.From.Before(o.To) && o.From.Before(s.To)
}

// Words are what it is, for people.
func (s *BookingSpec) Words(name string) fault.Text {
	const form = "2006-01-02 15:04 MST"
	from, to := s.From.UTC().Format(form), s.To.UTC().Format(form)
	text := fault.T("%s, %s to %s", "%s，%s 至 %s", name, from, to)
	if s.Maintenance() {
		text = fault.T("maintenance %s, %s to %s", "维护 %s，%s 至 %s", name, from, to)
	}
	if s.Reason != "" {
		text.EN, text.ZH = text.EN+" ("+s.Reason+")", text.ZH+"（"+s.Reason+"）"
	}
	return text
}
