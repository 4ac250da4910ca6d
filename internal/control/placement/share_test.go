package placement_test

import (
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/placement"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/storetest"
)

// TestShare: a queue shows what it uses and borrows, and who waits in it and why.
func TestShare(t *testing.T) {
	s := storetest.Open(t)
	c := lead(t, s, []api.Zone{{Meta: api.Meta{Name: "z"}, Spec: api.ZoneSpec{Region: "r"}}}, nodes(2))
	parent := newQueue("all", map[string]int{"devices": 4})
	child, other := newQueue("nlp", nil), newQueue("sure", nil)
	child.Spec.Parent, child.Spec.Guarantee, child.Spec.Weight = "all", map[string]int{"A100": 1}, 2
	commit(t, s, store.Create(parent), store.Create(child), store.Create(other))
	for _, name := range []string{"runs", "waits"} {
		x := task(name, 1, 2)
		if x.Spec.Queue = "nlp"; name == "waits" {
			x.Spec.Roles[0].Replicas = 2
		}
		x.Spec.Roles[0].Resources.Accelerators.Type = "A100"
		commit(t, s, store.Create(x))
		if name == "runs" {
			eventually(t, "the first is placed", func() bool { return place(s, "runs") != nil })
		}
	}
	var share api.QueueShare
	eventually(t, "one runs and one waits", func() bool {
		share, _ = c.Share("all")
		return share.Running == 1 && share.Waiting == 1 && len(share.Waits) == 1
	})
	if share.Used["devices"] != 2 || share.Used["A100"] != 2 || share.Limit["devices"] != 4 || share.Dominant != "devices" || share.Share != .5 || share.Borrowed["A100"] != 2 {
		t.Errorf("%+v", share)
	}
	if w := share.Waits[0]; w.Reason == "" || w.Message.ZH == "" || w.Devices != 4 || w.Queue != "nlp" || len(share.Runs) != 1 {
		t.Errorf("%+v", share)
	}
	if share, _ = c.Share("nlp"); share.Borrowed["A100"] != 1 || share.Guarantee["A100"] != 1 || share.Weight != 2 || share.Parent != "all" {
		t.Errorf("%+v", share)
	}
	if share.Warning.EN != "" {
		t.Errorf("%+v", share)
	}
	next := store.Clone(other)
	next.Spec.Guarantee = map[string]int{"a100": 4}
	commit(t, s, store.Update(next))
	eventually(t, "five A100 are guaranteed, there are four", func() bool {
		share, _ = c.Share("nlp")
		return strings.Contains(share.Warning.EN, "5 A100") && strings.Contains(share.Warning.ZH, "只有 4")
	})
	if all, ok := c.Shares(); !ok || len(all) < 4 {
		t.Errorf("%t %+v", ok, all)
	}
	if share, ok := c.Share("new"); !ok || share.Queue != "new" || share.Waiting != 0 {
		t.Errorf("%+v", share)
	}
	idle := placement.New(placement.Config{Store: s, IDs: id.Default, Log: quiet})
	if _, ok := idle.Share("all"); ok {
		t.Error("a server that does not lead answered")
	}
}
