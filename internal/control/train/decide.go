package train

import (
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/diagnose"
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
	joining   []member       // replicas of an elastic task that take part from the next generation on
	surplus   []member       // replicas that it gives up; they are among others as well
	others    []engine.Observation
	// unfit says why the framework can't be started on this placement; nil where it can, or is plain.
	unfit *fault.Error
	// homeless is an environment of a guest that is gone; nil: none. guest is who is inside this one.
	homeless *loss
	guest    string
	// stay: no other place was found for the open generation's failure.
	stay bool
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
	name     engine.Name
	role     string
	index    int
	attempt  int // of its part
	node     string
	number   uint32 // the node's
	zone     string
	leaf     string
	devices  uint64
	lender   api.Lender // whose replica it runs inside; zero: none's
	peak     float64    // operations a second that its devices can do; 0: not known
	ranks    int        // processes
	first    int        // rank of its first one
	usable   bool       // its node takes work
	place    int        // in the order of ranks
	attached bool
	said     link.Ranks   // the newest by its launcher; zero: nothing
	state    engine.State // "": the engine does not know it
	started  time.Time
	exit     *engine.Exit
}

func (m *member) ended() bool { return m.state == engine.StateExited || m.state == engine.StateDone }

// plan is what to do, in the order apply does it.
type plan struct {
	status    api.TrainingTaskStatus
	usage     bool // write the usage rows of members that run or ended first
	commit    bool // status changed, or the placement must go or change
	dropPlace bool
	moveOn    bool               // the place reserved for it becomes its place
	resize    *api.PlacementSpec // its place, with replicas that came or went; nil: as it is
	start     []int              // members, and behind them who joins
	stop      []engine.Name
	goAhead   []int // members
	check     []int // members that are asked for their preflight
	freeze    []int // members whose ranks keep what they hold until the next generation
	remove    []engine.Name
	archive   bool   // move the task to history
	erase     bool   // delete the task and its bytes
	swap      string // the node to get away from; "": none
	events    []event
	wake      time.Duration
	part      string // of the task that is being judged; sets its events apart
}

type event struct {
	warning bool
	reason  string
	message fault.Text
	// once names the happening within the task, so that a repeat is not told twice.
	once string
}

// decide is the whole judgement: pure, level-triggered, running it twice changes nothing.
func decide(s seen, now time.Time) plan {
	p := plan{status: s.task.Status}
	p.status.Restarts, p.status.Roles = slices.Clone(p.status.Restarts), slices.Clone(p.status.Roles)
	s.sweepOthers(&p, now)
	if s.hosts(&p) {
		return p
	}
	wanted := !s.task.Spec.Stop && s.task.Meta.DeletedAt == nil
	switch {
	case p.status.Phase == "":
		p.to(api.PhasePending, "Submitted", fault.T("Waiting to be placed.", "等待调度。"))
	case p.status.Phase.Finished():
		s.finished(&p, now)
	case !wanted:
		s.stopping(&p, now)
	case s.placement == nil:
		s.unplaced(&p, now)
	case s.homeless != nil:
		s.bereft(&p, now)
	case s.placement.Spec.Evict != nil:
		s.leave(&p, now)
	case s.placement.Spec.Shrink != nil && s.settled():
		s.shrunk(&p)
	case p.status.Phase == api.PhasePending:
		s.begin(&p, now)
	default:
		s.proceed(&p, now)
	}
	s.interruptions(&p, now)
	s.speed(&p, now)
	return p
}

func (p *plan) to(phase api.Phase, reason string, message fault.Text) {
	if !api.TaskPhases.Allows(p.status.Phase, phase) {
		panic("train: no move from " + string(p.status.Phase) + " to " + string(phase))
	}
	p.status.Phase, p.status.Reason, p.status.Message = phase, reason, message
	p.commit = true
}

// note changes only why the task is where it is.
func (p *plan) note(reason string, message fault.Text) {
	if p.status.Reason != reason {
		p.status.Reason, p.status.Message, p.commit = reason, message, true
	}
}

func (p *plan) tell(warning bool, reason, once string, message fault.Text) {
	p.events = append(p.events, event{warning, reason, message, p.part + once})
}

// sweepOthers ends and removes replicas that are not of the current attempt.
func (s *seen) sweepOthers(p *plan, now time.Time) {
	spared := s.spared(p, now)
	for _, o := range s.others {
		switch {
		case o.State == engine.StateDone:
			p.remove = append(p.remove, o.Name)
			p.usage = p.usage || len(s.surplus) > 0
		case o.State == engine.StateExited: // hands over
		case slices.Contains(spared, o.Name):
		default:
			p.stop = append(p.stop, o.Name)
		}
	}
}

