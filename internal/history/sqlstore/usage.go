package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/history"
)

const usageColumns = `replica, task, project, owner, zone, node, devices, type, cpu, memory, start, stop,
	exit_code, reason, cpu_time, peak_bytes, price_hour, thousandths, spot`

// ledger keeps what work used, what that cost, and how its runs went.
type ledger struct {
	write func(ctx context.Context, do func(ctx context.Context, w *writer) error) error
	query func(ctx context.Context, query string, args []any, scan func(*sql.Rows) error) error
}

// PutUsage replaces by replica.
func (s *ledger) PutUsage(ctx context.Context, rows ...history.UsageRow) error {
	for i := range rows {
		if err := rows[i].Check(); err != nil {
			return err
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return s.write(ctx, func(ctx context.Context, w *writer) error {
		for _, r := range rows {
			var stop any
			if !r.Stop.IsZero() {
				stop = nanos(r.Stop)
			}
			err := w.exec(ctx, `INSERT OR REPLACE INTO usage (`+usageColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
				r.Replica, r.TaskID, r.Project, r.Owner, r.Zone, r.Node, r.Devices, r.Type, int64(r.CPU), int64(r.Memory), nanos(r.Start), stop,
				r.ExitCode, r.Reason, int64(r.CPUTime), int64(r.PeakBytes), r.PriceHour, r.Thousandths, r.Spot)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func scanUsage(r *sql.Rows) (u history.UsageRow, err error) {
	var cpu, memory, start, spent, peak int64
	var stop sql.NullInt64
	err = r.Scan(&u.Replica, &u.TaskID, &u.Project, &u.Owner, &u.Zone, &u.Node, &u.Devices, &u.Type, &cpu, &memory, &start, &stop,
		&u.ExitCode, &u.Reason, &spent, &peak, &u.PriceHour, &u.Thousandths, &u.Spot)
	u.CPU, u.Memory, u.PeakBytes, u.CPUTime = api.MilliCPU(cpu), api.Bytes(memory), api.Bytes(peak), time.Duration(spent)
	u.Start = fromNanos(start)
	if stop.Valid {
		u.Stop = fromNanos(stop.Int64)
	}
	return u, err
}

// UsageOf is a task's rows by start.
func (s *ledger) UsageOf(ctx context.Context, taskID string) ([]history.UsageRow, error) {
	return s.usage(ctx, `task = ?1 ORDER BY start, replica`, taskID)
}

func (s *ledger) usage(ctx context.Context, where string, args ...any) (out []history.UsageRow, err error) {
	err = s.query(ctx, `SELECT `+usageColumns+` FROM usage WHERE `+where, args, func(r *sql.Rows) error {
		u, err := scanUsage(r)
		out = append(out, u)
		return err
	})
	return out, err
}

// EachUsage walks the index of starts.
func (s *ledger) EachUsage(ctx context.Context, span history.UsageSpan, f func(history.UsageRow)) error {
	return span.Pages(f, func(after history.UsageRow) ([]history.UsageRow, error) {
		where, args := span.Where(after, nanos, func(n int) string { return "?" + strconv.Itoa(n) })
		return s.usage(ctx, where, args...)
	})
}

// PutBook keeps what is there.
func (s *ledger) PutBook(ctx context.Context, b history.Book) error {
	body, err := json.Marshal(b.Spec)
	if err != nil {
		return err
	}
	return s.write(ctx, func(ctx context.Context, w *writer) error {
		return w.exec(ctx, `INSERT INTO books (zone, since, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, b.Zone, nanos(b.Since), string(body))
	})
}

// BooksOf begins with the one in force at from.
func (s *ledger) BooksOf(ctx context.Context, zone string, from, to time.Time) (out []history.Book, err error) {
	err = s.query(ctx, `SELECT since, body FROM books WHERE zone = ?1 AND since < ?3
		AND since >= COALESCE((SELECT MAX(since) FROM books WHERE zone = ?1 AND since <= ?2), ?2) ORDER BY since DESC LIMIT ?4`,
		[]any{zone, nanos(from), nanos(to), history.MaxBooks}, func(r *sql.Rows) error {
			var since int64
			var body []byte
			if err := r.Scan(&since, &body); err != nil {
				return err
			}
			b := history.Book{Zone: zone, Since: fromNanos(since)}
			err := json.Unmarshal(body, &b.Spec)
			out = append(out, b)
			return err
		})
	slices.Reverse(out)
	return out, err
}

// PutRun replaces by task.
func (s *ledger) PutRun(ctx context.Context, r history.Run) error {
	return s.write(ctx, func(ctx context.Context, w *writer) error {
		return w.exec(ctx, `INSERT OR REPLACE INTO runs (task, owner, name, framework, work, devices, nodes, zones, ran, last, declared, succeeded, ended)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, r.TaskID, r.Owner, r.Name, r.Framework, r.Work, r.Devices, r.Nodes,
			strings.Join(r.Zones, ","), int64(r.Ran), int64(r.Last), int64(r.Declared), r.Succeeded, nanos(r.Ended))
	})
}

// NewestRuns walks the index of ends.
func (s *ledger) NewestRuns(ctx context.Context, limit int) (out []history.Run, err error) {
	err = s.query(ctx, `SELECT task, owner, name, framework, work, devices, nodes, zones, ran, last, declared, succeeded, ended FROM runs
		ORDER BY ended DESC, task DESC LIMIT ?`, []any{min(max(limit, 1), history.MaxRuns)}, func(row *sql.Rows) error {
		var r history.Run
		var zones string
		var ran, last, declared, ended int64
		err := row.Scan(&r.TaskID, &r.Owner, &r.Name, &r.Framework, &r.Work, &r.Devices, &r.Nodes, &zones, &ran, &last, &declared, &r.Succeeded, &ended)
		r.Ran, r.Last, r.Declared, r.Ended = time.Duration(ran), time.Duration(last), time.Duration(declared), fromNanos(ended)
		if zones != "" {
			r.Zones = strings.Split(zones, ",")
		}
		out = append(out, r)
		return err
	})
	return out, err
}
