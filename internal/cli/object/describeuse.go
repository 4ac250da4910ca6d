package object

import (
	"fmt"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/show"
)

// describeUse shows what a task uses, beside the platform's goals.
func describeUse(s *call.Session, d *show.Sheet, u *api.Use) {
	if u == nil {
		return
	}
	parts := []string{s.T("%.2f cores", "%.2f 核", u.Cores)}
	if u.CPUUse > 0 {
		parts[0] += fmt.Sprintf(" (%.0f %%)", 100*u.CPUUse)
	}
	parts = append(parts, s.T("memory %s", "内存 %s", show.Size(int64(u.Memory))))
	if u.Devices > 0 {
		mark := ">"
		if u.DeviceUse <= api.DeviceUseGoal {
			mark = "≤"
		}
		parts = append(parts, s.T("%d [device|devices] %.1f %% (%s %.0f %%), %s of %s", "%d 张加速卡 %.1f %%（%s %.0f %%），显存 %s / %s",
			u.Devices, 100*u.DeviceUse, mark, 100*api.DeviceUseGoal, show.Size(int64(u.DeviceMemory)), show.Size(int64(u.DeviceTotal))))
	}
	if u.CrossZone > 0 {
		parts = append(parts, s.T("between zones ≈%s/s, estimated", "跨可用区约 %s/秒（估算）", show.Size(int64(u.CrossZone))))
	}
	d.Add("Use", "使用情况", strings.Join(parts, ", "))
	if u.Saves > 0 {
		d.Add("Checkpoints", "检查点", s.T("%d of %d whole (%.1f %%)", "%d / %d 完整（%.1f %%）", u.WholeSaves, u.Saves, 100*float64(u.WholeSaves)/float64(u.Saves)))
	}
	if c := u.Scaling; c != nil {
		d.Add("Scaling", "扩展效率", s.T("%.1f %% with %d [rank|ranks], against %d of %s", "%.1f %%（%d 个 rank，对比 %d 个 rank 的 %s）", 100*c.Efficiency, u.Ranks, c.BaseRanks, c.BaseTask))
	}
}

// describeKept shows what a project keeps, of what it may.
func describeKept(s *call.Session, d *show.Sheet, p *api.Project) {
	u, l := p.Status.Usage, p.StorageLimits()
	if u == nil {
		return
	}
	of := func(used, most any) string { return fmt.Sprint(used) + s.T(" of ", " / ") + fmt.Sprint(most) }
	d.Add("Logs", "日志", of(u.Logs, l.Logs))
	d.Add("Outputs", "产出", of(u.Outputs, l.Outputs))
	d.Add("Archives", "代码包", of(u.Archives, l.Archives))
	d.Add("Checkpoints", "检查点", of(u.Checkpoints, l.Checkpoints))
	d.Add("Images on a node", "每节点镜像", of(u.Images, l.Images))
	d.Add("Tasks", "任务", of(u.Objects, l.Objects))
	d.Add("Secrets", "密钥", of(u.Secrets, l.Secrets))
	d.Add("Highest priority", "最高优先级", fmt.Sprint(p.TopPriority(api.KindTrainingTask)))
}
