package cli

import (
	"fmt"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// describeUse shows what a task uses, beside the platform's goals.
func (s *session) describeUse(d *sheetWriter, u *api.Use) {
	if u == nil {
		return
	}
	parts := []string{s.t("%.2f cores", "%.2f 核", u.Cores)}
	if u.CPUUse > 0 {
		parts[0] += fmt.Sprintf(" (%.0f %%)", 100*u.CPUUse)
	}
	parts = append(parts, s.t("memory %s", "内存 %s", size(int64(u.Memory))))
	if u.Devices > 0 {
		mark := ">"
		if u.DeviceUse <= api.DeviceUseGoal {
			mark = "≤"
		}
		parts = append(parts, s.t("%d [device|devices] %.1f %% (%s %.0f %%), %s of %s", "%d 张加速卡 %.1f %%（%s %.0f %%），显存 %s / %s",
			u.Devices, 100*u.DeviceUse, mark, 100*api.DeviceUseGoal, size(int64(u.DeviceMemory)), size(int64(u.DeviceTotal))))
	}
	if u.CrossZone > 0 {
		parts = append(parts, s.t("between zones ≈%s/s, estimated", "跨可用区约 %s/秒（估算）", size(int64(u.CrossZone))))
	}
	d.add("Use", "使用情况", strings.Join(parts, ", "))
	if u.Saves > 0 {
		d.add("Checkpoints", "检查点", s.t("%d of %d whole (%.1f %%)", "%d / %d 完整（%.1f %%）", u.WholeSaves, u.Saves, 100*float64(u.WholeSaves)/float64(u.Saves)))
	}
	if c := u.Scaling; c != nil {
		d.add("Scaling", "扩展效率", s.t("%.1f %% with %d [rank|ranks], against %d of %s", "%.1f %%（%d 个 rank，对比 %d 个 rank 的 %s）", 100*c.Efficiency, u.Ranks, c.BaseRanks, c.BaseTask))
	}
}
