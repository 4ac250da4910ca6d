package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"math"
	"net/url"
	"os"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
)

// Config says which file.
type Config struct {
	Path  string
	Log   *slog.Logger
	Clock clock.Clock
}

// tuning are sizes that tests make small.
type tuning struct {
	sparse   int // up to so many rows are found by words and sorted
	zoneMax  int // a zone with more rows is split
	zonePage int // zones read at once
	blocks   int // of a series before it is thinned; 0: history.MaxBlocks
}

var usual = tuning{sparse: 4000, zoneMax: 1024, zonePage: 64}

// Store is a History. Safe for concurrent use.
type Store struct {
	archive
	ledger
	points
	served
	cfg     Config
	tune    tuning
	readers *sql.DB
	writers *sql.DB
	writer  *writer
	closing sync.Once
	closed  error
}

var _ history.History = (*Store)(nil)

// Open opens or makes the file, brings its schema up to date and starts the writer, which Close
// ends.
func Open(ctx context.Context, cfg Config) (*Store, error) { return open(ctx, cfg, usual) }

func open(ctx context.Context, cfg Config, tune tuning) (*Store, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.Real
	}
	f, err := os.OpenFile(cfg.Path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, openFault(cfg.Path, err)
	}
	f.Close()
	s := &Store{cfg: cfg, tune: tune}
	s.archive, s.ledger = archive{write: s.write, query: s.query, tune: tune}, ledger{write: s.write, query: s.query}
	s.served = served{write: s.write, query: s.query}
	s.points = points{write: s.write, query: s.query, most: cmp.Or(tune.blocks, history.MaxBlocks)}
	// One connection writes; SQLite knows no more. Its cache is large, for the indexes.
	if s.writers, err = sql.Open("sqlite", dsn(cfg.Path, "cache_size(-65536)", "wal_autocheckpoint(16000)")); err != nil {
		return nil, openFault(cfg.Path, err)
	}
	s.writers.SetMaxOpenConns(1)
	if s.readers, err = sql.Open("sqlite", dsn(cfg.Path, "cache_size(-16384)", "query_only(1)")); err != nil {
		return nil, errors.Join(openFault(cfg.Path, err), s.writers.Close())
	}
	s.readers.SetMaxOpenConns(8)
	s.readers.SetMaxIdleConns(4)
	if err := s.startWhenFree(ctx); err != nil {
		return nil, errors.Join(openFault(cfg.Path, err), s.readers.Close(), s.writers.Close())
	}
	return s, nil
}

// busyAtStart is how long another server may take to open the file.
const busyAtStart = time.Minute

// startWhenFree waits for another server that opens the same file: SQLite itself does not wait for one that
// just turns it into a database with a log.
func (s *Store) startWhenFree(ctx context.Context) error {
	for begun := time.Now(); ; {
		err := s.start(ctx)
		if !isBusy(err) || time.Since(begun) > busyAtStart {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func isBusy(err error) bool {
	var lite *sqlite.Error
	return errors.As(err, &lite) && lite.Code()&0xff == sqlite3.SQLITE_BUSY
}

func (s *Store) start(ctx context.Context) error {
	conn, err := s.writers.Conn(ctx)
	if err != nil {
		return err
	}
	if err := migrate(ctx, conn, s.cfg.Clock); err != nil {
		return errors.Join(err, conn.Close())
	}
	if err := anchor(ctx, conn, s.cfg.Clock); err != nil {
		return errors.Join(err, conn.Close())
	}
	s.writer = newWriter(conn, s.cfg.Log, s.tune)
	go s.writer.run()
	return nil
}

func dsn(path string, pragmas ...string) string {
	q := url.Values{"_txlock": {"immediate"}}
	for _, p := range append([]string{"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "temp_store(MEMORY)"}, pragmas...) {
		q.Add("_pragma", p)
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
}

// bind turns "?" into the dialect's placeholders: the one place where they differ. SQLite takes
// them as they are.
func bind(query string) string { return query }

// Backup writes a consistent copy to a new file, while work goes on.
func (s *Store) Backup(ctx context.Context, path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fault.New(fault.Conflict, "FileExists", fault.T("%s exists already.", "%s 已存在。", path))
	}
	// query_only forbids VACUUM INTO, and the writer must not be held up: a connection of its own.
	db, err := sql.Open("sqlite", dsn(s.cfg.Path))
	if err != nil {
		return s.sick(err)
	}
	_, err = db.ExecContext(ctx, bind("VACUUM INTO ?"), path)
	if err = errors.Join(err, db.Close()); err != nil {
		os.Remove(path)
		return s.sick(err)
	}
	return s.sick(syncFile(path))
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return errors.Join(f.Chmod(0o600), f.Sync())
}

// Close lets writes under way finish, and ends.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.closed = errors.Join(s.writer.close(), s.readers.Close(), s.writers.Close())
	})
	return s.closed
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

// query reads rows; scan is called for each.
func (s *Store) query(ctx context.Context, query string, args []any, scan func(*sql.Rows) error) error {
	rows, err := s.readers.QueryContext(ctx, bind(query), args...)
	if err != nil {
		return s.sick(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return s.sick(err)
		}
	}
	return s.sick(rows.Err())
}

func openFault(path string, err error) error {
	s := &Store{cfg: Config{Path: path}}
	var known *fault.Error
	if err = s.sick(err); errors.As(err, &known) && known.Reason != "HistoryFailed" {
		return err
	}
	return fault.New(fault.Unavailable, "HistoryUnopened", fault.T(
		"The history database %s could not be opened.", "无法打开历史数据库 %s。", path)).Because(err)
}

// sick turns what SQLite said into a fault.
func (s *Store) sick(err error) error {
	if err == nil {
		return nil
	}
	var known *fault.Error
	if errors.As(err, &known) {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fault.From(err)
	}
	var lite *sqlite.Error
	code := 0
	if errors.As(err, &lite) {
		code = lite.Code() & 0xff
	}
	switch code {
	case sqlite3.SQLITE_FULL:
		return fault.New(fault.Full, "DiskFull", fault.T(
			"The disk of the history database is full.", "历史数据库所在磁盘已满。")).Because(err)
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fault.New(fault.Internal, "HistoryDamaged", fault.T(
			"The history database %s is damaged.", "历史数据库 %s 已损坏。", s.cfg.Path)).
			WithHint(fault.T("Restore it from a backup, or move it away to start a new one.", "请从备份恢复，或将其移走以新建。")).Because(err)
	case sqlite3.SQLITE_IOERR:
		return fault.New(fault.Unavailable, "DiskFailing", fault.T(
			"The disk of the history database %s reports errors, or has no room for its files.", "历史数据库 %s 所在磁盘报告错误，或已无空间存放其文件。", s.cfg.Path)).
			WithHint(fault.T("Look at the kernel's log (dmesg) and the disk.", "请查看内核日志（dmesg）并检查磁盘。")).Because(err)
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return fault.New(fault.Unavailable, "HistoryBusy", fault.T(
			"The history database is busy.", "历史数据库繁忙。")).Because(err)
	case sqlite3.SQLITE_INTERRUPT:
		return fault.New(fault.Timeout, "Timeout", fault.T("The operation took too long.", "操作超时。")).Because(err)
	}
	return fault.New(fault.Internal, "HistoryFailed", fault.T(
		"The history database failed.", "历史数据库操作失败。")).Because(err)
}
