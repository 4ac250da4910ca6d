package app

import (
	"context"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/activity"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/internal/app/standing"
	control "github.com/fermi-cluster/fermi/internal/control/devenv"
)

// Policy is the operator's word about environments.
func (l *live) Policy() devenv.Policy { return l.envs }

// Standing is what the pass of a replica is made of, and whose it is.
func (l *live) Standing(ctx context.Context, replica string) (token string, of api.Object, err error) {
	return standing.Of(ctx, replica, l.others.current, l.others.workByID, l.mint)
}

// activityAnswer is the leader's word on an environment's signals.
type activityAnswer struct {
	Table activity.Table `json:"table"`
	refused
}

// Activity asks the launcher of an environment.
func (l *live) Activity(ctx context.Context, e *devenv.DevEnvironment) (activity.Table, error) {
	var told activityAnswer
	if asked, err := l.others.ask(ctx, askActivity, e.Meta.ID, &told); asked {
		return told.Table, told.refusal(err)
	}
	return control.Signals(ctx, l.hub, e)
}
