package train

import (
	"slices"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/recipe"
)

// TestAddresses: everybody is told the addresses that launchers reported, in rank order; one of an earlier version
// reported none and is on the loopback, and so are all launchers to each other.
func TestAddresses(t *testing.T) {
	c, s := onNodes("pytorch-ddp", 1, "A100", "A100")
	made, err := c.recipe(&s.Gang, s.Task)
	if err != nil {
		t.Fatal(err)
	}
	r := c.replica(t.Context(), &s.Members[0], s.Task)
	withRecipe(&r, made, 0)
	texts := ""
	for _, f := range r.Recipe.Files {
		texts += f.Text
	}
	if r.Recipe.Hosts != 2 || !strings.Contains(texts, recipe.HostToken(0)) || !strings.Contains(texts, recipe.HostToken(1)) || strings.Contains(texts, "127.0.0.1") {
		t.Errorf("%d %s", r.Recipe.Hosts, texts)
	}
	if !slices.ContainsFunc(r.Recipe.Env, func(v api.EnvVar) bool { return v.Name == "GLOO_SOCKET_IFNAME" && v.Value == recipe.InterfaceToken }) {
		t.Error(r.Recipe.Env)
	}
	for i := range s.Members {
		s.Members[i].Attached, s.Members[i].Said.Port, s.Members[i].Said.PeerPort, s.Members[i].Said.Serve = true, 4000+i, 5000+i, 6000+i
	}
	p := &plan{status: s.Task.Status}
	answer{&s, mainOf(&s.Gang, p), p, now}.open(s.World)
	if g := s.orderFor(1, &p.status, false); g.Lead != "127.0.0.1:4000" || len(g.Hosts) != 0 {
		t.Errorf("%+v", g)
	}
	s.Members[0].Said.Address = "100.64.4.2"
	answer{&s, mainOf(&s.Gang, p), p, now}.open(s.World)
	if g := s.orderFor(1, &p.status, false); g.Lead != "100.64.4.2:4000" || !slices.Equal(g.Hosts, []string{"100.64.4.2", "127.0.0.1"}) {
		t.Errorf("%+v", g)
	}
	if targets := targetsOf(&s.Gang); len(targets) != 2 || targets[1][0].Address != "100.64.4.2:6000" {
		t.Errorf("%+v", targets)
	}
	s.Task.Spec.Checkpoint = &api.Checkpoints{Peer: true}
	if g := s.orderFor(0, &p.status, false); g.Peer != "127.0.0.1:5001" {
		t.Errorf("launchers meet at %q", g.Peer)
	}
	s.Task.Spec.Framework = "plain"
	answer{&s, mainOf(&s.Gang, p), p, now}.open(s.World)
	if len(p.status.Rendezvous.Hosts) != 0 {
		t.Error("a plain command is told everybody:", p.status.Rendezvous.Hosts)
	}
}
