package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// scenario is a generated trace on a cluster of its own.
type scenario struct {
	name  string
	nodes int
	jobs  func(g *generator)
	// hourly gives the zone another price every hour.
	hourly bool
}

var scenarios = []scenario{
	{name: "overload", nodes: 8, jobs: (*generator).overload},
	{name: "churn", nodes: 32, jobs: (*generator).churn},
	{name: "topology", nodes: 128, jobs: (*generator).topology},
	{name: "deferral", nodes: 2, jobs: (*generator).deferral, hourly: true},
	{name: "deadlines", nodes: 1, jobs: (*generator).deadlines},
}

// Scenarios are the names that Scenario knows.
func Scenarios() (names []string) {
	for _, s := range scenarios {
		names = append(names, s.name)
	}
	return names
}

// Scenario is a situation that planners find hard, made from a seed: the same seed gives the same one.
func Scenario(name string, seed uint64) (Config, error) {
	i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })
	if i < 0 {
		known := strings.Join(append(Scenarios(), Services), ", ")
		return Config{}, fault.New(fault.Invalid, "BadFlag", fault.T("There is no scenario %q; there are: %s.", "没有场景 %q；可用：%s。", name, known))
	}
	s := &scenarios[i]
	g := &generator{rnd: rand.New(rand.NewPCG(seed, uint64(i))), devices: s.nodes * 8}
	s.jobs(g)
	zone := &api.Zone{Meta: api.Meta{Name: "sim"}, Spec: api.ZoneSpec{Region: "sim", Price: api.Price{Currency: api.DefaultCurrency}}}
	for h := 0; s.hourly && h < 24; h++ {
		zone.Spec.Price.Windows = append(zone.Spec.Price.Windows, api.PriceWindow{
			From: fmt.Sprintf("%02d:00", h), To: fmt.Sprintf("%02d:00", (h+1)%24), Factor: float64(1+g.rnd.IntN(12)) / 4,
		})
	}
	return Config{
		Trace: Trace{Name: name, Jobs: arrange(g.jobs)}, Zones: []*api.Zone{zone}, Nodes: Nodes("sim", 1, s.nodes, 8, "A100"),
		Begin: scenarioBegin,
	}, nil
}

// scenarioBegin is midnight where the prices are.
var scenarioBegin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// generator makes jobs.
type generator struct {
	rnd     *rand.Rand
	devices int
	jobs    []Job
}

func (g *generator) add(user, name string, devices int, at, length time.Duration) *Job {
	length = max(length.Round(time.Second), time.Minute)
	g.jobs = append(g.jobs, Job{Task: newTask(0, name, user, "default", wholeDevices(devices)), At: at.Round(time.Second), Length: length})
	return &g.jobs[len(g.jobs)-1]
}

func (g *generator) hours(mean float64) time.Duration {
	return time.Duration(g.rnd.ExpFloat64() * mean * float64(time.Hour))
}

// overload is a week with three times the capacity in eight hours of each day, of heavy-tailed jobs,
// and a week of half of it. A third of the users are new each time.
func (g *generator) overload() {
	sizes := []int{1, 1, 1, 1, 2, 2, 4, 4, 8, 8, 16, g.devices / 2}
	for d := range 14 {
		from, span, load := 0.0, 8.0, 3.0
		if d >= 7 {
			span, load = 24, .5
		}
		for sum := 0.0; sum < float64(g.devices)*span*load; {
			user, size := fmt.Sprintf("u%d", g.rnd.IntN(28)), sizes[g.rnd.IntN(len(sizes))]
			if g.rnd.IntN(3) == 0 {
				user = fmt.Sprintf("once-%d", len(g.jobs))
			}
			hours := min(.25*math.Exp(g.rnd.NormFloat64()*1.8), 120)
			at := (float64(24*d) + from + g.rnd.Float64()*span) * float64(time.Hour)
			g.add(user, fmt.Sprintf("m%d", g.rnd.IntN(4)), size, time.Duration(at), time.Duration(hours*float64(time.Hour)))
			sum += hours * float64(size)
		}
	}
}

// churn is jobs of one node and less that come and go, at 95 % of the capacity.
func (g *generator) churn() {
	sizes := []int{1, 1, 1, 1, 2, 2, 4, 8}
	const meanSize, meanHours = 20.0 / 8, 4.0
	for at := time.Duration(0); at < 7*24*time.Hour; at += g.hours(meanSize * meanHours / (.95 * float64(g.devices))) {
		g.add(fmt.Sprintf("u%d", g.rnd.IntN(20)), "m", sizes[g.rnd.IntN(len(sizes))], at, g.hours(meanHours))
	}
}

// topology is gangs of one to sixteen nodes, now and then of a quarter of the cluster, at 92 % of the
// capacity.
func (g *generator) topology() {
	sizes := []int{1, 1, 1, 1, 2, 2, 2, 4, 4, 8, 8, 16}
	const meanSize, meanHours = 50.0/12 + .28, 6.0
	nodes := g.devices / 8
	for at := time.Duration(0); at < 5*24*time.Hour; at += g.hours(meanSize * meanHours / (.92 * float64(nodes))) {
		size := sizes[g.rnd.IntN(len(sizes))]
		if g.rnd.IntN(100) == 0 {
			size = nodes / 4
		}
		g.add(fmt.Sprintf("u%d", g.rnd.IntN(20)), "m", 8*size, at, g.hours(meanHours))
	}
}

// deferral is gangs that can all wait for the cheap hours, four times a day, on two nodes.
func (g *generator) deferral() {
	for d := range 5 {
		for i := range 4 {
			length := time.Duration(1+g.rnd.IntN(5)) * time.Hour
			j := g.add(fmt.Sprintf("u%d", i), "m", 8*(1+g.rnd.IntN(2)), time.Duration(24*d+i)*time.Hour, length)
			j.Due = j.At + length + time.Duration(12+g.rnd.IntN(12))*time.Hour
			due := scenarioBegin.Add(j.Due)
			j.Task.Spec.Deferrable, j.Task.Spec.ExpectedTime, j.Task.Spec.Deadline = api.DeferCheap, api.Duration(length), &due
		}
	}
}

// deadlines is six gangs at a time for one node, of which most can be done in time in the best order.
func (g *generator) deadlines() {
	for day := range 20 {
		sum := time.Duration(0)
		for i := range 6 {
			length := time.Duration(1+g.rnd.IntN(5)) * time.Hour
			sum += length
			j := g.add(fmt.Sprintf("u%d", i), "m", 8, time.Duration(day)*36*time.Hour, length)
			j.Due = j.At + length + time.Duration(g.rnd.Float64()*float64(sum))
			due := scenarioBegin.Add(j.Due)
			j.Task.Spec.ExpectedTime, j.Task.Spec.Deadline = api.Duration(length), &due
		}
	}
}
