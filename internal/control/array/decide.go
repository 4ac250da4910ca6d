package array

import (
	"fmt"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	kind "github.com/fermi-cluster/fermi/api/v1/array"
	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	// Ahead is how many tasks of an array wait in the queue at once.
	Ahead = 50
	// mostAtOnce is for arrays that do not say.
	mostAtOnce = 500
	// mostOps bounds what one commit makes or changes; the rest has its turn after it.
	mostOps = 20
)

// member is the task of an index that was begun and has not been counted as ended.
type member struct {
	index int
	task  *api.TrainingTask // nil: it is not in the store
	phase api.Phase         // the task's, or what history has of it; "": nobody knows it any more
}

// seen is everything known about an array at one moment.
type seen struct {
	array   *kind.TaskArray
	members []member
	taken   map[int]bool // indexes that come next and whose name a task of somebody else has
	room    int          // how many objects its project may still have
}

// plan is what to do; all of it is one commit.
type plan struct {
	status kind.TaskArrayStatus
	make   []int
	stop   []*api.TrainingTask
	erase  bool
	events []event
}

type event struct {
	warning bool
	reason  string
	message fault.Text
	once    string
}

// ended are the indexes that have ended, by how.
type ended map[api.Phase][]int

func endedOf(s *kind.TaskArrayStatus) ended {
	out := ended{}
	for phase, text := range map[api.Phase]string{api.PhaseCompleted: s.Ended.Completed, api.PhaseFailed: s.Ended.Failed, api.PhaseStopped: s.Ended.Stopped} {
		if list, err := kind.Parse(text); err == nil {
			out[phase] = list
		}
	}
	return out
}

func (e ended) add(phase api.Phase, index int) {
	at, known := slices.BinarySearch(e[phase], index)
	if !known {
		e[phase] = slices.Insert(e[phase], at, index)
	}
}

func (e ended) form() kind.ArrayEnded {
	return kind.ArrayEnded{Completed: kind.Format(e[api.PhaseCompleted]), Failed: kind.Format(e[api.PhaseFailed]), Stopped: kind.Format(e[api.PhaseStopped])}
}

// living are the indexes that were begun and have not ended.
func living(a *kind.TaskArray) []int {
	all, err := kind.Parse(a.Spec.Indexes)
	if err != nil {
		return nil
	}
	over := map[int]bool{}
	for _, list := range endedOf(&a.Status) {
		for _, i := range list {
			over[i] = true
		}
	}
	return slices.DeleteFunc(all[:min(a.Status.Begun, len(all))], func(i int) bool { return over[i] })
}

// next are the indexes that come next.
func next(a *kind.TaskArray) []int {
	all, err := kind.Parse(a.Spec.Indexes)
	if err != nil {
		return nil
	}
	rest := all[min(a.Status.Begun, len(all)):]
	return rest[:min(len(rest), mostOps)]
}

// decide is the whole judgement: pure, level-triggered; running it twice changes nothing.
func decide(s *seen, now time.Time) plan {
	a := s.array
	all, err := kind.Parse(a.Spec.Indexes)
	p := plan{status: a.Status}
	if err != nil || a.Status.Phase.Finished() && a.Meta.DeletedAt == nil { // the door let it in: it can be read
		return p
	}
	st := &p.status
	done := endedOf(st)
	count := kind.ArrayCount{Total: len(all)}
	for _, m := range s.members {
		switch {
		case m.phase.Finished():
			done.add(m.phase, m.index)
		case m.task == nil: // deleted
			done.add(api.PhaseStopped, m.index)
		case m.phase == api.PhasePending:
			count.Pending++
		default:
			count.Running++
		}
	}
	ends := a.Spec.Stop || a.Meta.DeletedAt != nil
	if ends {
		p.stop = toStop(s)
		for _, i := range all[min(st.Begun, len(all)):] {
			done.add(api.PhaseStopped, i)
		}
		st.Begun = len(all)
	} else {
		s.begin(&p, done, &count)
	}
	count.Held = len(all) - st.Begun
	count.Completed, count.Failed, count.Stopped = len(done[api.PhaseCompleted]), len(done[api.PhaseFailed]), len(done[api.PhaseStopped])
	st.Count, st.Ended, st.Phase = count, done.form(), api.PhaseRunning
	left := count.Held + count.Pending + count.Running
	switch {
	case left > 0:
		st.Reason, st.Message = how(s, &count, ends)
	case a.Meta.DeletedAt != nil:
		p.erase = true
	default:
		p.finish(now)
	}
	return p
}

