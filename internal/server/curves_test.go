package server

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/server/train"
)

type curveAnswer struct {
	Items []train.Curve `json:"items"`
	Left  int           `json:"left"`
}

// TestCurves: two generations of two ranks, where the second made steps 60 to 80 again; one value is none, one peak is narrow.
func TestCurves(t *testing.T) {
	w := newWorld(t)
	task := w.submit("gpt")
	began := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	add := func(attempt int, generation int64, from, to int64) {
		b := history.Batch{TaskID: task.Meta.ID, Replica: fmt.Sprintf("%s-worker-0-%d", task.Meta.ID, attempt), Seq: 1, Dropped: 3}
		for rank := range 2 {
			var list []history.Point
			for step := from; step <= to; step++ {
				value := float64(generation)*1000 + float64(step)
				switch {
				case step == 70 && generation == 2:
					value = math.NaN()
				case step == 33:
					value = 1e9
				}
				list = append(list, history.Point{Time: began.Add(time.Duration(generation)*time.Hour + time.Duration(step)*time.Second), Step: step, Value: value})
			}
			b.Lines = append(b.Lines, history.Line{Name: "loss", Rank: rank, Generation: generation, Points: list})
		}
		b.Lines = append(b.Lines, history.Line{Name: "system/cpu", Rank: history.OfReplica, Generation: generation, Points: []history.Point{{Time: began, Step: from, Value: 1}}})
		must(t, w.history.AddPoints(context.Background(), b))
	}
	add(1, 1, 1, 80)
	add(2, 2, 60, 100)

	var list struct {
		Items   []train.CurveName `json:"items"`
		Dropped int64             `json:"dropped"`
	}
	w.ok("GET", "/api/v1/training-tasks/gpt/metrics", nil, &list)
	want := []train.CurveName{{Name: "loss", Ranks: []int{0, 1}, Replicas: []string{"worker-0"}, Generations: []int64{1, 2}}, {Name: "system/cpu", Replicas: []string{"worker-0"}, Generations: []int64{1, 2}}}
	if diff := cmp.Diff(want, list.Items); diff != "" || list.Dropped != 6 {
		t.Fatal(diff, list.Dropped)
	}

	read := func(query string, curves int) curveAnswer {
		t.Helper()
		var got curveAnswer
		w.ok("GET", "/api/v1/training-tasks/gpt/metrics/points"+query, nil, &got)
		if len(got.Items) != curves {
			t.Fatalf("%s: %d curves", query, len(got.Items))
		}
		for _, c := range got.Items {
			if len(c.Steps) != len(c.Values) || len(c.Times) != len(c.Values) {
				t.Fatalf("%s: %d steps, %d times, %d values", query, len(c.Steps), len(c.Times), len(c.Values))
			}
		}
		return got
	}
	// Steps that were made again are those of the last time.
	c := read("?name=loss", 1).Items[0]
	if *c.Rank != 0 || c.Role != "worker" || c.Generation != 2 || c.Total != 100 || len(c.Steps) != 100 {
		t.Fatalf("%+v", c)
	}
	for i, step := range c.Steps {
		value := 1000 + float64(step)
		switch {
		case step == 33:
			value = 1e9
		case step >= 60:
			value += 1000
		}
		if step != int64(i+1) || step != 70 && *c.Values[i] != value {
			t.Fatalf("at %d: step %d", i, step)
		}
	}
	if diff := cmp.Diff([]train.NotFinite{{At: 69, Is: "NaN"}}, c.NotFinite); diff != "" || c.Values[69] != nil {
		t.Fatal(diff)
	}
	if c.Times[99] != began.Add(2*time.Hour+100*time.Second).UnixMilli() {
		t.Fatal(c.Times[99])
	}
	// Few points still have the peak and the hole.
	c = read("?name=loss&points=12", 1).Items[0]
	peak := false
	for _, v := range c.Values {
		peak = peak || v != nil && *v == 1e9
	}
	if len(c.Steps) > 14 || c.Total != 100 || !peak || len(c.NotFinite) != 1 || c.Steps[0] != 1 || c.Steps[len(c.Steps)-1] != 100 {
		t.Fatalf("%+v", c)
	}
	// All generations, one of them, all ranks, spans, time.
	if got := read("?name=loss&generation=all", 2).Items; got[0].Total != 80 || got[1].Total != 41 {
		t.Fatal(got[0].Total, got[1].Total)
	}
	if got := read("?name=loss&generation=1&rank=1", 1).Items[0]; got.Total != 80 || *got.Rank != 1 {
		t.Fatal(got.Total)
	}
	read("?rank=all", 3)
	read("?name=system/cpu&replica=worker-0", 1)
	read("?name=system/cpu&replica=worker-7", 0)
	read("?name=nothing", 0)
	if got := read("?name=loss&fromStep=50&toStep=65", 1).Items[0]; got.Total != 16 || *got.Values[9] != 1059 || *got.Values[10] != 2060 {
		t.Fatalf("%+v", got)
	}
	if got := read("?name=loss&fromStep=61&toStep=65", 1).Items[0]; got.Total != 5 || *got.Values[0] != 2061 {
		t.Fatalf("%+v", got)
	}
	if got := read("?name=loss&by=time", 1).Items[0]; got.Total != 121 { // what happened, happened
		t.Fatal(got.Total)
	}
	if got := read("?name=loss&by=time&since=2026-05-04T05:03:41Z", 1).Items[0]; got.Total != 1 || got.Steps[0] != 100 {
		t.Fatalf("%+v", got)
	}
	w.refused("GET", "/api/v1/training-tasks/gpt/metrics/points?rank=x", nil, 400, "InvalidField")
	w.refused("GET", "/api/v1/training-tasks/gpt/metrics/points?generation=0", nil, 400, "InvalidField")
	w.refused("GET", "/api/v1/training-tasks/other/metrics", nil, 404, "NotFound")
}

