package main

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/sim"
	"github.com/fermi-cluster/fermi/sched"
)

// job is a row of the trace.
type job struct {
	id       string
	user     string
	model    string
	devices  int
	submit   time.Duration // since the trace began
	duration time.Duration // known to the simulation, not to the planner
	deadline time.Duration // declared, from submit
}

// traces is where the data lies.
func traces() string {
	if dir := os.Getenv("FERMI_TRACES"); dir != "" {
		return dir
	}
	return "../shared/data"
}

func readChronus() ([]job, error) {
	f, err := os.Open(filepath.Join(traces(), "chronus", "trace_job_Philly_SLO.csv"))
	if err != nil {
		return nil, fmt.Errorf("the trace is needed (FERMI_TRACES names its folder): %w", err)
	}
	defer f.Close()
	trace, err := sim.ReadChronus(f, false)
	if err != nil {
		return nil, err
	}
	var jobs []job
	for i, j := range trace.Jobs {
		jobs = append(jobs, job{
			id: fmt.Sprintf("j%05d", i), user: j.Task.Meta.Owner, model: j.Task.Meta.DisplayName, devices: j.Devices() / 1000,
			submit: j.At, duration: j.Length, deadline: j.Due - j.At,
		})
	}
	if len(jobs) == 0 {
		return nil, errors.New("the trace is empty")
	}
	return jobs, nil
}

// outcome is what came of one job.
type outcome struct{ finish time.Duration }

// chronusCase is one way to run the trace through the planner.
type chronusCase struct {
	name      string
	nodes     int
	devices   int // in all; 0 is 960
	preempt   bool
	deadlines bool // the planner sees the declared deadline
	byUser    bool // every user has a queue
}

// each is how many devices a node has.
func (cs chronusCase) each() int {
	if cs.devices == 0 {
		return 960 / cs.nodes
	}
	return cs.devices / cs.nodes
}

// restart is what a preempted job loses: its checkpoint was asked for and written, the rest is
// stopping, starting and reading it back.
const restart = 2 * time.Minute

func benchChronus(_ context.Context, r *report) error {
	jobs, err := readChronus()
	if err != nil {
		return err
	}
	fmt.Printf("Chronus-Philly SLO: %d jobs on 960 devices; minutes. A preempted job loses %s. Waits are finish − submit − duration: what preemption costs is in them.\n", len(jobs), restart)
	fmt.Printf("%-52s %9s %9s %9s %9s %9s %8s\n", "", "mean JCT", "mean wait", "max wait", "≥8 max", "makespan", "evicted")
	for _, ref := range []struct {
		name      string
		fifo      bool
		jct, wait float64
	}{{"reference: FIFO, devices counted", true, 1670, 3486}, {"reference: SSF with the true durations, counted", false, 365, 13210}} {
		s := summarize(jobs, reference(jobs, 960, ref.fifo))
		s.print(ref.name, 0)
		name := "SSF oracle"
		if ref.fifo {
			name = "FIFO"
		}
		r.exactly("harness: "+name+" mean JCT [min]", s.jct, ref.jct)
		r.exactly("harness: "+name+" ≥8 longest wait [min]", s.maxGang, ref.wait)
	}
	for i, cs := range []chronusCase{
		{"Fermi: 120 nodes × 8, durations learned", 120, 0, true, false, false},
		{"Fermi: the same without preemption", 120, 0, false, false, false},
		{"Fermi: durations learned and deadlines declared", 120, 0, true, true, false},
		{"Fermi: the same without preemption", 120, 0, false, true, false},
		{"Fermi: devices counted, durations learned", 960, 0, true, false, false},
	}[:chronusCases()] {
		begin := time.Now()
		m, err := replay(jobs, cs)
		if err != nil {
			return err
		}
		s := summarize(jobs, m.out)
		s.print(cs.name, m.evicted)
		fmt.Printf("  %d turns in %s; %s\n", m.plans, time.Since(begin).Round(time.Millisecond), m.told)
		if i == 0 {
			r.atMost("mean JCT without oracle durations [min]", s.jct, 445)
			r.atMost("longest wait of a gang of ≥ 8 devices [min]", s.maxGang, 5200)
		}
	}
	return nil
}

// chronusCases is how many ways are tried: with FERMI_SIZE=small only the one that is checked.
func chronusCases() int {
	if small() {
		return 1
	}
	return 5
}

type summary struct{ jct, wait, maxWait, maxGang, makespan float64 }

