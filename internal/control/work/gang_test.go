package work

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
)

// pair are the members of a gang of two roles, in the order of a placement that names the second role first.
func pair() (members []Member, roles []api.Role) {
	for _, m := range []struct {
		role, address string
		index         int
	}{{"prefill", "10.0.0.9", 0}, {"decode", "10.0.0.2", 1}, {"decode", "10.0.0.1", 0}} {
		one := Member{Name: engine.NameOf("svc-1", m.role, m.index, 2), Role: m.role, Index: m.index, Attempt: 2, Attached: true, Known: engine.Observation{State: engine.StateCreated}}
		one.Said.Address, one.Said.Serve, one.Said.Port = m.address, 8000+m.index, 9000
		members = append(members, one)
	}
	return members, []api.Role{{Name: "decode", Replicas: 2}, {Name: "prefill", Replicas: 1, Ranks: 2}}
}

// TestGang: the first member of the first role leads; each is told its rank and where the others are.
func TestGang(t *testing.T) {
	members, roles := pair()
	want := link.Generation{
		Number: 2,
		Membership: link.Membership{World: 4, Groups: 3, Lead: "10.0.0.1:9000", Table: string(members[2].Name), Roles: []link.Role{
			{Name: "decode", Ranks: 2, Replicas: 2, Addresses: []string{"10.0.0.1:8000", "10.0.0.2:8001"}}, {Name: "prefill", Ranks: 2, Replicas: 1, Addresses: []string{"10.0.0.9:8000"}},
		}},
	}
	for i, place := range [][2]int{{2, 2}, {1, 1}, {0, 0}} { // group and first rank of prefill-0, decode-1, decode-0
		want.Group, want.FirstRank = place[0], place[1]
		if d := cmp.Diff(want, generationOf(members, roles, &members[i])); d != "" {
			t.Errorf("member %d: %s", i, d)
		}
	}
	alone := generationOf(members[:1], roles, &members[0])
	if d := cmp.Diff(link.Generation{Number: 2, Membership: link.Membership{World: 2, Groups: 1, Lead: "127.0.0.1:9000", Table: string(members[0].Name)}}, alone); d != "" {
		t.Errorf("alone: %s", d)
	}
}

// TestGathered: nobody starts before all are there and said where they are reached; one that is alone need not say.
func TestGathered(t *testing.T) {
	for name, change := range map[string]func(*Member){
		"not attached": func(m *Member) { m.Attached = false }, "no port": func(m *Member) { m.Said.Serve = 0 }, "not created": func(m *Member) { m.Known.State = "" },
	} {
		members, _ := pair()
		if !gathered(members) {
			t.Fatal("all are there")
		}
		if change(&members[1]); gathered(members) || !gathered(members[1:2]) {
			t.Errorf("%s: gathered", name)
		}
	}
	members, _ := pair()
	if isWide(members) {
		t.Error("members on the server's machine are on several")
	}
	far := &api.Node{Meta: api.Meta{Name: "far"}}
	far.Spec.Agent = &joined.Agent{}
	members[0].Node = far
	if !isWide(members) {
		t.Error("members on two machines are on one")
	}
}
