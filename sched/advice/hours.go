package advice

import (
	"fmt"
	"math"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched/cost"
)

// Hours is the start that a deferrable workload waits for.
type Hours struct {
	For   api.Deferral
	Start time.Time
	// Now and Then are what the whole run comes to if it starts at once and at Start: money in
	// Currency, or grams of CO₂.
	Now, Then cost.Nano
	Currency  string
}

// Explain says that a workload waits for these hours, and why.
func (w Hours) Explain(now time.Time) Explanation {
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
	if w.Then > w.Now-w.Now/100 { // it saves nothing: others wait for better hours, and have the room until then
		ex.Message = api.Text{
			EN: fmt.Sprintf("Booked for %s UTC, for %s: until then the room is booked by others who can wait, too.", at, cost.Amount(w.Then, w.For, w.Currency)),
			ZH: fmt.Sprintf("已预定于 %s（UTC）启动，全程 %s；此前的资源已由其他可推迟的任务预定。", at, cost.Amount(w.Then, w.For, w.Currency)),
		}
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