func summarize(jobs []job, out []outcome) (s summary) {
	for i, j := range jobs {
		jct := (out[i].finish - j.submit).Minutes()
		wait := jct - j.duration.Minutes()
		s.jct += jct / float64(len(jobs))
		s.wait += wait / float64(len(jobs))
		s.maxWait = max(s.maxWait, wait)
		if j.devices >= 8 {
			s.maxGang = max(s.maxGang, wait)
		}
		s.makespan = max(s.makespan, out[i].finish.Minutes())
	}
	return s
}

func (s summary) print(name string, evicted int) {
	fmt.Printf("%-52s %9.0f %9.0f %9.0f %9.0f %9.0f %8d\n", name, s.jct, s.wait, s.maxWait, s.maxGang, s.makespan, evicted)
}

// replay runs the trace through sched.Plan on a clock of its own.
func replay(jobs []job, cs chronusCase) (*replayer, error) {
	m := &replayer{
		cs: cs, jobs: jobs, c: sched.NewCluster(), q: sched.NewQueues(), by: map[string]*trial{},
		epoch: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), out: make([]outcome, len(jobs)), first: map[string]sched.Reservation{},
	}
	for i := range cs.nodes {
		n := sched.Node{Number: uint32(i + 1), Name: fmt.Sprintf("n%d", i), Zone: "z", CPU: 1 << 30, Memory: 1 << 50}
		for range cs.each() {
			n.Devices = append(n.Devices, "A100")
		}
		if err := m.c.SetNode(n); err != nil {
			return nil, err
		}
	}
	return m, m.runAll()
}

type replayer struct {
	cs      chronusCase
	jobs    []job
	c       *sched.Cluster
	q       *sched.Queues
	epoch   time.Time
	now     time.Duration
	next    int
	by      map[string]*trial
	ends    endHeap
	out     []outcome
	evicted int
	plans   int
	done    int
	first   map[string]sched.Reservation // as first told, of who has not started yet
	told    coverage
	busy    int           // devices in use
	idle    time.Duration // × devices, while somebody waits
	needed  time.Duration // × devices, the same time
}

// idleShare is the share of the devices that were idle while somebody waited.
func (m *replayer) idleShare() float64 { return float64(m.idle) / float64(max(m.needed, 1)) }

// coverage counts how starts lie to the interval first told.
type coverage struct{ early, within, late int }

func (c coverage) String() string {
	all := c.early + c.within + c.late
	if all == 0 {
		return "no start was predicted"
	}
	part := func(n int) float64 { return 100 * float64(n) / float64(all) }
	return fmt.Sprintf("%d starts predicted: %.1f%% within the interval first told, %.1f%% before it, %.1f%% after it", all, part(c.within), part(c.early), part(c.late))
}

// note holds a first start against what was first told of it.
func (m *replayer) note(id string) {
	r, ok := m.first[id]
	if !ok {
		return
	}
	delete(m.first, id)
	switch now := m.time(); {
	case now.Before(r.Early):
		m.told.early++
	case now.After(r.Late):
		m.told.late++
	default:
		m.told.within++
	}
}

// trial is a job's life.
type trial struct {
	job   int
	w     *sched.Workload
	left  time.Duration
	began time.Duration
	at    int  // in ends, -1 when it does not run
	fresh bool // nothing was told of its start yet, and it never ran
}

func (m *replayer) time() time.Time { return m.epoch.Add(m.now) }

func (m *replayer) runAll() error {
	var wake time.Duration
	for m.done < len(m.jobs) {
		at := time.Duration(1<<63 - 1)
		if m.next < len(m.jobs) {
			at = m.jobs[m.next].submit
		}
		if len(m.ends) > 0 {
			at = min(at, m.ends[0].began+m.ends[0].left)
		}
		if wake > m.now {
			at = min(at, wake)
		}
		if at == 1<<63-1 {
			return fmt.Errorf("%d jobs can never start", len(m.jobs)-m.done)
		}
		if m.q.Len() > 0 {
			all := m.cs.nodes * m.cs.each()
			m.idle += (at - m.now) / time.Second * time.Duration(all-m.busy)
			m.needed += (at - m.now) / time.Second * time.Duration(all)
		}
		m.now = at
		m.finish()
		for ; m.next < len(m.jobs) && m.jobs[m.next].submit <= m.now; m.next++ {
			m.submit(m.next)
		}
		var err error
		if wake, err = m.plan(); err != nil {
			return err
		}
	}
	return nil
}

func (m *replayer) finish() {
	for len(m.ends) > 0 && m.ends[0].began+m.ends[0].left <= m.now {
		t := heap.Pop(&m.ends).(*trial)
		m.out[t.job].finish = m.now
		m.done++
		m.busy -= m.jobs[t.job].devices
		m.c.Release(t.w.ID)
		m.q.Stop(m.time(), t.w.ID, true)
	}
}

