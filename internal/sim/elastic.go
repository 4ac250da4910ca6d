package sim

import (
	"math"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched"
)

// stretch lets a gang of several replicas go on with a share of them; one that says its own range
// keeps it.
func (j *Job) stretch(share float64) {
	if share <= 0 || j.Task.Spec.Elastic() {
		return
	}
	for i := range j.Task.Spec.Roles {
		r := &j.Task.Spec.Roles[i]
		least := max(int(math.Ceil(share*float64(r.Replicas))), 1)
		r.MinReplicas = &least
	}
}

// sizes are how many replicas a job stands on, and how many it asks for.
func (l *life) sizes() (has, asks int) {
	for i, slots := range l.at {
		has, asks = has+len(slots), asks+l.job.Task.Spec.Roles[i].Replicas
	}
	return has, asks
}

// devices is how many it stands on, in thousandths of one.
func (l *life) devices() int {
	n := 0
	for i, slots := range l.at {
		a := &l.job.Task.Spec.Roles[i].Resources.Accelerators
		n += len(slots) * a.Count * int(a.Share.Of())
	}
	return n
}

// rest is how long a job still needs where it stands. A gang of half the size takes twice as long:
// how well it scales is not in a trace.
func (l *life) rest() time.Duration {
	left := l.job.Length - l.done
	if has, asks := l.sizes(); has != asks {
		left = time.Duration(float64(left) * float64(asks) / float64(has))
	}
	return l.begins + left
}

// settle adds up what was done where a job stands; with sudden what lies behind its last save is lost.
func (w *world) settle(l *life, sudden bool) {
	ran := max(0, w.now-l.since-l.begins)
	kept := ran
	if sudden && w.cfg.Checkpoint > 0 {
		kept = ran - ran%w.cfg.Checkpoint
	} else if sudden {
		kept = 0
	}
	done := func(d time.Duration) time.Duration {
		if has, asks := l.sizes(); has != asks {
			d = time.Duration(float64(d) * float64(has) / float64(asks))
		}
		return d
	}
	l.done += done(kept)
	l.lost += done(ran) - done(kept)
}

// shrink lets a job go on with fewer replicas; sudden says that the others were lost.
func (w *world) shrink(l *life, at sched.Assignment, sudden bool) {
	if err := w.planner.Resized(l.job.Task, at); err != nil {
		panic("sim: a part of what stands is refused: " + err.Error())
	}
	w.resize(l, at, sudden)
}

func (w *world) resize(l *life, at sched.Assignment, sudden bool) {
	w.settle(l, sudden)
	w.leave(l)
	l.at, l.since, l.begins = at, w.now, w.cfg.Restart
	l.turn++
	w.stat.Resizes++
	w.goOn(l)
}

// without is where a job stands once a node is lost; ok is false when that is too little.
func (l *life) without(node uint32) (at sched.Assignment, ok bool) {
	if !l.job.Task.Spec.Elastic() {
		return nil, false
	}
	for i, slots := range l.at {
		kept := slices.DeleteFunc(slices.Clone(slots), func(s api.Slot) bool { return s.Node == node })
		if least, _ := l.job.Task.Spec.Roles[i].Range(); len(kept) < least {
			return nil, false
		}
		at = append(at, kept)
	}
	return at, true
}
