package pgstore

import (
	"context"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/history/pgstore/pgtest"
)

func TestNewerSchemaIsRefused(t *testing.T) {
	at := pgtest.New(t)
	openAt(t, at).Close()
	pgtest.Exec(t, at, `INSERT INTO schema_migrations (number) VALUES (9999)`)
	if _, err := Open(t.Context(), Config{URL: at}); fault.ReasonOf(err) != "SchemaTooNew" {
		t.Fatalf("err = %v", err)
	}
}

func TestRefusals(t *testing.T) {
	at := pgtest.New(t)
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/nobody_made_this"
	latin := strings.TrimPrefix(u.Path, "/") + "_latin1"
	pgtest.Exec(t, at, `CREATE DATABASE `+latin+` ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0`)
	t.Cleanup(func() { pgtest.Exec(t, at, `DROP DATABASE `+latin+` WITH (FORCE)`) })
	for _, tt := range []struct{ url, reason string }{
		{u.String(), "NoHistoryDatabase"},
		{strings.Replace(at, "fermi@", "stranger@", 1), "HistoryRefused"},
		{strings.Replace(u.String(), "nobody_made_this", latin, 1), "HistoryEncoding"},
		{at + "&default_transaction_read_only=on", "HistoryReadOnly"},
	} {
		if _, err := Open(t.Context(), Config{URL: tt.url}); fault.ReasonOf(err) != tt.reason {
			t.Errorf("%s: %v", tt.reason, err)
		}
	}
}

