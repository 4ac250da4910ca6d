package terminal

import (
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/access"
)

// TestSharedWithNobodyWhereNobodyIsApart: a shared environment of the machine's owner is a shell with all rights of the owner's.
func TestSharedWithNobodyWhereNobodyIsApart(t *testing.T) {
	s := &Terminals{SoleOwner: func() string { return "ann" }}
	e := &devenv.DevEnvironment{Meta: api.Meta{Name: "lab", Project: "p", Owner: "ann"}}
	bob := &access.Caller{User: &api.User{Meta: api.Meta{Name: "bob"}, Spec: api.UserSpec{Role: api.RoleMember}}, Token: &api.Token{}, Rules: access.NewRules()}
	if err := s.May(t.Context(), bob, e); fault.ReasonOf(err) != "NotOwner" {
		t.Errorf("not shared: %v", err)
	}
	e.Spec.Shared = true
	if err := s.May(t.Context(), bob, e); fault.ReasonOf(err) != "SingleTenant" || fault.From(err).Message.ZH == "" {
		t.Errorf("shared: %v", err)
	}
}