// TestLongCurves: a picture of a long curve is made of outlines, and one of a part of it of points; both have every peak and hole.
func TestLongCurves(t *testing.T) {
	w := newWorld(t)
	task := w.submit("long")
	began := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	const n = 60_000
	step := int64(0)
	for seq := int64(1); step < n; seq++ {
		var list []history.Point
		for range 1000 {
			step++
			p := history.Point{Time: began.Add(time.Duration(step) * time.Second), Step: step, Value: math.Sin(float64(step))}
			switch step {
			case 33_333:
				p.Value = 1e9
			case 44_444:
				p.Value = math.NaN()
			}
			list = append(list, p)
		}
		must(t, w.history.AddPoints(context.Background(), history.Batch{TaskID: task.Meta.ID, Replica: task.Meta.ID + "-worker-0-1", Seq: seq, Lines: []history.Line{{Name: "loss", Generation: 1, Points: list}}}))
	}
	for query, total := range map[string]int64{"&points=500": n, "&points=500&by=time": n, "&points=500&fromStep=1001&toStep=59000": 58_000, "&points=100&fromStep=33000&toStep=45000": 12_001, "&points=20000": n} {
		var got curveAnswer
		w.ok("GET", "/api/v1/training-tasks/long/metrics/points?name=loss"+query, nil, &got)
		c := got.Items[0]
		peak, low, high := false, 0, 0
		for i, v := range c.Values {
			if i > 0 && c.Steps[i] <= c.Steps[i-1] {
				t.Fatalf("%s: step %d after %d", query, c.Steps[i], c.Steps[i-1])
			}
			switch {
			case v == nil:
			case *v == 1e9:
				peak = c.Steps[i] == 33_333
			case *v < -0.999:
				low++
			case *v > 0.999:
				high++
			}
		}
		if c.Total != total || !peak || len(c.NotFinite) != 1 || c.NotFinite[0].Is != "NaN" || c.Steps[c.NotFinite[0].At] != 44_444 || low < 20 || high < 20 || len(c.Steps) > 20_000 {
			t.Errorf("%s: total %d, peak %v, %v, %d low, %d high, %d points", query, c.Total, peak, c.NotFinite, low, high, len(c.Steps))
		}
	}
}
