package work

import (
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/activity"
	"github.com/fermi-cluster/fermi/internal/control/fence"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

// Seen is everything known about a piece of work at one moment.
type Seen struct {
	Work      api.Work
	View      api.Workload
	Placement *api.Placement       // nil: none
	Members   []Member             // of the current attempt, in the placement's order
	Others    []engine.Observation // replicas of earlier attempts, or of no slot
	// Silence is how long the launchers of Others have said nothing; absent: they speak.
	Silence map[engine.Name]time.Duration
	// Signals are those of the work that were looked at last; nil: nobody needs them, or none could be had.
	Signals *Signals
	Guest   string     // the task that runs inside it; "": none
	NoRoom  error      // why a start that is due by itself may not be
	Made    api.Object // what an errand of it was to make, once it has ended; nil: nothing
	Dropped bool       // a home that nobody needed any more is gone
	Given   []GivenUp  // of whatever attempt; as members they have ended, and they are none of Others
	// Pinned: it has something of its own where it runs. A launcher that says nothing is not given up for it.
	Pinned bool
	// ArchiveAfter is how long what is finished stays in the store.
	ArchiveAfter time.Duration
}

// Member is one expected replica of the current attempt.
type Member struct {
	Name     engine.Name
	Role     string
	Index    int
	Attempt  int
	Node     *api.Node // nil: gone
	Devices  uint64
	Attached bool
	Silent   time.Duration      // how long its launcher has said nothing that it should have said
	Said     link.Ranks         // the newest by its launcher; zero: nothing
	Known    engine.Observation // by the engine; its State is "" where it does not know the replica
}

func (m *Member) ended() bool {
	return m.Known.State == engine.StateExited || m.Known.State == engine.StateDone
}

func (m *Member) succeeded() bool {
	return m.ended() && m.Known.Exit != nil && m.Known.Exit.Reason == engine.ReasonSucceeded
}

// EndAll stops what runs; true when every replica that ever was has handed over.
func (s *Seen) EndAll(p *Plan) bool {
	over := true
	for i := range s.Members {
		m := &s.Members[i]
		if m.Known.State == "" || m.Known.State == engine.StateDone {
			continue
		}
		over = false
		if !m.ended() {
			p.Stop = append(p.Stop, m.Name)
		}
	}
	for _, o := range s.Others {
		over = over && o.State == engine.StateDone
	}
	return over
}

// Sweep ends and removes replicas that are not of the current attempt.
func (s *Seen) Sweep(p *Plan) {
	for _, o := range s.Others {
		switch o.State {
		case engine.StateDone:
			p.Remove = append(p.Remove, o.Name)
		case engine.StateExited: // hands over
		default:
			p.Stop = append(p.Stop, o.Name)
		}
	}
}

// Zones are where its members stand, in order.
func (s *Seen) Zones() (out []string) {
	for i := range s.Members {
		if n := s.Members[i].Node; n != nil && !slices.Contains(out, n.Spec.Zone) {
			out = append(out, n.Spec.Zone)
		}
	}
	slices.Sort(out)
	return out
}

// Started is when the first process of this attempt started, nil when none did.
func (s *Seen) Started() *time.Time {
	var first *time.Time
	for i := range s.Members {
		if at := s.Members[i].Known.Started; !at.IsZero() && (first == nil || at.Before(*first)) {
			first = &at
		}
	}
	return first
}

// Failed is the member that ended first of those that did not end well; nil: none did.
func (s *Seen) Failed() *Member {
	var first *Member
	for i := range s.Members {
		m := &s.Members[i]
		if !m.ended() || m.succeeded() {
			continue
		}
		if first == nil || m.Known.Exit != nil && first.Known.Exit != nil && m.Known.Exit.At.Before(first.Known.Exit.At) {
			first = m
		}
	}
	return first
}

// Count is how many of its members are how far.
func (s *Seen) Count() api.ReplicaCount {
	n := api.ReplicaCount{Total: len(s.Members)}
	for i := range s.Members {
		switch m := &s.Members[i]; {
		case m.succeeded():
			n.Succeeded++
		case m.ended():
			n.Failed++
		case m.Known.State == engine.StateRunning:
			n.Running++
		default:
			n.Starting++
		}
	}
	return n
}

// torn says that the work was read before and the placement after the write that moved both on.
func (s *Seen) torn() bool {
	phase := s.View.Phase
	return s.Placement != nil && s.Placement.Spec.Attempt > s.View.Attempt && phase != "" && phase != api.PhasePending && !phase.Finished()
}

// Plan is what to do, in the order apply does it.
type Plan struct {
	Next    api.Work      // with its new status; nil: as it is
	Usage   bool          // write the usage of members that run or ended first
	Leave   bool          // the placement goes with the status
	Move    bool          // the place reserved for it becomes its place
	Fence   []fence.Given // who is given up
	Stop    []engine.Name
	End     []engine.Name // like Stop, at once: nothing that they save counts
	Start   []int         // members
	Go      []int         // members that may start their processes
	Remove  []engine.Name
	Archive bool // move it to history
	Erase   bool // delete it and its bytes
	Events  []Event
	Say     string // to the launchers of all members, as the kind of a probe; who does not hear it misses it
	Wake    time.Duration
}

// Signals are the signs of work in a replica, and when they were asked for.
type Signals struct {
	Table activity.Table
	Heard time.Time
}

// Event is a happening that people are told of.
type Event struct {
	Warning bool
	Reason  string
	Message fault.Text
	// Once names the happening within the work, so that a repeat is not told twice.
	Once string
}
