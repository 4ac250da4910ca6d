package sqlstore

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/history/historytest"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("FERMI_TEST_WRITE"); path != "" {
		writeForEver(path)
	}
	goleak.VerifyTestMain(m)
}

// writeForEver is a process to be killed: it says which event was acknowledged.
func writeForEver(path string) {
	ctx := context.Background()
	s, err := Open(ctx, Config{Path: path})
	for i := 0; err == nil; i++ {
		err = s.AddEvents(ctx, history.Event{ID: "x", Reason: fmt.Sprint(i)})
		if err == nil {
			err = s.PutArchived(ctx, historytest.Task(i, "大模型"))
		}
		if err == nil {
			fmt.Println(i)
		}
	}
	fmt.Println(err)
	os.Exit(1)
}

// TestKill9: what a killed process had acknowledged is there, and nothing is half there.
func TestKill9(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h.db")
	acked := 0
	for round := range 3 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "FERMI_TEST_WRITE="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; n < 10+7*round && lines.Scan(); n++ {
			acked++
		}
		cmd.Process.Kill()
		for lines.Scan() {
			acked++
		}
		cmd.Wait()
		s := openAt(t, path, usual)
		events, err := s.ListEvents(context.Background(), history.EventQuery{ObjectID: "x", Limit: 1000})
		if err != nil || len(events) < acked || acked < 10 {
			t.Fatalf("round %d: %d events of %d acknowledged, %v", round, len(events), acked, err)
		}
		q := history.ListQuery{Kind: api.KindTrainingTask}
		plain, err := s.CountArchived(context.Background(), q, 1000)
		q.Search = "模型"
		found, err2 := s.CountArchived(context.Background(), q, 1000)
		if err != nil || err2 != nil || plain != found || plain == 0 {
			t.Fatalf("round %d: %d rows, %d found by search, %v, %v", round, plain, found, err, err2)
		}
		acked = len(events)
		s.Close()
	}
}

