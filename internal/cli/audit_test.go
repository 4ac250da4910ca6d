package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/clitest"
)

func audited(f *clitest.Fake, n int) {
	hash := api.NoAuditHash
	for i := range n {
		e := api.AuditEntry{Seq: int64(i + 1), Time: clitest.Now.Add(time.Duration(i) * time.Second), Actor: "ada", Verb: "use", Kind: api.KindSecret, Project: "nlp", Name: fmt.Sprint("s", i), RemoteIP: "10.0.0.7", Outcome: "ok"}
		if i == 1 {
			e.Actor, e.Verb, e.Kind, e.Project, e.Name, e.Outcome, e.Count = "", "sign-in", api.KindToken, "", "eve\x1b[2J", "BadSignIn", 199
		}
		e.Link(int64(i), hash)
		hash = e.Hash
		f.Audit = append(f.Audit, e)
	}
}

func TestAudit(t *testing.T) {
	f := clitest.New(t)
	t.Setenv("TZ", "UTC")
	check(t, fermi(f, t, "", "audit"), result{err: "Nothing found.\n"})
	audited(f, 2)
	got := fermi(f, t, "", "audit")
	for _, want := range []string{"WHO", "ada", "use", "secret/s0", "nlp", "10.0.0.7", "ok", `token/eve\x1b[2J`, "BadSignIn", "199"} {
		if got.code != 0 || !strings.Contains(got.out, want) {
			t.Errorf("%q is not in:\n%s%s", want, got.out, got.err)
		}
	}
	if got := fermi(f, t, "", "audit", "--limit", "0"); got.code != 2 {
		t.Errorf("%+v", got)
	}
	if got := fermi(f, t, "", "audit", "--since", "yesterday"); got.code != 2 {
		t.Errorf("%+v", got)
	}
}

func TestAuditVerify(t *testing.T) {
	f := clitest.New(t)
	audited(f, 5)
	last := fmt.Sprintf("5:%s", f.Audit[4].Hash)
	good := "Records verified: 5; none is missing.\nKeep this somewhere else, and give it to a later verify with --expect: " + last + "\n"
	check(t, fermi(f, t, "", "audit", "verify"), result{out: good})
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	if got := fermi(f, t, "", "audit", "export", file); got.code != 0 || !strings.Contains(got.err, "fermi audit verify "+file) {
		t.Fatalf("%+v", got)
	}
	t.Setenv("FERMI_TOKEN", "") // a file needs no server
	check(t, fermi(f, t, "", "audit", "verify", file), result{out: good})
	check(t, fermi(f, t, "", "audit", "verify", file, "--expect", last), result{out: good})
	if got := fermi(f, t, "", "audit", "verify", file, "--expect", "4:"+f.Audit[4].Hash); got.code == 0 || !strings.Contains(got.err, "the chain was written anew") {
		t.Errorf("%+v", got)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(whole), "\n")
	for name, tt := range map[string]struct{ Text, want string }{
		"changed":   {strings.Replace(string(whole), `"name":"s2"`, `"name":"s9"`, 1), "Record 3 (seq 3, 2026-05-04T12:00:02Z) is not what was written"},
		"removed":   {strings.Join(append(append([]string{}, lines[:3]...), lines[4:]...), ""), "Record 3 is missing."},
		"swapped":   {strings.Join([]string{lines[0], lines[1], lines[3], lines[2], lines[4], lines[5], lines[6]}, ""), "Record 2 is missing."},
		"cut off":   {strings.Join(lines[:4], ""), "line 5 can't be used"},
		"no export": {"{}\n", "line 1 can't be used"},
		"partial":   {strings.Replace(string(whole), `"audit":"begin"`, `"audit":"begin","partial":true`, 1), "holds some records only"},
	} {
		harmed := filepath.Join(t.TempDir(), "harmed")
		if err := os.WriteFile(harmed, []byte(tt.Text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := fermi(f, t, "", "audit", "verify", harmed); got.code == 0 || !strings.Contains(got.err, tt.want) {
			t.Errorf("%s: %+v; want %q", name, got, tt.want)
		}
		if got := fermi(f, t, "", "audit", "verify", harmed, "--partial"); name == "removed" && (got.code != 0 || !strings.Contains(got.out, "Records verified: 4; left out of this export: 1.")) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