func (m *replayer) submit(i int) {
	j := m.jobs[i]
	w := &sched.Workload{
		ID: j.id, Queue: "q", User: j.user, Name: j.model, Submitted: m.time(), Preemptible: m.cs.preempt, RestartCost: restart,
	}
	role := func(name string, replicas, devices int) {
		if replicas > 0 && devices > 0 {
			w.Roles = append(w.Roles, sched.Role{Name: name, Replicas: replicas, Need: sched.Need{CPU: api.MilliCPU(1000), Memory: 1 << 30, Devices: devices}})
		}
	}
	each := m.cs.each()
	role("worker", j.devices/each, each)
	role("rest", 1, j.devices%each)
	if m.cs.deadlines {
		w.Deadline = w.Submitted.Add(j.deadline)
	}
	if m.cs.byUser {
		w.Queue = j.user
	}
	m.by[j.id] = &trial{job: i, w: w, left: j.duration, at: -1, fresh: true}
	m.q.Add(w)
}

// plan carries out what the planner decides until it has nothing more to say.
func (m *replayer) plan() (wake time.Duration, err error) {
	for {
		res := sched.Plan(m.time(), m.c, m.q, sched.Policy{NoPreemption: !m.cs.preempt})
		m.plans++
		for _, d := range res.Decisions {
			t := m.by[d.Workload.ID]
			t.began, t.fresh = m.now, false
			m.busy += m.jobs[t.job].devices
			heap.Push(&m.ends, t)
			m.note(d.Workload.ID)
		}
		for _, r := range res.Reservations {
			if _, told := m.first[r.ID]; !told && m.by[r.ID].fresh {
				m.first[r.ID] = r
				m.by[r.ID].fresh = false
			}
		}
		for _, e := range res.Evictions {
			t := m.by[e.ID]
			if t.at < 0 {
				return 0, fmt.Errorf("%s was to go and does not run", e.ID)
			}
			heap.Remove(&m.ends, t.at)
			t.left += restart - (m.now - t.began)
			m.evicted++
			m.busy -= m.jobs[t.job].devices
			m.c.Release(e.ID)
			m.q.Stop(m.time(), e.ID, false)
			m.q.Add(t.w)
		}
		if len(res.Evictions) == 0 && !res.More {
			if res.Wake.IsZero() {
				return 0, nil
			}
			return res.Wake.Sub(m.epoch), nil
		}
	}
}

type endHeap []*trial

func (h endHeap) Len() int { return len(h) }
func (h endHeap) Less(i, j int) bool {
	a, b := h[i].began+h[i].left, h[j].began+h[j].left
	return a < b || a == b && h[i].job < h[j].job
}
func (h endHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}
func (h *endHeap) Push(x any) {
	t := x.(*trial)
	t.at = len(*h)
	*h = append(*h, t)
}
func (h *endHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	*h = old[:len(old)-1]
	t.at = -1
	return t
}

// reference is the model of the research page: devices are only counted. FIFO stops at the first
// that does not fit; SSF knows the true durations and tries everybody, smallest devices × duration
// first.
func reference(jobs []job, devices int, fifo bool) []outcome {
	out := make([]outcome, len(jobs))
	var waiting []int
	var ends endHeap
	free, next, done := devices, 0, 0
	for done < len(jobs) {
		at := time.Duration(1<<63 - 1)
		if next < len(jobs) {
			at = jobs[next].submit
		}
		if len(ends) > 0 {
			at = min(at, ends[0].began+ends[0].left)
		}
		for len(ends) > 0 && ends[0].began+ends[0].left <= at {
			t := heap.Pop(&ends).(*trial)
			out[t.job].finish = at
			free += jobs[t.job].devices
			done++
		}
		for ; next < len(jobs) && jobs[next].submit <= at; next++ {
			k := len(waiting)
			if !fifo {
				k, _ = slices.BinarySearchFunc(waiting, next, func(a, b int) int {
					x, y := jobs[a].duration*time.Duration(jobs[a].devices), jobs[b].duration*time.Duration(jobs[b].devices)
					if x != y {
						return int(x - y)
					}
					return a - b
				})
			}
			waiting = slices.Insert(waiting, k, next)
		}
		kept := waiting[:0]
		blocked := false
		for _, i := range waiting {
			if blocked || jobs[i].devices > free {
				kept = append(kept, i)
				blocked = blocked || fifo
				continue
			}
			free -= jobs[i].devices
			heap.Push(&ends, &trial{job: i, began: at, left: jobs[i].duration})
		}
		waiting = kept
	}
	return out
}
