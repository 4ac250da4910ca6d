package audit

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/history"
)

// fullHistory takes entries only while there is room.
type fullHistory struct {
	history.History
	full bool
	rows []history.AuditEntry
}

func (h *fullHistory) AddAudit(_ context.Context, rows ...history.AuditEntry) error {
	if h.full {
		return errors.New("database or disk is full")
	}
	h.rows = append(h.rows, rows...)
	return nil
}

// TestEntriesWaitForRoom: what was refused while the history had no room is in the audit when it has some.
func TestEntriesWaitForRoom(t *testing.T) {
	h := &fullHistory{full: true}
	a := New(h, nil, nil, slog.New(slog.DiscardHandler), clock.Real)
	a.write(t.Context(), history.AuditEntry{Verb: "stop", Outcome: "DiskFull"})
	a.Flush(t.Context(), false)
	a.write(t.Context(), history.AuditEntry{Verb: "delete", Outcome: "DiskFull"})
	if len(h.rows) != 0 {
		t.Fatalf("%+v", h.rows)
	}
	h.full = false
	a.Flush(t.Context(), false)
	if len(h.rows) != 2 || h.rows[0].Verb != "stop" || h.rows[1].Verb != "delete" {
		t.Errorf("%+v", h.rows)
	}
	a.Flush(t.Context(), false)
	if len(h.rows) != 2 {
		t.Error("written twice")
	}
}
