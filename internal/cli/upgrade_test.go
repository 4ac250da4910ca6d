package cli

import (
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/internal/cli/clitest"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// TestNodeUpgrade: one machine after the other, those that did not join are left alone, one that is away is named, and one that fails stops the rest.
func TestNodeUpgrade(t *testing.T) {
	f := clitest.New(t)
	for _, name := range []string{"box1", "box2", "box3", "box4"} {
		f.Add(&api.Node{Meta: api.Meta{Name: name}, Spec: api.NodeSpec{Zone: "z", Spec: joined.Spec{Agent: &joined.Agent{ID: name}}}, Status: api.NodeStatus{
			Ready: true, Status: joined.Status{Agent: &joined.AgentStatus{Version: "v1", Address: "10.0.0.2"}},
		}})
	}
	f.Add(&api.Node{Meta: api.Meta{Name: "own"}, Spec: api.NodeSpec{Zone: "z"}})
	var asked []string
	bad := map[string]string{}
	f.Upgrade = func(n *api.Node) (joined.Upgrade, *fault.Error) {
		asked = append(asked, n.Meta.Name)
		up := joined.Upgrade{ID: "u-" + n.Meta.Name, Version: "v2", Digest: "d", State: joined.UpgradeDone}
		switch {
		case bad[n.Meta.Name] == "away":
			return up, fault.New(fault.Unavailable, "AgentAway", fault.T("Away.", "离线。"))
		case n.Status.Agent.Version == "v2":
			return up, nil
		case bad[n.Meta.Name] != "":
			up.State, up.Message = joined.UpgradeFailed, fault.T("%s", "%s", bad[n.Meta.Name])
		default:
			n.Status.Agent.Version = "v2"
		}
		told := up
		n.Status.Agent.Upgrade = &told
		up.State = joined.UpgradeFetching
		return up, nil
	}
	bad["box2"], bad["box3"] = "away", "The new program did not come up."
	got := fermi(f, t, "", "node", "upgrade", "--all")
	if got.code == 0 || !strings.Contains(got.err, "box3 goes on with version v1: The new program did not come up.") {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(got.out, "node/box1 runs version v2") || !strings.Contains(got.out, "node/box2 is not reached") || !strings.Contains(got.out, "1 machine was left as they are.") {
		t.Error(got.out)
	}
	if strings.Join(asked, " ") != "box1 box2 box3" {
		t.Error(asked)
	}
	if d := fermi(f, t, "", "describe", "node", "box3").out; !strings.Contains(d, "to version v2 failed: The new program did not come up.") {
		t.Error(d)
	}

	delete(bad, "box3")
	asked = nil
	got = fermi(f, t, "", "node", "upgrade", "--all", "--parallel", "2")
	if got.code == 0 || len(asked) != 4 || !strings.Contains(got.out, "node/box1 is of version v2 already") || !strings.Contains(got.err, "1 machine was not reached.") {
		t.Errorf("%v %+v", asked, got)
	}
	delete(bad, "box2")
	if got = fermi(f, t, "", "node", "upgrade", "box2"); got.code != 0 || !strings.Contains(got.out, "node/box2 runs version v2") {
		t.Errorf("%+v", got)
	}
	for _, args := range [][]string{{"node", "upgrade"}, {"node", "upgrade", "--all", "box1"}, {"node", "upgrade", "--all", "--parallel", "0"}} {
		if got = fermi(f, t, "", args...); got.code == 0 {
			t.Errorf("%v is taken", args)
		}
	}
}
