package report

import (
	"cmp"
	"context"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/store"
)

// The series of one scrape are bounded: only the largest tasks and projects have ones of their own, all
// count for the cluster.
const (
	maxTaskSeries    = 100
	maxProjectSeries = 100
)

// figure is one number of a running task. Shares are averaged over ranks, others added up.
type figure struct {
	name, help string
	share      bool
	of         func(*api.TrainingTaskStatus) (float64, bool)
}

func ofPace(get func(*api.Pace) float64) func(*api.TrainingTaskStatus) (float64, bool) {
	return func(s *api.TrainingTaskStatus) (float64, bool) {
		if s.Pace == nil || get(s.Pace) == 0 {
			return 0, false
		}
		return get(s.Pace), true
	}
}

// skippedSteps are known where there is a loss scale.
func skippedSteps(s *api.TrainingTaskStatus) (float64, bool) {
	if s.Pace == nil || s.Pace.LossScale == 0 {
		return 0, false
	}
	return float64(s.Pace.SkippedSteps), true
}

func ofUse(has func(*api.Use) bool, get func(*api.Use) float64) func(*api.TrainingTaskStatus) (float64, bool) {
	return func(s *api.TrainingTaskStatus) (float64, bool) {
		if s.Use == nil || !has(s.Use) {
			return 0, false
		}
		return get(s.Use), true
	}
}

func measured(*api.Use) bool       { return true }
func hasDevices(u *api.Use) bool   { return u.Devices > 0 }
func hasSaves(u *api.Use) bool     { return u.Saves > 0 }
func crossesZones(u *api.Use) bool { return u.CrossZone > 0 }
func hasScaling(u *api.Use) bool   { return u.Scaling != nil }

var figures = []figure{
	{"samples_per_second", "Samples a second, as ranks report.", false, ofPace(func(p *api.Pace) float64 { return p.SamplesPerSecond })},
	{"tokens_per_second", "Tokens a second, as ranks report.", false, ofPace(func(p *api.Pace) float64 { return p.TokensPerSecond })},
	{"mfu", "Share of what the devices could do at most; the goal is in fermi_goal.", true, ofPace(func(p *api.Pace) float64 { return p.MFU })},
	{"data_wait", "Share of the steps' time in which ranks waited for data.", true, ofPace(func(p *api.Pace) float64 { return p.DataWait })},
	{"loss_scale", "Loss scale of training in fp16; of several tasks the mean.", true, ofPace(func(p *api.Pace) float64 { return p.LossScale })},
	{"skipped_steps", "Steps left out because a gradient was not finite under the loss scale.", false, skippedSteps},
	{"scaling_efficiency", "Pace of a rank against that in the smallest world seen of the same work.", true, ofUse(hasScaling, func(u *api.Use) float64 { return u.Scaling.Efficiency })},
	{"cpu_cores", "Cores in use.", false, ofUse(measured, func(u *api.Use) float64 { return u.Cores })},
	{"memory_bytes", "Resident memory.", false, ofUse(measured, func(u *api.Use) float64 { return float64(u.Memory) })},
	{"device_use", "Share of time in which devices worked; the goal is in fermi_goal.", true, ofUse(hasDevices, func(u *api.Use) float64 { return u.DeviceUse })},
	{"device_memory_bytes", "Memory in use on devices.", false, ofUse(hasDevices, func(u *api.Use) float64 { return float64(u.DeviceMemory) })},
	{"cross_zone_bytes_per_second", "Bytes a second between zones, estimated.", false, ofUse(crossesZones, func(u *api.Use) float64 { return float64(u.CrossZone) })},
	{"saves_begun", "Checkpoints that ranks of running tasks began.", false, ofUse(hasSaves, func(u *api.Use) float64 { return float64(u.Saves) })},
	{"saves_whole", "Of these those that are whole.", false, ofUse(hasSaves, func(u *api.Use) float64 { return float64(u.WholeSaves) })},
}

// goals are what the platform aims at, by figure.
var goals = map[string]float64{"device_use": api.DeviceUseGoal, "mfu": api.MFUGoal, "recovery_seconds": api.RecoveryGoal.Seconds()}

// sum is a figure over tasks.
type sum struct{ value, weight float64 }

