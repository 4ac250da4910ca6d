package node

import (
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/storetest"
)

// TestLaunchersOfOtherVersions: a node says which launchers an update left as they are, until they
// end; while not all are found, what was said stays.
func TestLaunchersOfOtherVersions(t *testing.T) {
	s := storetest.Open(t)
	var all []engine.Observation
	found := true
	c := New(Config{
		Store: s, Clock: clock.Real, IDs: id.Default, Log: slog.New(slog.DiscardHandler), Version: "v2",
		Nodes: func() ([]api.Node, bool) {
			return []api.Node{{Meta: api.Meta{Name: "a"}, Spec: api.NodeSpec{Number: 1}}, {Meta: api.Meta{Name: "b"}, Spec: api.NodeSpec{Number: 2}}}, true
		},
		Launchers: func() ([]engine.Observation, bool) { return all, found },
	})
	says := func(want map[string][]api.LauncherVersion) {
		t.Helper()
		if err := c.Sync(t.Context(), store.Epoch{}); err != nil {
			t.Fatal(err)
		}
		got := map[string][]api.LauncherVersion{}
		for _, name := range []string{"a", "b"} {
			o, err := s.Get(t.Context(), api.Key{Kind: api.KindNode, Name: name}, c.wrote)
			if err != nil {
				t.Fatal(err)
			}
			if l := o.(*api.Node).Status.Launchers; l != nil {
				got[name] = l
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	says(map[string][]api.LauncherVersion{})
	all = []engine.Observation{
		{Node: "a", State: engine.StateRunning, Launched: true},
		{Node: "a", State: engine.StateExited, Launched: true, Version: "v1"},
		{Node: "a", State: engine.StateRunning, Launched: true, Version: "v1"},
		{Node: "a", State: engine.StateDone, Launched: true, Version: "v1"}, // ended
		{Node: "a", State: engine.StateCreated},                             // not started yet
		{Node: "b", State: engine.StateRunning, Launched: true, Version: "v2"},
	}
	want := map[string][]api.LauncherVersion{"a": {{Count: 1}, {Version: "v1", Count: 2}}}
	says(want)
	all, found = nil, false
	says(want)
	found = true
	says(map[string][]api.LauncherVersion{})
	c.Changed(engine.Observation{Launched: true, Version: "v2"})
	if len(c.wake) != 0 {
		t.Error("one of our own version called for a look")
	}
	c.Changed(engine.Observation{Launched: true, Version: "v1"})
	if len(c.wake) != 1 {
		t.Error("one of another version called for none")
	}
}
