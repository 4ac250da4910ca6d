package server

import (
	"context"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// TestShares: a queue shows who waits in it; tasks of others have neither name nor message.
func TestShares(t *testing.T) {
	w := newWorld(t)
	w.put(&api.Queue{Meta: api.Meta{Name: "nlp"}, Spec: api.QueueSpec{Weight: 3, Limit: map[string]int{"devices": 4}}})
	mine := w.put(&api.TrainingTask{Meta: api.Meta{Name: "mine", Project: "default"}, Status: api.TrainingTaskStatus{Phase: api.PhasePending}})
	w.live.mu.Lock()
	w.live.waits = []string{mine.GetMeta().ID, "task-of-nobody"}
	w.live.mu.Unlock()
	var share api.QueueShare
	w.ok("GET", "/api/v1/shares/nlp", nil, &share)
	if share.Weight != 3 || share.Limit["devices"] != 4 || len(share.Waits) != 2 || share.Waits[0].Name != "mine" || share.Waits[0].Message.ZH == "" {
		t.Errorf("%+v", share)
	}
	if other := share.Waits[1]; other.ID != "" || other.Name != "" || other.Message.EN != "" || other.Devices != 1 {
		t.Errorf("%+v", other)
	}
	if a := w.do("GET", "/api/v1/shares/nlp", w.user("guest", api.RoleMember), nil); a.status != 200 || strings.Contains(string(a.raw), "mine") {
		t.Errorf("a stranger sees %s", a.raw)
	}
	var list struct{ Items []api.QueueShare }
	w.ok("GET", "/api/v1/shares", nil, &list)
	if len(list.Items) != 1 {
		t.Errorf("%+v", list)
	}
	w.refused("GET", "/api/v1/shares/none", nil, 404, "NotFound")
}

// TestImpossibleIsRefused: at create, clone, dry run and preview, after a second look.
func TestImpossibleIsRefused(t *testing.T) {
	refuse := func(context.Context, api.Work, int64) error { return nil }
	w := newWorld(t, func(c *Config) {
		c.Refuse = func(ctx context.Context, t api.Work, minRevision int64) error {
			return refuse(ctx, t, minRevision)
		}
	})
	w.ok("POST", "/api/v1/training-tasks", manifest("first"), nil)
	var seen []int64
	no := fault.New(fault.Invalid, "NeverFits", fault.T("It could never start.", "永远无法启动。")).
		WithFields(fault.Field{Path: "spec.roles[0].resources.accelerators.count", Message: fault.T("No node has 16.", "没有节点有 16 卡。")})
	refuse = func(_ context.Context, t api.Work, minRevision int64) error {
		if t.Workload().Queue == "" {
			return fault.New(fault.Internal, "NoQueue", fault.T("It is judged before its queue is known.", "队列未定即被判断。"))
		}
		seen = append(seen, minRevision)
		return no
	}
	for _, path := range []string{"/api/v1/training-tasks", "/api/v1/training-tasks?dryRun=true", "/api/v1/placements/preview", "/api/v1/training-tasks/first/clone"} {
		body := any(manifest("second"))
		if path == "/api/v1/training-tasks/first/clone" {
			body = map[string]any{}
		}
		a := w.refused("POST", path, body, 400, "NeverFits")
		if !strings.Contains(string(a.raw), "accelerators.count") {
			t.Errorf("%s: %s", path, a.raw)
		}
	}
	if len(seen) != 8 || seen[0] != 0 || seen[1] == 0 {
		t.Errorf("looked at revisions %v; a no needs a second look at all that was written", seen)
	}
	refuse = func(_ context.Context, _ api.Work, minRevision int64) error {
		if minRevision == 0 {
			return no
		}
		return nil // a limit was raised a moment ago
	}
	w.ok("POST", "/api/v1/training-tasks", manifest("second"), nil)
}
