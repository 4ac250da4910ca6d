package app

import (
	"context"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/talk"
)

// lineAnswer is the leader's word on where a process is.
type lineAnswer struct {
	Replica engine.Name `json:"replica"`
	refused
}

// Line is the replica in which a process of work with this number runs.
func (l *live) Line(ctx context.Context, w api.Work, rank int) (engine.Name, error) {
	var told lineAnswer
	if asked, err := l.others.askWith(ctx, askLine, w.GetMeta().ID, rank, &told); asked {
		return told.Replica, told.refusal(err)
	}
	if task, ok := w.(*api.TrainingTask); ok {
		at, err := l.crew.Train.RankOf(ctx, task, rank)
		return at.Replica, err
	}
	view := w.Workload()
	if rank != 0 {
		return "", fault.New(fault.NotFound, "NoSuchRank", fault.T("It has one process, number 0.", "它只有一个进程，编号为 0。"))
	}
	for _, role := range view.Roles {
		name := engine.NameOf(view.Meta.ID, role.Name, 0, view.AttemptOf(role.Name))
		if o, ok := l.engine.Replica(name); ok && o.State == engine.StateRunning {
			return name, nil
		}
	}
	if _, found := l.engine.All(); !found || view.Phase == api.PhaseRunning {
		return "", talk.ErrNotAttached // a new leader still looks for what runs
	}
	return "", fault.New(fault.Conflict, "NotRunning", fault.T("It does not run yet.", "尚未运行。")).WithHint(fault.T("See why: fermi why %s.", "查看原因：fermi why %s。", view.Meta.Name))
}

// Talk begins a conversation with a launcher that is attached to this server.
func (l *live) Talk(ctx context.Context, name engine.Name) (talk.Stream, func(), error) {
	return l.hub.Talk(ctx, name)
}
