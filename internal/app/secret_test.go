package app

import (
	"cmp"
	"path/filepath"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/app/restore"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/store"
)

// TestCurrentReplica: code and secrets are for the attempt that runs; what is not known yet is asked
// for again, what is over is refused for good.
func TestCurrentReplica(t *testing.T) {
	_, truth := worldWithStore(t)
	ctx, others := t.Context(), &company{store: truth}
	for name, status := range map[string]api.TrainingTaskStatus{
		"runs":  {Phase: api.PhaseRunning, Attempt: 2, Roles: []api.RoleStatus{{Name: "reward", Attempt: 5}}},
		"ended": {Phase: api.PhaseCompleted, Attempt: 2},
	} {
		task := &api.TrainingTask{Meta: api.Meta{ID: "task-" + name, Name: name, Project: "default"}, Status: status}
		rev, err := truth.Commit(ctx, store.Txn{Ops: []store.Op{store.Create(task)}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := truth.Get(ctx, api.KeyOf(task), rev); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		task    string
		attempt int
		want    fault.Code // "": given
		role    string     // "": worker
	}{
		{"task-runs", 5, "", "reward"}, {"task-runs", 2, fault.Forbidden, "reward"}, {"task-runs", 6, fault.Unavailable, "reward"},
		{"task-runs", 2, "", ""}, {"task-runs", 1, fault.Forbidden, ""}, {"task-runs", 3, fault.Unavailable, ""},
		{"task-ended", 2, fault.Forbidden, ""}, {"task-ended", 1, fault.Forbidden, ""}, {"task-nobody", 1, fault.Unavailable, ""},
	} {
		err := others.current(ctx, link.Parts{TaskID: c.task, Role: cmp.Or(c.role, "worker"), Attempt: c.attempt})
		if (err == nil) != (c.want == "") || err != nil && fault.CodeOf(err) != c.want {
			t.Errorf("attempt %d of %s: %v", c.attempt, c.task, err)
		}
	}
	usesOfSecrets(t, others)
}

// usesOfSecrets: the audit says which task and replica got which keys of which secret, and no value.
func usesOfSecrets(t *testing.T, others *company) {
	t.Helper()
	past, err := (restore.Past{}).Open(t.Context(), filepath.Join(t.TempDir(), "h.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer past.Close()
	(&secrets{store: others.store, history: past, work: others.workByID}).used(t.Context(), link.Parts{TaskID: "task-runs", Role: "worker", Index: 3, Attempt: 2}, "10.1.2.3:55",
		[]api.SecretRef{{Secret: "hub", Key: "token"}, {Secret: "s3", Key: "b"}, {Secret: "s3", Key: "a"}})
	rows, err := past.ListAudit(t.Context(), history.AuditQuery{Oldest: true})
	if err != nil || len(rows) != 2 {
		t.Fatalf("%+v, %v", rows, err)
	}
	e := rows[1]
	if e.Verb != "use" || e.Kind != api.KindSecret || e.Name != "s3" || e.Project != "default" || e.RemoteIP != "10.1.2.3" ||
		e.Detail != `{"attempt":2,"keys":["a","b"],"replica":"worker-3","task":"runs","taskId":"task-runs"}` {
		t.Errorf("%+v", e)
	}
}
