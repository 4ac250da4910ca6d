package pgstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/history"
)

const (
	usageColumns = `replica, task, project, owner, zone, node, devices, type, cpu, memory, start, stop,
		exit_code, reason, cpu_time, peak_bytes, price_hour, thousandths, spot`
	runColumns = `task, owner, name, framework, work, devices, nodes, zones, ran, last, declared, succeeded, ended`
)

// bit is a truth as its column keeps it.
func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// ledger keeps what work used, what that cost, and how its runs went.
type ledger struct{ link }

// PutUsage replaces by replica.
func (s *ledger) PutUsage(ctx context.Context, rows ...history.UsageRow) error {
	all := make([]statement, len(rows))
	for i, r := range rows {
		if err := r.Check(); err != nil {
			return err
		}
		all[i] = statement{`INSERT INTO usage (` + usageColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
			ON CONFLICT (replica) DO UPDATE SET task = excluded.task, project = excluded.project, owner = excluded.owner,
			zone = excluded.zone, node = excluded.node, devices = excluded.devices, type = excluded.type, cpu = excluded.cpu,
			memory = excluded.memory, start = excluded.start, stop = excluded.stop, exit_code = excluded.exit_code,
			reason = excluded.reason, cpu_time = excluded.cpu_time, peak_bytes = excluded.peak_bytes, price_hour = excluded.price_hour,
			thousandths = excluded.thousandths, spot = excluded.spot`,
			[]any{r.Replica, r.TaskID, r.Project, r.Owner, r.Zone, r.Node, r.Devices, r.Type, int64(r.CPU), int64(r.Memory), nanos(r.Start), orNull(r.Stop),
				r.ExitCode, cut(r.Reason), int64(r.CPUTime), int64(r.PeakBytes), r.PriceHour, r.Thousandths, bit(r.Spot)}}
	}
	if len(rows) == 0 {
		return nil
	}
	return s.write(ctx, all...)
}

// UsageOf is a task's rows by start.
func (s *ledger) UsageOf(ctx context.Context, taskID string) ([]history.UsageRow, error) {
	return s.usage(ctx, `task = $1 ORDER BY start, replica`, taskID)
}

func (s *ledger) usage(ctx context.Context, where string, args ...any) ([]history.UsageRow, error) {
	return read(ctx, s.link, `SELECT `+usageColumns+` FROM usage WHERE `+where, args, func(r pgx.Rows) (u history.UsageRow, err error) {
		var cpu, memory, start, spent, peak, spot int64
		var stop *int64
		err = r.Scan(&u.Replica, &u.TaskID, &u.Project, &u.Owner, &u.Zone, &u.Node, &u.Devices, &u.Type, &cpu, &memory, &start, &stop,
			&u.ExitCode, &u.Reason, &spent, &peak, &u.PriceHour, &u.Thousandths, &spot)
		u.CPU, u.Memory, u.PeakBytes, u.CPUTime = api.MilliCPU(cpu), api.Bytes(memory), api.Bytes(peak), time.Duration(spent)
		u.Start, u.Stop, u.Spot = fromNanos(start), fromNull(stop), spot != 0
		return u, err
	})
}

// EachUsage walks the index of starts.
func (s *ledger) EachUsage(ctx context.Context, span history.UsageSpan, f func(history.UsageRow)) error {
	return span.Pages(f, func(after history.UsageRow) ([]history.UsageRow, error) {
		where, args := span.Where(after, nanos, func(n int) string { return "$" + strconv.Itoa(n) })
		return s.usage(ctx, where, args...)
	})
}

// PutBook keeps what is there.
func (s *ledger) PutBook(ctx context.Context, b history.Book) error {
	body, err := json.Marshal(b.Spec)
	if err != nil {
		return err
	}
	return s.write(ctx, statement{`INSERT INTO books (zone, since, body) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, []any{b.Zone, nanos(b.Since), string(body)}})
}

// BooksOf begins with the one in force at from.
func (s *ledger) BooksOf(ctx context.Context, zone string, from, to time.Time) ([]history.Book, error) {
	out, err := read(ctx, s.link, fmt.Sprintf(`SELECT since, body FROM books WHERE zone = $1 AND since < $3
		AND since >= COALESCE((SELECT MAX(since) FROM books WHERE zone = $1 AND since <= $2), $2) ORDER BY since DESC LIMIT %d`, history.MaxBooks),
		[]any{zone, nanos(from), nanos(to)}, func(r pgx.Rows) (b history.Book, err error) {
			var since int64
			var body string
			if err := r.Scan(&since, &body); err != nil {
				return b, err
			}
			b.Zone, b.Since = zone, fromNanos(since)
			return b, json.Unmarshal([]byte(body), &b.Spec)
		})
	slices.Reverse(out)
	return out, err
}

// PutRun replaces by task.
func (s *ledger) PutRun(ctx context.Context, r history.Run) error {
	return s.write(ctx, statement{`INSERT INTO runs (` + runColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
		ON CONFLICT (task) DO UPDATE SET owner = excluded.owner, name = excluded.name, framework = excluded.framework, work = excluded.work,
		devices = excluded.devices, nodes = excluded.nodes, zones = excluded.zones, ran = excluded.ran, last = excluded.last,
		declared = excluded.declared, succeeded = excluded.succeeded, ended = excluded.ended`,
		[]any{r.TaskID, r.Owner, r.Name, r.Framework, r.Work, r.Devices, r.Nodes, strings.Join(r.Zones, ","),
			int64(r.Ran), int64(r.Last), int64(r.Declared), bit(r.Succeeded), nanos(r.Ended)}})
}

// NewestRuns walks the index of ends.
func (s *ledger) NewestRuns(ctx context.Context, limit int) ([]history.Run, error) {
	return read(ctx, s.link, fmt.Sprintf(`SELECT `+runColumns+` FROM runs ORDER BY ended DESC, task DESC LIMIT %d`, min(max(limit, 1), history.MaxRuns)), nil, func(row pgx.Rows) (r history.Run, err error) {
		var zones string
		var ran, last, declared, succeeded, ended int64
		err = row.Scan(&r.TaskID, &r.Owner, &r.Name, &r.Framework, &r.Work, &r.Devices, &r.Nodes, &zones, &ran, &last, &declared, &succeeded, &ended)
		r.Ran, r.Last, r.Declared, r.Ended = time.Duration(ran), time.Duration(last), time.Duration(declared), fromNanos(ended)
		if r.Succeeded = succeeded != 0; zones != "" {
			r.Zones = strings.Split(zones, ",")
		}
		return r, err
	})
}
