package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/fermi-cluster/fermi/sched/order"
)

// rival is a policy of the literature. It only counts devices, which flatters it: nothing of its
// cluster is ever fragmented.
type rival struct {
	name string
	// key orders the jobs, the smaller first.
	key func(l *rivalLife, now time.Duration) int64
	// preempts takes the devices of whoever no longer comes first.
	preempts bool
	// blocks stops at the first that does not fit; backfills lets those pass it that end in time.
	blocks, backfills bool
}

var (
	rivalFIFO = rival{name: "FIFO", key: byArrival, blocks: true}
	rivalEASY = rival{name: "EASY backfill with the true durations", key: byArrival, blocks: true, backfills: true}
	rivalLAS  = rival{name: "least attained service (Tiresias)", key: byAttained, preempts: true}
	rivalSSF  = rival{name: "shortest service first with an oracle", key: func(l *rivalLife, _ time.Duration) int64 {
		return int64(l.j.duration/time.Second) * int64(l.j.devices)
	}}
	rivalSRSF = rival{name: "shortest remaining service first with an oracle", preempts: true, key: func(l *rivalLife, now time.Duration) int64 {
		return int64(l.remaining(now)/time.Second) * int64(l.j.devices)
	}}
)

func byArrival(l *rivalLife, _ time.Duration) int64 { return int64(l.j.submit) }

// byAttained is discretized: levels in steps of four, as the planner has.
func byAttained(l *rivalLife, now time.Duration) int64 {
	return int64(order.Level(int64(l.ran(now)/time.Second) * int64(l.j.devices)))
}

type rivalLife struct {
	job   int
	j     *job
	left  time.Duration // when it last started, or while it waits
	done  time.Duration
	began time.Duration
	runs  bool
	order int64 // while it waits: keys of those that wait don't change
}

func (l *rivalLife) ran(now time.Duration) time.Duration {
	if l.runs {
		return l.done + now - l.began
	}
	return l.done
}

func (l *rivalLife) remaining(now time.Duration) time.Duration {
	if l.runs {
		return l.left - (now - l.began)
	}
	return l.left
}

func (l *rivalLife) compare(o *rivalLife) int {
	return cmp.Or(cmp.Compare(l.order, o.order), l.job-o.job)
}

// play runs the jobs to their end. A preempted job loses the time of a restart.
func (p rival) play(jobs []job, devices int) []outcome {
	const quantum = 10 * time.Minute
	out := make([]outcome, len(jobs))
	var waiting, running []*rivalLife // waiting in order
	now, next, done := time.Duration(0), 0, 0
	for done < len(jobs) {
		at := time.Duration(1<<63 - 1)
		if next < len(jobs) {
			at = jobs[next].submit
		}
		for _, l := range running {
			at = min(at, l.began+l.left)
		}
		if p.preempts && len(waiting) > 0 {
			at = min(at, now-now%quantum+quantum)
		}
		now = at
		running = slices.DeleteFunc(running, func(l *rivalLife) bool {
			if l.began+l.left > now {
				return false
			}
			out[l.job].finish = now
			done++
			return true
		})
		wait := func(l *rivalLife) {
			l.order = p.key(l, now)
			k, _ := slices.BinarySearchFunc(waiting, l, (*rivalLife).compare)
			waiting = slices.Insert(waiting, k, l)
		}
		for ; next < len(jobs) && jobs[next].submit <= now; next++ {
			wait(&rivalLife{job: next, j: &jobs[next], left: jobs[next].duration})
		}
		waiting, running = p.serve(now, devices, waiting, running, wait)
	}
	return out
}

func (p rival) serve(now time.Duration, devices int, waiting, running []*rivalLife, _ func(*rivalLife)) (w, r []*rivalLife) {
	start := func(l *rivalLife) {
		l.runs, l.began = true, now
		running = append(running, l)
	}
	if !p.preempts {
		free := devices
		for _, l := range running {
			free -= l.j.devices
		}
		until, spare := time.Duration(-1), 0 // of the reservation of the first that does not fit
		stopped := false
		kept := waiting[:0]
		for i, l := range waiting {
			if free == 0 || stopped && !p.backfills {
				return append(kept, waiting[i:]...), running
			}
			d := l.j.devices
			fits := d <= free
			if fits && stopped {
				fits = now+l.left <= until || d <= spare
			}
			if fits {
				free -= d
				if stopped && now+l.left > until {
					spare -= d
				}
				start(l)
				continue
			}
			if p.blocks && !stopped {
				stopped = true
				until, spare = shadow(now, free, d, running)
			}
			kept = append(kept, l)
		}
		return kept, running
	}
	for _, l := range running {
		l.order = p.key(l, now)
	}
	slices.SortFunc(running, (*rivalLife).compare)
	free := devices
	var keep, starts, stay []*rivalLife
	i, k := 0, 0
	for free > 0 && (i < len(waiting) || k < len(running)) {
		if k < len(running) && (i == len(waiting) || running[k].compare(waiting[i]) < 0) {
			if l := running[k]; l.j.devices <= free {
				free -= l.j.devices
				keep = append(keep, l)
			} else {
				stay = append(stay, l)
			}
			k++
			continue
		}
		if l := waiting[i]; l.j.devices <= free {
			free -= l.j.devices
			starts = append(starts, l)
		}
		i++
	}
	stay = append(stay, running[k:]...)
	if len(starts) > 0 {
		waiting = slices.DeleteFunc(waiting, func(l *rivalLife) bool { return slices.Contains(starts, l) })
	}
	for _, l := range stay {
		l.done, l.left, l.runs = l.ran(now), l.remaining(now)+restart, false
		k, _ := slices.BinarySearchFunc(waiting, l, (*rivalLife).compare)
		waiting = slices.Insert(waiting, k, l)
	}
	running = keep
	for _, l := range starts {
		start(l)
	}
	return waiting, running
}

// shadow is when d devices are free, and how many more are then.
func shadow(now time.Duration, free, d int, running []*rivalLife) (at time.Duration, spare int) {
	ends := slices.Clone(running)
	slices.SortFunc(ends, func(a, b *rivalLife) int { return cmp.Or(cmp.Compare(a.began+a.left, b.began+b.left), a.job-b.job) })
	for _, l := range ends {
		if free += l.j.devices; free >= d {
			return l.began + l.left, free - d
		}
	}
	return now, 0
}
