package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched"
)

// The size every structure is made for.
const (
	schedNodes   = 12500
	schedDevices = 8
	schedRuns    = 7
)

// benchTime is the planner's now; it stands still.
var benchTime = time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC)

// benchRates: decisions a second of the planner alone, through Plan, on a cluster that is half
// full of a mix of whole cards, fractions and gangs.
func benchRates(ctx context.Context, r *report) error {
	begin, rates, perCPU := time.Now(), map[string][]float64{}, map[string][]float64{}
	var big, fresh sample
	var restart []float64
	for run := range schedRuns {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		m := newMind(uint64(run + 1))
		if err := m.halfFull(); err != nil {
			return err
		}
		for _, k := range churns {
			used := cpuSeconds()
			rate, err := m.churn(k)
			if err != nil {
				return err
			}
			rates[k.name] = append(rates[k.name], rate)
			perCPU[k.name] = append(perCPU[k.name], float64(k.count)/(cpuSeconds()-used))
		}
		took, err := m.bigGangs(30)
		if err != nil {
			return err
		}
		big = append(big, took...)
		if took, err = m.newKinds(20); err != nil {
			return err
		}
		fresh = append(fresh, took...)
		s, err := timeRestart(uint64(run + 1))
		if err != nil {
			return err
		}
		restart = append(restart, s)
	}
	for _, k := range churns {
		fmt.Printf("%-34s %s a second; median %.4g a second of processor\n", k.name, spread(rates[k.name]), median(perCPU[k.name]))
		if k.bound > 0 {
			r.atLeast(k.name+" a second, median", median(rates[k.name]), k.bound).Among(rates[k.name])
		}
	}
	fmt.Println("a gang of 1,024 nodes:", big)
	fmt.Println("a wish never seen before, one device:", fresh)
	fmt.Printf("restart with 50,000 placements: %s s\n", spread(restart))
	r.atMost("a gang of 1,024 nodes, p99 [ms]", ms(big.quantile(.99)), 50).Among(big.milliseconds())
	r.atMost("restart with 50,000 placements, worst [s]", slices.Max(restart), 2).Among(restart)
	peak, err := peakMB()
	if err != nil {
		return err
	}
	fmt.Printf("of %.1f s this process had a processor for %.1f s; the machine had others to serve if that is less\n", time.Since(begin).Seconds(), cpuSeconds())
	r.atMost("memory, peak of the process [MB]", peak, 1500)
	r.Seeds = nil
	for run := range schedRuns {
		r.Seeds = append(r.Seeds, run+1)
	}
	return nil
}

// churn is a steady stream: as many leave as come, and the cluster stays half full.
type churn struct {
	name    string
	bound   float64 // decisions a second; 0 is shown only
	count   int
	members func(i int) []sched.Role
}

var churns = []churn{
	{"single-device decisions", 20000, 20000, func(i int) []sched.Role { return worker(1, 1, 0) }},
	{"single-device, 8 kinds mixed", 0, 8000, func(i int) []sched.Role { return mixed(i) }},
	{"gangs of 8 × 1 device", 0, 3000, func(i int) []sched.Role { return worker(8, 1, 0) }},
	{"gangs of 8 × 8 devices", 2000, 3000, func(i int) []sched.Role { return worker(8, 8, 0) }},
	{"gangs of 8, sizes mixed", 2000, 3000, func(i int) []sched.Role { return worker(8, []int{1, 2, 4, 8}[i%4], 0) }},
}

func worker(replicas, devices int, share uint16) []sched.Role {
	return []sched.Role{{Name: "worker", Replicas: replicas, Need: sched.Need{
		CPU: api.MilliCPU(4000 * max(devices, 1)), Memory: api.Bytes(max(devices, 1)) << 35, Devices: devices, Share: share,
	}}}
}

func mixed(i int) []sched.Role {
	w := worker(1, 1, []uint16{0, 0, 500, 250}[i%4])
	w[0].Need.CPU += api.MilliCPU(1000 * (i / 4 % 2))
	return w
}

// mind is a cluster, its queues and who runs.
type mind struct {
	c       *sched.Cluster
	q       *sched.Queues
	random  uint64
	next    int
	running []string
}

func newMind(seed uint64) *mind {
	m := &mind{c: sched.NewCluster(), q: sched.NewQueues(), random: seed}
	const zones = 2
	for i := range zones {
		m.c.SetZone(sched.Zone{Name: fmt.Sprintf("z%d", i), Region: "r"})
	}
	for i := range schedNodes {
		in := i / zones
		if err := m.c.SetNode(sched.Node{
			Number: uint32(i + 1), Name: fmt.Sprintf("n%d", i+1), Zone: fmt.Sprintf("z%d", i%zones),
			Rack: fmt.Sprintf("rack%d", in/8), Leaf: fmt.Sprintf("leaf%d", in/64),
			CPU: 128000, Memory: 1 << 40, Devices: slices.Repeat([]string{[]string{"H800", "A100"}[i%zones]}, schedDevices),
		}); err != nil {
			panic(err)
		}
	}
	return m
}

// draw is a linear congruence: the same on every machine.
func (m *mind) draw(n int) int {
	m.random = m.random*6364136223846793005 + 1442695040888963407
	return int(m.random >> 33 % uint64(n))
}

func (m *mind) submit(roles []sched.Role) string {
	m.next++
	w := &sched.Workload{ID: fmt.Sprintf("t%08d", m.next), Queue: "q", Roles: roles}
	m.c.Arrive(w)
	m.q.Add(w)
	return w.ID
}

