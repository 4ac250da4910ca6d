package pgstore

import (
	"context"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fermi-cluster/fermi/internal/fault"
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
