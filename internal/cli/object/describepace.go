package object

import (
	"fmt"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/show"
)

// describeStragglers names the ranks that the others wait for, with the evidence.
func describeStragglers(s *call.Session, d *show.Sheet, list []api.Straggler) {
	for _, f := range list {
		d.Add("Slow rank", "较慢的 rank", s.T("%d on %s: %.3f s of its own a step, the others %.3f s (over %d [step|steps])", "%d，节点 %s：自身每步 %.3f 秒，其他 rank %.3f 秒（统计 %d 步）",
			f.Rank, f.Node, f.Own.Std().Seconds(), f.Others.Std().Seconds(), f.Steps))
	}
}

// describePace shows how fast a task trains, as far as its ranks tell.
func describePace(s *call.Session, d *show.Sheet, p *api.Pace) {
	if p == nil {
		return
	}
	parts := []string{s.T("step %d, %.3f s a step", "第 %d 步，每步 %.3f 秒", p.Step, p.StepTime.Std().Seconds())}
	if p.SamplesPerSecond > 0 {
		parts = append(parts, s.T("%.1f samples/s", "%.1f 样本/秒", p.SamplesPerSecond))
	}
	if p.TokensPerSecond > 0 {
		parts = append(parts, s.T("%.1f tokens/s", "%.1f token/秒", p.TokensPerSecond))
	}
	if p.FlopsPerSecond > 0 {
		parts = append(parts, fmt.Sprintf("%.2f TFLOPS", p.FlopsPerSecond/1e12))
	}
	if p.MFU > 0 {
		mark := ">"
		if p.MFU <= api.MFUGoal {
			mark = "≤"
		}
		parts = append(parts, fmt.Sprintf("MFU %.1f %% (%s %.0f %%)", 100*p.MFU, mark, 100*api.MFUGoal))
	}
	if p.DataWait > 0 {
		parts = append(parts, s.T("%.1f %% waiting for data", "等待数据 %.1f %%", 100*p.DataWait))
	}
	if p.LossScale > 0 {
		parts = append(parts, s.T("loss scale %.6g, %d [step|steps] skipped", "损失缩放 %.6g，跳过 %d 步", p.LossScale, p.SkippedSteps))
	}
	d.Add("Pace", "训练速度", strings.Join(parts, ", "))
}

var intervalTitles = map[string]api.Text{
	api.MemoryTier: api.T("Saves in memory", "内存保存"), "local": api.T("Saves on disk", "磁盘保存"), "shared": api.T("Saves in the store", "共享存储保存"),
}

// DescribeIntervals says how often a task saves, and why.
func DescribeIntervals(s *call.Session, d *show.Sheet, list []api.SaveInterval) {
	for i := range list {
		title := intervalTitles[list[i].Tier]
		d.Add(title.EN, title.ZH, list[i].Why.In(s.Lang))
	}
}
