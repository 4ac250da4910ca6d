package book_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched/book"
	"github.com/fermi-cluster/fermi/sched/cost"
)

var midnight = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func hours(n int) time.Time { return midnight.Add(time.Duration(n) * time.Hour) }

// daily is a rate with a factor for each hour.
func daily(factors []float64) cost.Daily {
	z := &api.Zone{Meta: api.Meta{Name: "z"}}
	for h, f := range factors {
		z.Spec.Price.Windows = append(z.Spec.Price.Windows, api.PriceWindow{From: fmt.Sprintf("%02d:00", h), To: fmt.Sprintf("%02d:00", (h+1)%24), Factor: f})
	}
	return cost.ZoneOf(z).Daily(cost.Part{Zone: "z", CPU: 1000, Memory: 1 << 30, Thousandths: 8000, DeviceType: "A100"}, false)
}

func drawRate(t *rapid.T) cost.Daily {
	factors := make([]float64, 24)
	for h := range factors {
		factors[h] = float64(rapid.IntRange(1, 8).Draw(t, "factor")) / 4
	}
	return daily(factors)
}

func drawJobs(t *rapid.T) (room map[string]int64, jobs []book.Job) {
	room = map[string]int64{"a": 16, "b": 8}
	rates := map[string]cost.Daily{"a": drawRate(t), "b": drawRate(t), "": drawRate(t)}
	for i := range rapid.IntRange(1, 9).Draw(t, "jobs") {
		j := book.Job{ID: fmt.Sprint(i), Length: time.Duration(rapid.IntRange(1, 6).Draw(t, "length")) * time.Hour, From: midnight, Unit: "CNY"}
		j.Until = hours(rapid.IntRange(-1, 40).Draw(t, "until"))
		for _, place := range rapid.SampledFrom([][]string{{"a"}, {"a", "b"}, {"b"}, {""}}).Draw(t, "places") {
			j.Options = append(j.Options, book.Option{Place: place, Takes: int64(rapid.IntRange(0, 2).Draw(t, "nodes")) * 8, Rates: []cost.Daily{rates[place]}})
		}
		jobs = append(jobs, j)
	}
	return room, jobs
}

// TestNobodyIsBookedBeyondTheRoom: whoever is not late is booked in time, where there is room.
func TestNobodyIsBookedBeyondTheRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room, jobs := drawJobs(t)
		taken := []book.Stay{{Place: "a", From: hours(2), To: hours(5), Takes: 8}}
		starts := book.Plan(room, taken, jobs)
		if again := book.Plan(room, taken, jobs); !reflect.DeepEqual(starts, again) {
			t.Fatalf("%v, and the second time %v", starts, again)
		}
		for h := range 60 {
			used := map[string]int64{}
			for _, s := range taken {
				if !s.From.After(hours(h)) && s.To.After(hours(h)) {
					used[s.Place] += s.Takes
				}
			}
			for i, s := range starts {
				if o := jobs[i].Options[s.Option]; !s.Late && o.Place != "" && !s.At.After(hours(h)) && s.At.Add(jobs[i].Length).After(hours(h)) {
					used[o.Place] += o.Takes
				}
			}
			for place, n := range used {
				if n > room[place] {
					t.Fatalf("at hour %d %d are booked in %s, which has %d", h, n, place, room[place])
				}
			}
		}
		for i, s := range starts {
			j := &jobs[i]
			if s.At.Before(j.From) || s.At.After(j.Until) && !s.At.Equal(j.From) {
				t.Fatalf("%s starts at %s, from %s until %s", j.ID, s.At, j.From, j.Until)
			}
			if got := cost.Over(s.At, s.At.Add(j.Length), j.Options[s.Option].Rates...).Nano(); got != s.Cost {
				t.Fatalf("it costs %d, not %d", got, s.Cost)
			}
		}
	})
}

// TestOneAlone takes its best start, and the first one where that costs hardly more.
func TestOneAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := drawRate(t)
		j := book.Job{ID: "x", Length: time.Duration(rapid.IntRange(1, 300).Draw(t, "minutes")) * time.Minute, From: midnight, Until: hours(30), Options: []book.Option{{Rates: []cost.Daily{rate}}}}
		got := book.Plan(nil, nil, []book.Job{j})[0]
		at, best, _ := cost.Best(j.From, j.Until, j.Length, rate)
		now := cost.Over(j.From, j.From.Add(j.Length), rate).Nano()
		if now-best.Nano() < now/100 || now == best.Nano() {
			at = j.From
		}
		if !got.At.Equal(at) || got.Late {
			t.Fatalf("it starts at %s (%d), want %s (%d, %d now)", got.At, got.Cost, at, best.Nano(), now)
		}
	})
}

// TestTwoWantTheNight: the one that loses more without it gets it, and the other takes the hours beside.
func TestTwoWantTheNight(t *testing.T) {
	factors := make([]float64, 24)
	for h := range factors {
		factors[h] = 1
	}
	factors[3], factors[4], factors[7], factors[8] = .25, .25, .5, .5
	rate := []cost.Daily{daily(factors)}
	job := func(id string, until int) book.Job {
		return book.Job{ID: id, Length: 2 * time.Hour, From: midnight, Until: hours(until), Options: []book.Option{{Place: "a", Takes: 8, Rates: rate}}}
	}
	jobs := []book.Job{job("free", 20), job("tied", 5)}
	starts := book.Plan(map[string]int64{"a": 8}, nil, jobs)
	if !starts[0].At.Equal(hours(7)) || !starts[1].At.Equal(hours(3)) {
		t.Errorf("the one that can wait starts at %s, the other at %s", starts[0].At, starts[1].At)
	}
	if s := book.Plan(map[string]int64{"a": 4}, nil, jobs)[0]; !s.Late || !s.At.Equal(midnight) {
		t.Errorf("one for which there never is room is to start as soon as it can: %+v", s)
	}
}

// TestManyAreBookedInBoundedTime, and nobody beside another.
func TestManyAreBookedInBoundedTime(t *testing.T) {
	factors := make([]float64, 24)
	for h := range factors {
		factors[h] = float64(1+h%5) / 2
	}
	rate := []cost.Daily{daily(factors)}
	var taken []book.Stay
	for i := range 1200 {
		taken = append(taken, book.Stay{Place: "a", From: hours(i%60 - 3), To: hours(i % 60), Takes: 1})
	}
	var jobs []book.Job
	for i := range 16 {
		jobs = append(jobs, book.Job{ID: fmt.Sprint(i), Length: time.Hour, From: midnight, Until: hours(48), Options: []book.Option{{Place: "a", Takes: 10, Rates: rate}}})
	}
	seen := map[time.Time]bool{}
	for _, s := range book.Plan(map[string]int64{"a": 70}, taken, jobs) {
		if s.Late || seen[s.At] {
			t.Fatalf("%+v", s)
		}
		seen[s.At] = true
	}
}
