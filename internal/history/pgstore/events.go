package pgstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
)

// AddEvents commits all or none. One whose dedup is known already is passed over.
func (s *Store) AddEvents(ctx context.Context, events ...history.Event) error {
	if len(events) == 0 {
		return nil
	}
	all := make([]statement, len(events))
	for i, e := range events {
		if e.Time.IsZero() {
			e.Time = s.cfg.Clock.Now()
		}
		dedup := "=" + e.Dedup
		if e.Dedup == "" {
			dedup = once()
		}
		all[i] = statement{`INSERT INTO events (time, kind, project, name, object, type, reason, en, zh, actor, dedup)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT DO NOTHING`,
			[]any{nanos(e.Time), string(e.Kind), e.Project, e.Name, e.ID, e.Type, cut(e.Reason), cut(e.Message.EN), cut(e.Message.ZH), e.Actor, dedup}}
	}
	return s.inOrder(ctx, s.events, lockEvents, all)
}

// once is the key of a row whose writer gave none: repeating the write does not repeat the row.
func once() string { return "~" + rand.Text() }

// ListEvents is oldest first.
func (s *Store) ListEvents(ctx context.Context, q history.EventQuery) ([]history.Event, error) {
	where, args := `seq > $1`, []any{q.After}
	for _, c := range []struct{ column, value string }{{"object", q.ObjectID}, {"kind", string(q.Kind)}, {"project", q.Project}} {
		if c.value != "" {
			args = append(args, c.value)
			where += fmt.Sprintf(` AND %s = $%d`, c.column, len(args))
		}
	}
	direction := "ASC"
	if q.Newest {
		direction = "DESC"
	}
	out, err := read(ctx, s, fmt.Sprintf(`SELECT seq, time, kind, project, name, object, type, reason, en, zh, actor FROM events
		WHERE %s ORDER BY seq %s LIMIT %d`, where, direction, limitOf(q.Limit)), args, func(r pgx.Rows) (e history.Event, err error) {
		var at int64
		err = r.Scan(&e.Seq, &at, &e.Kind, &e.Project, &e.Name, &e.ID, &e.Type, &e.Reason, &e.Message.EN, &e.Message.ZH, &e.Actor)
		e.Time = fromNanos(at)
		return e, err
	})
	if q.Newest {
		slices.Reverse(out)
	}
	return out, err
}

// AddAudit commits all or none.
func (s *Store) AddAudit(ctx context.Context, entries ...history.AuditEntry) error {
	if len(entries) == 0 {
		return nil
	}
	all := make([]statement, len(entries))
	for i, e := range entries {
		all[i] = statement{`INSERT INTO audit (time, actor, verb, kind, project, name, object, before, after, remote, outcome, dedup)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT DO NOTHING`,
			[]any{nanos(e.Time), e.Actor, e.Verb, string(e.Kind), e.Project, e.Name, e.ID, cut(e.Before), cut(e.After), e.RemoteIP, cut(e.Outcome), once()}}
	}
	return s.inOrder(ctx, s.audit, lockAudit, all)
}

// ListAudit is newest first.
func (s *Store) ListAudit(ctx context.Context, before int64, limit int) ([]history.AuditEntry, error) {
	return read(ctx, s, fmt.Sprintf(`SELECT seq, time, actor, verb, kind, project, name, object, before, after, remote, outcome FROM audit
		WHERE $1 <= 0 OR seq < $1 ORDER BY seq DESC LIMIT %d`, limitOf(limit)), []any{before}, func(r pgx.Rows) (e history.AuditEntry, err error) {
		var at int64
		err = r.Scan(&e.Seq, &at, &e.Actor, &e.Verb, &e.Kind, &e.Project, &e.Name, &e.ID, &e.Before, &e.After, &e.RemoteIP, &e.Outcome)
		e.Time = fromNanos(at)
		return e, err
	})
}

// PutUsage replaces by replica.
func (s *Store) PutUsage(ctx context.Context, rows ...history.UsageRow) error {
	for _, r := range rows {
		if r.Replica == "" {
			return fault.New(fault.Invalid, "NoReplica", fault.T("A usage row needs its replica.", "用量记录缺少副本名。"))
		}
	}
	if len(rows) == 0 {
		return nil
	}
	all := make([]statement, len(rows))
	for i, r := range rows {
		all[i] = statement{`INSERT INTO usage (replica, task, project, owner, zone, node, devices, type, cpu, memory, start, stop,
			exit_code, reason, cpu_time, peak_bytes, price_hour) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
			ON CONFLICT (replica) DO UPDATE SET task = excluded.task, project = excluded.project, owner = excluded.owner,
			zone = excluded.zone, node = excluded.node, devices = excluded.devices, type = excluded.type, cpu = excluded.cpu,
			memory = excluded.memory, start = excluded.start, stop = excluded.stop, exit_code = excluded.exit_code,
			reason = excluded.reason, cpu_time = excluded.cpu_time, peak_bytes = excluded.peak_bytes, price_hour = excluded.price_hour`,
			[]any{r.Replica, r.TaskID, r.Project, r.Owner, r.Zone, r.Node, r.Devices, r.Type, int64(r.CPU), int64(r.Memory), nanos(r.Start), orNull(r.Stop),
				r.ExitCode, cut(r.Reason), int64(r.CPUTime), int64(r.PeakBytes), r.PriceHour}}
	}
	return s.write(ctx, all...)
}

// UsageOf is a task's rows by start.
func (s *Store) UsageOf(ctx context.Context, taskID string) ([]history.UsageRow, error) {
	return read(ctx, s, `SELECT replica, task, project, owner, zone, node, devices, type, cpu, memory, start, stop,
		exit_code, reason, cpu_time, peak_bytes, price_hour FROM usage WHERE task = $1 ORDER BY start, replica`, []any{taskID}, func(r pgx.Rows) (u history.UsageRow, err error) {
		var cpu, memory, start, spent, peak int64
		var stop *int64
		err = r.Scan(&u.Replica, &u.TaskID, &u.Project, &u.Owner, &u.Zone, &u.Node, &u.Devices, &u.Type, &cpu, &memory, &start, &stop,
			&u.ExitCode, &u.Reason, &spent, &peak, &u.PriceHour)
		u.CPU, u.Memory, u.PeakBytes, u.CPUTime = api.MilliCPU(cpu), api.Bytes(memory), api.Bytes(peak), time.Duration(spent)
		u.Start, u.Stop = fromNanos(start), fromNull(stop)
		return u, err
	})
}

// SumUsage adds up by key.
func (s *Store) SumUsage(ctx context.Context, q history.UsageQuery) ([]history.UsageSum, error) {
	text, args, err := q.SQL("LEAST", "GREATEST", func(n int) string { return "$" + strconv.Itoa(n) })
	if err != nil {
		return nil, err
	}
	return read(ctx, s, text, args, func(r pgx.Rows) (history.UsageSum, error) {
		var (
			key                                       string
			replicas, running, devices, cores, memory int64
			cost                                      float64
		)
		err := r.Scan(&key, &replicas, &running, &devices, &cores, &memory, &cost)
		return history.Sum(key, replicas, running, devices, cores, memory, cost), err
	})
}
