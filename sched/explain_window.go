package sched

import (
	"fmt"
	"math"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched/cost"
)

// held is for one that waits for better hours.
func (x *explainer) held(e *entry) (Explanation, bool) {
	win := e.window
	if e.state == undecided {
		win, _ = x.q.window(x.now, x.c, e.w)
	}
	if e.state == filed || !win.Start.After(x.now) {
		return Explanation{}, false
	}
	ex := win.Explain(x.now)
	_, paused := x.q.tree.Paused(x.w.Queue)
	if ch := (Change{Kind: ChangeDefer}); !paused && x.admits(ch.Apply(x.w)) {
		ex.Change, ex.Action = ch, ch.Text()
	}
	return ex, true
}

// Explain says that a workload waits for these hours, and why.
func (w Window) Explain(now time.Time) Explanation {
	ex := Explanation{
		Reason: ReasonWindow, Start: w.Start, Early: w.Start, Late: w.Start,
		Action: api.T("Wait until then, or submit it without spec.deferrable.", "等到该时段，或去掉 spec.deferrable 重新提交。"),
	}
	at := w.Start.UTC().Format("2006-01-02 15:04")
	en, zh := "cheap", "低价"
	if w.For == api.DeferGreen {
		en, zh = "green", "低碳"
	}
	ex.Message = api.Text{
		EN: fmt.Sprintf("Waiting for the %s window: %s if it started now, %s if it starts at %s UTC.", en, cost.Amount(w.Now, w.For, w.Currency), cost.Amount(w.Then, w.For, w.Currency), at),
		ZH: fmt.Sprintf("等待%s时段：现在启动需 %s，%s（UTC）启动需 %s。", zh, cost.Amount(w.Now, w.For, w.Currency), at, cost.Amount(w.Then, w.For, w.Currency)),
	}
	unit := w.Currency
	if w.For == api.DeferGreen {
		unit = "g CO₂"
	}
	ex.Evidence = []Evidence{
		{Fact: "Now", Text: api.T("%s for the whole run if it started now", "%s，若现在启动（全程）", unit), Count: w.Now.Whole()},
		{Fact: "Then", Text: api.T("%s for the whole run in the window", "%s，若在该时段启动（全程）", unit), Count: w.Then.Whole()},
		{Fact: "Minutes", Text: api.T("minutes until then", "分钟后开始"), Count: int(math.Ceil(w.Start.Sub(now).Minutes()))},
	}
	return ex
}

// homing is for one that waits for room where its data lies.
func (x *explainer) homing(e *entry) Explanation {
	ch := Change{Kind: ChangeData}
	minutes := func(d time.Duration) int { return int(math.Ceil(d.Minutes())) }
	moving, wait := minutes(e.home.moving), max(minutes(e.home.start.Sub(x.now)), 0)
	return Explanation{
		Reason: ReasonData,
		Message: api.T("To move its data where there is room takes %d minutes; room beside the data is expected in %d.",
			"将数据搬运到有空位的可用区需 %d 分钟；数据所在可用区预计 %d 分钟后有空位。", moving, wait),
		Evidence: []Evidence{
			{Fact: "MinutesToMove", Text: api.T("minutes to move its data", "分钟用于搬运数据"), Count: moving},
			{Fact: "MinutesToWait", Text: api.T("minutes until room is expected beside it", "分钟后数据所在可用区预计有空位"), Count: wait},
		},
		Change: ch, Action: ch.Text(), Start: e.home.start, Early: x.now, Late: e.home.until,
	}
}
