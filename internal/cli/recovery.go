package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// phaseTitles are the phases of a recovery as people read them.
var phaseTitles = map[api.RecoveryPhase]api.Text{
	api.RecoveryDetect: api.T("detect", "发现"), api.RecoveryAttribute: api.T("attribute", "归因"), api.RecoveryPlace: api.T("place", "安排"), api.RecoveryStart: api.T("start", "启动"),
	api.RecoveryRestore: api.T("restore", "恢复状态"), api.RecoveryCatchUp: api.T("catch up", "追赶"),
}

// describeRecoveries shows what failures cost the task.
func (s *session) describeRecoveries(d *sheetWriter, t *api.TrainingTask) {
	if ratio, ok := t.Status.EffectiveTime(s.clock.Now()); ok && t.Status.Interruptions != nil {
		d.add("Effective time", "有效时间", fmt.Sprintf("%.2f %%", 100*ratio))
	}
	in := t.Status.Interruptions
	if in == nil {
		return
	}
	var causes []string
	for _, c := range slices.Sorted(maps.Keys(in.Causes)) {
		causes = append(causes, fmt.Sprintf("%s %d", c, in.Causes[c]))
	}
	d.add("Failures", "故障", fmt.Sprintf("%d (%s)", in.Count, strings.Join(causes, ", ")))
	d.add("Lost steps", "重算步数", fmt.Sprint(in.LostSteps))
	d.add("Mean time to recover", "平均恢复时间", s.meanRecovery(in))
	for i := range in.Last {
		r := &in.Last[i]
		d.add("  "+stamp(r.FailedAt), "  "+stamp(r.FailedAt), first(r.Cause, "?")+s.guilty(r)+", "+s.phaseLine(r.Phases()))
	}
}

// guilty is who failed, as far as it is known.
func (s *session) guilty(r *api.Recovery) string {
	switch {
	case r.Node == "":
		return ""
	case r.Rank == nil:
		return api.T(" (on %s)", "（%s）", r.Node).In(s.lang)
	default:
		return api.T(" (rank %d on %s)", "（%[2]s 上的 rank %[1]d）", *r.Rank, r.Node).In(s.lang)
	}
}

// meanRecovery is over all that the ranks came back from, by phase, beside the platform's goal.
func (s *session) meanRecovery(in *api.Interruptions) string {
	phases, whole, ok := in.Mean()
	if !ok {
		return ""
	}
	mark := "<"
	if whole >= api.RecoveryGoal {
		mark = "≥"
	}
	return fmt.Sprintf("%.2f s (%s %s): %s", whole.Seconds(), mark, api.Duration(api.RecoveryGoal), s.phaseLine(phases))
}

func (s *session) phaseLine(took map[api.RecoveryPhase]time.Duration) string {
	var parts []string
	for _, phase := range api.RecoveryPhases {
		if dur, ok := took[phase]; ok {
			parts = append(parts, fmt.Sprintf("%s %.2f s", phaseTitles[phase].In(s.lang), dur.Seconds()))
		}
	}
	return strings.Join(parts, ", ")
}
