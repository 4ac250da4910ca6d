package recovery

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/restored"
)

// phaseTitles are the phases of a recovery as people read them.
var phaseTitles = map[api.RecoveryPhase]api.Text{
	api.RecoveryDetect: api.T("detect", "发现"), api.RecoveryAttribute: api.T("attribute", "归因"), api.RecoveryPlace: api.T("place", "安排"), api.RecoveryStart: api.T("start", "启动"),
	api.RecoveryRestore: api.T("restore", "恢复状态"), api.RecoveryCatchUp: api.T("catch up", "追赶"),
}

// Sheet is where lines about a task go.
type Sheet struct {
	Lang  string
	Now   time.Time
	Add   func(en, zh, value string)
	Stamp func(time.Time) string // a time as people read it
}

func (s *Sheet) t(en, zh string, args ...any) string { return api.T(en, zh, args...).In(s.Lang) }

// Describe shows what the task's time was spent with, and what failures cost it.
func (s *Sheet) Describe(status *api.TrainingTaskStatus) {
	s.spent(status)
	in := status.Interruptions
	if in == nil {
		return
	}
	var causes []string
	for _, c := range slices.Sorted(maps.Keys(in.Causes)) {
		causes = append(causes, fmt.Sprintf("%s %d", c, in.Causes[c]))
	}
	s.Add("Failures", "故障", fmt.Sprintf("%d (%s)", in.Count, strings.Join(causes, ", ")))
	s.Add("Lost steps", "重算步数", s.lostSteps(in))
	s.Add("Mean time to recover", "平均恢复时间", s.meanRecovery(in))
	for i := range in.Last {
		r := &in.Last[i]
		s.Add("  "+s.Stamp(r.FailedAt), "  "+s.Stamp(r.FailedAt), cmp.Or(r.Cause, "?")+s.guilty(r)+", "+Phases(s.Lang, r.Phases())+s.from(r)+s.lostIn(r))
	}
}

// spent shows how its time was spent; a task that told no steps has an effective time that nobody knows.
func (s *Sheet) spent(status *api.TrainingTaskStatus) {
	if status.Time == nil {
		return
	}
	value := s.t("unknown: it told no steps", "未知：任务未上报步数")
	if ratio, ok := status.EffectiveTime(s.Now); ok {
		value = fmt.Sprintf("%.2f %%", 100*ratio)
	}
	s.Add("Effective time", "有效时间", value)
	now := s.Now
	if status.FinishedAt != nil {
		now = *status.FinishedAt
	}
	spent, _ := status.Time.Until(now)
	var parts []string
	for _, kind := range api.TimeKinds {
		if took := spent[kind]; took > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", timeTitles[kind].In(s.Lang), api.Duration(took.Round(10*time.Millisecond))))
		}
	}
	s.Add("  spent", "  用于", strings.Join(parts, ", "))
}

var timeTitles = map[api.TimeKind]api.Text{
	api.TimeEffective: api.T("effective", "有效训练"), api.TimeStarting: api.T("starting", "启动"), api.TimeRecovering: api.T("recovering", "故障恢复"),
	api.TimeStalled: api.T("stalled", "停滞"), api.TimeAway: api.T("away", "让出位置"), api.TimeStopped: api.T("stopped", "停止"), api.TimeUnknown: api.T("unknown", "未知"),
}

// lostSteps are those that had to be made again, as far as that is known.
func (s *Sheet) lostSteps(in *api.Interruptions) string {
	unknown := restored.Unknown(in)
	switch {
	case unknown == 0:
		return fmt.Sprint(in.LostSteps)
	case in.LostSteps == 0 && in.Untold > 0 && in.Untold == in.Count:
		return s.t("unknown: it told no steps", "未知：任务未上报步数")
	case in.LostSteps == 0 && unknown == in.Count:
		return s.t("unknown: no step was made since", "未知：此后尚无新的一步")
	}
	return s.t("%d, and unknown for %d [failure|failures]", "%d，另有 %d 次故障未知", in.LostSteps, unknown)
}

// from is where the state came from that it went on from.
func (s *Sheet) from(r *api.Recovery) string {
	from := restored.From(r)
	if from.EN == "" {
		return ""
	}
	return s.t(", %s", "，%s", from.In(s.Lang))
}

// lostIn is what one recovery cost in steps, or that it is not known.
func (s *Sheet) lostIn(r *api.Recovery) string {
	switch {
	case r.LostSteps != nil:
		return s.t(", %d [step|steps] lost", "，重算 %d 步", *r.LostSteps)
	case r.EndedAt != nil && r.Step == 0:
		return s.t(", lost steps unknown", "，重算步数未知")
	}
	return ""
}

// guilty is who failed, as far as it is known.
func (s *Sheet) guilty(r *api.Recovery) string {
	switch {
	case r.Node == "":
		return ""
	case r.Rank == nil:
		return api.T(" (on %s)", "（%s）", r.Node).In(s.Lang)
	default:
		return api.T(" (rank %d on %s)", "（%[2]s 上的 rank %[1]d）", *r.Rank, r.Node).In(s.Lang)
	}
}

// meanRecovery is over all that the ranks came back from, by phase, beside the platform's goal.
func (s *Sheet) meanRecovery(in *api.Interruptions) string {
	phases, whole, ok := in.Mean()
	if !ok {
		return s.t("unknown: it was not seen to pass the step that it had reached", "未知：尚未观察到训练超过故障前的步数")
	}
	mark := "<"
	if whole >= api.RecoveryGoal {
		mark = "≥"
	}
	return fmt.Sprintf("%.2f s (%s %s): %s", whole.Seconds(), mark, api.Duration(api.RecoveryGoal), Phases(s.Lang, phases))
}

// Phases is how long each phase of a recovery took, in a line.
func Phases(lang string, took map[api.RecoveryPhase]time.Duration) string {
	var parts []string
	for _, phase := range api.RecoveryPhases {
		if dur, ok := took[phase]; ok {
			parts = append(parts, fmt.Sprintf("%s %.2f s", phaseTitles[phase].In(lang), dur.Seconds()))
		}
	}
	return strings.Join(parts, ", ")
}