// TestPassword: refused without and with a wrong one; a changed file counts from the next connection.
func TestPassword(t *testing.T) {
	at := pgtest.New(t)
	role := "pw_" + strings.TrimPrefix(must(url.Parse(at)).Path, "/")
	pgtest.Exec(t, at, `DO $$ BEGIN CREATE ROLE fermi_test_password; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$`,
		`CREATE ROLE `+role+` LOGIN PASSWORD 'first' IN ROLE fermi_test_password`, `GRANT CREATE ON SCHEMA public TO `+role)
	t.Cleanup(func() { pgtest.Exec(t, at, `DROP OWNED BY `+role, `DROP ROLE `+role) })
	mine := strings.Replace(at, "fermi@", role+"@", 1)
	path := filepath.Join(t.TempDir(), "password")
	put := func(password string) {
		if err := os.WriteFile(path, []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("wrong")
	for _, file := range []string{"", path} {
		s, err := Open(t.Context(), Config{URL: mine, PasswordFile: file})
		if err == nil {
			s.Close()
			t.Skip("this server wants no passwords; make e2e-postgres starts one that does")
		}
		if fault.ReasonOf(err) != "HistoryRefused" || strings.Contains(err.Error(), "wrong") {
			t.Fatalf("with %q: %v", file, err)
		}
	}
	put("first")
	s, err := Open(t.Context(), Config{URL: mine, PasswordFile: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put("second")
	pgtest.Exec(t, at, `ALTER ROLE `+role+` PASSWORD 'second'`, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '`+role+`'`)
	if err := s.AddEvents(t.Context(), history.Event{ID: "x"}); err != nil {
		t.Fatal(err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestFull: a database on a full disk says so, and what was acknowledged is there.
func TestFull(t *testing.T) {
	at := pgtest.New(t)
	dir := must(os.MkdirTemp("", "full")) // t.TempDir's parent is closed to the server's user
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=24m"); err != nil {
		t.Skipf("cannot mount: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	owner, err := os.Stat(must(url.Parse(at)).Query().Get("host"))
	if err != nil {
		t.Skipf("the server is elsewhere: %v", err)
	}
	if err := os.Chown(dir, int(owner.Sys().(*syscall.Stat_t).Uid), -1); err != nil {
		t.Fatal(err)
	}
	space := "full_" + strings.TrimPrefix(must(url.Parse(at)).Path, "/")
	pgtest.Exec(t, at, `CREATE TABLESPACE `+space+` LOCATION '`+dir+`'`, `CREATE DATABASE `+space+` TABLESPACE `+space+` ENCODING 'UTF8' TEMPLATE template0`)
	t.Cleanup(func() {
		pgtest.Exec(t, at, `DROP DATABASE `+space+` WITH (FORCE)`, `DROP TABLESPACE `+space)
	})
	u := must(url.Parse(at))
	u.Path = "/" + space
	s := openAt(t, u.String())
	random := make([]byte, 200_000)
	rand.NewChaCha8([32]byte{}).Read(random)
	acked := 0
	for err = nil; acked < 200 && err == nil; acked++ {
		err = s.AddEvents(t.Context(), history.Event{ID: "x", Message: fault.T(hex.EncodeToString(random), "")})
	}
	acked--
	if !fault.Is(err, fault.Full) {
		t.Fatalf("after %d: %v", acked, err)
	}
	events, err := s.ListEvents(t.Context(), history.EventQuery{ObjectID: "x", Limit: 1000})
	if err != nil || len(events) != acked || acked == 0 {
		t.Fatalf("%d events of %d, %v", len(events), acked, err)
	}
}

func TestUnreachable(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(context.Background(), Config{URL: "postgres://fermi@/x?host=" + dir})
	if fault.ReasonOf(err) != "HistoryUnreachable" || !strings.Contains(fault.From(err).Message.EN, dir) {
		t.Fatalf("err = %v", err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Open(ended, Config{URL: "postgres://fermi@/x?host=" + dir}); err == nil {
		t.Fatal("opened under an ended context")
	}
	if _, err := Open(context.Background(), Config{URL: "postgres://u:hidden@h:port/x"}); fault.ReasonOf(err) != "BadHistoryURL" || strings.Contains(err.Error(), "hidden") {
		t.Fatalf("err = %v", err)
	}
}

func TestPasswordFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	for _, tt := range []struct {
		text, want string
		mode       os.FileMode
	}{
		{"secret\n", "secret", 0o600}, {"a b\r\n", "a b", 0o400}, {"", "", 0o600}, {"\n", "", 0o600}, {"two\nlines", "", 0o600},
		{"open", "", 0o640}, {strings.Repeat("x", maxPassword+1), "", 0o600}, {"n\x00l", "", 0o600},
	} {
		os.Remove(path)
		if err := os.WriteFile(path, []byte(tt.text), tt.mode); err != nil {
			t.Fatal(err)
		}
		got, err := readPassword(path)
		if got != tt.want || (err == nil) != (tt.want != "") || tt.want == "" && fault.ReasonOf(err) != "BadPasswordFile" {
			t.Errorf("%.20q: %q, %v", tt.text, got, err)
		}
	}
	for _, bad := range []string{filepath.Dir(path), path + ".not"} {
		if _, err := readPassword(bad); fault.ReasonOf(err) != "BadPasswordFile" {
			t.Errorf("%s: %v", bad, err)
		}
	}
	os.Remove(path)
	if _, err := Open(context.Background(), Config{URL: "postgres://fermi@/x?host=/nowhere", PasswordFile: path}); fault.ReasonOf(err) != "BadPasswordFile" {
		t.Errorf("opened: %v", err)
	}
}

// TestSick: every sentence of the database has a fault, and what may pass is told from what won't.
func TestSick(t *testing.T) {
	s := &Store{where: "db:5432"}
	for _, tt := range []struct {
		code, reason string
		again        bool
	}{
		{"28P01", "HistoryRefused", false}, {"3D000", "NoHistoryDatabase", false}, {"42501", "HistoryForbidden", false},
		{"53100", "DiskFull", false}, {"25006", "HistoryReadOnly", false}, {"55P03", "HistoryBusy", false}, {"57014", "Timeout", false},
		{"57P01", "HistoryUnreachable", true}, {"57P03", "HistoryUnreachable", true}, {"53300", "HistoryUnreachable", true},
		{"40P01", "HistoryUnreachable", true}, {"08006", "HistoryUnreachable", true}, {"42601", "HistoryFailed", false},
	} {
		err := &pgconn.PgError{Code: tt.code, Message: "words of the database"}
		f := fault.From(s.sick(err))
		if again, sure := passing(err); f.Reason != tt.reason || again != tt.again || !sure {
			t.Errorf("%s: %s, again %v, sure %v", tt.code, f.Reason, again, sure)
		}
		if f.Message.ZH == "" || strings.Contains(f.Message.EN, "words") {
			t.Errorf("%s: %+v", tt.code, f.Message)
		}
	}
	if again, sure := passing(io.ErrUnexpectedEOF); !again || sure {
		t.Errorf("a lost connection: %v, %v", again, sure)
	}
	if s.sick(nil) != nil {
		t.Error("nothing became a fault")
	}
}

// FuzzCopyReader: rows come out as they went in, up to the end and no further.
func FuzzCopyReader(f *testing.F) {
	f.Add("1\ta\n2\tb\n\\.\nend\n")
	f.Add("\\.\n")
	f.Add(strings.Repeat("x", 70_000) + "\\.\n\\.\nrest")
	f.Add("1\n\\.")
	f.Fuzz(func(t *testing.T, text string) {
		c := newCopyReader(iotest.HalfReader(strings.NewReader(text)))
		rows, err := io.ReadAll(c.table())
		want, rest, ok := strings.Cut("\n"+text, "\n\\.\n")
		if !ok {
			if fault.ReasonOf(err) != "BadHistoryCopy" {
				t.Fatalf("no end: %v", err)
			}
			return
		}
		if want = strings.TrimPrefix(want+"\n", "\n"); err != nil || string(rows) != want {
			t.Fatalf("%q became %q: %v", want, rows, err)
		}
		if left, err := io.ReadAll(c.r); err != nil || string(left) != rest {
			t.Fatalf("left %q of %q: %v", left, rest, err)
		}
	})
}