// finished waits for the last folder to go, then archives or erases.
func (s *seen) finished(p *plan, now time.Time) {
	left := len(s.others) > 0
	for i := range s.members {
		m := &s.members[i]
		switch {
		case m.state == "":
			continue
		case m.state == engine.StateDone:
			p.remove = append(p.remove, m.name)
		case !m.ended():
			p.stop = append(p.stop, m.name)
		}
		left = true
	}
	if s.placement != nil {
		p.commit, p.dropPlace = true, true
		return
	}
	if left {
		return // their ends and removals come back as changes
	}
	if s.task.Meta.DeletedAt != nil {
		p.erase = true
		return
	}
	age := now.Sub(*s.task.Status.FinishedAt)
	if age >= s.archiveAfter {
		p.archive = true
		return
	}
	p.wake = s.archiveAfter - age
}

// stopping ends everything, then says Stopped.
func (s *seen) stopping(p *plan, now time.Time) {
	if s.endAll(p) {
		code := 143
		p.status.ExitCode = &code
		s.finish(p, now, api.PhaseStopped, "Stopped", fault.T("Stopped on request.", "已按要求停止。"))
		return
	}
	p.note("Stopping", fault.T("Waiting for the processes to end.", "正在等待进程结束。"))
}

// endAll stops what runs; true when every replica that ever was has handed over.
func (s *seen) endAll(p *plan) bool {
	over := s.all().guest == "" // who is inside goes first
	for _, m := range s.everybody() {
		if m.state == "" || m.state == engine.StateDone {
			continue
		}
		over = false
		if !m.ended() {
			p.stop = append(p.stop, m.name)
		}
	}
	for _, o := range s.others {
		if o.State != engine.StateDone {
			over = false
		}
	}
	return over
}

func (s *seen) unplaced(p *plan, now time.Time) {
	if p.status.Phase != api.PhasePending {
		if !s.endAll(p) {
			return
		}
		p.usage = true
		p.to(api.PhasePending, "PlacementLost", fault.T("Its placement went away; waiting for another.", "原有放置已失效，等待重新调度。"))
		p.tell(true, "PlacementLost", "lost-"+itoa(p.status.Attempt), p.status.Message)
		return
	}
	if t := s.task.Spec.Timeouts; t != nil && t.Pending > 0 {
		left := t.Pending.Std() - now.Sub(s.task.Meta.CreatedAt)
		if left > 0 {
			p.wake = left
			return
		}
		code := 124
		p.status.ExitCode = &code
		s.finish(p, now, api.PhaseFailed, "PendingTimeout", fault.T("It waited %s without finding a place.", "等待 %s 仍未获得资源。", t.Pending))
	}
}

// leave gives a place up: the processes end with their grace, in which they may save. Where another
// place was reserved for the task, its next attempt begins there; else it waits again. Either way
// the placement changes in the same transaction, and it costs no restart.
func (s *seen) leave(p *plan, now time.Time) {
	e := s.placement.Spec.Evict
	if p.status.Phase == api.PhasePending { // nothing was started on it
		p.commit, p.moveOn, p.dropPlace = true, len(e.To) > 0, len(e.To) == 0
		p.note(e.Reason, e.Message)
		return
	}
	s.count(p)
	if p.status.Replicas.Succeeded == len(s.members) {
		s.complete(p, now) // it was done before it was asked
		return
	}
	if !s.endAll(p) {
		p.note(e.Reason, e.Message)
		return
	}
	p.usage = true
	p.status.Replicas, p.status.Failure, p.status.Zones = api.ReplicaCount{}, nil, nil
	p.tell(true, e.Reason, "left-"+itoa(p.status.Attempt), e.Message)
	if len(e.To) == 0 {
		p.dropPlace = true
		p.to(api.PhasePending, e.Reason, e.Message)
		return
	}
	p.moveOn = true
	p.status.Attempt++
	p.status.Rendezvous = nil
	s.renewRoles(p)
	p.status.PlacedAt = &now
	p.to(api.PhaseRecovering, e.Reason, e.Message)
}

// begin takes up a fresh placement.
func (s *seen) begin(p *plan, now time.Time) {
	if !s.endAll(p) {
		return // old replicas first
	}
	if s.unfit != nil {
		code := 1
		p.status.ExitCode = &code
		s.finish(p, now, api.PhaseFailed, s.unfit.Reason, s.unfit.Message)
		return
	}
	p.status.Attempt = max(p.status.Attempt+1, s.placement.Spec.Attempt)
	p.status.Rendezvous = nil
	s.renewRoles(p)
	p.status.Preflight = nil
	p.status.PlacedAt = &now
	p.status.Zones = s.zones()
	p.status.Replicas = api.ReplicaCount{Total: len(s.members), Starting: len(s.members)}
	p.to(api.PhaseInitializing, "Placed", fault.T("Placed; its processes are being started.", "已放置，正在启动进程。"))
	p.tell(false, "Placed", "placed-"+itoa(p.status.Attempt), fault.T("Placed on %d nodes.", "已放置到 %d 个节点。", s.nodes()))
}

