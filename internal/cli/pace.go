package cli

import (
	"fmt"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
)

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
	d.add("Pace", "训练速度", strings.Join(parts, ", "))
}
