package pgstore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/history/historytest"
	"github.com/fermi-cluster/fermi/internal/history/pgstore/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openAt(t testing.TB, url string) *Store {
	t.Helper()
	s, err := Open(context.Background(), Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestConformance(t *testing.T) {
	historytest.Run(t, func(t *testing.T) history.History { return openAt(t, pgtest.New(t)) })
}

// TestWithoutTheExtension: searches find the same when nobody may create pg_trgm.
func TestWithoutTheExtension(t *testing.T) {
	historytest.Run(t, func(t *testing.T) history.History {
		url := pgtest.New(t)
		role := "plain_" + filepath.Base(strings.SplitN(url, "?", 2)[0])
		pgtest.Exec(t, url, `CREATE ROLE `+role+` LOGIN`, `GRANT CREATE ON SCHEMA public TO `+role)
		t.Cleanup(func() { // before the database goes
			pgtest.Exec(t, url, `REASSIGN OWNED BY `+role+` TO CURRENT_USER`, `DROP OWNED BY `+role, `DROP ROLE `+role)
		})
		s := openAt(t, strings.Replace(url, "fermi@", role+"@", 1))
		var there bool
		if err := s.pool.QueryRow(t.Context(), `SELECT to_regclass('archived_haystack') IS NOT NULL`).Scan(&there); err != nil || there {
			t.Fatalf("the index is there: %v, %v", there, err)
		}
		return s
	})
}

// TestSearchUsesTheIndex: a search over many rows does not read them all.
func TestSearchUsesTheIndex(t *testing.T) {
	s := openAt(t, pgtest.New(t))
	var rows []history.Archived
	for i := range 3000 {
		rows = append(rows, historytest.Task(i, fmt.Sprintf("大模型 %x", i*7919)))
	}
	if err := s.PutArchived(t.Context(), rows...); err != nil {
		t.Fatal(err)
	}
	l, err := newList(history.ListQuery{Kind: api.KindTrainingTask, Search: fmt.Sprintf("%x", 2345*7919)})
	if err != nil {
		t.Fatal(err)
	}
	var plan []string
	err = pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
		for _, q := range []string{`ANALYZE archived`, `SET LOCAL enable_seqscan = off`} { // so few rows are read faster than the index
			if _, err := tx.Exec(t.Context(), q); err != nil {
				return err
			}
		}
		rows, err := tx.Query(t.Context(), `EXPLAIN SELECT seq FROM archived WHERE `+l.where, l.args...)
		if err != nil {
			return err
		}
		plan, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if text := strings.Join(plan, "\n"); err != nil || !strings.Contains(text, "archived_haystack") {
		t.Fatalf("%v\n%s", err, text)
	}
}

// TestManyServersStart: all migrate at once; one does it.
func TestManyServersStart(t *testing.T) {
	url := pgtest.New(t)
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			s, err := Open(context.Background(), Config{URL: url})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			if err := s.PutArchived(context.Background(), historytest.Task(i, "x")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	n, err := openAt(t, url).CountArchived(t.Context(), history.ListQuery{Kind: api.KindTrainingTask}, 100)
	if err != nil || n != 6 {
		t.Fatalf("%d rows, %v", n, err)
	}
}

// TestFollowersMissNothing: while two servers write, who asks for what came after the last Seq sees
// every event once.
func TestFollowersMissNothing(t *testing.T) {
	url := pgtest.New(t)
	writers := []*Store{openAt(t, url), openAt(t, url)}
	reader := openAt(t, url)
	const each, per = 4, 40
	var wg sync.WaitGroup
	for i := range each * len(writers) {
		wg.Go(func() {
			for j := range per {
				if err := writers[i%len(writers)].AddEvents(context.Background(), history.Event{ID: "x", Reason: fmt.Sprint(i, "/", j)}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	written := make(chan struct{})
	go func() { wg.Wait(); close(written) }()
	seen := map[string]int{}
	for after, over := int64(0), false; ; {
		select {
		case <-written:
			over = true
		default:
		}
		page, err := reader.ListEvents(t.Context(), history.EventQuery{After: after, Limit: 7})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page {
			seen[e.Reason]++
			after = e.Seq
		}
		if len(page) == 0 && over {
			break
		}
	}
	if len(seen) != each*per*len(writers) {
		t.Fatalf("%d of %d seen", len(seen), each*per*len(writers))
	}
}

// TestAllOrNone: a write whose second half is refused leaves nothing of its first.
func TestAllOrNone(t *testing.T) {
	s := openAt(t, pgtest.New(t))
	err := s.write(t.Context(),
		statement{`INSERT INTO points VALUES ('t', 'n', 'r', 0, '')`, nil},
		statement{`INSERT INTO points VALUES ('t', 'n', 'r', 0, '')`, nil})
	if fault.ReasonOf(err) != "HistoryFailed" {
		t.Fatalf("err = %v", err)
	}
	names, err := read(t.Context(), s.link, `SELECT name FROM points`, nil, func(r pgx.Rows) (name string, err error) { return name, r.Scan(&name) })
	if err != nil || len(names) != 0 {
		t.Fatalf("%v, %v", names, err)
	}
}

// TestConnectionsCutInTheMiddle: while every connection is cut again and again, keyed writes are
// acknowledged and stand there once. The next cut comes when every writer has got on since the last
// one: faster than that nobody could write on a slow machine.
func TestConnectionsCutInTheMiddle(t *testing.T) {
	url := pgtest.New(t)
	s := openAt(t, url)
	ctx, cancel := context.WithCancel(context.Background())
	const writers, per = 4, 200
	var written [writers]atomic.Int64
	var cutter sync.WaitGroup
	cutter.Go(func() {
		conn, err := pgx.Connect(context.Background(), url)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close(context.Background())
		var before [writers]int64
		for ctx.Err() == nil {
			if _, err := conn.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND pid <> pg_backend_pid()`); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
			for w := range before {
				for before[w] == written[w].Load() && ctx.Err() == nil {
					time.Sleep(time.Millisecond)
				}
				before[w] = written[w].Load()
			}
		}
	})
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range per {
				written[w].Add(1)
				if err := s.AddEvents(context.Background(), history.Event{ID: fmt.Sprint("w", w), Reason: fmt.Sprint(i)}); err != nil {
					t.Errorf("%v", err)
				}
				if err := s.PutArchived(context.Background(), historytest.Task(w*1000+i, "x")); err != nil {
					t.Errorf("%v", err)
				}
			}
		})
	}
	wg.Wait()
	cancel()
	cutter.Wait()
	for w := range writers {
		events, err := s.ListEvents(context.Background(), history.EventQuery{ObjectID: fmt.Sprint("w", w), Limit: 1000})
		if err != nil || len(events) != per {
			t.Fatalf("writer %d: %d events of %d, %v", w, len(events), per, err)
		}
		for i, e := range events {
			if e.Reason != fmt.Sprint(i) {
				t.Fatalf("writer %d: event %d is %s", w, i, e.Reason)
			}
		}
	}
}

// asFirst makes a copy such as the first release wrote: without the tables and columns of later ones.
func asFirst(whole string) string {
	head, rows, _ := strings.Cut(whole, "\n")
	whole = regexp.MustCompile(`schema \d+`).ReplaceAllString(head, "schema 1") + "\n" + rows
	whole = regexp.MustCompile(`(?s)\naudit\n.*?\n\\\.\n`).ReplaceAllStringFunc(whole, func(rows string) string {
		return regexp.MustCompile(`(\t[^\t\n]*){9}\n`).ReplaceAllString(rows, "\n")
	})
	for _, table := range []string{"books", "runs", "audit_head", "point_outlines", "point_batches", "point_sources", "point_series", "served"} {
		whole = regexp.MustCompile(`(?s)\n`+table+`\n(?:.*?\n)??\\\.\n`).ReplaceAllString(whole, "\n")
	}
	return strings.Replace(whole, "\t500\t0\n", "\n", 1)
}

func TestBackupAndRestore(t *testing.T) {
	ctx := context.Background()
	from := openAt(t, pgtest.New(t))
	if err := from.AddEvents(ctx, history.Event{ID: "x", Message: fault.T("a\tb\\.\n\\.\n", "中\n文"), Dedup: "d"}, history.Event{ID: "x"}); err != nil {
		t.Fatal(err)
	}
	big := historytest.Task(1, "备份")
	big.Object.GetMeta().Labels = map[string]string{"team": "x", "k": strings.Repeat("v,\"{}", 20_000)}
	if err := from.PutArchived(ctx, big, historytest.Task(2, strings.Repeat("long ", 30_000))); err != nil {
		t.Fatal(err)
	}
	if err := from.PutUsage(ctx, history.UsageRow{Replica: "r", TaskID: "t", Devices: 2, Thousandths: 500}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(from.PutBook(ctx, history.Book{Zone: "z"}), from.PutRun(ctx, history.Run{TaskID: "t", Zones: []string{"a", "b"}})); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := from.AddAudit(ctx, history.AuditEntry{Actor: fmt.Sprint("a\t", i), After: "{\n}", Time: time.Unix(1, 5)}); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "copy")
	if err := from.Backup(ctx, path); err != nil {
		t.Fatal(err)
	}
	url := pgtest.New(t)
	restore := func(path string) error {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return Restore(ctx, Config{URL: url}, f)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"cut":    string(whole[:len(whole)-5]),
		"half":   string(whole[:len(whole)/2]),
		"rows":   strings.Replace(string(whole), "task-1", "task-1\tx", 1),
		"future": regexp.MustCompile(`schema \d+`).ReplaceAllString(string(whole[:64]), "schema 99") + string(whole[64:]),
		"empty":  "",
	} {
		bad := filepath.Join(t.TempDir(), "bad")
		if err := os.WriteFile(bad, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := restore(bad); fault.ReasonOf(err) != "BadHistoryCopy" {
			t.Fatalf("%s: %v", name, err)
		}
	}
	old := filepath.Join(t.TempDir(), "old") // of the first release
	if err := os.WriteFile(old, []byte(asFirst(string(whole))), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := restore(old); err != nil {
		t.Fatal(err)
	}
	if err := restore(path); fault.ReasonOf(err) != "HistoryNotEmpty" {
		t.Fatalf("a second time: %v", err)
	}
	to := openAt(t, url)
	if err := to.AddAudit(ctx, history.AuditEntry{Actor: "new"}); err != nil {
		t.Fatal(err)
	}
	if c := historytest.VerifyAudit(t, to); c.Older != 3 || c.Records != 1 {
		t.Fatalf("the audit of the first release: %+v", c)
	}
	if rows, err := to.UsageOf(ctx, "t"); err != nil || len(rows) != 1 || rows[0].Thousandths != 2000 {
		t.Fatalf("%+v, %v", rows, err)
	}
	if err := to.AddEvents(ctx, history.Event{ID: "x", Dedup: "d"}, history.Event{ID: "x", Reason: "new"}); err != nil {
		t.Fatal(err)
	}
	was, err := from.ListEvents(ctx, history.EventQuery{})
	if err != nil {
		t.Fatal(err)
	}
	is, err := to.ListEvents(ctx, history.EventQuery{})
	if err != nil || len(is) != 3 || is[0] != was[0] || is[1] != was[1] || is[2].Reason != "new" || is[2].Seq <= is[1].Seq {
		t.Fatalf("%+v\n%+v, %v", was, is, err)
	}
	again := filepath.Join(t.TempDir(), "again")
	fresh := pgtest.New(t)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := Restore(ctx, Config{URL: fresh}, f); err != nil {
		t.Fatal(err)
	}
	if c := historytest.VerifyAudit(t, openAt(t, fresh)); c.Older != 0 || c.Records != 3 {
		t.Fatalf("the restored audit: %+v", c)
	}
	if err := openAt(t, fresh).Backup(ctx, again); err != nil {
		t.Fatal(err)
	}
	if second, err := os.ReadFile(again); err != nil || string(second) != string(whole) {
		t.Fatalf("the copy of a restored copy is another one (%d and %d bytes, %v)", len(whole), len(second), err)
	}
}

// TestAuditOfAnOlderDatabase: rows that were there keep their place, and the chain begins behind them. Two
// servers then write one chain, and a write that is repeated is no second entry.
func TestAuditOfAnOlderDatabase(t *testing.T) {
	ctx := context.Background()
	url := pgtest.New(t)
	all, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, url, append(slices.Clone(all[:3]), `CREATE TABLE schema_migrations (number BIGINT PRIMARY KEY, applied TIMESTAMPTZ NOT NULL DEFAULT now())`,
		`INSERT INTO schema_migrations VALUES (1), (2), (3)`,
		`INSERT INTO audit (time, actor, verb, kind, project, name, object, before, after, remote, outcome, dedup)
			SELECT n, 'old', 'create', 'Zone', '', 'n' || n, '', '', '{}', '', 'ok', 'd' || n FROM generate_series(1, 7) n`)...)
	a, b := openAt(t, url), openAt(t, url)
	for i := range 10 {
		for _, s := range []*Store{a, b} {
			if err := s.AddAudit(ctx, history.AuditEntry{Actor: fmt.Sprint(i)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if c := historytest.VerifyAudit(t, b); c.Older != 7 || c.Records != 20 {
		t.Fatalf("%+v", c)
	}
	e := history.AuditEntry{Actor: "once"}
	digest := e.Digest()
	st := statement{addAudit, append(history.AuditValues(&e, nanos), hex.EncodeToString(digest[:]), "same key")}
	if err := errors.Join(a.write(ctx, st), a.write(ctx, st, st)); err != nil {
		t.Fatal(err)
	}
	if c := historytest.VerifyAudit(t, b); c.Records != 21 {
		t.Fatalf("%+v", c)
	}
	pgtest.Exec(t, url, `DELETE FROM audit_head`)
	if err := a.AddAudit(ctx, e); err == nil {
		t.Fatal("an entry without a chain")
	}
}
