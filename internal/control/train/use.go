package train

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/recipe"
)

// Tasks that report nothing are written down more rarely: most are of that kind.
const (
	useFirst = time.Minute
	useLast  = 10 * time.Minute
)

// uses writes down what the task uses: with its pace, or when it is a third of the task's age old.
func (s *seen) uses(p *plan, now time.Time) {
	ends, ok := s.measurable(p)
	if !ok {
		return
	}
	use, ok := s.sumUse(p)
	if !ok {
		return
	}
	every := min(max(now.Sub(*p.status.StartedAt)/3, useFirst), useLast)
	wait := every
	if old := p.status.Use; old != nil {
		wait = every - now.Sub(old.At)
	}
	paced := p.status.Pace != nil && p.status.Pace != s.task.Status.Pace
	if p.status.Use == nil || wait <= 0 || paced || ends {
		use.At, wait = now, every
		p.status.Use, p.commit = use, true
	}
	if wait = max(wait, stepLook); !ends && (p.wake == 0 || p.wake > wait) {
		p.wake = wait
	}
}

// sumUse adds up what the launchers of the open generation tell; ok: one of them measured.
func (s *seen) sumUse(p *plan) (out *api.Use, ok bool) {
	out = &api.Use{}
	var asked api.MilliCPU
	var busy, watched float64
	for i := range s.members {
		m := &s.members[i]
		out.Ranks += m.ranks
		out.Saves += m.said.Saves.Begun
		out.WholeSaves += m.said.Saves.Whole
		u := m.said.Use
		if u.Seconds <= 0 {
			continue
		}
		ok = true
		out.Cores += u.CPU / u.Seconds
		out.Memory += api.Bytes(u.Memory)
		out.Devices += u.Devices
		out.DeviceMemory += api.Bytes(u.DeviceMemory)
		out.DeviceTotal += api.Bytes(u.DeviceTotal)
		busy, watched = busy+u.Busy, watched+u.Watched
		asked += s.cores(m)
	}
	if asked > 0 {
		out.CPUUse = out.Cores * 1000 / float64(asked)
	}
	if watched > 0 {
		out.DeviceUse = busy / watched
	}
	if p.status.Pace != nil {
		out.CrossZone, out.Scaling = s.crossing(p), s.scaling(p, out.Ranks)
	}
	return out, ok
}

// cores are those that a replica asked for; 0 where they are nominal.
func (s *seen) cores(m *member) api.MilliCPU {
	for i := range s.task.Spec.Roles {
		if r := &s.task.Spec.Roles[i]; r.Name == m.role && !m.virtual {
			return r.Resources.CPU
		}
	}
	return 0
}

// crossing estimates the bytes a second between zones: rank order follows zones, so that a ring goes over
// from each zone to the next once, and each of its links carries 2 (n-1)/n of the gradients.
func (s *seen) crossing(p *plan) api.Bytes {
	zones, ranks, parameters := len(s.zones()), 0, 0.0
	for i := range s.members {
		ranks += s.members[i].ranks
		parameters = max(parameters, s.members[i].said.Parameters)
	}
	step := p.status.Pace.StepTime.Std().Seconds()
	if zones < 2 || ranks < 2 || step <= 0 || !recipe.DataParallel(&s.task.Spec) {
		return 0
	}
	return api.Bytes(min(float64(zones)*2*float64(ranks-1)/float64(ranks)*4*parameters/step, 1e18))
}

// scaling compares with the smallest world that is known of the same work.
func (s *seen) scaling(p *plan, ranks int) *api.Scaling {
	each := perRank(p.status.Pace, ranks)
	if s.base == nil || s.base.ranks >= ranks || s.base.each <= 0 || each <= 0 {
		return nil
	}
	return &api.Scaling{Efficiency: each / s.base.each, BaseRanks: s.base.ranks, BaseTask: s.base.task}
}

// perRank is samples, or tokens, a second and rank.
func perRank(p *api.Pace, ranks int) float64 {
	if p == nil || ranks < 1 {
		return 0
	}
	if p.SamplesPerSecond > 0 {
		return p.SamplesPerSecond / float64(ranks)
	}
	return p.TokensPerSecond / float64(ranks)
}

// base is the pace of some work in the smallest world that this leader saw it in.
type base struct {
	ranks int
	each  float64
	task  string
}

// maxBases bounds what a leader remembers of finished tasks.
const maxBases = 10_000

// workOf names what a task does, whatever its size.
func workOf(t *api.TrainingTask) string {
	r := history.RunOf(t, 0, 0)
	return r.Name + "\x00" + r.Framework + "\x00" + r.Work
}

// noteBase remembers the pace of a task if its world is the smallest; mu held.
func (c *Controller) noteBase(t *api.TrainingTask) {
	if t.Status.Use == nil || t.Status.Pace == nil {
		return
	}
	now := base{t.Status.Use.Ranks, perRank(t.Status.Pace, t.Status.Use.Ranks), t.Meta.Name}
	if now.each <= 0 {
		return
	}
	work := workOf(t)
	old, known := c.bases[work]
	if known && old.ranks < now.ranks {
		return
	}
	if !known && len(c.bases) >= maxBases {
		for any := range c.bases {
			delete(c.bases, any)
			break
		}
	}
	c.bases[work] = now
}

// baseOf is what is known of the task's work; nil: nothing.
func (c *Controller) baseOf(t *api.TrainingTask) *base {
	if t.Status.Pace == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if b, ok := c.bases[workOf(t)]; ok {
		return &b
	}
	return nil
}
