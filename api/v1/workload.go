package v1

import (
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/lending"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Work is an object of a kind that runs. Whoever is not the kind's own controller or door speaks to its
// view alone: placement, engine, link, usage, secrets and explanations know no kind by name.
type Work interface {
	Object
	// Workload is the view. It shares the object's memory: nobody changes what it points at.
	Workload() Workload
}

// Workload is what is common to all work: who it is, how much it needs, and how far it got.
type Workload struct {
	Kind     Kind
	Meta     *Meta
	Queue    string
	Priority int    // larger wins; that of its kind's class when its user said nothing
	Class    string // that its user named; "": none
	Roles    []Role
	Phase    Phase
	// Attempt numbers the sets of replicas; 0: none was started yet.
	Attempt int
	// Stop says that somebody wants it to end, or to go.
	Stop bool
	// Held says that it may not start yet for a reason that no place would change; Parent, that it takes no place itself: the work that it makes does.
	Held, Parent bool
	Host         lending.Terms
	Wish         Wish
	Ran          Ran
	Program      Program
}

// Wish is how work wants to be placed.
type Wish struct {
	Zones              *ZoneRules
	Topology           *Topology
	ExpectedTime       Duration
	Deadline           *time.Time
	Deferrable         Deferral
	Preemptible        bool
	MaxPending, MaxRun Duration // longest wait for a place, longest run; 0: any
	Node               string   // the only one that it may stand on; "": any
	Inside             []string // names of the work that it runs inside of
	Fixed              bool     // its size never changes, whatever its roles' ranges say
}

// Ran is what became of it so far.
type Ran struct {
	Reason                          string // why it is in its phase: for programs, then for people
	Message                         fault.Text
	Alone                           []RoleStatus // roles that have attempts of their own
	PlacedAt, StartedAt, FinishedAt *time.Time
	Zones                           []string
	Known                           Known
}

// Known is what was measured of it, for who judges what moving or stopping it costs.
type Known struct {
	SavedAt time.Time     // its newest checkpoint; zero: none
	Restart time.Duration // what a start cost; 0: not measured
	Faults  []PastFault   // of its replicas, lately
}

// Program is what its processes are made from.
type Program struct {
	Framework   Framework
	Parameters  map[string]any
	Code        *Code
	Credentials []CredentialRef
	mount.Needs
}

// WorkloadOf is the view of an object; ok is false for kinds that don't run.
func WorkloadOf(o Object) (w Workload, ok bool) {
	work, ok := o.(Work)
	if !ok {
		return Workload{}, false
	}
	return work.Workload(), true
}

// Waits says that it wants a place and nothing else. Whether it has one is its placement's to say.
func (w *Workload) Waits() bool {
	return (w.Phase == PhasePending || w.Phase == "") && !w.Stop && !w.Held
}

// Elastic says that its number of replicas may change while it runs.
func (w *Workload) Elastic() bool {
	if w.Wish.Fixed {
		return false
	}
	for i := range w.Roles {
		if low, high := w.Roles[i].Range(); low != high {
			return true
		}
	}
	return false
}

// Spares is how many replicas wait for one to be lost.
func (w *Workload) Spares() (n int) {
	for i := range w.Roles {
		n += w.Roles[i].Spares
	}
	return n
}

// AttemptOf is the number in the names of a role's replicas.
func (w *Workload) AttemptOf(role string) int {
	for i := range w.Ran.Alone {
		if w.Ran.Alone[i].Name == role {
			return w.Ran.Alone[i].Attempt
		}
	}
	return w.Attempt
}

// Key finds the object.
func (w *Workload) Key() Key { return Key{Kind: w.Kind, Project: w.Meta.Project, Name: w.Meta.Name} }

// Role is a role by its name; nil: there is none.
func (w *Workload) Role(name string) *Role {
	for i := range w.Roles {
		if w.Roles[i].Name == name {
			return &w.Roles[i]
		}
	}
	return nil
}

// PlaceKey is the key of the placement of work with this id. No two kinds share an id, so what has the same name in two kinds has two places.
func PlaceKey(project, id string) Key { return Key{Kind: KindPlacement, Project: project, Name: id} }

// PlaceKey is the key of its placement.
func (w *Workload) PlaceKey() Key { return PlaceKey(w.Meta.Project, w.Meta.ID) }

// WorkKinds are the kinds that run, in the order of the table.
func WorkKinds() []Kind {
	var out []Kind
	for _, row := range Kinds {
		if row.Class != "" {
			out = append(out, row.Kind)
		}
	}
	return out
}

// KindOfID is the kind that an id was made for; ok is false where the table has none.
func KindOfID(id string) (Kind, bool) {
	prefix, _, _ := strings.Cut(id, "-")
	for _, row := range Kinds {
		if row.IDPrefix == prefix {
			return row.Kind, true
		}
	}
	return "", false
}

// Workload is the task's view.
func (t *TrainingTask) Workload() Workload {
	s := &t.Spec
	w := Workload{
		Kind: KindTrainingTask, Meta: &t.Meta, Queue: s.Queue, Priority: DefaultPriority(KindTrainingTask), Class: s.PriorityClass, Roles: s.Roles,
		Phase: t.Status.Phase, Attempt: t.Status.Attempt,
		Stop: s.Stop || t.Meta.DeletedAt != nil, Held: t.AwaitsCheckpoint(), Host: lending.Terms{Lends: len(s.Inside) == 0 && len(s.Roles) == 1 && s.Roles[0].Replicas == 1},
		Wish: Wish{
			Zones: s.Zones, Topology: s.Topology, ExpectedTime: s.ExpectedTime, Deadline: s.Deadline, Deferrable: s.Deferrable,
			Preemptible: s.Preemptible, Inside: s.Inside, Fixed: s.Zones != nil && s.Zones.SurviveZoneLoss,
		},
		Ran:     Ran{t.Status.Reason, t.Status.Message, t.Status.Roles, t.Status.PlacedAt, t.Status.StartedAt, t.Status.FinishedAt, t.Status.Zones, t.Status.known()},
		Program: Program{Framework: s.Framework, Parameters: s.HyperParameters, Code: s.Code, Credentials: s.Credentials, Needs: mount.Needs{Lists: mount.Lists{Datasets: s.Datasets, Models: s.Models}}},
	}
	if s.Priority != nil {
		w.Priority = *s.Priority
	}
	if s.Timeouts != nil {
		w.Wish.MaxPending, w.Wish.MaxRun = s.Timeouts.Pending, s.Timeouts.Run
	}
	return w
}

// known is what the status says of what a task would lose.
func (s *TrainingTaskStatus) known() (k Known) {
	if s.Saved != nil {
		k.SavedAt = s.Saved.At
	}
	k.Restart, _ = s.RestartCost()
	k.Faults = s.Faults
	return k
}
