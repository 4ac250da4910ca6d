package train

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// A guest is a task that runs inside others, its environments: its launchers are like any, but the place
// is borrowed. It ends before its environment does, so that devices are never free while a rank of a
// guest has them.

// loss is an environment that a guest can no longer be in.
type loss struct {
	reason  string
	message fault.Text
	stopped bool // by somebody's wish: the guest ends with it, and is not started again
}

func environmentStopped(name string) *loss {
	return &loss{"EnvironmentStopped", fault.T("Its environment %s was stopped.", "所在环境 %s 已被停止。", name), true}
}

func environmentClosed(name, owner string) *loss {
	return &loss{"EnvironmentClosed", fault.T("Its environment %s belongs to %s, who does not share it any more.", "所在环境 %s 属于 %s，且不再共享。", name, owner), true}
}

func environmentLost(name string) *loss {
	return &loss{"EnvironmentLost", fault.T("Its environment %s was lost.", "所在环境 %s 已丢失。", name), false}
}

// bereft ends a guest whose environment is gone. One that was lost, not stopped, costs a restart, and the
// guest waits until it runs again; without a restart left, or by somebody's wish, it is over.
func (s ending) bereft(p *plan, now time.Time) {
	if p.status.Phase == api.PhasePending { // nothing was started on it
		p.commit, p.dropPlace = true, true
		p.note(s.homeless.reason, s.homeless.message)
		return
	}
	s.count(p)
	if p.status.Replicas.Succeeded == len(s.Members) {
		s.complete(p, now) // it was done before
		return
	}
	if !s.endAll(p) {
		p.note(s.homeless.reason, s.homeless.message)
		return
	}
	recent, left := allowanceOf(&s.Task.Spec).count(p.status.Restarts, now)
	if s.homeless.stopped {
		code := 143
		p.status.ExitCode = &code
		s.finish(p, now, api.PhaseStopped, s.homeless.reason, s.homeless.message)
		return
	}
	if left == 0 {
		code := 1
		p.status.ExitCode = &code
		s.finish(p, now, api.PhaseFailed, s.homeless.reason, allowanceOf(&s.Task.Spec).usedUp(s.homeless.message, len(recent)))
		return
	}
	p.usage, p.dropPlace = true, true
	p.status.Restarts = append(recent, now)
	p.status.Replicas, p.status.Failure, p.status.Zones = api.ReplicaCount{}, nil, nil
	p.tell(true, s.homeless.reason, "lost-"+itoa(p.status.Attempt), s.homeless.message)
	p.to(api.PhasePending, s.homeless.reason, s.homeless.message)
}

// waitForGuest is for an environment: who is inside is told, and goes first. True: it has to.
func (s *snapshot) waitForGuest(p *plan) bool {
	if p.status.InUseBy != s.guest {
		p.status.InUseBy, p.commit = s.guest, true
	}
	if s.guest == "" {
		return false
	}
	leaves := s.Task.Spec.Stop || s.Task.Meta.DeletedAt != nil || s.Placement != nil && s.Placement.Spec.Evict != nil
	if leaves && !p.status.Phase.Finished() {
		p.note("Stopping", fault.T("Waiting for task %s, which runs inside it, to end.", "正在等待在其中运行的任务 %s 结束。", s.guest))
	}
	return leaves
}
