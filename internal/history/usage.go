package history

import (
	"context"
	"strconv"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// UsageRow is one replica's stay on a node. Replica is unique: writing it again replaces it. What a
// stay costs is not written down but follows from the row and the zone's books: there is nothing to
// lose, to count twice or to correct.
type UsageRow struct {
	Replica     string        `json:"replica"`
	TaskID      string        `json:"taskId"`
	Project     string        `json:"project"`
	Owner       string        `json:"owner"`
	Zone        string        `json:"zone"`
	Node        string        `json:"node"`
	Devices     int           `json:"devices"`
	Thousandths int64         `json:"thousandths"` // of devices, all together: less where they are shared
	Type        string        `json:"type,omitempty"`
	CPU         api.MilliCPU  `json:"cpu"`
	Memory      api.Bytes     `json:"memory"`
	Spot        bool          `json:"spot,omitempty"` // at the price of those that may be preempted
	Start       time.Time     `json:"start"`
	Stop        time.Time     `json:"stop,omitzero"` // zero: still running
	ExitCode    int           `json:"exitCode"`
	Reason      string        `json:"reason,omitempty"`
	CPUTime     time.Duration `json:"cpuTime"`
	PeakBytes   api.Bytes     `json:"peakBytes"`
	PriceHour   float64       `json:"priceHour"` // at its start
}

// Check refuses a row that has no key.
func (r *UsageRow) Check() error {
	if r.Replica == "" {
		return fault.New(fault.Invalid, "NoReplica", fault.T("A usage row needs its replica.", "用量记录缺少副本名。"))
	}
	return nil
}

// UsageSpan selects the stays that overlap [From, To). One that still runs has no end.
type UsageSpan struct {
	From, To time.Time
	// Projects limits them to these; nil is all.
	Projects []string
}

// Usage keeps who used what.
type Usage interface {
	PutUsage(ctx context.Context, rows ...UsageRow) error
	UsageOf(ctx context.Context, taskID string) ([]UsageRow, error)
	// EachUsage calls f with every stay of a span once, in order of start and replica. It reads page
	// by page: a stay that ends meanwhile is seen as it was or as it is.
	EachUsage(ctx context.Context, span UsageSpan, f func(UsageRow)) error
}

// usagePage is how many rows EachUsage reads at once.
const usagePage = 5000

// Pages is EachUsage over a reader of the page behind a row.
func (q UsageSpan) Pages(f func(UsageRow), read func(after UsageRow) ([]UsageRow, error)) error {
	var last UsageRow
	for {
		page, err := read(last)
		if err != nil {
			return err
		}
		for _, u := range page {
			f(u)
		}
		if len(page) < usagePage {
			return nil
		}
		last = page[len(page)-1]
	}
}

// Where is the condition and order of the page behind a row, and its arguments; both adapters use
// this one. arg says how the n-th argument is written.
func (q UsageSpan) Where(after UsageRow, nanos func(time.Time) int64, arg func(n int) string) (string, []any) {
	args := []any{nanos(after.Start), after.Replica, nanos(q.To), nanos(q.From)}
	where := "(start, replica) > (" + arg(1) + ", " + arg(2) + ") AND start < " + arg(3) + " AND (stop IS NULL OR stop > " + arg(4) + ")"
	if q.Projects != nil {
		marks := make([]string, len(q.Projects))
		for i, p := range q.Projects {
			args = append(args, p)
			marks[i] = arg(len(args))
		}
		if len(marks) == 0 {
			marks = []string{"NULL"}
		}
		where += " AND project IN (" + strings.Join(marks, ", ") + ")"
	}
	return where + " ORDER BY start, replica LIMIT " + strconv.Itoa(usagePage), args
}

// Book is what a zone charged and burned from a time on, until the next book.
type Book struct {
	Zone  string
	Since time.Time
	// Spec has only what counts for that: price, clock, power and carbon.
	Spec api.ZoneSpec
}

// Books keeps the past terms of zones. The present ones are the zone's own.
type Books interface {
	// PutBook keeps the first that was written for a zone and time: a book never changes.
	PutBook(ctx context.Context, b Book) error
	// BooksOf are those of a zone that were in force at some time of a span, oldest first, at most
	// MaxBooks of them, the newest.
	BooksOf(ctx context.Context, zone string, from, to time.Time) ([]Book, error)
}

// MaxBooks bounds an answer of BooksOf: a change every five minutes for a month.
const MaxBooks = 10_000

// Run is what a finished task teaches: how long it took, on how much.
type Run struct {
	TaskID    string
	Owner     string
	Name      string // the recipe's: project and name, as the planner knows it
	Framework string
	Work      string // hash of what was asked for; equal work has an equal hash
	Devices   int
	Nodes     int
	Zones     []string
	Ran       time.Duration // of all attempts
	Last      time.Duration // of the last
	Declared  time.Duration // 0: nothing
	Succeeded bool
	Ended     time.Time
}

// Runs keeps them.
type Runs interface {
	// PutRun replaces by task.
	PutRun(ctx context.Context, r Run) error
	// NewestRuns are the last so many that ended, newest first; limit is 1..MaxRuns.
	NewestRuns(ctx context.Context, limit int) ([]Run, error)
}

// MaxRuns bounds what a new leader learns from.
const MaxRuns = 20_000