// toStop are the tasks that have not been told yet to end.
func toStop(s *seen) (out []*api.TrainingTask) {
	for _, m := range s.members {
		if m.task != nil && !m.phase.Finished() && !m.task.Spec.Stop && m.task.Meta.DeletedAt == nil && len(out) < mostOps {
			out = append(out, m.task)
		}
	}
	return out
}

// begin gives the next indexes their tasks, as long as there is room for more.
func (s *seen) begin(p *plan, done ended, count *kind.ArrayCount) {
	most := s.array.Spec.AtOnce
	if most == 0 {
		most = mostAtOnce
	}
	room := min(most-count.Pending-count.Running, Ahead-count.Pending, s.room)
	for _, i := range next(s.array) {
		if room <= 0 {
			return
		}
		p.status.Begun++
		if s.taken[i] {
			done.add(api.PhaseFailed, i)
			p.events = append(p.events, event{true, "NameTaken", fault.T("Another task has the name %s; the index %d counts as failed.", "任务名 %s 已被占用，序号 %d 记为失败。", s.array.TaskName(i), i), fmt.Sprintf("taken-%d", i)})
			continue
		}
		p.make = append(p.make, i)
		room--
		count.Pending++
	}
}

// how is why it is not at its end.
func how(s *seen, c *kind.ArrayCount, ends bool) (string, fault.Text) {
	switch {
	case ends:
		return "Stopping", fault.T("%d of its tasks are ending.", "%d 个任务正在结束。", c.Pending+c.Running)
	case c.Held > 0 && s.room <= 0:
		return "ProjectFull", fault.T("%d indexes wait until the project may have more objects.", "项目对象数已达上限，%d 个序号正在等待。", c.Held)
	case c.Held > 0:
		return "AtOnce", fault.T("%d of %d indexes have ended, %d run, %d wait in the queue, %d wait for these.", "共 %[2]d 个序号：%[1]d 个已结束，%[3]d 个运行中，%[4]d 个排队，%[5]d 个等待前者。", c.Completed+c.Failed+c.Stopped, c.Total, c.Running, c.Pending, c.Held)
	}
	return "Running", fault.T("%d of %d indexes have ended, %d run, %d wait in the queue.", "共 %[2]d 个序号：%[1]d 个已结束，%[3]d 个运行中，%[4]d 个排队。", c.Completed+c.Failed+c.Stopped, c.Total, c.Running, c.Pending)
}

// finish says how it ended.
func (p *plan) finish(now time.Time) {
	st := &p.status
	st.FinishedAt = &now
	c := &st.Count
	switch {
	case c.Failed > 0:
		st.Phase, st.Reason, st.Message = api.PhaseFailed, "SomeFailed", fault.T("%d of %d indexes failed: %s", "共 %[2]d 个序号，%[1]d 个失败：%[3]s", c.Failed, c.Total, short(st.Ended.Failed))
	case c.Stopped > 0:
		st.Phase, st.Reason, st.Message = api.PhaseStopped, "Stopped", fault.T("%d of %d indexes were stopped: %s", "共 %[2]d 个序号，%[1]d 个被停止：%[3]s", c.Stopped, c.Total, short(st.Ended.Stopped))
	default:
		st.Phase, st.Reason, st.Message = api.PhaseCompleted, "Succeeded", fault.T("All %d indexes completed.", "全部 %d 个序号已完成。", c.Total)
	}
	p.events = append(p.events, event{st.Phase == api.PhaseFailed, string(st.Phase), st.Message, "end"})
}

func short(list string) string {
	if len(list) > 200 {
		return list[:200] + "…"
	}
	return list
}
