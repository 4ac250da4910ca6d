package devenv

import (
	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// stateWords are the phases as people read them.
var stateWords = map[api.Phase]fault.Text{
	api.PhasePending: fault.T("Waiting", "等待调度"), api.PhaseInitializing: fault.T("Starting", "启动中"), api.PhaseRunning: fault.T("Running", "运行中"),
	api.PhaseRecovering: fault.T("Restarting", "重启中"), api.PhaseStopped: fault.T("Stopped", "已停止"), api.PhaseFailed: fault.T("Failed", "失败"),
}

// StateText is how an environment is, for people.
func StateText(e *DevEnvironment) fault.Text {
	switch {
	case e.Meta.DeletedAt != nil:
		return fault.T("Deleting", "删除中")
	case (Moves{e}).Asked(), (Moves{e}).Filling() && !e.Status.Phase.Finished():
		return fault.T("Moving", "迁移中")
	case e.Saves():
		return fault.T("Saving its home", "正在保存主目录")
	case e.Spec.Stop && !e.Status.Phase.Finished():
		return fault.T("Stopping", "停止中")
	case e.IsDue():
		return stateWords[api.PhasePending]
	}
	if t, ok := stateWords[e.Status.Phase]; ok {
		return t
	}
	return fault.Text{EN: string(e.Status.Phase), ZH: string(e.Status.Phase)}
}

// TypeText is what an environment is for, for people.
func TypeText(t Type) fault.Text {
	switch t {
	case Notebook:
		return fault.T("notebook", "笔记本")
	case Training:
		return fault.T("training", "训练")
	case Inference:
		return fault.T("inference", "推理")
	case Custom:
		return fault.T("custom", "自定义")
	}
	return fault.Text{EN: string(t), ZH: string(t)}
}
