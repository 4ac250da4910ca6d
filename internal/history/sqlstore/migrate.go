package sqlstore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

type migration struct {
	number int
	name   string
	text   string
}

// migrations are the embedded files in order; they are numbered 1, 2, 3 …
func migrations() ([]migration, error) {
	entries, err := fs.ReadDir(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	var out []migration
	for i, e := range entries { // in name order
		head, _, _ := strings.Cut(e.Name(), "_")
		n, err := strconv.Atoi(head)
		if err != nil || n != i+1 {
			return nil, fmt.Errorf("migration %s is not number %d", e.Name(), i+1)
		}
		text, err := fs.ReadFile(migrationFiles, "migrations/"+e.Name())
		if err != nil {
			return nil, err
		}
		out = append(out, migration{n, e.Name(), string(text)})
	}
	return out, nil
}

// migrate applies what is missing, each file in one transaction. Two processes may try at once:
// the transaction begins with the write lock, and the version is read inside it.
func migrate(ctx context.Context, conn *sql.Conn, clk clock.Clock) error {
	all, err := migrations()
	if err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS schema_migrations (
		number BIGINT PRIMARY KEY, name TEXT NOT NULL, applied TEXT NOT NULL)`); err != nil {
		return err
	}
	for {
		more, err := migrateOne(ctx, conn, all, clk)
		if err != nil || !more {
			return err
		}
	}
}

func migrateOne(ctx context.Context, conn *sql.Conn, all []migration, clk clock.Clock) (more bool, err error) {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	var at int
	if err := tx.QueryRowContext(ctx, `SELECT COALESCE(MAX(number), 0) FROM schema_migrations`).Scan(&at); err != nil {
		return false, err
	}
	if at > len(all) {
		return false, fault.New(fault.Conflict, "SchemaTooNew", fault.T(
			"The history database was written by a newer Fermi (schema %d, this one knows %d).",
			"历史数据库由更新版本的 Fermi 写入（架构版本 %d，当前支持到 %d）。", at, len(all))).
			WithHint(fault.T("Start the newer version, or restore a backup made by this one.", "请使用新版本启动，或恢复由当前版本创建的备份。"))
	}
	if at == len(all) {
		return false, tx.Rollback()
	}
	m := all[at]
	if _, err := tx.ExecContext(ctx, m.text); err != nil {
		return false, fmt.Errorf("migration %s: %w", m.name, err)
	}
	if _, err := tx.ExecContext(ctx, bind(`INSERT INTO schema_migrations (number, name, applied) VALUES (?, ?, ?)`),
		m.number, m.name, history.TimeKey(clk.Now())); err != nil {
		return false, err
	}
	return true, tx.Commit()
}
