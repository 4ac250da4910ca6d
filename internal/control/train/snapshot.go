package train

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/moment"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/control/save"
	"github.com/fermi-cluster/fermi/internal/control/train/figure"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// snapshot is everything known about a task at one moment.
type snapshot struct {
	gang.Gang
	// unfit says why the framework can't be started on this placement; nil where it can, or is plain.
	unfit *fault.Error
	// homeless is an environment of a guest that is gone; nil: none. guest is who is inside this one.
	homeless *loss
	guest    string
	// stay: no other place was found for the open generation's failure.
	stay bool
	// base is the pace of the same work in a smaller world; nil: none is known.
	base *figure.Base
	// origins are the checkpoints to begin from where nothing is in memory, took is how long the last one took until a tier had it.
	origins save.Origins
	took    map[string]time.Duration
	// saved is its newest checkpoint; nil: none that this leader saw.
	saved *api.SavedStep
	// mark is the moment by a clock that nobody sets; nil: there is none.
	mark *moment.Mark
	// archiveAfter is how long a finished task stays in the store.
	archiveAfter time.Duration
}

// torn says that the task was read before and the placement after the write that moved both on.
func (s *snapshot) torn() bool {
	phase := s.Task.Status.Phase
	return s.Placement != nil && s.Placement.Spec.Attempt > s.Task.Status.Attempt && phase != "" && phase != api.PhasePending && !phase.Finished()
}

// isFresh says that a placement is new to the task: some replica is to be started on it, and no generation has been.
func (s *snapshot) isFresh() bool {
	status := &s.Task.Status
	if s.Placement == nil || status.Phase.Finished() || status.Rendezvous != nil {
		return false
	}
	return status.Phase == api.PhasePending || !s.TooFew() && s.Members.Any(func(m *gang.Member) bool { return m.State == "" })
}

// holds says whether launchers shall wait for another generation after a failure. One that need not ends at once.
func (s *snapshot) holds(restarts []time.Time, now time.Time) bool {
	if s.Elastic() {
		return true // its ranks may fail of a change that is meant
	}
	_, left := allowanceOf(&s.Task.Spec).count(restarts, now)
	return left > 0
}

// ending, restoring, resizing and checking are the judgement by subject, each with what it judges by.

func (s *snapshot) ending() ending {
	return ending{&s.Gang, s.guest, s.homeless, s.unfit, s.archiveAfter}
}

func (s *snapshot) restoring() restoring { return restoring{&s.Gang, &s.origins} }

func (s *snapshot) resizing() resizing { return resizing{&s.Gang, s} }

func (s *snapshot) checking() checking { return checking{&s.Gang} }

// mainOf is the unit of the roles that restart with the task, as the plan has it.
func mainOf(g *gang.Gang, p *plan) *gang.Unit {
	main := g.Units(&p.status)[0]
	return &main
}
