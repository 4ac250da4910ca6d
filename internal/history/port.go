package history

import (
	"context"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// History is the whole port; users declare the part they need.
type History interface {
	Events
	Auditor
	Usage
	Served
	Books
	Runs
	Archive
	Metrics
	// Backup writes a consistent copy of everything to a new file.
	Backup(ctx context.Context, path string) error
	// Close flushes and ends; the History is not used after it.
	Close() error
}

// Event is something that happened to an object.
type Event struct {
	Seq     int64      `json:"seq"` // set by the store; grows
	Time    time.Time  `json:"time"`
	Kind    api.Kind   `json:"kind"`
	Project string     `json:"project,omitempty"`
	Name    string     `json:"name"`
	ID      string     `json:"id"` // the object's
	Type    string     `json:"type" doc:"Normal or Warning."`
	Reason  string     `json:"reason"`
	Message fault.Text `json:"message"`
	Actor   string     `json:"actor,omitempty" doc:"User or controller."`
	// Dedup makes a repeated write of the same happening a no-op when not empty.
	Dedup string `json:"-"`
}

// EventQuery selects events, oldest first.
type EventQuery struct {
	ObjectID string
	Kind     api.Kind
	Project  string
	After    int64 // Seq
	Limit    int   // 1..1000; 100 when 0
	// Newest takes the last Limit events instead of the first (still returned oldest first).
	Newest bool
}

// Events keeps what happened.
type Events interface {
	// AddEvents commits all or none.
	AddEvents(ctx context.Context, events ...Event) error
	ListEvents(ctx context.Context, q EventQuery) ([]Event, error)
}

// AuditEntry is one thing that somebody asked for.
type AuditEntry = api.AuditEntry

// AuditQuery selects entries of the audit; fields that are empty select nothing.
type AuditQuery struct {
	Before, After int64 // Seq: older than the one, newer than the other; 0 is no bound
	Oldest        bool  // oldest first; otherwise newest first
	Limit         int   // 1..1000; 100 when 0
	Projects      []string
	Actor         string
	Verb          string
	Kind          api.Kind
	Name          string
	Outcome       string // "refused" is every one but ok
	RemoteIP      string
	Token         string // id of a token or a session
	Request       string
	Since, Until  time.Time
}

// Auditor keeps who asked for what, as a chain: each entry carries the hash of the one before, whichever
// server wrote it.
type Auditor interface {
	// AddAudit commits all or none; texts become api.AuditText. Seq, Number, Prev and Hash are the store's.
	AddAudit(ctx context.Context, entries ...AuditEntry) error
	ListAudit(ctx context.Context, q AuditQuery) ([]AuditEntry, error)
	// AuditHead is the newest entry of the chain.
	AuditHead(ctx context.Context) (api.AuditHead, error)
}

// Archived is a finished object as it was.
type Archived struct {
	Object api.Object
	// Phase and Queue are columns so that lists can filter on them.
	Phase string
	Queue string
	// Expires, when not zero, is when its logs and outputs may go.
	Expires time.Time
}

// ListQuery selects archived objects. Sort and Desc give the order, ties by id in the same
// direction; After is the cursor: rows strictly behind this (SortValue, ID) in that order.
type ListQuery struct {
	Kind    api.Kind
	Project string // "" is all
	Owner   string
	Phase   []string // any of
	Queue   string
	Labels  map[string]string // all of
	Search  string            // substring of name or displayName, case-insensitive
	Sort    string            // "id" (default: creation), "name", "displayName", "updatedAt"
	Desc    bool
	After   *Cursor
	Limit   int // 1..1000
}

// Cursor is a position in a sorted list.
type Cursor struct {
	Value string // the sort column's value; "" when sorting by id
	ID    string
}

// Archive keeps finished objects.
type Archive interface {
	// PutArchived replaces by object id.
	PutArchived(ctx context.Context, rows ...Archived) error
	// GetArchived finds by id, or by the newest with this name. Fails with fault NotFound.
	GetArchived(ctx context.Context, kind api.Kind, project, nameOrID string) (Archived, error)
	ListArchived(ctx context.Context, q ListQuery) ([]Archived, error)
	// CountArchived counts what ListArchived would walk, up to max.
	CountArchived(ctx context.Context, q ListQuery, max int) (int, error)
	// Expired lists ids whose Expires is before now; Forget deletes rows.
	Expired(ctx context.Context, now time.Time, limit int) ([]Archived, error)
	Forget(ctx context.Context, kind api.Kind, ids ...string) error
}
