package restore

import (
	"context"
	"log/slog"
	"os"

	"github.com/fermi-cluster/fermi/internal/app/bundle"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/history/pgstore"
	"github.com/fermi-cluster/fermi/internal/history/sqlstore"
)

// Past says where history is: a PostgreSQL, or SQLite in a file when the URL is "".
type Past struct{ URL, PasswordFile string }

func (p Past) postgres(log *slog.Logger) pgstore.Config {
	return pgstore.Config{URL: p.URL, PasswordFile: p.PasswordFile, Log: log, Clock: clock.Real}
}

// Open opens the history; path is SQLite's file.
func (p Past) Open(ctx context.Context, path string, log *slog.Logger) (history.History, error) {
	if p.URL != "" {
		s, err := pgstore.Open(ctx, p.postgres(log))
		if err != nil {
			return nil, err // and no half of an interface
		}
		return s, nil
	}
	s, err := sqlstore.Open(ctx, sqlstore.Config{Path: path, Log: log, Clock: clock.Real})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Entry is the name under which a backup holds this history.
func (p Past) Entry() string {
	if p.URL != "" {
		return bundle.Copy
	}
	return bundle.History
}

// accept refuses a backup whose history is of the other sort, before anything is done.
func (p Past) accept(entry string) error {
	switch {
	case entry == p.Entry():
		return nil
	case entry == bundle.Copy:
		return fault.New(fault.Invalid, "HistoryURLMissing", fault.T("This backup holds a history from PostgreSQL; nothing was changed.", "该备份包含来自 PostgreSQL 的历史，未做任何改动。")).
			WithHint(fault.T("Give --history-url with an empty database, and start the server with the same.", "请用 --history-url 指定一个空数据库，并以相同设置启动服务。"))
	}
	return fault.New(fault.Invalid, "HistoryURLUnused", fault.T("This backup holds a history from SQLite, which does not go into PostgreSQL; nothing was changed.", "该备份包含来自 SQLite 的历史，无法导入 PostgreSQL，未做任何改动。")).
		WithHint(fault.T("Leave out --history-url and FERMI_HISTORY_URL.", "请去掉 --history-url 和 FERMI_HISTORY_URL。"))
}

// fill puts a copy into the empty database.
func (p Past) fill(ctx context.Context, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return bundle.Bad(err)
	}
	defer f.Close()
	return pgstore.Restore(ctx, p.postgres(nil), f)
}
