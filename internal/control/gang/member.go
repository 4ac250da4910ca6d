package gang

import (
	"cmp"
	"net"
	"strconv"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
)

// Member is one expected replica of the current attempt.
type Member struct {
	Name    engine.Name
	Role    string
	Index   int
	Attempt int // of its unit
	Stand
	Ranking
	Trial
	Lender   api.Lender // whose replica it runs inside; zero: none's
	Spare    bool       // it has no rank until it replaces a lost member
	Leaving  bool       // a spare that was a member and was replaced, or one that is unfit
	Attached bool
	Said     link.Ranks   // the newest by its launcher; zero: nothing
	State    engine.State // "": the engine does not know it
	Exit     *engine.Exit
	Observed engine.Observation // by the engine, with state and exit; zero: it does not know it
}

// Ranking is which ranks a member has.
type Ranking struct {
	Ranks  int // processes
	First  int // rank of its first one
	Group  int // among the launchers of its unit, in the order of ranks
	Groups int // how many those are
	Seat   int // in the order of ranks
}

// Trial is the preflight of one that has no rank yet.
type Trial struct {
	Unchecked bool // what it found is not known
	Found     []api.PreflightFinding
	Unfit     bool // it must not be used
}

// Ended says that its launcher has ended.
func (m *Member) Ended() bool {
	return m.State == engine.StateExited || m.State == engine.StateDone
}

// Waits says that a launcher's ranks have ended and it waits until what they hold is kept.
func (m *Member) Waits() bool { return m.Said.Keeping.Ended != "" && !m.Ended() }

// Lags says that the ranks of the open generation don't run there yet. A launcher that has not told
// us anything is taken to be where the task was.
func (m *Member) Lags(status *api.TrainingTaskStatus) bool {
	if m.Said.Generation == 0 {
		return status.Phase == api.PhaseRecovering
	}
	generation := status.Generation
	if r := status.Role(m.Role); r != nil {
		generation = r.Generation
	}
	return m.Said.Generation < int64(generation)
}

// Ready says that one that has no rank yet could start ranks at once.
func (m *Member) Ready() bool {
	return !m.Leaving && !m.Unchecked && !m.Unfit && m.Attached && !m.Ended() && m.Said.Port != 0 && m.Said.Prepared
}

// Host is where its ranks are reached: what its launcher says, or the engine where it says nothing.
func (m *Member) Host() string { return cmp.Or(m.Said.Address, m.Observed.Address) }

// Address is a port there.
func (m *Member) Address(port int) string { return net.JoinHostPort(m.Host(), strconv.Itoa(port)) }

// peerAddress is where other launchers reach its launcher, for the states that it keeps.
func (m *Member) peerAddress() string {
	return net.JoinHostPort(m.Observed.LauncherAddress, strconv.Itoa(m.Said.PeerPort))
}

// Spot tells the members of a task apart.
type Spot struct {
	Role  string
	Index int
}

// Spot is the member's.
func (m *Member) Spot() Spot { return Spot{m.Role, m.Index} }

// Spots are those of a placement.
func Spots(roles []api.RoleAssignment) map[Spot]bool {
	out := map[Spot]bool{}
	for i := range roles {
		for k := range roles[i].Slots {
			out[Spot{roles[i].Role, roles[i].Index(k)}] = true
		}
	}
	return out
}

// lowest is the number of a mask's first device.
func lowest(mask uint64) int {
	for i := range 64 {
		if mask&(1<<i) != 0 {
			return i
		}
	}
	return 64
}
