package agentengine

import (
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// TestClocks: a machine whose clock is off by a day, either way, takes no new work and says by how much; five minutes are borne, and a second agent of
// the same identity is told of beside whatever else is wrong. One whose agent was turned away says why, not that nobody is heard.
func TestClocks(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	kept := api.Node{Meta: api.Meta{Name: "box1"}, Spec: api.NodeSpec{Zone: "z", Spec: joined.Spec{Agent: &joined.Agent{ID: "a", Labels: map[string]string{"rack": "r1"}}}}}
	see := func(change func(*host)) api.Node {
		t.Helper()
		h := &host{heard: now, now: &visit{}}
		h.node.Meta.Name, h.node.Status.Ready = "box1", true
		change(h)
		n, ok := h.status(kept, now)
		if !ok {
			t.Fatal("nothing is said")
		}
		return n
	}
	for off, ready := range map[time.Duration]bool{0: true, 4 * time.Minute: true, -4 * time.Minute: true, 24 * time.Hour: false, -24 * time.Hour: false} {
		n := see(func(h *host) { h.skew = off })
		if n.Status.Ready != ready || !ready && (n.Status.Reason != ReasonSkew || !strings.Contains(n.Status.Message.EN, off.String()) || !strings.Contains(n.Status.Message.ZH, off.String())) {
			t.Errorf("off by %s: %+v", off, n.Status)
		}
	}
	n := see(func(h *host) { h.skew, h.rival, h.rivalAt = 24*time.Hour, "10.0.0.9", now })
	if n.Status.Reason != ReasonSkew || !strings.Contains(n.Status.Message.EN, "10.0.0.9") || !strings.Contains(n.Status.Message.EN, "clock") {
		t.Errorf("a rival: %+v", n.Status)
	}
	old := fault.New(fault.Conflict, "AgentTooOld", fault.T("Too old.", "过旧。")).WithHint(fault.T("Install it.", "请安装。"))
	for ago, want := range map[time.Duration]string{45 * time.Second: "AgentTooOld", time.Hour: ReasonSilent} {
		n := see(func(h *host) { h.now, h.heard, h.turned, h.turnedAt = nil, now.Add(-Silent), old, now.Add(-ago) })
		if n.Status.Ready || n.Status.Reason != want || ago < time.Minute && (n.Status.Message.EN != "Too old. Install it." || n.Status.Message.ZH != "过旧。请安装。") {
			t.Errorf("turned away %s ago: %+v", ago, n.Status)
		}
	}
	if n := see(func(h *host) { h.heard = now.Add(-Silent) }); n.Status.Ready || n.Status.Reason != ReasonSilent {
		t.Errorf("silent: %+v", n.Status)
	}
}

// TestUnknownProtocol: what does not begin as an agent does is refused with words.
func TestUnknownProtocol(t *testing.T) {
	for want, f := range map[string]Frame{
		"NoHello":  {Kind: "hallo", Body: []byte(`{}`)},
		"BadHello": {Kind: kindHello, Body: []byte(`{"version":{"major":9}}`)},
	} {
		_, err := ReadHello(f)
		if e := fault.From(err); fault.ReasonOf(err) != want || e.Code != fault.Invalid || e.Message.EN == "" || e.Message.ZH == "" {
			t.Errorf("%s: %v", want, err)
		}
	}
}
