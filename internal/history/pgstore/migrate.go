package pgstore

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Keys of advisory locks, which PostgreSQL keeps per database; the numbers mean nothing.
const (
	lockMigrate = 0x6665726d_0001
	lockEvents  = 0x6665726d_0002
	lockAudit   = 0x6665726d_0003
)

// migrations are the texts of the embedded files in name order: number 1, 2, 3 …
func migrations() ([]string, error) {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	out := make([]string, len(names))
	for i, name := range names {
		text, err := fs.ReadFile(migrationFiles, name)
		if err != nil {
			return nil, err
		}
		out[i] = string(text)
	}
	return out, nil
}

// migrate applies what is missing in one transaction: all or nothing, one server at a time.
func migrate(ctx context.Context, tx pgx.Tx, clk clock.Clock, log *slog.Logger) error {
	all, err := migrations()
	if err != nil {
		return err
	}
	var encoding string
	if err := tx.QueryRow(ctx, `SELECT current_setting('server_encoding')`).Scan(&encoding); err != nil {
		return err
	}
	if encoding != "UTF8" {
		return fault.New(fault.Invalid, "HistoryEncoding", fault.T(
			"The history database keeps texts as %s; it must be UTF8.", "历史数据库的编码为 %s，必须为 UTF8。", encoding)).
			WithHint(fault.T("Create it with ENCODING 'UTF8' TEMPLATE template0.", "请使用 ENCODING 'UTF8' TEMPLATE template0 创建数据库。"))
	}
	// A server that is paused in here must not keep the others from starting for ever.
	for _, q := range []string{
		`SET LOCAL lock_timeout = '20s'`, `SET LOCAL idle_in_transaction_session_timeout = '10s'`,
		fmt.Sprintf(`SELECT pg_advisory_xact_lock(%d)`, lockMigrate),
		`CREATE TABLE IF NOT EXISTS schema_migrations (number BIGINT PRIMARY KEY, applied TIMESTAMPTZ NOT NULL DEFAULT now())`,
	} {
		if _, err := tx.Exec(ctx, q); err != nil {
			return err
		}
	}
	at, err := schemaOf(ctx, tx)
	if err != nil {
		return err
	}
	if at > len(all) {
		return fault.New(fault.Conflict, "SchemaTooNew", fault.T(
			"The history database was written by a newer Fermi (schema %d, this one knows %d).",
			"历史数据库由更新版本的 Fermi 写入（架构版本 %d，当前支持到 %d）。", at, len(all))).
			WithHint(fault.T("Start the newer version, or restore a backup made by this one.", "请使用新版本启动，或恢复由当前版本创建的备份。"))
	}
	for ; at < len(all); at++ {
		if _, err := tx.Exec(ctx, all[at]); err != nil {
			return fmt.Errorf("migration %d: %w", at+1, err)
		}
		if _, err := tx.Exec(ctx, `INSERT INTO schema_migrations (number) VALUES ($1)`, at+1); err != nil {
			return err
		}
	}
	if err := anchor(ctx, tx, clk); err != nil {
		return err
	}
	return indexSearch(ctx, tx, log)
}

func schemaOf(ctx context.Context, tx pgx.Tx) (at int, err error) {
	err = tx.QueryRow(ctx, `SELECT COALESCE(max(number), 0) FROM schema_migrations`).Scan(&at)
	return at, err
}

// indexSearch lets searches use an index where the extension is at hand; without it they read the
// narrow table. Not a migration: an administrator may add the extension any day.
func indexSearch(ctx context.Context, tx pgx.Tx, log *slog.Logger) error {
	var there bool
	if err := tx.QueryRow(ctx, `SELECT to_regclass('archived_haystack') IS NOT NULL`).Scan(&there); err != nil || there {
		return err
	}
	err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { // a savepoint
		if _, err := tx.Exec(ctx, `CREATE EXTENSION IF NOT EXISTS pg_trgm`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `CREATE INDEX archived_haystack ON archived USING gin (haystack gin_trgm_ops) WITH (fastupdate = off)`)
		return err
	})
	if err == nil || !answered(err) {
		return err
	}
	log.Info("searches of the archive go without an index: the extension pg_trgm can't be created", "error", err)
	return nil
}