// TrainingMeters tells of the tasks that run, of their projects, and of all together, at each scrape anew.
type TrainingMeters struct {
	store store.ReadWriter
	goals *prometheus.Desc
	descs [3][]*prometheus.Desc // of tasks, projects and the cluster, by figure
}

func NewTrainingMeters(s store.ReadWriter) *TrainingMeters {
	m := &TrainingMeters{store: s, goals: prometheus.NewDesc("fermi_goal", "What the platform aims at.", []string{"figure"}, nil)}
	for i, scope := range []struct {
		name   string
		labels []string
	}{{"task", []string{"project", "task"}}, {"project", []string{"project"}}, {"cluster", nil}} {
		for _, f := range figures {
			m.descs[i] = append(m.descs[i], prometheus.NewDesc("fermi_"+scope.name+"_"+f.name, f.help, scope.labels, nil))
		}
	}
	return m
}

// Describe is prometheus.Collector's.
func (m *TrainingMeters) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.goals
	for _, list := range m.descs {
		for _, d := range list {
			ch <- d
		}
	}
}

// group is a task, a project, or all.
type group struct {
	labels []string
	ranks  int
	sums   []sum
}

func newGroup(labels ...string) *group {
	return &group{labels: labels, sums: make([]sum, len(figures))}
}

func (g *group) add(status *api.TrainingTaskStatus) {
	ranks := 1
	if status.Use != nil {
		ranks = max(ranks, status.Use.Ranks)
	}
	g.ranks += ranks
	for i, f := range figures {
		if v, ok := f.of(status); ok {
			weight := 1.0
			if f.share {
				weight = float64(ranks)
			}
			g.sums[i].value += v * weight
			g.sums[i].weight += weight
		}
	}
}

// value is a figure of the group; ok is false where no task has it.
func (g *group) value(i int) (v float64, ok bool) {
	s := g.sums[i]
	if figures[i].share && s.weight > 0 {
		return s.value / s.weight, true
	}
	return s.value, s.weight > 0
}

// runsMeasured says that a task runs and has figures.
func runsMeasured(s *api.TrainingTaskStatus) bool {
	return s.Phase == api.PhaseRunning && (s.Use != nil || s.Pace != nil)
}

// Collect is prometheus.Collector's.
func (m *TrainingMeters) Collect(ch chan<- prometheus.Metric) {
	for name, v := range goals {
		ch <- prometheus.MustNewConstMetric(m.goals, prometheus.GaugeValue, v, name)
	}
	snap, err := m.store.List(context.Background(), api.KindTrainingTask, "", 0)
	if err != nil {
		return // the next scrape asks again
	}
	var tasks []*group
	projects, cluster := map[string]*group{}, newGroup()
	snap.Ascend("", func(o api.Object) bool {
		t := o.(*api.TrainingTask)
		if !runsMeasured(&t.Status) {
			return true
		}
		own := newGroup(t.Meta.Project, t.Meta.Name)
		if projects[t.Meta.Project] == nil {
			projects[t.Meta.Project] = newGroup(t.Meta.Project)
		}
		for _, g := range []*group{own, projects[t.Meta.Project], cluster} {
			g.add(&t.Status)
		}
		tasks = append(tasks, own)
		return true
	})
	list := make([]*group, 0, len(projects))
	for _, g := range projects {
		list = append(list, g)
	}
	m.tell(ch, 0, largest(tasks, maxTaskSeries))
	m.tell(ch, 1, largest(list, maxProjectSeries))
	m.tell(ch, 2, []*group{cluster})
}

// largest are those with the most ranks, ties by name, so that who has a series changes little.
func largest(list []*group, most int) []*group {
	slices.SortFunc(list, func(a, b *group) int {
		return cmp.Or(cmp.Compare(b.ranks, a.ranks), slices.Compare(a.labels, b.labels))
	})
	return list[:min(len(list), most)]
}

func (m *TrainingMeters) tell(ch chan<- prometheus.Metric, scope int, list []*group) {
	for _, g := range list {
		for i := range figures {
			if v, ok := g.value(i); ok {
				ch <- prometheus.MustNewConstMetric(m.descs[scope][i], prometheus.GaugeValue, v, g.labels...)
			}
		}
	}
}