// TestFull writes on a file system of 1 MiB, where we may mount one.
func TestFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("cannot mount: %v", err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	s := openAt(t, filepath.Join(dir, "h.db"), usual)
	ctx := context.Background()
	big := strings.Repeat("x", 20_000)
	acked := 0
	var err error
	for ; acked < 100 && err == nil; acked++ {
		err = s.AddEvents(ctx, history.Event{ID: "x", Reason: big})
	}
	acked--
	if !fault.Is(err, fault.Full) {
		t.Fatalf("after %d: %v", acked, err)
	}
	events, err := s.ListEvents(ctx, history.EventQuery{ObjectID: "x"})
	if err != nil || len(events) != acked {
		t.Fatalf("%d events of %d, %v", len(events), acked, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func openAt(t testing.TB, path string, tune tuning) *Store {
	t.Helper()
	s, err := open(context.Background(), Config{Path: path}, tune)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestConformance(t *testing.T) {
	for name, tune := range map[string]tuning{
		"usual": usual,                                 // so few rows are found by words
		"zones": {sparse: -1, zoneMax: 6, zonePage: 2}, // everything through the zones
	} {
		t.Run(name, func(t *testing.T) {
			historytest.Run(t, func(t *testing.T) history.History {
				return openAt(t, filepath.Join(t.TempDir(), "it's 历史?.db"), tune)
			})
		})
	}
}

// TestKilled: what was acknowledged is in a copy of the files taken without Close.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, filepath.Join(dir, "h.db"), usual)
	ctx := context.Background()
	for i := range 20 {
		if err := s.PutArchived(ctx, historytest.Task(i, "大模型")); err != nil {
			t.Fatal(err)
		}
		if err := s.AddPoints(ctx, history.Batch{TaskID: "task-1", Replica: "r", Seq: int64(i + 1), Lines: []history.Line{{Name: "loss", Points: []history.Point{{Time: time.Unix(int64(i), 0)}}}}}); err != nil {
			t.Fatal(err)
		}
		if i%7 != 0 {
			continue
		}
		copied := t.TempDir()
		for _, f := range []string{"h.db", "h.db-wal"} { // -shm is rebuilt
			b, err := os.ReadFile(filepath.Join(dir, f))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(copied, f), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		again := openAt(t, filepath.Join(copied, "h.db"), usual)
		n, err := again.CountArchived(ctx, history.ListQuery{Kind: api.KindTrainingTask, Search: "模型"}, 100)
		points, _ := historytest.PointsOf(t, again, "task-1", history.Series{Name: "loss", Replica: "r"}, history.Span{})
		if err != nil || n != i+1 || len(points) != i+1 {
			t.Fatalf("after %d: %d rows, %d points, %v", i+1, n, len(points), err)
		}
		if err := again.PutArchived(ctx, historytest.Task(1000, "后来")); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTwoProcesses: two stores on one file write at once, and each sees the other's rows, also
// through zones that the other has split.
func TestTwoProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h.db")
	ctx := context.Background()
	tune := tuning{sparse: -1, zoneMax: 8, zonePage: 3}
	stores := make([]*Store, 2)
	var wg sync.WaitGroup
	for i := range stores {
		wg.Go(func() { stores[i] = openAt(t, path, tune) }) // both migrate
	}
	wg.Wait()
	for i, s := range stores {
		wg.Go(func() {
			for j := range 60 {
				if err := s.PutArchived(ctx, historytest.Task(j*2+i, fmt.Sprintf("%c 模型 %d", 'a'+j%3, j))); err != nil {
					t.Error(err)
				}
				if err := s.AddAudit(ctx, history.AuditEntry{Actor: fmt.Sprint(i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if c := historytest.VerifyAudit(t, stores[0]); c.Records != 120 {
		t.Errorf("their chain: %+v", c)
	}
	for _, s := range stores {
		for q, want := range map[string]int{"模型": 120, "a 模": 40, "": 120, "b": 40} {
			for _, sort := range []string{"id", "displayName", "name", "updatedAt"} {
				rows, err := s.ListArchived(ctx, history.ListQuery{Kind: api.KindTrainingTask, Search: q, Sort: sort, Limit: 1000})
				if err != nil || len(rows) != want {
					t.Fatalf("%q by %s: %d rows, %v", q, sort, len(rows), err)
				}
			}
		}
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h.db")
	openAt(t, path, usual).Close()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`INSERT INTO schema_migrations VALUES (9999, 'future', '')`); err != nil {
		t.Fatal(err)
	}
	db.Close()
	if _, err := Open(context.Background(), Config{Path: path}); fault.ReasonOf(err) != "SchemaTooNew" {
		t.Fatalf("err = %v", err)
	}
}

func TestDamagedFileIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h.db")
	if err := os.WriteFile(path, bytes.Repeat([]byte("not a database "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(context.Background(), Config{Path: path})
	if fault.ReasonOf(err) != "HistoryDamaged" || !strings.Contains(fault.From(err).Message.EN, path) {
		t.Fatalf("err = %v", err)
	}
	_, err = Open(context.Background(), Config{Path: filepath.Join(path, "under a file")})
	if fault.ReasonOf(err) != "HistoryUnopened" {
		t.Fatalf("err = %v", err)
	}
}

func TestBackupOpens(t *testing.T) {
	dir := t.TempDir()
	ctx := context.Background()
	s := openAt(t, filepath.Join(dir, "h.db"), usual)
	if err := s.PutArchived(ctx, historytest.Task(1, "备份")); err != nil {
		t.Fatal(err)
	}
	if err := s.Backup(ctx, filepath.Join(dir, "copy.db")); err != nil {
		t.Fatal(err)
	}
	again := openAt(t, filepath.Join(dir, "copy.db"), usual)
	rows, err := again.ListArchived(ctx, history.ListQuery{Kind: api.KindTrainingTask, Search: "备份", Limit: 1})
	if err != nil || len(rows) != 1 {
		t.Fatalf("%v, %v", rows, err)
	}
}

func TestTrim(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "h.db"), usual)
	ctx := context.Background()
	var all []history.Event
	for i := range 2500 {
		all = append(all, history.Event{Time: time.Unix(int64(i), 0), ID: "x", Reason: fmt.Sprint(i)})
	}
	if err := s.AddEvents(ctx, all...); err != nil {
		t.Fatal(err)
	}
	if err := s.Trim(ctx, time.Unix(2400, 0)); err != nil {
		t.Fatal(err)
	}
	left, err := s.ListEvents(ctx, history.EventQuery{Limit: 1000})
	if err != nil || len(left) != 100 || left[0].Reason != "2400" {
		t.Fatalf("%d left, %v", len(left), err)
	}
}

// TestFailedWriteInAGroup: one change of a group fails; it alone is undone.
func TestFailedWriteInAGroup(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "h.db"), usual)
	ctx := context.Background()
	broken := fault.New(fault.Invalid, "Broken", fault.T("x", "x"))
	hold, held := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // keeps the writer busy until the others have queued
		if err := s.write(ctx, func(context.Context, *writer) error { close(held); <-hold; return nil }); err != nil {
			t.Error(err)
		}
	})
	<-held
	for i := range 4 {
		wg.Go(func() {
			if err := s.PutArchived(ctx, historytest.Task(i, "kept")); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			e, _ := encode(historytest.Task(100+i, "undone"))
			err := s.write(ctx, func(ctx context.Context, w *writer) error {
				if err := w.putEntry(ctx, e); err != nil {
					return err
				}
				return broken
			})
			if fault.ReasonOf(err) != "Broken" {
				t.Errorf("err = %v", err)
			}
		})
	}
	deadline := time.Now().Add(time.Minute)
	for len(s.writer.queue) < 8 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	close(hold)
	wg.Wait()
	n, err := s.CountArchived(ctx, history.ListQuery{Kind: api.KindTrainingTask}, 100)
	if err != nil || n != 4 {
		t.Fatalf("%d rows, %v", n, err)
	}
}

// TestAuditOfAnOlderFile: rows that were there keep their place, the chain begins behind them, and whoever
// changes a row afterwards is found out.
func TestAuditOfAnOlderFile(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "history.db")
	all, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", dsn(path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	do := func(query string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(ctx, query, args...); err != nil {
			t.Fatal(err)
		}
	}
	do(`CREATE TABLE schema_migrations (number BIGINT PRIMARY KEY, name TEXT NOT NULL, applied TEXT NOT NULL)`)
	for _, m := range all[:3] {
		do(m.text)
		do(`INSERT INTO schema_migrations VALUES (?, ?, '')`, m.number, m.name)
	}
	for i := range 5 {
		do(`INSERT INTO audit (time, actor, verb, kind, project, name, object, before, after, remote, outcome) VALUES (?, 'old', 'create', 'Zone', '', ?, '', '', '{}', '', 'ok')`, i, string([]byte{'n', 0xff, 0, 'x'}))
	}
	s, err := Open(ctx, Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 4 {
		if err := s.AddAudit(ctx, history.AuditEntry{Actor: "new", Time: time.Unix(9, 9)}); err != nil {
			t.Fatal(err)
		}
	}
	if c := historytest.VerifyAudit(t, s); c.Older != 5 || c.Records != 4 {
		t.Fatalf("%+v", c)
	}
	for _, harm := range []string{
		`UPDATE audit SET actor = 'eve' WHERE seq = 2`, `UPDATE audit SET actor = 'eve' WHERE number = 2`, `DELETE FROM audit WHERE number = 4`,
		`DELETE FROM audit WHERE seq = 5`, `UPDATE audit SET seq = 1000 WHERE number = 1`,
	} {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.ExecContext(ctx, harm); err != nil {
			t.Fatal(err)
		}
		head, err := s.AuditHead(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var c api.AuditChain
		c.Begin(head.Anchor)
		rows, err := tx.QueryContext(ctx, `SELECT seq, `+history.AuditColumns+`, number, prev, hash FROM audit ORDER BY seq`)
		if err != nil {
			t.Fatal(err)
		}
		var found error
		for rows.Next() {
			e, err := history.AuditRow(rows.Scan, fromNanos)
			if err != nil {
				t.Fatal(err)
			}
			if found == nil {
				found = c.Add(&e)
			}
		}
		rows.Close()
		if found == nil {
			found = c.End(head)
		}
		if fault.ReasonOf(found) != "BrokenChain" {
			t.Errorf("%s: %v", harm, found)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	}
}
