package growth

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/spot"
	"github.com/fermi-cluster/fermi/api/v1/where"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine/kubeengine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/sched"
	"github.com/fermi-cluster/fermi/sched/advice"
)

func gang(id string, replicas int, rules *api.ZoneRules) *api.TrainingTask {
	t := &api.TrainingTask{Meta: api.Meta{ID: id, Name: id, Owner: "li"}}
	t.Spec.Roles = []api.Role{{Name: "worker", Replicas: replicas, Resources: api.Resources{CPU: 1000, Accelerators: api.Accelerators{Count: 8}}}}
	t.Spec.Zones = rules
	return t
}

// TestShare: who lacks room is asked for as a whole, in the first zone that its rules leave; who waits for something else, or would not be helped, is not.
func TestShare(t *testing.T) {
	shared := gang("part", 1, nil)
	shared.Spec.Roles[0].Resources.Accelerators = api.Accelerators{Count: 1, Share: 500}
	low := 2
	elastic := gang("elastic", 4, nil)
	elastic.Spec.Roles[0].MinReplicas = &low
	why := map[string]string{"paused": advice.ReasonQueuePaused, "about to start": advice.ReasonScheduling, "too large": advice.ReasonNeverFits}
	tasks := []*api.TrainingTask{
		gang("first", 2, nil), gang("paused", 1, nil), gang("about to start", 1, nil), gang("too large", 3, &api.ZoneRules{Deny: []string{"k1"}}), gang("hosts only", 1, &api.ZoneRules{Allow: []string{"h"}}),
		gang("split", 2, &api.ZoneRules{Split: where.Split{"k1": where.Exactly(1), "k2": where.Exactly(1)}}), gang("two zones", 2, &api.ZoneRules{SurviveZoneLoss: true}), shared, elastic, gang("huge", maxReplicas+1, nil),
		gang("spot", 1, &api.ZoneRules{Spot: spot.Only}), gang("gone", 1, nil),
	}
	var list []*api.Workload
	for _, task := range tasks {
		w := task.Workload()
		list = append(list, &w)
	}
	got := map[string]string{}
	for _, a := range share(list, []string{"k1", "k2"}, func(id string) (sched.Explanation, bool) {
		reason := why[id]
		if reason == "" {
			reason = advice.ReasonDevicesBusy
		}
		return sched.Explanation{Reason: reason}, id != "gone"
	}) {
		got[a.work.Meta.ID] = fmt.Sprintf("%s %d %s", a.zone, len(a.list), a.list[0].Spot)
	}
	want := map[string]string{"first": "k1 2 ", "too large": "k2 3 ", "elastic": "k1 2 ", "spot": "k1 1 only"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestShareIsBounded: a backlog asks for so many at a time, the oldest first.
func TestShareIsBounded(t *testing.T) {
	var list []*api.Workload
	for i := range 100 {
		task := gang(fmt.Sprintf("t%03d", i), 20, nil)
		task.Meta.CreatedAt = time.Unix(int64(i), 0)
		w := task.Workload()
		list = append(list, &w)
	}
	asks := 0
	out := share(list, []string{"k1"}, func(string) (sched.Explanation, bool) {
		asks++
		return sched.Explanation{Reason: advice.ReasonNodesFull}, true
	})
	if len(out) != maxReplicas/20 || asks > maxGangs || out[0].work.Meta.ID != "t000" {
		t.Errorf("%d gangs after %d questions", len(out), asks)
	}
}

// TestSpare: what is too large for the cluster is not refused where a zone grows that it may use; all other refusals stand.
func TestSpare(t *testing.T) {
	refuse := func(reason string) func(context.Context, api.Work, int64) error {
		return func(context.Context, api.Work, int64) error {
			return fault.New(fault.Invalid, reason, fault.T("No.", "不行。"))
		}
	}
	for _, c := range []struct {
		reason string
		rules  *api.ZoneRules
		grow   []string
		want   bool
	}{
		{advice.ReasonNeverFits, nil, []string{"k1"}, true},
		{advice.ReasonNeverFits, &api.ZoneRules{Allow: []string{"k1"}}, []string{"k1"}, true},
		{advice.ReasonNeverFits, &api.ZoneRules{Allow: []string{"h"}}, []string{"k1"}, false},
		{advice.ReasonNeverFits, nil, nil, false},
		{advice.ReasonQueueLimit, nil, []string{"k1"}, false},
		{advice.ReasonNoZone, nil, []string{"k1"}, false},
	} {
		err := Spare(c.grow, refuse(c.reason))(t.Context(), gang("t", 1, c.rules), 0)
		if (err == nil) != c.want {
			t.Errorf("%s in %v with %+v: %v", c.reason, c.grow, c.rules, err)
		}
	}
	if !slices.Contains(lacksRoom, advice.ReasonNeverFits) {
		t.Error("who fits nowhere lacks no room")
	}
}

// told is a cluster that notes what it was asked for, and can't be reached the first time.
type told struct {
	asked chan int
	away  bool
}

func (c *told) Want(_ context.Context, wishes []kubeengine.Wish) error {
	c.asked <- len(wishes)
	if c.away {
		c.away = false
		return fault.New(fault.Unavailable, "ClusterUnreachable", fault.T("Away.", "无法访问。"))
	}
	return nil
}

// TestTakenBack: from a cluster that grows no more everything is taken back, once it answers, and then it is left alone.
func TestTakenBack(t *testing.T) {
	c := &told{asked: make(chan int), away: true}
	clk := clock.NewFake(time.Unix(0, 0))
	g := &Growth{Others: map[string]asker{"k": c}, Clock: clk, Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	for range 2 {
		for waiting := true; waiting; {
			select {
			case n := <-c.asked:
				if waiting = false; n != 0 {
					t.Errorf("%d wishes", n)
				}
			default:
				clk.Advance(every)
				runtime.Gosched()
			}
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