func (s *seen) nodes() int {
	names := map[string]bool{}
	for _, m := range s.members {
		names[m.node] = true
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
		if at := &s.members[i].started; !at.IsZero() && (first == nil || at.Before(*first)) {
			first = at
		}
	}
	return first
}

// proceed is for a task with a placement and a current attempt.
func (s *seen) proceed(p *plan, now time.Time) {
	s.count(p)
	if s.refuses(p) {
		s.refused(p, now)
		return
	}
	if s.lose(p, now) {
		return
	}
	parts := s.parts()
	lost := func(part *seen) *api.ReplicaFailure { return part.firstFailure(p.status.Rendezvous != nil) }
	if part, fail := earliest(parts, p, lost); fail != nil {
		part.as(p, func() { part.failing(p, now, fail) })
		return
	}
	if p.status.Replicas.Succeeded == len(s.members) {
		s.complete(p, now)
		return
	}
	if s.resize(p, now) {
		return // whatever failed meanwhile was of a generation that is over
	}
	var wait time.Duration
	failed := func(part *seen) *api.ReplicaFailure {
		fail, more := part.rankFailure(p, now)
		if wait = max(wait, more); fail == nil && more == 0 {
			fail = part.hungRank(p)
		}
		return fail
	}
	guilty, fail := earliest(parts, p, failed)
	if guilty == nil && wait > 0 {
		p.wake = wait // the culprit may still show itself
		return
	}
	for _, part := range parts {
		part.as(p, func() {
			switch {
			case p.status.Rendezvous == nil:
				part.gather(p, now)
			case part == guilty:
				part.nextGeneration(p, now, fail)
			default:
				part.follow(p)
			}
		})
	}
	if guilty != nil {
		return
	}
	if p.status.Replicas.Starting == 0 && p.status.Phase != api.PhaseRunning {
		if p.status.StartedAt == nil {
			p.status.StartedAt = s.started()
		}
		p.usage = true
		p.to(api.PhaseRunning, "Started", fault.T("All %d processes run.", "全部 %d 个进程已运行。", s.world))
		p.tell(false, "Started", "started-"+generations(&p.status), p.status.Message)
	}
}

// gather starts what is missing; once all are attached their start is ordered.
func (s *seen) gather(p *plan, now time.Time) {
	if zones := s.all().zones(); !slices.Equal(zones, p.status.Zones) { // it came from elsewhere
		p.status.Zones, p.commit = zones, true
	}
	for i := range s.members {
		if s.members[i].state == "" {
			p.start = append(p.start, i)
		}
	}
	if len(p.start) == 0 && s.allReady() && s.all().meet() && s.all().checked(p, now) {
		s.open(p, s.world)
	}
}

