package image

import (
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	kind "github.com/fermi-cluster/fermi/api/v1/image"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// lostRestarts is how often a job begins again whose launcher or node was lost.
const lostRestarts = 3

// Decide is the whole judgement: pure, level-triggered.
func (r *rules) Decide(s *work.Seen, now time.Time) work.Plan {
	res, known := r.result(s.Work.GetMeta().ID)
	return decide(s, res, known, now)
}

func decide(s *work.Seen, res kind.Result, known bool, now time.Time) work.Plan {
	j := s.Work.(*kind.ImageJob)
	policy := &api.RestartPolicy{MaxRestarts: lostRestarts}
	if m := s.Failed(); m != nil && m.Known.Exit != nil && !m.Known.Exit.Lost() {
		policy.MaxRestarts = 0
	}
	status, plan, changed := work.Steady(s, &j.Status.Status, policy, now)
	if !changed {
		return plan
	}
	next := *j
	if !j.Status.Phase.Finished() {
		switch {
		case status.Phase == api.PhaseCompleted && known && res.Found != nil:
			next.Status.Found = res.Found
			status.Message = done(j, res.Found)
		case status.Phase == api.PhaseCompleted:
			code := 1
			status.Phase, status.Reason, status.ExitCode = api.PhaseFailed, "NoResult", &code
			status.Message = fault.T("It ended well but left no result; see its log.", "任务正常结束但没有留下结果；请查看日志。")
		case status.Phase == api.PhaseFailed && known && res.Refused != nil:
			f := res.Refused
			status.Reason = f.Reason
			status.Message = fault.Text{EN: join(f.Message.EN, f.Hint.EN, " "), ZH: join(f.Message.ZH, f.Hint.ZH, "")}
		case status.Phase == api.PhaseFailed && said(s) != (fault.Text{}):
			status.Message = said(s)
		}
		for i := range plan.Events {
			if e := &plan.Events[i]; strings.HasPrefix(e.Once, "end-") {
				e.Warning, e.Reason, e.Message = status.Phase == api.PhaseFailed, string(status.Phase), status.Message
			}
		}
	}
	next.Status.Status = status
	plan.Next = &next
	return plan
}

func join(a, b, by string) string {
	if b == "" {
		return a
	}
	return a + by + b
}

// said is what the launcher says of a replica that did not start.
func said(s *work.Seen) fault.Text {
	if m := s.Failed(); m != nil && m.Known.Exit != nil && m.Known.Exit.Message != "" {
		return fault.Unpack(m.Known.Exit.Message)
	}
	return fault.Text{}
}

// done says what came of it.
func done(j *kind.ImageJob, f *kind.ImageFound) fault.Text {
	switch j.Spec.Do {
	case kind.Inspect:
		return fault.T("Its registry says that it is %s.", "镜像仓库给出的摘要为 %s。", f.Digest)
	case kind.Pull:
		return fault.T("It is on the node: %s.", "已位于节点：%s。", f.Digest)
	}
	return fault.T("Pushed as %s: %s.", "已推送为 %s：%s。", j.Spec.Image, f.Digest)
}
