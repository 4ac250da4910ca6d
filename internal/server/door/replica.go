package door

import (
	"context"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/access"
)

// Replicas knows whose replicas are.
type Replicas interface {
	// Standing is what a replica's pass is made of, and the work that it is of. Fault NotFound, Forbidden or Invalid: it is none, or its attempt is
	// over.
	Standing(ctx context.Context, replica string) (token string, of api.Object, err error)
}

// For is who something speaks for that a user left behind in a project, as far as tokens with the scope tasks reach; fault Unauthenticated: nobody, the user
// is gone or disabled.
func (d *Door) For(ctx context.Context, user, project, what string) (*access.Caller, error) {
	return d.callerOf(ctx, &api.Token{Meta: api.Meta{ID: what, Name: what}, Spec: api.TokenSpec{User: user, Scope: api.ScopeTasks, Projects: []string{project}}})
}

// enter is who the processes of a replica speak for: its owner, in its project, with the scope tasks. So they make no tokens, touch no
// secrets, and nothing of it outlives the attempt. Only in an environment that nobody else may enter is it all of the owner's word: whoever is let in, changes
// a service, or made a task from an environment that is shared, is behind the pass of what runs there too, and it is worth what any member has.
func (d *Door) enter(ctx context.Context, replica string, fits func(token string) bool) (*access.Caller, error) {
	token, of, err := d.Replicas.Standing(ctx, replica)
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Forbidden) || fault.Is(err, fault.Invalid) {
		return nil, errBadToken
	} else if err != nil {
		return nil, err
	}
	if !fits(token) {
		return nil, errBadToken
	}
	who, err := d.For(ctx, of.GetMeta().Owner, of.GetMeta().Project, replica)
	if err != nil {
		return nil, err
	}
	work, ok := api.WorkloadOf(of)
	who.Replica, who.Lent = replica, !ok || !work.Host.Private
	return who, nil
}
