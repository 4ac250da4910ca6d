package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// overloadCase is a cluster that gets three times as much work as it can do for a week, and half as
// much for the week after.
type overloadCase struct {
	nodes int
	seed  int
	// byUser gives every user a queue.
	byUser bool
	// sustained: not in bursts.
	sustained bool
}

// loadOf is a part of a day with its load, 1 is what the cluster can do.
type loadOf struct {
	from, length time.Duration
	load         float64
}

// day has, in the first week, a burst of three times the capacity in its first eight hours; with
// sustained all day long. The second week is an ordinary one.
func (o overloadCase) day(d int) []loadOf {
	switch {
	case d >= 7:
		return []loadOf{{0, 24 * time.Hour, .5}}
	case o.sustained:
		return []loadOf{{0, 24 * time.Hour, 3}}
	}
	return []loadOf{{0, 8 * time.Hour, 3}, {8 * time.Hour, 16 * time.Hour, .3}}
}

// jobs are heavy-tailed: half of them are over in minutes, one in fifty takes days. A third of the
// users come once and never again, so that nothing is known of them.
func (o overloadCase) jobs() []job {
	rnd := rand.New(rand.NewPCG(uint64(o.seed), uint64(o.nodes)))
	devices := float64(o.nodes * 8)
	sizes := []int{1, 1, 1, 1, 2, 2, 4, 4, 8, 8, 16, o.nodes * 4}
	users := 20 + o.nodes
	scale := make([]float64, users)
	for u := range scale {
		scale[u] = math.Exp(rnd.NormFloat64() * .7)
	}
	var out []job
	const day = 24 * time.Hour
	for d := range 14 {
		for _, part := range o.day(d) {
			want := devices * part.length.Hours() * part.load
			for sum := 0.0; sum < want; {
				user := rnd.IntN(users)
				name := fmt.Sprintf("u%d", user)
				if rnd.IntN(3) == 0 {
					name = fmt.Sprintf("once-%d", len(out))
				}
				at := time.Duration(d)*day + part.from + time.Duration(rnd.Float64()*float64(part.length))
				size := sizes[rnd.IntN(len(sizes))]
				model := fmt.Sprintf("m%d", rnd.IntN(4))
				for range 1 + int(rnd.ExpFloat64()*4) { // one user hands in several alike
					hours := min(.2*scale[user]*math.Exp(rnd.NormFloat64()*1.8), 120)
					length := max(time.Duration(hours*float64(time.Hour)).Round(time.Second), time.Minute)
					out = append(out, job{user: name, model: model, devices: min(size, o.nodes*8), submit: at.Round(time.Second), duration: length})
					sum += length.Hours() * float64(size)
					at += time.Duration(rnd.ExpFloat64() * float64(5*time.Minute))
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b job) int { return int(min(max(a.submit-b.submit, -1), 1)) })
	for i := range out {
		out[i].id = fmt.Sprintf("j%06d", i)
	}
	return out
}

// worstUser is the largest of the users' slowdowns: time from submit to end over time to run, and ten
// minutes count as the least, summed over the jobs of the user.
func worstUser(jobs []job, out []outcome) (float64, string) {
	type sum struct{ took, ran float64 }
	by := map[string]*sum{}
	var names []string
	for i, j := range jobs {
		s := by[j.user]
		if s == nil {
			s = &sum{}
			by[j.user] = s
			names = append(names, j.user)
		}
		s.took += (out[i].finish - j.submit).Minutes()
		s.ran += max(j.duration.Minutes(), 10)
	}
	worst, who := 0.0, ""
	for _, name := range names {
		if x := by[name].took / by[name].ran; x > worst {
			worst, who = x, name
		}
	}
	return worst, who
}

func mindOverload(ctx context.Context, r *report) error {
	cases := []overloadCase{{nodes: 8, seed: 1, sustained: true}, {nodes: 8, seed: 1}, {nodes: 8, seed: 2}, {nodes: 16, seed: 1}, {nodes: 16, seed: 2, byUser: true}, {nodes: 64, seed: 1}}
	if small() {
		cases = cases[:2]
	}
	r.Seeds = []int{1, 2}
	for _, o := range cases {
		jobs := o.jobs()
		title := fmt.Sprintf("%d nodes, seed %d", o.nodes, o.seed)
		if o.sustained {
			title += ", sustained"
		}
		if o.byUser {
			title += ", a queue per user"
		}
		fmt.Printf("%s: %d jobs; minutes\n", title, len(jobs))
		fmt.Printf("%-52s %9s %9s %9s %9s %9s %8s\n", "", "mean JCT", "mean wait", "max wait", "≥8 max", "makespan", "slowdown")
		var las summary
		for _, p := range []rival{rivalFIFO, rivalEASY, rivalLAS, rivalSSF, rivalSRSF} {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			out := p.play(jobs, o.nodes*8)
			s := summarize(jobs, out)
			s.row(p.name, jobs, out)
			if p.name == rivalLAS.name {
				las = s
			}
		}
		begin := time.Now()
		m, err := replay(jobs, chronusCase{nodes: o.nodes, devices: o.nodes * 8, preempt: true, byUser: o.byUser})
		if err != nil {
			return err
		}
		s := summarize(jobs, m.out)
		worst := s.row("Fermi, durations learned", jobs, m.out)
		fmt.Printf("  %d turns in %s, %d evicted, %.1f %% idle while somebody waits; %s\n", m.plans, time.Since(begin).Round(time.Millisecond), m.evicted, 100*m.idleShare(), m.told)
		r.atMost(title+": mean completion over LAS's", s.jct/las.jct, 1.2)
		r.atMost(title+": longest wait of a gang of ≥ 8 over LAS's", s.maxGang/las.maxGang, .6)
		r.atMost(title+": worst user's slowdown", worst, 5)
	}
	return nil
}

func (s summary) row(name string, jobs []job, out []outcome) float64 {
	worst, who := worstUser(jobs, out)
	fmt.Printf("%-52s %9.0f %9.0f %9.0f %9.0f %9.0f %8.1f %s\n", name, s.jct, s.wait, s.maxWait, s.maxGang, s.makespan, worst, who)
	return worst
}
