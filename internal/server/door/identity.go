package door

import (
	"context"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// Identity is whom a token speaks for. It is exported for the document: sessions embed it.
type Identity struct {
	User      string         `json:"user"`
	Role      api.UserRole   `json:"role"`
	Token     string         `json:"token"`
	Task      string         `json:"task,omitempty" doc:"The one task this token reaches."`
	Scope     api.TokenScope `json:"scope,omitempty" doc:"read or tasks where the token may less than its user."`
	ExpiresAt *time.Time     `json:"expiresAt,omitempty"`
	Projects  []string       `json:"projects,omitempty" doc:"Those you are a member of."`
	SeesAll   bool           `json:"seesAll,omitempty"`
}

func (s *Sessions) whoami(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	out, err := s.door.identify(ctx, c.Who)
	if err != nil {
		return nil, err
	}
	return &rest.Reply{Data: out}, nil
}

func (d *Door) identify(ctx context.Context, w *access.Caller) (Identity, error) {
	out := Identity{
		User: w.Name(), Role: w.Role(), Token: w.Token.Meta.Name, Task: w.Token.Spec.Task, Scope: w.Token.Spec.Scope,
		ExpiresAt: w.Token.Spec.ExpiresAt, SeesAll: w.SeesAll(),
	}
	snap, err := d.truth.List(ctx, api.KindProject, "", 0)
	if err == nil && w.Token.Spec.Task == "" {
		out.Projects = w.Memberships(snap)
	}
	return out, err
}
