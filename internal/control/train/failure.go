package train

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/diagnose"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// firstFailure is the earliest end that was not a success and not ours. A replica that was told to
// go and is unknown to the engine was lost with its machine's memory of it.
func (s *seen) firstFailure(ordered bool) *api.ReplicaFailure {
	var first *api.ReplicaFailure
	for i := range s.members {
		m := &s.members[i]
		if m.state == "" && ordered {
			return failureOf(m, &engine.Exit{Code: -1, Reason: engine.ReasonLauncherLost, Message: "its folder is gone"})
		}
		if !m.ended() || m.exit == nil || m.exit.Reason == engine.ReasonSucceeded {
			continue
		}
		f := failureOf(m, m.exit)
		f.Generation = s.task.Status.Generation
		if first == nil || earlier(f, first) {
			first = f
		}
	}
	return first
}

func failureOf(m *member, e *engine.Exit) *api.ReplicaFailure {
	return diagnosed(&api.ReplicaFailure{
		Replica: string(m.name), Role: m.role, Index: m.index, Node: m.node, Rank: e.Rank,
		ExitCode: e.Code, Signal: e.Signal, Reason: e.Reason, Message: reasonText(m, e), At: e.At,
	}, e, m.ranks > 1)
}

func reasonText(m *member, e *engine.Exit) fault.Text {
	who := m.role + "-" + itoa(m.index)
	switch e.Reason {
	case engine.ReasonNonZero:
		return fault.T("%s ended with exit code %d.", "%s 以退出码 %d 结束。", who, e.Code)
	case engine.ReasonSignaled:
		return fault.T("%s was killed by %s.", "%s 被 %s 终止。", who, e.Signal)
	case engine.ReasonOutOfMemory:
		return fault.T("%s used more memory than it asked for and was killed.", "%s 内存超限，已被终止。", who)
	case engine.ReasonProcessLimit:
		why := fault.Unpack(e.Message)
		return fault.T("%[1]s could make no more processes and ended with exit code %[2]d. %[3]s", "%[1]s 无法再创建进程，以退出码 %[2]d 结束。%[4]s", who, e.Code, why.EN, why.In("zh"))
	case engine.ReasonDiskLimit:
		why := fault.Unpack(e.Message)
		return fault.T("%[1]s kept more on disk than it may and was ended. %[2]s", "%[1]s 磁盘用量超限，已被结束。%[3]s", who, why.EN, why.In("zh"))
	case engine.ReasonTimedOut:
		return fault.T("%s ran longer than its time limit.", "%s 运行超时。", who)
	case engine.ReasonLauncherLost:
		return fault.T("The launcher of %s was killed; its processes were ended.", "%s 的启动器被杀死，其进程已结束。", who)
	case engine.ReasonLeftEarly:
		return fault.T("%s ended with exit code 0 while other ranks still needed it.", "%s 以退出码 0 结束，而其他 rank 仍需要它。", who)
	case engine.ReasonStartFailed:
		why := fault.Unpack(e.Message)
		return fault.Text{EN: who + " could not be started: " + why.EN, ZH: who + " 无法启动：" + why.In("zh")}
	case diagnose.ReasonHung:
		return fault.T("%s made no progress after step %d while others waited for it.", "%s 在第 %d 步之后没有进展，其他进程在等待它。", who, e.Step)
	case diagnose.ReasonStopped:
		return fault.T("A process of %s was stopped after step %d and did not go on.", "%s 的进程在第 %d 步之后被暂停且未恢复。", who, e.Step)
	case engine.ReasonStopped:
		return fault.T("%s was stopped.", "%s 被停止。", who)
	}
	return fault.T("%s ended: %s", "%s 已结束：%s", who, e.Reason)
}

// failing ends the attempt, then restarts within the budget or fails.
func (s *seen) failing(p *plan, now time.Time, fail *api.ReplicaFailure) {
	fail = s.settle(p, now, fail, "fail-"+fail.Replica)
	recent, left := s.budget(p, now)
	again := fail.Action != string(diagnose.Stop) && (left > 0 || swapping(p))
	who := s
	if !again {
		who = s.all() // the end of the task
	}
	if !who.endAll(p) {
		if p.status.Phase == api.PhaseRunning || p.status.Phase == api.PhaseInitializing {
			p.to(api.PhaseRecovering, fail.Reason, fail.Message)
		}
		return
	}
	p.usage = true
	if again && s.away(p, now, recent, fail) {
		return
	}
	if again {
		s.restart(p, now, recent, fail)
		return
	}
	code := exitCode(fail)
	p.status.ExitCode = &code
	message := fail.Message
	if fail.Action != string(diagnose.Stop) {
		message = s.usedUp(message, len(recent))
	}
	s.finish(p, now, api.PhaseFailed, fail.Reason, message)
}

// restart begins the next attempt on the same placement.
func (s *seen) restart(p *plan, now time.Time, recent []time.Time, fail *api.ReplicaFailure) {
	if !swapping(p) { // that was counted
		p.status.Restarts = append(recent, now)
	}
	p.status.Attempt++
	p.status.Rendezvous = nil
	total := len(s.all().members)
	p.status.Replicas = api.ReplicaCount{Total: total, Starting: len(s.members), Running: total - len(s.members)}
	message := fault.T("Restart %d of the window: %s", "窗口内第 %d 次重启：%s", len(p.status.Restarts), fail.Message.EN)
	message.ZH = fault.T("", "窗口内第 %d 次重启：%s", len(p.status.Restarts), fail.Message.ZH).ZH
	p.to(api.PhaseRecovering, "Restarting", message)
	p.tell(false, "Restarting", "restart-"+itoa(p.status.Attempt), message)
}

func exitCode(f *api.ReplicaFailure) int {
	if f.ExitCode > 0 && f.ExitCode < 256 {
		return f.ExitCode
	}
	return 1
}
