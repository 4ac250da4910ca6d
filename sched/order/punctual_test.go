package order_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fermi-cluster/fermi/sched/order"
)

// met counts jobs that are in time in an order.
func met(jobs []order.Job, by []int) (n int) {
	at := time.Duration(0)
	for _, i := range by {
		if at += jobs[i].Takes; at <= jobs[i].Due {
			n++
		}
	}
	return n
}

// TestPunctualIsTheBestOrder: no order of all has more in time, and where the usual one has all in time it is kept.
func TestPunctualIsTheBestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		jobs := make([]order.Job, rapid.IntRange(1, 6).Draw(t, "jobs"))
		for i := range jobs {
			jobs[i] = order.Job{
				Takes: time.Duration(rapid.IntRange(1, 9).Draw(t, "takes")), Due: time.Duration(rapid.IntRange(0, 30).Draw(t, "due")),
				Level: rapid.IntRange(1, 4).Draw(t, "level"),
			}
		}
		slices.SortStableFunc(jobs, func(a, b order.Job) int { return int(a.Due - b.Due) })
		by := func(less func(a, b int) int) []int {
			out := make([]int, len(jobs))
			for i := range out {
				out[i] = i
			}
			slices.SortStableFunc(out, less)
			return out
		}
		usual := by(func(a, b int) int { return jobs[a].Level - jobs[b].Level })
		places := order.Punctual(jobs)
		got := by(func(a, b int) int {
			if places[a].Level != places[b].Level {
				return places[a].Level - places[b].Level
			}
			return places[a].Turn - places[b].Turn
		})
		if met(jobs, usual) == len(jobs) && !slices.Equal(got, usual) {
			t.Fatalf("all are in time as %v, and it is %v", usual, got)
		}
		best := 0
		var descend func(done []int)
		descend = func(done []int) {
			if len(done) == len(jobs) {
				best = max(best, met(jobs, done))
			}
			for i := range jobs {
				if !slices.Contains(done, i) {
					descend(append(slices.Clip(done), i))
				}
			}
		}
		descend(nil)
		if n := met(jobs, got); n != best {
			t.Fatalf("%d of %v are in time as %v, the best order has %d", n, jobs, got, best)
		}
	})
}
