package pgstore

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// patience is how long an operation waits for a database that is away, which a restart of it takes.
const patience = 3 * time.Second

// opTimeout bounds one try: a connection whose other end is silent would last for minutes.
const opTimeout = 15 * time.Second

// answered says that the database itself refused: what was asked for has not been done.
func answered(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg)
}

// passing says that the same operation may work in a moment. Where the database did not answer, the
// operation may have been done: sure tells those apart.
func passing(err error) (again, sure bool) {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false, false
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code {
		case "40001", "40P01", // serialization, deadlock
			"53300",                            // too many connections
			"57P01", "57P02", "57P03", "57P05", // shut down, crashed, starting, idle for too long
			"25P03": // idle in transaction for too long
			return true, true
		}
		return strings.HasPrefix(pg.Code, "08"), true
	}
	var known *fault.Error
	if errors.As(err, &known) {
		return false, true
	}
	var dial *pgconn.ConnectError
	return true, errors.As(err, &dial) || pgconn.SafeToRetry(err)
}

// again runs an operation until it is done, refused, or patience is over. An operation without a key
// is repeated only when it is sure that nothing was done.
func (s *Store) again(ctx context.Context, keyed bool, do func(context.Context) error) error {
	begin, wait := s.cfg.Clock.Now(), 20*time.Millisecond
	for {
		if s.closed.Load() {
			return fault.New(fault.Unavailable, "HistoryClosed", fault.T("The history database is closed.", "历史数据库已关闭。"))
		}
		bounded, cancel := context.WithTimeout(ctx, opTimeout)
		err := do(bounded)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fault.From(ctx.Err())
		}
		again, sure := passing(err)
		if !again || !sure && !keyed || s.cfg.Clock.Now().Sub(begin) > patience {
			return s.sick(err)
		}
		select {
		case <-ctx.Done():
			return fault.From(ctx.Err())
		case <-s.cfg.Clock.After(wait):
		}
		wait = min(2*wait, 400*time.Millisecond)
	}
}

// sick turns what the driver or the database said into a fault. Their words are the cause, which is
// logged and never shown; the driver leaves passwords out of them.
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
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return s.away(err)
	}
	switch {
	case pg.Code == "28P01", pg.Code == "28000":
		return fault.New(fault.Forbidden, "HistoryRefused", fault.T(
			"The history database at %s refused the user or the password.", "历史数据库 %s 拒绝了用户名或密码。", s.where)).
			WithHint(fault.T("Give the password by history.password.file or PGPASSFILE, and check pg_hba.conf.", "请通过 history.password.file 或 PGPASSFILE 提供密码，并检查 pg_hba.conf。")).Because(err)
	case pg.Code == "3D000":
		return fault.New(fault.NotFound, "NoHistoryDatabase", fault.T(
			"There is no such database at %s.", "%s 上没有该数据库。", s.where)).
			WithHint(fault.T("Create it with createdb; Fermi makes the tables.", "请先用 createdb 创建；表由 Fermi 创建。")).Because(err)
	case pg.Code == "42501":
		return fault.New(fault.Forbidden, "HistoryForbidden", fault.T(
			"The user of the history database may not do what Fermi needs.", "历史数据库的用户权限不足。")).
			WithHint(fault.T("Make it the owner of the database, or GRANT CREATE ON SCHEMA public.", "请将其设为数据库的所有者，或授予 public 模式的 CREATE 权限。")).Because(err)
	case pg.Code == "53100":
		return fault.New(fault.Full, "DiskFull", fault.T(
			"The disk of the history database is full.", "历史数据库所在磁盘已满。")).Because(err)
	case pg.Code == "25006":
		return fault.New(fault.Unavailable, "HistoryReadOnly", fault.T(
			"The history database at %s is read-only; is it a standby?", "历史数据库 %s 为只读，是否为备库？", s.where)).Because(err)
	case pg.Code == "55P03":
		return fault.New(fault.Unavailable, "HistoryBusy", fault.T(
			"The history database is busy.", "历史数据库繁忙。")).Because(err)
	case pg.Code == "57014":
		return fault.New(fault.Timeout, "Timeout", fault.T("The operation took too long.", "操作超时。")).Because(err)
	case strings.HasPrefix(pg.Code, "08"), strings.HasPrefix(pg.Code, "57P"), pg.Code == "53300", strings.HasPrefix(pg.Code, "40"):
		return s.away(err)
	}
	return fault.New(fault.Internal, "HistoryFailed", fault.T(
		"The history database failed.", "历史数据库操作失败。")).Because(err)
}

func (s *Store) away(err error) error {
	return fault.New(fault.Unavailable, "HistoryUnreachable", fault.T(
		"The history database at %s can't be reached.", "无法连接历史数据库 %s。", s.where)).
		WithHint(fault.T("Check that PostgreSQL runs there and that history.url is right.", "请检查该处的 PostgreSQL 是否运行，以及 history.url 是否正确。")).Because(err)
}
