package mirror

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// TestDecide: each row is one pair and the next step.
func TestDecide(t *testing.T) {
	now := time.Date(2026, 11, 18, 9, 0, 0, 0, time.UTC)
	custom := func(id string, seen int64, phase string, deleted bool) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "x", "uid": "u1", "generation": int64(2)}}}
		if id != "" {
			o.SetAnnotations(map[string]string{noteID: id})
		}
		if seen != 0 {
			o.Object["status"] = map[string]any{"observedGeneration": seen, "phase": phase}
		}
		if deleted {
			at := metav1.NewTime(now)
			o.SetDeletionTimestamp(&at)
		}
		return o
	}
	task := func(id, uid string, deleted bool) api.Object {
		o := &api.TrainingTask{Meta: api.Meta{ID: id, Labels: map[string]string{labelUID: uid}}}
		if deleted {
			o.Meta.DeletedAt = &now
		}
		return o
	}
	for name, c := range map[string]struct {
		pair pair
		want action
	}{
		"neither":                        {pair{}, nothing},
		"Fermi's alone":                  {pair{nil, task("a", "", false)}, makeCustom},
		"Fermi's alone, on its way out":  {pair{nil, task("a", "", true)}, nothing},
		"custom alone":                   {pair{custom("", 0, "", false), nil}, makeFermi},
		"custom alone, refused":          {pair{custom("", 2, refused, false), nil}, nothing},
		"custom alone, mended":           {pair{custom("", 1, refused, false), nil}, makeFermi},
		"custom whose other is gone":     {pair{custom("a", 2, "Running", false), nil}, dropCustom},
		"both, not joined yet":           {pair{custom("", 0, "", false), task("a", "u1", false)}, join},
		"both, of another":               {pair{custom("", 0, "", false), task("a", "u2", false)}, taken},
		"both, of another, said":         {pair{custom("", 2, refused, false), task("a", "u2", false)}, nothing},
		"both, another of that name":     {pair{custom("b", 2, "Running", false), task("a", "", false)}, dropCustom},
		"both":                           {pair{custom("a", 2, "Running", false), task("a", "", false)}, show},
		"both, joined, not shown yet":    {pair{custom("a", 0, "", false), task("a", "", false)}, show},
		"both, the custom one changed":   {pair{custom("a", 1, "Running", false), task("a", "", false)}, change},
		"deleted, of a living task":      {pair{custom("a", 2, "Running", true), task("a", "", false)}, dropFermi},
		"deleted, the task ends":         {pair{custom("a", 2, "Running", true), task("a", "", true)}, show},
		"deleted, the task is gone":      {pair{custom("a", 2, "Running", true), nil}, release},
		"deleted before it was anything": {pair{custom("", 2, refused, true), task("a", "u2", false)}, release},
	} {
		if got := decide(&c.pair); got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}

// TestStatus: what a custom object shows is the same for all work, and a service's own for services.
func TestStatus(t *testing.T) {
	at := time.Date(2026, 11, 18, 9, 0, 0, 0, time.UTC)
	said := fault.T("It runs.", "正在运行。")
	env := &devenv.DevEnvironment{Meta: api.Meta{ID: "env-1"}}
	env.Status.Phase, env.Status.StartedAt, env.Status.Attempt = api.PhaseRunning, &at, 2
	env.Status.Replicas = api.ReplicaCount{Running: 1, Total: 1}
	for _, c := range []struct {
		o    api.Object
		want map[string]any
	}{
		{&api.TrainingTask{Meta: api.Meta{ID: "task-1"}, Status: api.TrainingTaskStatus{
			Phase: api.PhaseRunning, Reason: "Running", Message: said, Attempt: 3, Restarts: []time.Time{at, at}, StartedAt: &at, Replicas: api.ReplicaCount{Running: 1, Total: 4},
		}}, map[string]any{
			"id": "task-1", "phase": "Running", "reason": "Running", "message": "It runs.", "startedAt": "2026-11-18T09:00:00Z", "replicas": "1/4", "restarts": int64(2), "attempt": int64(3),
		}},
		{env, map[string]any{
			"id": "env-1", "phase": "Running", "reason": "", "message": "", "startedAt": "2026-11-18T09:00:00Z", "replicas": "1/1", "restarts": int64(0), "attempt": int64(2),
		}},
		{&serving.InferenceService{Meta: api.Meta{ID: "svc-1"}, Status: serving.ServiceStatus{Phase: api.PhaseRunning, ReadyAt: &at, Replicas: serving.ServiceCount{Ready: 1, Wanted: 2}, URL: "/serve/x"}}, map[string]any{
			"id": "svc-1", "phase": "Running", "reason": "", "message": "", "startedAt": "2026-11-18T09:00:00Z", "replicas": "1/2", "url": "/serve/x",
		}},
	} {
		if diff := cmp.Diff(c.want, statusOf(c.o)); diff != "" {
			t.Error(diff)
		}
	}
}

// TestWords: what Fermi does not take is said with its field.
func TestWords(t *testing.T) {
	err := fault.New(fault.Invalid, "BadManifest", fault.T("It is refused.", "被拒绝。")).WithFields(fault.Field{Path: "spec.rols", Message: fault.T("There is no such field.", "没有该字段。")})
	if got := words(err); got != "It is refused. spec.rols: There is no such field." || !isFinal(err) || isFinal(nil) || isFinal(fault.New(fault.Unavailable, "Away", fault.Text{})) {
		t.Error(got)
	}
}

// TestParse: namespaces and projects belong together one by one.
func TestParse(t *testing.T) {
	if got, err := parse([]string{"a=x", "b=y"}); err != nil || got["a"] != "x" || got["b"] != "y" {
		t.Error(got, err)
	}
	for _, bad := range [][]string{nil, {"a"}, {"a="}, {"=x"}, {"a=x", "a=y"}, {"a=x", "b=x"}, {"A=x"}} {
		if _, err := parse(bad); fault.ReasonOf(err) != "BadMap" {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
