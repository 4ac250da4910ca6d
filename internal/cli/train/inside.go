package train

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/object"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// within has a task run inside others: with a replica in each, and what they have.
func (r *runFlags) within(cmd *cobra.Command, t *api.TrainingTask, bad *usage.Faults) {
	if len(r.inside) == 0 {
		return
	}
	for _, flag := range []string{"replicas", "gpus", "gpu-type", "cpu", "memory", "zone"} {
		if cmd.Flags().Changed(flag) {
			bad.Add("--"+flag, fault.T("Inside others a task has what they have; leave it out.", "在其他任务内运行时使用其资源，请去掉该参数。"))
		}
	}
	t.Spec.Inside, t.Spec.Roles[0].Replicas = r.inside, len(r.inside)
	if r.code == "" && r.git.URL == "" {
		r.noCode = true
	}
}

// tellInside shows what the tasks to run inside are together, and what is unwise about them.
func tellInside(ctx context.Context, s *call.Session, t *api.TrainingTask) error {
	if len(t.Spec.Inside) == 0 {
		return nil
	}
	p, err := s.Client.PreviewExisting(ctx, t.Meta.Project, api.ExistingRequest{
		TaskName: t.Meta.DisplayName, LaunchMode: "existing", Command: slices.Concat(t.Spec.Roles[0].Command, t.Spec.Roles[0].Args),
		Distributed: api.Distributed{Enabled: true, NodeIDs: t.Spec.Inside, Framework: api.FrameworkPlain},
	})
	if err != nil {
		return err
	}
	var sums []string
	for _, kind := range slices.Sorted(maps.Keys(p.Devices)) {
		sums = append(sums, object.Devices(map[string]int{kind: p.Devices[kind]}))
	}
	sums = append(sums, "CPU "+p.TotalCPUs.String(), s.T("memory ", "内存 ")+p.TotalMemory.String())
	s.Say("Inside %d running tasks in %s, %s first: %s.", "在 %d 个运行中的任务内（%s），主节点 %s：%s。", p.NodeCount, strings.Join(p.Zones, ", "), p.MasterNode, strings.Join(sums, ", "))
	made, err := s.Client.Recipe(ctx, t)
	if err != nil {
		return err
	}
	s.Say("%d [process|processes] in all.", "共 %d 个进程。", made.RankCount)
	for _, w := range p.Warnings {
		s.Say("Warning: %s", "警告：%s", w.In(s.Lang))
	}
	return nil
}
