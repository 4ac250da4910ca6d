package sched_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// What is learned late counts as if it had been known before: the same ones start, in the same order.
func TestLearnedLate(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		early, late := newStage(t, 2, 4), newStage(t, 2, 4)
		var act []func(*stage)
		for range rapid.IntRange(0, 30).Draw(rt, "runs") {
			user, name := rapid.SampledFrom([]string{"u", "v"}).Draw(rt, "user"), rapid.SampledFrom([]string{"m", "n"}).Draw(rt, "name")
			ran := time.Duration(rapid.IntRange(1, 1<<20).Draw(rt, "ran")) * time.Second
			act = append(act, func(s *stage) { s.q.LearnRun(user, name, 1, ran, 0) })
		}
		type before struct {
			ran     time.Duration
			evicted int
		}
		past := map[string]before{}
		var add []func(*stage)
		for i := range rapid.IntRange(1, 20).Draw(rt, "waiting") {
			id := fmt.Sprintf("w%02d", i)
			user, name := rapid.SampledFrom([]string{"u", "v"}).Draw(rt, "user"), rapid.SampledFrom([]string{"m", "n"}).Draw(rt, "name")
			ago := time.Duration(rapid.IntRange(0, 1<<16).Draw(rt, "ago")) * time.Second
			if rapid.Bool().Draw(rt, "before") {
				past[id] = before{time.Duration(rapid.IntRange(1, 1<<16).Draw(rt, "ran")) * time.Second, 1}
			}
			add = append(add, func(s *stage) {
				w := s.task(id, 500, 1, 1)
				w.User, w.Name, w.Submitted = user, name, s.now.Add(-ago)
				s.q.Add(w)
			})
		}
		for id, p := range past {
			early.q.SetPast(id, p.ran, p.evicted)
		}
		for _, f := range append(slices.Clone(act), add...) {
			f(early)
		}
		for _, f := range append(slices.Clone(add), act...) {
			f(late)
		}
		for id, p := range past {
			late.q.Remember(id, p.ran, p.evicted)
		}
		for i := range add {
			late.q.Refile(fmt.Sprintf("w%02d", i))
		}
		late.q.Refile("nobody")
		for range 6 { // eight start at a time, and end
			a, b := ids(early.plan()), ids(late.plan())
			if !slices.Equal(a, b) {
				rt.Fatalf("%v, learned late %v", a, b)
			}
			for _, s := range []*stage{early, late} {
				s.pass(time.Minute)
				for _, id := range a {
					s.end(id)
				}
			}
		}
	})
}
