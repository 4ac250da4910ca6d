package sched

import (
	"math"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/where"
	"github.com/fermi-cluster/fermi/sched/advice"
)

// held is for one that waits for better hours.
func (x *explainer) held(e *entry) (Explanation, bool) {
	win := e.window
	if e.state == undecided {
		win, _ = WindowOf(x.now, x.c, x.q, e.w)
	}
	if e.state == filed || !win.Start.After(x.now) {
		return Explanation{}, false
	}
	ex := win.Explain(x.now)
	_, paused := x.q.tree.Paused(x.w.Queue)
	if ch := (Change{Kind: advice.ChangeDefer}); !paused && x.admits(Apply(ch, x.w)) {
		ex.Change, ex.Action = ch, ch.Text()
	}
	return ex, true
}

// weighed says by what the zones are compared that have room, where the user or the queue said it.
func weighed(zones []*zone, w *Workload) []Evidence {
	if w.Weigh == (where.Weights{}) || len(zones) < 2 {
		return nil
	}
	by := w.Weigh.Text()
	return []Evidence{{Fact: "ZonesWeighed", Text: api.T("zones that it may use, of those with room the best by %[1]s", "个可用区可供选择；有空位时按权重（%[2]s）取最优", by.EN, by.ZH), Count: len(zones)}}
}

// homing is for one that waits for room where its data lies.
func (x *explainer) homing(e *entry) Explanation {
	ch := Change{Kind: advice.ChangeData}
	minutes := func(d time.Duration) int { return int(math.Ceil(d.Minutes())) }
	moving, wait := minutes(e.home.moving), max(minutes(e.home.start.Sub(x.now)), 0)
	return Explanation{
		Reason: advice.ReasonData,
		Message: api.T("To move its data where there is room takes %d minutes; room beside the data is expected in %d.",
			"将数据搬运到有空位的可用区需 %d 分钟；数据所在可用区预计 %d 分钟后有空位。", moving, wait),
		Evidence: []Evidence{
			{Fact: "MinutesToMove", Text: api.T("minutes to move its data", "分钟用于搬运数据"), Count: moving},
			{Fact: "MinutesToWait", Text: api.T("minutes until room is expected beside it", "分钟后数据所在可用区预计有空位"), Count: wait},
		},
		Change: ch, Action: ch.Text(), Start: e.home.start, Early: x.now, Late: e.home.until,
	}
}
