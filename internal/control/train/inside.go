package train

import (
	"cmp"
	"context"
	"math/bits"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
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

// environments looks whether all environments of a guest are as they were when it got its place; nil: they are.
func (c *Controller) environments(ctx context.Context, s *seen) (*loss, error) {
	if s.placement == nil {
		return nil, nil
	}
	for _, l := range s.placement.Spec.Inside {
		o, err := c.cfg.Store.Get(ctx, api.Key{Kind: api.KindTrainingTask, Project: s.task.Meta.Project, Name: l.Task}, 0)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
		if err != nil || o.GetMeta().ID != l.TaskID {
			return environmentStopped(l.Task), nil
		}
		switch env := o.(*api.TrainingTask); {
		case env.Spec.Stop || env.Meta.DeletedAt != nil:
			return environmentStopped(l.Task), nil
		case env.Status.Phase.Finished() || env.Status.AttemptOf(l.Role) != l.Attempt || !c.runs(l):
			return environmentLost(l.Task), nil
		}
		leaves, err := c.leaves(ctx, s.task.Meta.Project, l)
		if err != nil {
			return nil, err
		}
		if leaves {
			return environmentLost(l.Task), nil
		}
	}
	return nil, nil
}

func environmentStopped(name string) *loss {
	return &loss{"EnvironmentStopped", fault.T("Its environment %s was stopped.", "所在环境 %s 已被停止。", name), true}
}

func environmentLost(name string) *loss {
	return &loss{"EnvironmentLost", fault.T("Its environment %s was lost.", "所在环境 %s 已丢失。", name), false}
}

// runs says that the environment's replica lives.
func (c *Controller) runs(l api.Lender) bool {
	name := engine.NameOf(l.TaskID, l.Role, 0, l.Attempt)
	for _, ob := range c.cfg.Engine.Replicas(l.TaskID) {
		if ob.Name == name {
			return ob.State == engine.StateRunning
		}
	}
	return false
}

// leaves says that the environment was asked to leave its place, or has.
func (c *Controller) leaves(ctx context.Context, project string, l api.Lender) (bool, error) {
	o, err := c.cfg.Store.Get(ctx, api.PlaceKey(project, l.TaskID), 0)
	if fault.Is(err, fault.NotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	p := o.(*api.Placement)
	return p.Spec.Evict != nil, nil
}

// bereft ends a guest whose environment is gone. One that was lost, not stopped, costs a restart, and the
// guest waits until it runs again; without a restart left, or by somebody's wish, it is over.
func (s *seen) bereft(p *plan, now time.Time) {
	if p.status.Phase == api.PhasePending { // nothing was started on it
		p.commit, p.dropPlace = true, true
		p.note(s.homeless.reason, s.homeless.message)
		return
	}
	s.count(p)
	if p.status.Replicas.Succeeded == len(s.members) {
		s.complete(p, now) // it was done before
		return
	}
	if !s.endAll(p) {
		p.note(s.homeless.reason, s.homeless.message)
		return
	}
	recent, left := s.budget(p, now)
	if s.homeless.stopped {
		code := 143
		p.status.ExitCode = &code
		s.finish(p, now, api.PhaseStopped, s.homeless.reason, s.homeless.message)
		return
	}
	if left == 0 {
		code := 1
		p.status.ExitCode = &code
		s.finish(p, now, api.PhaseFailed, s.homeless.reason, s.usedUp(s.homeless.message, len(recent)))
		return
	}
	p.usage, p.dropPlace = true, true
	p.status.Restarts = append(recent, now)
	p.status.Replicas, p.status.Failure, p.status.Zones = api.ReplicaCount{}, nil, nil
	p.tell(true, s.homeless.reason, "lost-"+itoa(p.status.Attempt), s.homeless.message)
	p.to(api.PhasePending, s.homeless.reason, s.homeless.message)
}

// hosts is for an environment: who is inside is told, and goes first. True: wait for it.
func (s *seen) hosts(p *plan) bool {
	if p.status.InUseBy != s.guest {
		p.status.InUseBy, p.commit = s.guest, true
	}
	if s.guest == "" {
		return false
	}
	leaves := s.task.Spec.Stop || s.task.Meta.DeletedAt != nil || s.placement != nil && s.placement.Spec.Evict != nil
	if leaves && !p.status.Phase.Finished() {
		p.note("Stopping", fault.T("Waiting for task %s, which runs inside it, to end.", "正在等待在其中运行的任务 %s 结束。", s.guest))
	}
	return leaves
}

// inside says that the place is borrowed.
func (s *seen) inside() bool { return s.placement != nil && len(s.placement.Spec.Inside) > 0 }

// lender is whose replica a member runs inside; zero: none's.
func (s *seen) lender(index int) api.Lender {
	if !s.inside() || index >= len(s.placement.Spec.Inside) {
		return api.Lender{}
	}
	return s.placement.Spec.Inside[index]
}

// roleAt is a role as it stands in a slot: inside an environment it has the devices that are there.
func (s *seen) roleAt(role *api.Role, slot api.Slot) *api.Role {
	if !s.inside() {
		return role
	}
	there := *role
	there.Resources.Accelerators.Count = bits.OnesCount64(slot.Devices)
	return &there
}

// ranksAt is how many processes a member has, or how many of them its launcher starts.
func (s *seen) ranksAt(name string, slot api.Slot, count func(api.Framework, *api.Role) int) int {
	for i := range s.task.Spec.Roles {
		if r := &s.task.Spec.Roles[i]; r.Name == name {
			return max(count(s.task.Spec.Framework, s.roleAt(r, slot)), 1)
		}
	}
	return 1
}

// settleIn gives a guest's replica what is its environment's: nothing is limited or counted twice, it runs in the same
// image, and without code of its own it works where the environment does.
func (c *Controller) settleIn(r *engine.Replica, l api.Lender, task *api.TrainingTask) {
	if l.TaskID == "" {
		return
	}
	r.Inside, r.Resources = engine.NameOf(l.TaskID, l.Role, 0, l.Attempt), api.Resources{}
	o, err := c.cfg.Store.Get(context.Background(), api.Key{Kind: api.KindTrainingTask, Project: task.Meta.Project, Name: l.Task}, 0)
	if err != nil {
		return // it is gone: the next turn ends the guest
	}
	env := o.(*api.TrainingTask)
	if len(env.Spec.Roles) == 1 {
		r.Image = env.Spec.ImageOf(&env.Spec.Roles[0])
	}
	if r.Code != nil {
		return
	}
	if env.Spec.Code != nil && env.Spec.Code.Folder != "" {
		r.Code = env.Spec.Code
	}
	if r.WorkingDir == "" && len(env.Spec.Roles) == 1 {
		r.WorkingDir = env.Spec.Roles[0].WorkingDir
	}
}

// lending files who is inside whom, and asks for the turns of the environments. The lock is held.
func (c *Controller) lending(ch store.Change, guest api.Key) {
	was, _ := ch.Old.(*api.Placement)
	is, _ := ch.New.(*api.Placement)
	each := func(p *api.Placement, note func(id string)) {
		if p == nil {
			return
		}
		for _, l := range p.Spec.Inside {
			note(l.TaskID)
			c.loop.Add(api.Key{Kind: api.KindTrainingTask, Project: ch.Key.Project, Name: l.Task})
		}
	}
	each(was, func(id string) {
		if c.lent[id] == guest {
			delete(c.lent, id)
		}
	})
	each(is, func(id string) { c.lent[id] = guest })
	if p := cmp.Or(is, was); p != nil { // of an environment: it may have been asked to leave
		c.wake(p.Spec.TaskID)
	}
}

// wakeGuest asks for a turn of who is inside a task. The lock is held.
func (c *Controller) wakeGuest(ch store.Change) {
	for _, o := range []api.Object{ch.New, ch.Old} {
		if o != nil {
			c.wake(o.GetMeta().ID)
		}
	}
}

func (c *Controller) wake(id string) {
	if guest, ok := c.lent[id]; ok {
		c.loop.Add(guest)
	}
}

// guestOf is the name of who is inside a task; "": nobody.
func (c *Controller) guestOf(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lent[id].Name
}
