package figure

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/recipe"
)

// Tasks that report nothing are written down more rarely: most are of that kind.
const (
	useFirst = time.Minute
	useLast  = 10 * time.Minute
)

// Base is the pace of some work in the smallest world that it was seen in.
type Base struct {
	Ranks int
	Each  float64 // samples, or tokens, a second and rank
	Task  string
}

// Use writes down what the task uses: with its pace, or when it is a third of the task's age old.
func (t *Turn) Use(base *Base) {
	ends, ok := t.measurable()
	if !ok {
		return
	}
	use, ok := t.sumUse(base)
	if !ok {
		return
	}
	every := min(max(t.Now.Sub(*t.After.StartedAt)/3, useFirst), useLast)
	wait := every
	if old := t.After.Use; old != nil {
		wait = every - t.Now.Sub(old.At)
	}
	paced := t.After.Pace != nil && t.After.Pace != t.Before.Pace
	if t.After.Use == nil || wait <= 0 || paced || ends {
		use.At, wait = t.Now, every
		t.After.Use, t.Changed = use, true
	}
	if !ends {
		t.wakeIn(max(wait, stepLook))
	}
}

// sumUse adds up what the launchers of the open generation tell; ok: one of them measured.
func (t *Turn) sumUse(base *Base) (out *api.Use, ok bool) {
	out = &api.Use{}
	var asked api.MilliCPU
	var busy, watched float64
	for i := range t.Members {
		m := &t.Members[i]
		out.Ranks += m.Ranks
		out.Saves += m.Said.Saves.Begun
		out.WholeSaves += m.Said.Saves.Whole
		u := m.Said.Use
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
		asked += t.cores(m)
	}
	if asked > 0 {
		out.CPUUse = out.Cores * 1000 / float64(asked)
	}
	if watched > 0 {
		out.DeviceUse = busy / watched
	}
	if t.After.Pace != nil {
		out.CrossZone, out.Scaling = t.crossing(), scaling(base, t.After.Pace, out.Ranks)
	}
	return out, ok
}

// cores are those that a replica asked for; 0 where they are nominal.
func (t *Turn) cores(m *gang.Member) api.MilliCPU {
	for i := range t.Task.Spec.Roles {
		if r := &t.Task.Spec.Roles[i]; r.Name == m.Role && !m.Virtual {
			return r.Resources.CPU
		}
	}
	return 0
}

// crossing estimates the bytes a second between zones: rank order follows zones, so that a ring goes over
// from each zone to the next once, and each of its links carries 2 (n-1)/n of the gradients.
func (t *Turn) crossing() api.Bytes {
	zones, ranks, parameters := len(t.Members.Zones()), 0, 0.0
	for i := range t.Members {
		ranks += t.Members[i].Ranks
		parameters = max(parameters, t.Members[i].Said.Parameters)
	}
	step := t.After.Pace.StepTime.Std().Seconds()
	if zones < 2 || ranks < 2 || step <= 0 || !recipe.DataParallel(&t.Task.Spec) {
		return 0
	}
	return api.Bytes(min(float64(zones)*2*float64(ranks-1)/float64(ranks)*4*parameters/step, 1e18))
}

// scaling compares with the smallest world that is known of the same work.
func scaling(base *Base, pace *api.Pace, ranks int) *api.Scaling {
	each := PerRank(pace, ranks)
	if base == nil || base.Ranks >= ranks || base.Each <= 0 || each <= 0 {
		return nil
	}
	return &api.Scaling{Efficiency: each / base.Each, BaseRanks: base.Ranks, BaseTask: base.Task}
}

// PerRank is samples, or tokens, a second and rank.
func PerRank(p *api.Pace, ranks int) float64 {
	if p == nil || ranks < 1 {
		return 0
	}
	if p.SamplesPerSecond > 0 {
		return p.SamplesPerSecond / float64(ranks)
	}
	return p.TokensPerSecond / float64(ranks)
}

// WorkOf names what a task does, whatever its size.
func WorkOf(t *api.TrainingTask) string {
	r := history.RunOf(t, 0, 0)
	return r.Name + "\x00" + r.Framework + "\x00" + r.Work
}
