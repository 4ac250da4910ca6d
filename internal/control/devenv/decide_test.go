package devenv

import (
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	kind "github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/internal/control/work"
)

func seen(e *kind.DevEnvironment) *work.Seen {
	return &work.Seen{Work: e, View: e.Workload(), ArchiveAfter: time.Minute}
}

// TestStopAndStart: what is stopped stays, also after the time in which others are archived, and a start is heard once.
func TestStopAndStart(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	e := &kind.DevEnvironment{Meta: api.Meta{ID: "env-1", Name: "lab", Project: "lab"}}
	e.Default()
	e.Spec.Stop, e.Status = true, work.Status{Phase: api.PhaseRunning, Attempt: 1, Zones: []string{"z"}}
	p := decide(seen(e), now)
	if p.Next == nil {
		t.Fatal("it is not stopped")
	}
	stopped := p.Next.(*kind.DevEnvironment)
	if stopped.Status.Phase != api.PhaseStopped || len(stopped.Status.Zones) != 1 {
		t.Fatalf("%+v", stopped.Status)
	}
	if p := decide(seen(stopped), now.Add(time.Hour)); p.Archive || p.Erase || p.Next != nil || p.Wake != 0 {
		t.Errorf("what is stopped: %+v", p)
	}
	stopped.Spec.Stop, stopped.Spec.Starts = false, 1
	p = decide(seen(stopped), now.Add(time.Hour))
	if p.Next == nil {
		t.Fatal("it is not started")
	}
	again := p.Next.(*kind.DevEnvironment)
	if s := again.Status; s.Phase != api.PhasePending || s.Attempt != 1 || s.Starts != 1 || s.FinishedAt != nil || len(s.Zones) != 1 {
		t.Errorf("%+v", s)
	}
	deleted := *stopped
	at := now
	deleted.Meta.DeletedAt = &at
	if p := decide(seen(&deleted), now); !p.Erase {
		t.Errorf("what is deleted: %+v", p)
	}
}
