package server

import (
	"context"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
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

func (s *sessions) whoami(ctx context.Context, c *call) (*reply, error) {
	out, err := s.door.identify(ctx, c.who)
	if err != nil {
		return nil, err
	}
	return &reply{data: out}, nil
}

func (d *door) identify(ctx context.Context, w *caller) (Identity, error) {
	out := Identity{
		User: w.name(), Role: w.role(), Token: w.token.Meta.Name, Task: w.token.Spec.Task, Scope: w.token.Spec.Scope,
		ExpiresAt: w.token.Spec.ExpiresAt, SeesAll: w.seesAll(),
	}
	snap, err := d.truth.List(ctx, api.KindProject, "", 0)
	if err == nil && w.token.Spec.Task == "" {
		out.Projects = w.memberships(snap)
	}
	return out, err
}
