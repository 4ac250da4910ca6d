package save

import (
	"slices"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

// Where a generation begins that finds nothing in memory: the newest checkpoint of any tier. Which there are
// is read once and then known, for only a leader commits. A launcher that can't restore the one it was
// told says so, and the next generation begins with the next older one.

var tiers = link.Tiers

// AwayWait is when a store that was away is asked again.
const AwayWait = 5 * time.Second

// Origins are the checkpoints to begin from where nothing is in memory.
type Origins struct {
	List    []api.CheckpointOrigin // the best first
	Passed  []Unreadable           // would be better, the newest first, and can't be read
	Away    bool                   // a store does not answer, and nobody knows
	Durable bool                   // states of the task may outlive its memory
}

// Unreadable is a checkpoint whose record can't be read.
type Unreadable struct {
	Name  string
	Step  int64
	Why   fault.Text
	Newer bool // a newer Fermi wrote it
}

// Best is where the next generation begins that finds nothing in memory; nil: at nothing.
func (o *Origins) Best() *api.CheckpointOrigin {
	if len(o.List) == 0 {
		return nil
	}
	best := o.List[0]
	return &best
}

// Newer is the newest checkpoint of a newer Fermi among those that would be passed over; nil: none.
func (o *Origins) Newer() *Unreadable {
	for i := range o.Passed {
		if o.Passed[i].Newer {
			return &o.Passed[i]
		}
	}
	return nil
}

// checkpoints is what a leader knows of a task's.
type checkpoints struct {
	list    []api.CheckpointOrigin // newest first
	unread  []Unreadable           // in no tier; newest first
	refused map[string]bool        // by launchers of this attempt; task id and name
	attempt int
}

// heed notes what launchers of an attempt refused.
func (k *checkpoints) heed(attempt int, members gang.Members) {
	if k.attempt != attempt {
		k.attempt, k.refused = attempt, map[string]bool{}
	}
	for i := range members {
		if o := members[i].Said.Refused; o != nil {
			k.refused[o.TaskID+"/"+o.Name] = true
		}
	}
}

// usable are those that a task can begin from: its own, and behind them the other task's that it was told to.
func (k *checkpoints) usable(task *api.TrainingTask) []api.CheckpointOrigin {
	list := slices.Clone(k.list)
	if from := task.Status.From; from != nil {
		list = append(list, *from)
	}
	return slices.DeleteFunc(list, func(o api.CheckpointOrigin) bool {
		return k.refused[o.TaskID+"/"+o.Name] || o.TaskID == task.Meta.ID && task.Spec.Restore.Abandons(o.Name)
	})
}

// passed are those that can't be read and are newer than where the task would begin.
func (k *checkpoints) passed(task *api.TrainingTask, best *api.CheckpointOrigin) []Unreadable {
	return slices.DeleteFunc(slices.Clone(k.unread), func(u Unreadable) bool {
		return task.Spec.Restore.Abandons(u.Name) || best != nil && best.TaskID == task.Meta.ID && best.Name >= u.Name
	})
}

// sortUnread leaves one of each name, and none that another tier has.
func (k *checkpoints) sortUnread() {
	slices.SortFunc(k.unread, func(a, b Unreadable) int { return strings.Compare(b.Name, a.Name) })
	k.unread = slices.CompactFunc(k.unread, func(a, b Unreadable) bool { return a.Name == b.Name })
	k.unread = slices.DeleteFunc(k.unread, func(u Unreadable) bool {
		return slices.ContainsFunc(k.list, func(o api.CheckpointOrigin) bool { return o.Name == u.Name })
	})
}

// maxOrigins bounds what is remembered of a task; nobody goes back further.
const maxOrigins = 100

func (k *checkpoints) add(taskID, name string, step int64) {
	if slices.ContainsFunc(k.list, func(o api.CheckpointOrigin) bool { return o.Name == name }) {
		return
	}
	k.list = append(k.list, api.CheckpointOrigin{TaskID: taskID, Name: name, Step: step})
	slices.SortFunc(k.list, func(a, b api.CheckpointOrigin) int { return strings.Compare(b.Name, a.Name) })
	k.list = k.list[:min(len(k.list), maxOrigins)]
}
