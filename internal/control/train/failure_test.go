package train

import (
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/control/train/blame"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// TestUsedUp: a task that ends because it failed too often says so after the cause, in its status and its last event;
// one that may never be restarted, or whose failure is none that a restart helps against, says only the cause.
func TestUsedUp(t *testing.T) {
	cause := fault.T("worker-0 ended with exit code 3.", "worker-0 以退出码 3 结束。")
	for name, c := range map[string]struct {
		policy *api.RestartPolicy
		exit   *engine.Exit
		want   fault.Text
	}{
		"used up": {&api.RestartPolicy{MaxRestarts: 2, Window: api.Duration(10 * time.Minute)}, exit(engine.ReasonNonZero, 3), fault.Text{
			EN: cause.EN + " It was restarted 2 times within 10m0s, and restartPolicy.maxRestarts is 2: it is not tried again.",
			ZH: cause.ZH + "10m0s 内已重启 2 次，restartPolicy.maxRestarts 为 2：不再重试。",
		}},
		"never allowed": {nil, exit(engine.ReasonNonZero, 3), cause},
		"of no use": {&api.RestartPolicy{MaxRestarts: 2}, exit(engine.ReasonStartFailed, 127), fault.Text{
			EN: "worker-0 could not be started: ", ZH: "worker-0 无法启动：",
		}},
	} {
		tk := task(api.PhaseRunning, 1, 1)
		tk.Spec.Restart = c.policy
		tk.Status.Restarts = []time.Time{now.Add(-time.Hour), now.Add(-9 * time.Minute), now.Add(-time.Minute)}
		p := decide(snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: tk, Placement: placed()}, Members: gang.Members{at(0, 1, engine.StateDone, false, c.exit)}}}, now)
		if p.status.Phase != api.PhaseFailed || p.status.Reason != c.exit.Reason || p.status.Message != c.want {
			t.Errorf("%s: %s, %s, %+v", name, p.status.Phase, p.status.Reason, p.status.Message)
		}
		if last := p.events[len(p.events)-1]; last.Message != c.want {
			t.Errorf("%s: told %+v", name, last.Message)
		}
	}
}

// TestTheLineThatDecidedLeads: the program's own words come first, then who ended how; the two languages of a start that
// failed are not mixed.
func TestTheLineThatDecidedLeads(t *testing.T) {
	m := &gang.Member{Role: "worker"}
	line := "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x784 and 512x10)"
	for name, c := range map[string]struct {
		exit engine.Exit
		want fault.Text
	}{
		"python": {engine.Exit{Code: 1, Reason: engine.ReasonNonZero, Diagnosis: engine.Diagnosis{Cause: "python-error", Line: line}}, fault.Text{
			EN: line + " — worker-0 ended with exit code 1. Cause: its program ended with an error (Python traceback).",
			ZH: line + " —— worker-0 以退出码 1 结束。原因：程序出错退出（Python 异常）。",
		}},
		"no words": {engine.Exit{Code: 3, Reason: engine.ReasonNonZero, Diagnosis: engine.Diagnosis{Cause: "exit-code"}}, fault.Text{
			EN: "worker-0 ended with exit code 3.", ZH: "worker-0 以退出码 3 结束。",
		}},
		"not started": {engine.Exit{Code: 127, Reason: engine.ReasonStartFailed, Message: fault.T("no x", "没有 x").Pack()}, fault.Text{
			EN: "worker-0 could not be started: no x", ZH: "worker-0 无法启动：没有 x",
		}},
	} {
		if f := blame.Of(m, &c.exit); f.Message != c.want || f.Line != c.exit.Line {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// TestTurnedAway: a node that did not admit a replica costs the place and no restart; the others end first.
func TestTurnedAway(t *testing.T) {
	no := &engine.Exit{Code: -1, Reason: engine.ReasonRefused, At: now, Message: fault.T("n refused it", "n 拒绝了它").Pack()}
	look := func(other engine.State) plan {
		tk := task(api.PhaseInitializing, 1, 0)
		members := gang.Members{at(0, 1, engine.StateDone, false, no), at(1, 1, other, true, nil)}
		return decide(snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: tk, Placement: placed()}, Members: members}}, now)
	}
	if p := look(engine.StateCreated); p.status.Phase != api.PhaseInitializing || len(p.stop) != 1 || p.dropPlace {
		t.Errorf("while another one is there: %+v", summary(p))
	}
	p := look(engine.StateDone)
	if p.status.Phase != api.PhasePending || p.status.Reason != engine.ReasonRefused || p.status.Message.EN != "n refused it" || !p.dropPlace || len(p.status.Restarts) != 0 || p.status.Failure != nil {
		t.Errorf("%+v", summary(p))
	}
}

// TestDelays: what keeps replicas from being started for now is told; what can't be helped by waiting is not called a delay.
func TestDelays(t *testing.T) {
	quota := fault.New(fault.Unavailable, "NamespaceQuota", fault.T("Over.", "超额。"))
	got := delays([]error{nil, quota, fault.New(fault.Internal, "Odd", fault.Text{})}, 3)
	if len(got) != 1 || got[0].Reason != "NamespaceQuota" || !got[0].Warning || got[0].Once != "start-3-NamespaceQuota" {
		t.Errorf("%+v", got)
	}
}
