package train

import (
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

// seen is everything known about a task at one moment.
type seen struct {
	task      *api.TrainingTask
	placement *api.Placement // nil: none
	members   []member       // of the current attempt, in the placement's order; empty without one
	order     []int          // of members, as ranks go
	world     int            // ranks of all members
	shift     int            // places in order between a member and its peer; 0: not known yet
	joining   []member       // replicas of an elastic task that take part from the next generation on
	spares    []member       // replicas that hold no rank
	seats     map[int]int    // places of members that took another's, by index
	vacant    []int          // places of members that were lost and that nobody took, rising
	surplus   []member       // replicas that it gives up; they are among others as well
	others    []engine.Observation
	// unfit says why the framework can't be started on this placement; nil where it can, or is plain.
	unfit *fault.Error
	// homeless is an environment of a guest that is gone; nil: none. guest is who is inside this one.
	homeless *loss
	guest    string
	// stay: no other place was found for the open generation's failure.
	stay bool
	// base is the pace of the same work in a smaller world; nil: none is known.
	base *base
	// origins are the checkpoints to begin from where nothing is in memory, the best first; passed would be better, the
	// newest first, and can't be read; unread: a store is away, and nobody knows.
	origins []api.CheckpointOrigin
	passed  []unreadable
	unread  bool
	durable bool // states of it may outlive its memory
	// took is how long the last checkpoint took until a tier had it.
	took map[string]time.Duration
	// archiveAfter is how long a finished task stays in the store.
	archiveAfter time.Duration

	// Of a part of a task: the task, which of its roles (0: those that restart with it), and where
	// its members are among the task's.
	whole *seen
	role  int
	at    []int
}

// member is one expected replica of the current attempt.
type member struct {
	name    engine.Name
	role    string
	index   int
	attempt int // of its part
	node    string
	number  uint32 // the node's
	zone    string
	leaf    string
	rack    string
	devices uint64
	lender  api.Lender // whose replica it runs inside; zero: none's
	virtual bool       // its node is: cores and memory are nominal
	peak    float64    // operations a second that its devices can do; 0: not known
	ranks   int        // processes
	first   int        // rank of its first one
	group   int        // among the launchers of its part, in the order of ranks
	groups  int        // how many those are
	usable  bool       // its node takes work
	closed  bool       // its node was cordoned, or is being deleted: somebody works on it
	spare   bool       // it holds no rank
	leaving bool       // a spare that was a member and was replaced, or one that is unfit
	// Of one that has no rank yet: its preflight is not known, what it found, and that it must not be used.
	unchecked bool
	found     []api.PreflightFinding
	unfit     bool
	place     int // in the order of ranks
	attached  bool
	said      link.Ranks   // the newest by its launcher; zero: nothing
	state     engine.State // "": the engine does not know it
	exit      *engine.Exit
	observed  engine.Observation // by the engine, with state and exit; zero: it does not know it
}

func (m *member) ended() bool { return m.state == engine.StateExited || m.state == engine.StateDone }

func (s *seen) nodes() int {
	names := map[string]bool{}
	all := s.everybody()
	for i := range all {
		names[all[i].node] = true
	}
	return len(names)
}

func (s *seen) zones() []string {
	var names []string
	for _, m := range s.members {
		if !slices.Contains(names, m.zone) {
			names = append(names, m.zone)
		}
	}
	slices.Sort(names)
	return names
}

// started is when the first process of this attempt started, nil when none did.
func (s *seen) started() *time.Time {
	var first *time.Time
	for i := range s.members {
		if at := &s.members[i].observed.Started; !at.IsZero() && (first == nil || at.Before(*first)) {
			first = at
		}
	}
	return first
}

// lags says that the ranks of the open generation don't run there yet. A launcher that has not told
// us anything is taken to be where the task was.
func (m *member) lags(status *api.TrainingTaskStatus) bool {
	if m.said.Generation == 0 {
		return status.Phase == api.PhaseRecovering
	}
	generation := status.Generation
	if r := status.Role(m.role); r != nil {
		generation = r.Generation
	}
	return m.said.Generation < int64(generation)
}
