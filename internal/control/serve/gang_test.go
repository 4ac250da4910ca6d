package serve

import (
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link/hearing"
)

// TestLeadAnswers: a gang answers where its lead does, and only while all its members run and are heard.
func TestLeadAnswers(t *testing.T) {
	r := &serving.ServiceReplica{Spec: serving.ServiceReplicaSpec{Service: "chat", Template: serving.ServiceTemplate{Parts: serving.Parts{Roles: []serving.ServiceRole{{Name: "decode", Members: 2}, {Name: "prefill", Members: 1}}}}}}
	for name, c := range map[string]struct {
		change func(*work.Seen)
		ready  bool
		why    string
	}{
		"all run":            {func(*work.Seen) {}, true, ""},
		"a member is silent": {func(s *work.Seen) { s.Members[0].Silent = hearing.SilentAfter }, false, "its member prefill-0 does not run"},
		"a member has ended": {func(s *work.Seen) { s.Members[1].Known.State = engine.StateExited }, false, "its member decode-1 does not run"},
		"the lead says no":   {func(s *work.Seen) { s.Members[2].Said.Serving = &engine.Serving{Why: "loading"} }, false, "loading"},
		"another one says yes": {func(s *work.Seen) {
			s.Members[2].Said.Serving = nil
			s.Members[1].Said.Serving = &engine.Serving{Ready: true}
		}, false, ""},
	} {
		s := &work.Seen{Work: r, Members: []work.Member{{Role: "prefill"}, {Role: "decode", Index: 1}, {Role: "decode"}}}
		for i := range s.Members {
			s.Members[i].Attempt, s.Members[i].Known.State = 1, engine.StateRunning
		}
		s.Members[2].Said.Serving, s.Members[2].Said.Address = &engine.Serving{Ready: true, Port: 8000}, "10.0.0.1"
		c.change(s)
		status := serving.ServiceReplicaStatus{Attempt: 1}
		answers(&status, s, time.Unix(1000, 0))
		if status.Ready != c.ready || status.Why != c.why || c.ready && status.Address != "10.0.0.1:8000" {
			t.Errorf("%s: %+v", name, status.Answers)
		}
	}
}

// TestLeadIsAsked: of a gang only the lead is asked for its health.
func TestLeadIsAsked(t *testing.T) {
	r := &serving.ServiceReplica{Spec: serving.ServiceReplicaSpec{Service: "chat", Template: serving.ServiceTemplate{Parts: serving.Parts{Roles: []serving.ServiceRole{{Name: "decode", Members: 2}, {Name: "prefill", Members: 1}}}}}}
	for _, c := range []struct {
		role  string
		index int
		asked bool
	}{{"decode", 0, true}, {"decode", 1, false}, {"prefill", 0, false}} {
		made := engine.Replica{Role: c.role, Index: c.index}
		if (rules{}).Fill(r, nil, &made); (made.Serve != nil) != c.asked {
			t.Errorf("%s-%d: %+v", c.role, c.index, made.Serve)
		}
	}
}

// TestAdaptersArePublished: gateways hear of the adapters of the revision that answers.
func TestAdaptersArePublished(t *testing.T) {
	w := newWorld(t, 1)
	w.service.Spec.Template.Adapters = []serving.Adapter{{Name: "b", Model: "m"}, {Name: "a", Model: "m"}}
	w.turn()
	if got := w.endpoints.Spec.Adapters; len(got) != 2 || got[0] != "a" {
		t.Errorf("published: %v", got)
	}
}