// start places all who wait and counts them.
func (m *mind) start() (int, error) {
	count := 0
	for {
		res := sched.Plan(benchTime, m.c, m.q, sched.Policy{})
		count += len(res.Decisions)
		if !res.More {
			break
		}
	}
	if m.q.Len() > 0 {
		return count, fmt.Errorf("%d workloads found no room on a half-full cluster", m.q.Len())
	}
	return count, nil
}

// halfFull fills all of the cluster and takes every second workload away again at random, so that
// the holes are where departures leave them, not where an empty cluster ends.
func (m *mind) halfFull() error {
	used, sizes := 0, []int{1, 1, 1, 2, 4, 8}
	for used < schedNodes*schedDevices*9/10 {
		replicas, devices := 1, sizes[m.draw(len(sizes))]
		if m.draw(10) == 0 {
			replicas = 8
		}
		m.running = append(m.running, m.submit(worker(replicas, devices, 0)))
		used += replicas * devices
		if m.q.Len() == 1000 {
			if _, err := m.start(); err != nil {
				return err
			}
		}
	}
	if _, err := m.start(); err != nil {
		return err
	}
	for m.used() > schedNodes*schedDevices/2 {
		for range 100 {
			m.leave()
		}
	}
	return nil
}

func (m *mind) used() int {
	used := 0
	for _, id := range m.running {
		at, _ := m.c.Held(id)
		for _, slots := range at {
			for _, s := range slots {
				for mask := s.Devices; mask != 0; mask &= mask - 1 {
					used++
				}
			}
		}
	}
	return used
}

func (m *mind) leave() {
	i := m.draw(len(m.running))
	m.stop(m.running[i])
	m.running[i] = m.running[len(m.running)-1]
	m.running = m.running[:len(m.running)-1]
}

const (
	batch = 16 // come at a time
	lag   = 4  // batches that stay
)

// churn measures everything a decision costs: to come, to be placed, to leave.
func (m *mind) churn(k churn) (rate float64, err error) {
	var mine [][]string
	begin := time.Now()
	for done := 0; done < k.count; {
		var ids []string
		for i := range batch {
			ids = append(ids, m.submit(k.members(done+i)))
		}
		n, err := m.start()
		if err != nil {
			return 0, fmt.Errorf("%s: %w", k.name, err)
		}
		done += n
		if mine = append(mine, ids); len(mine) > lag {
			m.end(mine[0])
			mine = mine[1:]
		}
	}
	rate = float64(k.count) / time.Since(begin).Seconds()
	for _, ids := range mine {
		m.end(ids)
	}
	return rate, nil
}

func (m *mind) end(ids []string) {
	for _, id := range ids {
		m.stop(id)
	}
}

func (m *mind) stop(id string) {
	m.c.Release(id)
	m.q.Stop(benchTime, id, true)
}

// bigGangs times gangs of 1,024 whole nodes from coming to placed.
func (m *mind) bigGangs(times int) (sample, error) {
	var out sample
	for range times {
		begin := time.Now()
		id := m.submit(worker(1024, schedDevices, 0))
		if _, err := m.start(); err != nil {
			return nil, fmt.Errorf("a gang of 1,024 nodes: %w", err)
		}
		out = append(out, time.Since(begin))
		m.stop(id)
		for range batch { // something else happens in between
			other := m.submit(worker(1, 1, 0))
			if _, err := m.start(); err != nil {
				return nil, err
			}
			m.stop(other)
		}
	}
	return out, nil
}

// newKinds times workloads for which nothing is worked out yet.
func (m *mind) newKinds(times int) (sample, error) {
	var out sample
	for i := range times {
		roles := worker(1, 1, 0)
		roles[0].Need.CPU += api.MilliCPU(i + 1)
		begin := time.Now()
		id := m.submit(roles)
		if _, err := m.start(); err != nil {
			return nil, err
		}
		out = append(out, time.Since(begin))
		m.stop(id)
	}
	return out, nil
}

// timeRestart is a model built from nothing: nodes, 50,000 placements, and the first decision.
func timeRestart(seed uint64) (float64, error) {
	begin := time.Now()
	m := newMind(seed)
	for i := range 50000 {
		at := sched.Assignment{{{Node: uint32(i%schedNodes + 1), Devices: 1 << (i / schedNodes)}}}
		w := &sched.Workload{ID: fmt.Sprintf("p%08d", i), Queue: "q", Roles: worker(1, 1, 0)}
		if err := m.c.Hold(w.ID, w.Roles, at); err != nil {
			return 0, err
		}
		m.q.Run(benchTime, m.c, w, at, benchTime)
	}
	m.submit(worker(8, 4, 0))
	if _, err := m.start(); err != nil {
		return 0, err
	}
	return time.Since(begin).Seconds(), nil
}

func median(values []float64) float64 {
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

func spread(values []float64) string {
	return fmt.Sprintf("median %.4g (%.4g to %.4g, n=%d)", median(values), slices.Min(values), slices.Max(values), len(values))
}

// cpuSeconds is the processor time of this process so far.
func cpuSeconds() float64 { return processor(unix.RUSAGE_SELF) }

// processor time of this process or thread so far, in seconds.
func processor(whose int) float64 {
	var u unix.Rusage
	if err := unix.Getrusage(whose, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// threadTime is the processor time of this thread so far, to the nanosecond: that of processor goes by ticks.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// peakMB is the most memory this process had.
func peakMB() (float64, error) {
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		var kb float64
		if n, _ := fmt.Sscanf(line, "VmHWM: %f kB", &kb); n == 1 {
			return kb * 1024 / 1e6, nil
		}
	}
	return 0, errors.New("no VmHWM of this process")
}
