package pgstore

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
)

const (
	maxConns    = 8
	dialTimeout = 3 * time.Second
	maxPassword = 4096 // bytes of a password file
	maxLimit    = 1000 // the largest page
	maxText     = 1 << 20
)

// Config says which database.
type Config struct {
	// URL is postgres://USER@HOST:PORT/DATABASE?OPTIONS. A password comes from PasswordFile, or as
	// libpq takes it (PGPASSFILE, ~/.pgpass, PGPASSWORD).
	URL string
	// PasswordFile holds the password and is read for every connection, so that it may change.
	PasswordFile string
	Log          *slog.Logger
	Clock        clock.Clock
}

// link is how statements reach the database: once, or again while it is away.
type link struct {
	pool *pgxpool.Pool
	try  func(ctx context.Context, keyed bool, do func(context.Context) error) error
}

// Store is a History. Safe for concurrent use.
type Store struct {
	link
	ledger
	points
	served
	cfg    Config
	where  string // host:port or the socket, for messages
	closed atomic.Bool
	// One of our writers at a time waits for the lock that keeps Seq in order; the others wait
	// here, where they take no connection from readers.
	events, audit chan struct{}
}

var _ history.History = (*Store)(nil)

// Open connects and brings the schema up to date. Close ends what it started.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.Real
	}
	s := &Store{cfg: cfg, events: make(chan struct{}, 1), audit: make(chan struct{}, 1)}
	pc, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		return nil, fault.New(fault.Invalid, "BadHistoryURL", fault.T(
			"history.url is not understood.", "无法识别 history.url。")).
			WithHint(fault.T("It looks like postgres://fermi@db.example:5432/fermi?sslmode=verify-full.", "形如 postgres://fermi@db.example:5432/fermi?sslmode=verify-full。")).Because(err)
	}
	s.where = net.JoinHostPort(pc.ConnConfig.Host, strconv.Itoa(int(pc.ConnConfig.Port)))
	if strings.HasPrefix(pc.ConnConfig.Host, "/") {
		s.where = fmt.Sprintf("%s/.s.PGSQL.%d", pc.ConnConfig.Host, pc.ConnConfig.Port)
	}
	pc.MaxConns = maxConns
	pc.ConnConfig.ConnectTimeout = dialTimeout
	if pc.ConnConfig.RuntimeParams["application_name"] == "" {
		pc.ConnConfig.RuntimeParams["application_name"] = "fermi"
	}
	if cfg.PasswordFile != "" {
		pc.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) (err error) {
			c.Password, err = readPassword(cfg.PasswordFile)
			return err
		}
	}
	if s.pool, err = pgxpool.NewWithConfig(ctx, pc); err != nil {
		return nil, s.sick(err)
	}
	s.try = s.again
	s.ledger, s.served = ledger{s.link}, served{s.link}
	s.points = points{link: s.link, most: history.MaxBlocks}
	// Not bounded like the rest: others may be migrating, and building an index takes its time.
	if err := s.try(ctx, true, func(context.Context) error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return migrate(ctx, tx, cfg.Clock, cfg.Log) })
	}); err != nil {
		s.pool.Close()
		return nil, err
	}
	return s, nil
}

// readPassword reads a file that only its owner may read, as libpq wants of its own.
func readPassword(path string) (string, error) {
	refuse := func(en, zh string, cause error) error {
		return fault.New(fault.Invalid, "BadPasswordFile", fault.T(en, zh, path)).Because(cause)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", refuse("Can't read the password file %s.", "无法读取密码文件 %s。", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return "", refuse("%s is no file with a password.", "%s 不是密码文件。", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", refuse("Others may read the password file %s; chmod 600 it.", "密码文件 %s 可被他人读取，请执行 chmod 600。", nil)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxPassword+1))
	password := strings.TrimRight(string(raw), "\r\n")
	if err != nil || len(raw) > maxPassword || password == "" || strings.ContainsAny(password, "\x00\n") {
		return "", refuse("%s does not hold one line with a password.", "%s 应只包含一行密码。", err)
	}
	return password, nil
}

// Close lets what is under way finish, and ends.
func (s *Store) Close() error {
	if !s.closed.Swap(true) {
		s.pool.Close()
	}
	return nil
}

// statement is a part of a write.
type statement struct {
	sql  string
	args []any
}

// write sends all statements as one message, which the database runs as one transaction.
func (l link) write(ctx context.Context, all ...statement) error {
	return l.try(ctx, true, func(ctx context.Context) error {
		var b pgx.Batch
		for _, st := range all {
			b.Queue(st.sql, clean(st.args)...)
		}
		return l.pool.SendBatch(ctx, &b).Close()
	})
}

// inOrder is write for tables whose numbers must become visible in their order: a number is taken
// only after the one before is committed, by whichever server.
func (s *Store) inOrder(ctx context.Context, turn chan struct{}, lock int64, all []statement) error {
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return fault.From(ctx.Err())
	}
	defer func() { <-turn }()
	return s.write(ctx, append([]statement{{`SELECT pg_advisory_xact_lock($1)`, []any{lock}}}, all...)...)
}

// read gives what scan makes of each row.
func read[T any](ctx context.Context, l link, sql string, args []any, scan func(pgx.Rows) (T, error)) (out []T, err error) {
	err = l.try(ctx, true, func(ctx context.Context) error {
		rows, err := l.pool.Query(ctx, sql, clean(args)...)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (T, error) { return scan(rows) })
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// clean makes texts such as PostgreSQL takes: UTF-8 without NUL. Keys are cleaned alike when they
// are written and when they are looked for.
func clean(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case string:
			out[i] = cleanText(a)
		case []string:
			texts := make([]string, len(a))
			for j, text := range a {
				texts[j] = cleanText(text)
			}
			out[i] = texts
		default:
			out[i] = a
		}
	}
	return out
}

func cleanText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}

// cut bounds one text column: longer ones are cut, for a row that is not written is worse.
func cut(s string) string { return s[:min(len(s), maxText)] }

// limitOf is a page's size: what was asked for within 1..1000, 100 when nothing was.
func limitOf(n int) int {
	if n == 0 {
		return 100
	}
	return min(max(n, 1), maxLimit)
}

// nanos is how times are kept in integer columns; the zero time has a place of its own.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return math.MinInt64
	}
	return t.UnixNano()
}

func fromNanos(n int64) time.Time {
	if n == math.MinInt64 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// orNull is a time that may be absent.
func orNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return nanos(t)
}

func fromNull(n *int64) time.Time {
	if n == nil {
		return time.Time{}
	}
	return fromNanos(*n)
}
