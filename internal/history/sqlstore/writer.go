package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"sync"

	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	queueLen = 256 // writes waiting; further callers block
	maxGroup = 256 // writes in one transaction
)

// writer is the one who writes: it takes what has queued up while it committed, and commits all
// of it with one fsync.
type writer struct {
	conn  *sql.Conn
	log   *slog.Logger
	tune  tuning
	queue chan *write
	ended chan struct{}

	mu     sync.RWMutex // held for reading while putting into queue
	closed bool

	stmts map[string]*sql.Stmt
	zones zoneCache
	// placed are rows that the change under way has put into lists; their zones learn of them
	// once the change is sure to stay in the transaction.
	placed []*entry
}

// write is one caller's change; do runs inside the transaction, alone.
type write struct {
	ctx  context.Context
	do   func(ctx context.Context, w *writer) error
	done chan error // room for one
}

func newWriter(conn *sql.Conn, log *slog.Logger, tune tuning) *writer {
	return &writer{
		conn: conn, log: log, tune: tune, queue: make(chan *write, queueLen), ended: make(chan struct{}),
		stmts: map[string]*sql.Stmt{},
	}
}

// write queues a change and waits for its commit. When ctx ends first the outcome is unknown:
// the change may still be committed.
func (s *Store) write(ctx context.Context, do func(ctx context.Context, w *writer) error) error {
	op := &write{ctx, do, make(chan error, 1)}
	if err := s.writer.put(op); err != nil {
		return s.sick(err)
	}
	select {
	case err := <-op.done:
		return s.sick(err)
	case <-ctx.Done():
		return s.sick(ctx.Err())
	}
}

func (w *writer) put(op *write) error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed {
		return fault.New(fault.Unavailable, "HistoryClosed", fault.T("The history database is closed.", "历史数据库已关闭。"))
	}
	select {
	case w.queue <- op:
		return nil
	case <-op.ctx.Done():
		return op.ctx.Err()
	}
}

// close ends the writer after what was queued.
func (w *writer) close() error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	close(w.queue)
	<-w.ended
	var errs []error
	for _, st := range w.stmts {
		errs = append(errs, st.Close())
	}
	return errors.Join(append(errs, w.conn.Close())...)
}

func (w *writer) run() {
	defer close(w.ended)
	for op := range w.queue {
		group := []*write{op}
		for len(group) < maxGroup && len(w.queue) > 0 {
			if next, ok := <-w.queue; ok {
				group = append(group, next)
			}
		}
		w.commit(group)
	}
}

// commit runs a group in one transaction. A change that fails is undone alone.
func (w *writer) commit(group []*write) {
	// Callers may come and go; the transaction belongs to nobody's context.
	ctx := context.Background()
	outcomes := make([]error, len(group))
	err := w.exec(ctx, "BEGIN IMMEDIATE")
	if err == nil {
		err = w.zones.begin(ctx, w)
	}
	for i, op := range group {
		if err != nil {
			break
		}
		if outcomes[i] = op.ctx.Err(); outcomes[i] == nil {
			outcomes[i], err = w.one(ctx, op, len(group) == 1)
		}
	}
	if err == nil {
		err = w.zones.flush(ctx, w)
	}
	if err == nil {
		err = w.exec(ctx, "COMMIT")
	}
	if err != nil {
		w.zones.forget()
		// SQLite may have rolled back by itself (a full disk); then this says so, and that is all.
		if undo := w.exec(ctx, "ROLLBACK"); undo != nil {
			w.log.Debug("rollback after a failed commit", slog.Any("error", undo))
		}
	}
	for i, op := range group {
		if outcomes[i] == nil {
			outcomes[i] = err
		}
		op.done <- outcomes[i]
	}
}

// one runs a change between savepoints, or without when it is alone: then its failure is the
// transaction's. fatal says that the transaction cannot go on.
func (w *writer) one(ctx context.Context, op *write, alone bool) (outcome, fatal error) {
	w.placed = w.placed[:0]
	if alone {
		if err := op.do(ctx, w); err != nil {
			return err, err
		}
		return nil, w.zones.add(ctx, w, w.placed)
	}
	if err := w.exec(ctx, "SAVEPOINT one"); err != nil {
		return nil, err
	}
	if err := op.do(ctx, w); err != nil {
		if fatal := w.exec(ctx, "ROLLBACK TO one"); fatal != nil {
			return err, fatal
		}
		return err, w.exec(ctx, "RELEASE one")
	}
	if err := w.exec(ctx, "RELEASE one"); err != nil {
		return nil, err
	}
	return nil, w.zones.add(ctx, w, w.placed)
}

// stmt prepares a statement once; the set of texts is small and fixed.
func (w *writer) stmt(ctx context.Context, query string) (*sql.Stmt, error) {
	if st := w.stmts[query]; st != nil {
		return st, nil
	}
	st, err := w.conn.PrepareContext(ctx, bind(query))
	if err == nil {
		w.stmts[query] = st
	}
	return st, err
}

func (w *writer) exec(ctx context.Context, query string, args ...any) error {
	_, err := w.execResult(ctx, query, args...)
	return err
}

func (w *writer) execResult(ctx context.Context, query string, args ...any) (sql.Result, error) {
	st, err := w.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	return st.ExecContext(ctx, args...)
}

// query reads inside the transaction.
func (w *writer) query(ctx context.Context, query string, args []any, scan func(*sql.Rows) error) error {
	st, err := w.stmt(ctx, query)
	if err != nil {
		return err
	}
	rows, err := st.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