// count refreshes the numbers people see.
func (s *seen) count(p *plan) {
	n := api.ReplicaCount{Total: len(s.members)}
	for i := range s.members {
		switch m := &s.members[i]; {
		case m.ended() && m.exit != nil && m.exit.Reason == engine.ReasonSucceeded:
			n.Succeeded++
		case m.ended():
			n.Failed++
		case m.state == engine.StateRunning && !m.lags(&p.status):
			n.Running++
		default:
			n.Starting++
		}
	}
	if n != p.status.Replicas {
		p.status.Replicas, p.commit = n, true
	}
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

// firstFailure is the earliest end that was not a success and not ours. A replica that was told to
// go and is unknown to the engine was lost with its machine's memory of it.
func (s *seen) firstFailure(ordered bool) *api.ReplicaFailure {
	var first *api.ReplicaFailure
	for i := range s.members {
		m := &s.members[i]
		if m.state == "" && ordered {
			return failureOf(m, &engine.Exit{Code: -1, Reason: engine.ReasonLauncherLost, Message: "its folder is gone"})
		}
		if !m.ended() || m.exit == nil || m.exit.Reason == engine.ReasonSucceeded {
			continue
		}
		f := failureOf(m, m.exit)
		f.Generation = s.task.Status.Generation
		if first == nil || earlier(f, first) {
			first = f
		}
	}
	return first
}

func failureOf(m *member, e *engine.Exit) *api.ReplicaFailure {
	return diagnosed(&api.ReplicaFailure{
		Replica: string(m.name), Role: m.role, Index: m.index, Node: m.node, Rank: e.Rank,
		ExitCode: e.Code, Signal: e.Signal, Reason: e.Reason, Message: reasonText(m, e), At: e.At,
	}, e, m.ranks > 1)
}

func reasonText(m *member, e *engine.Exit) fault.Text {
	who := m.role + "-" + itoa(m.index)
	switch e.Reason {
	case engine.ReasonNonZero:
		return fault.T("%s ended with exit code %d.", "%s 以退出码 %d 结束。", who, e.Code)
	case engine.ReasonSignaled:
		return fault.T("%s was killed by %s.", "%s 被 %s 终止。", who, e.Signal)
	case engine.ReasonOutOfMemory:
		return fault.T("%s used more memory than it asked for and was killed.", "%s 内存超限，已被终止。", who)
	case engine.ReasonTimedOut:
		return fault.T("%s ran longer than its time limit.", "%s 运行超时。", who)
	case engine.ReasonLauncherLost:
		return fault.T("The launcher of %s was killed; its processes were ended.", "%s 的启动器被杀死，其进程已结束。", who)
	case engine.ReasonStartFailed:
		return fault.T("%s could not be started: %s", "%s 无法启动：%s", who, e.Message)
	case diagnose.ReasonHung:
		return fault.T("%s made no progress after step %d while others waited for it.", "%s 在第 %d 步之后没有进展，其他进程在等待它。", who, e.Step)
	case diagnose.ReasonStopped:
		return fault.T("A process of %s was stopped after step %d and did not go on.", "%s 的进程在第 %d 步之后被暂停且未恢复。", who, e.Step)
	case engine.ReasonStopped:
		return fault.T("%s was stopped.", "%s 被停止。", who)
	}
	return fault.T("%s ended: %s", "%s 已结束：%s", who, e.Reason)
}

// failing ends the attempt, then restarts within the budget or fails.
func (s *seen) failing(p *plan, now time.Time, fail *api.ReplicaFailure) {
	fail = s.settle(p, fail, "fail-"+fail.Replica)
	recent, left := s.budget(p, now)
	again := fail.Action != string(diagnose.Stop) && left > 0
	who := s
	if !again {
		who = s.all() // the end of the task
	}
	if !who.endAll(p) {
		if p.status.Phase == api.PhaseRunning || p.status.Phase == api.PhaseInitializing {
			p.to(api.PhaseRecovering, fail.Reason, fail.Message)
		}
		return
	}
	p.usage = true
	if again {
		s.restart(p, now, recent, fail)
		return
	}
	code := exitCode(fail)
	p.status.ExitCode = &code
	s.finish(p, now, api.PhaseFailed, fail.Reason, fail.Message)
}

// restart begins the next attempt on the same placement.
func (s *seen) restart(p *plan, now time.Time, recent []time.Time, fail *api.ReplicaFailure) {
	p.status.Restarts = append(recent, now)
	p.status.Attempt++
	p.status.Rendezvous = nil
	total := len(s.all().members)
	p.status.Replicas = api.ReplicaCount{Total: total, Starting: len(s.members), Running: total - len(s.members)}
	message := fault.T("Restart %d of the window: %s", "窗口内第 %d 次重启：%s", len(p.status.Restarts), fail.Message.EN)
	message.ZH = fault.T("", "窗口内第 %d 次重启：%s", len(p.status.Restarts), fail.Message.ZH).ZH
	p.to(api.PhaseRecovering, "Restarting", message)
	p.tell(false, "Restarting", "restart-"+itoa(p.status.Attempt), message)
}

func exitCode(f *api.ReplicaFailure) int {
	if f.ExitCode > 0 && f.ExitCode < 256 {
		return f.ExitCode
	}
	return 1
}

// complete waits for the hand-over, then says Completed.
func (s *seen) complete(p *plan, now time.Time) {
	if !s.endAll(p) {
		if p.status.Phase == api.PhaseRunning {
			p.note("HandingOver", fault.T("The processes ended well; logs and outputs are being stored.", "进程已正常结束，正在保存日志和输出。"))
		}
		return
	}
	code := 0
	p.status.ExitCode = &code
	p.status.Failure = nil
	s.finish(p, now, api.PhaseCompleted, "Succeeded", fault.T("All processes ended well.", "全部进程正常结束。"))
}

// finish is the one way into a final phase: invariant 4.
func (s *seen) finish(p *plan, now time.Time, phase api.Phase, reason string, message fault.Text) {
	p.usage = true
	p.status.FinishedAt = &now
	if p.status.StartedAt == nil {
		p.status.StartedAt = s.started()
	}
	p.dropPlace = s.placement != nil
	p.to(phase, reason, message)
	p.tell(phase == api.PhaseFailed, string(phase), "end", message)
}
