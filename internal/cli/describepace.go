package cli

import (
	"fmt"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// describeStragglers names the ranks that the others wait for, with the evidence.
func (s *session) describeStragglers(d *sheetWriter, list []api.Straggler) {
	for _, f := range list {
		d.add("Slow rank", "较慢的 rank", s.t("%d on %s: %.3f s of its own a step, the others %.3f s (over %d [step|steps])", "%d，节点 %s：自身每步 %.3f 秒，其他 rank %.3f 秒（统计 %d 步）",
			f.Rank, f.Node, f.Own.Std().Seconds(), f.Others.Std().Seconds(), f.Steps))
	}
}

// describePace shows how fast a task trains, as far as its ranks tell.
func (s *session) describePace(d *sheetWriter, p *api.Pace) {
	if p == nil {
		return
	}
	parts := []string{s.t("step %d, %.3f s a step", "第 %d 步，每步 %.3f 秒", p.Step, p.StepTime.Std().Seconds())}
	if p.SamplesPerSecond > 0 {
		parts = append(parts, s.t("%.1f samples/s", "%.1f 样本/秒", p.SamplesPerSecond))
	}
	if p.TokensPerSecond > 0 {
		parts = append(parts, s.t("%.1f tokens/s", "%.1f token/秒", p.TokensPerSecond))
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
		parts = append(parts, s.t("%.1f %% waiting for data", "等待数据 %.1f %%", 100*p.DataWait))
	}
	if p.LossScale > 0 {
		parts = append(parts, s.t("loss scale %.6g, %d [step|steps] skipped", "损失缩放 %.6g，跳过 %d 步", p.LossScale, p.SkippedSteps))
	}
	d.add("Pace", "训练速度", strings.Join(parts, ", "))
}
