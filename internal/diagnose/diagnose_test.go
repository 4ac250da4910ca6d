package diagnose

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the page anew")

var rules = Load()

// sample is a log of testdata: a first line that says how the process ended and where the log is
// from, then its last words.
func sample(t *testing.T, file string) Evidence {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, words, _ := strings.Cut(string(raw), "\n")
	e := Evidence{Words: words}
	for _, pair := range strings.Fields(strings.TrimPrefix(head, "#")) {
		switch k, v, _ := strings.Cut(pair, "="); k {
		case "code":
			if e.Code, err = strconv.Atoi(v); err != nil {
				t.Fatal(file, err)
			}
		case "signal":
			e.Signal = v
		case "reason":
			e.Reason = v
		}
	}
	if e.Reason == "" || !strings.HasPrefix(head, "#") || !strings.Contains(head, " from=") {
		t.Fatalf("%s: the first line is %q", file, head)
	}
	return e
}

// TestEveryRuleHasASample, and is what its samples are judged to be.
func TestEveryRuleHasASample(t *testing.T) {
	var ids []string
	for _, r := range rules {
		if !r.Named {
			ids = append(ids, r.ID)
		}
	}
	eachSample(t, "testdata", ids, func(file, want string) {
		if got := rules.Cause(sample(t, file)); got.ID != want {
			t.Errorf("%s is judged %s", file, got.ID)
		}
	})
}

// eachSample looks at the samples of rules, named ID.txt or ID@WHAT.txt: every rule has one, and none has no rule.
func eachSample(t *testing.T, dir string, ids []string, look func(file, id string)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	samples := map[string]int{}
	for _, file := range files {
		id, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".txt"), "@")
		samples[id]++
		look(file, id)
	}
	for _, id := range ids {
		if samples[id] == 0 {
			t.Errorf("rule %s has no sample", id)
		}
		delete(samples, id)
	}
	if len(samples) > 0 {
		t.Errorf("samples of no rule: %v", samples)
	}
}

func TestTheCulpritIsNamedNotItsVictims(t *testing.T) {
	at := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	victim, culprit := sample(t, "testdata/peer-lost.txt"), sample(t, "testdata/python-error.txt")
	victim.Rank, victim.At = 0, at
	culprit.Rank, culprit.At = 3, at.Add(40*time.Millisecond) // it took longer to die
	late := sample(t, "testdata/killed.txt")
	late.Rank, late.At = 1, at.Add(time.Second)
	if i, cause := rules.Judge([]Evidence{victim, late, culprit}); i != 2 || cause.ID != "python-error" {
		t.Errorf("%d %s", i, cause.ID)
	}
	twin := victim
	twin.Rank = 5
	if i, cause := rules.Judge([]Evidence{twin, victim}); i != 1 || cause.Guilt != Peer {
		t.Errorf("without a culprit the earliest and lowest: %d %s", i, cause.ID)
	}
}

// TestHandledErrorsAreNoCause: only the last traceback counts.
func TestHandledErrorsAreNoCause(t *testing.T) {
	words := sample(t, "testdata/file-missing.txt").Words + "using the default\n" + sample(t, "testdata/python-error.txt").Words
	if c := rules.Cause(Evidence{Code: 1, Reason: "ExitedNonZero", Words: words}); c.ID != "python-error" {
		t.Error(c.ID)
	}
	if c := rules.Cause(Evidence{Code: 137, Signal: "SIGKILL", Reason: "Signaled", Words: words}); c.ID != "killed" {
		t.Error(c.ID)
	}
}

func TestFingerprint(t *testing.T) {
	e := sample(t, "testdata/python-error.txt")
	c := rules.Cause(e)
	other := e
	other.Words = strings.Replace(e.Words, "2x3", "7x9", 1)
	if Fingerprint(e, c) != Fingerprint(other, c) {
		t.Error("a value in the message makes another failure")
	}
	other.Words = strings.Replace(e.Words, "line 1", "line 2", 1)
	if Fingerprint(e, c) == Fingerprint(other, c) {
		t.Error("another line is the same failure")
	}
}

func TestLine(t *testing.T) {
	for file, want := range map[string]string{
		"python-error":            "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)",
		"import":                  "ModuleNotFoundError: No module named 'nosuchmodule'",
		"peer-lost":               "RuntimeError: [./gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:19656",
		"killed":                  "",
		"collective-timeout@nccl": "[rank1]:[E626 06:24:44.903881913 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=808, OpType=ALLREDUCE, NumelIn=9801523, NumelOut=9801523, Timeout(ms)=600000) ran for 600020 milliseconds before timing out.",
	} {
		e := sample(t, "testdata/"+file+".txt")
		if got := Line(e, rules.Cause(e)); got != want {
			t.Errorf("%s: %q", file, got)
		}
	}
	e := Evidence{Code: 126, Reason: "ExitedNonZero", Words: "one\nsh: 1: ./lab: Permission denied\n\n"}
	for words, want := range map[string]string{e.Words: "sh: 1: ./lab: Permission denied", "lab: no such option\n": "lab: no such option", " \n": ""} {
		if e.Words = words; Line(e, rules.Cause(e)) != want {
			t.Errorf("%q: %q", words, Line(e, rules.Cause(e)))
		}
	}
}

func FuzzCause(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.txt")
	for _, file := range files {
		raw, _ := os.ReadFile(file)
		f.Add(string(raw), "ExitedNonZero", "")
	}
	f.Fuzz(func(t *testing.T, words, reason, signal string) {
		e := Evidence{Words: words, Reason: reason, Signal: signal}
		c := rules.Cause(e)
		if Fingerprint(e, c) == "" {
			t.Fatal("no fingerprint")
		}
		if line := Line(e, c); len(line) > MaxLine+8 || strings.ContainsAny(line, "\n\x1b") {
			t.Fatalf("%q", line)
		}
	})
}

const page = "../../docs/reference/faults.md"

// TestPage: the page is what the table says; -update writes it.
func TestPage(t *testing.T) {
	want := makePage()
	if *update {
		if err := os.WriteFile(page, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the table says: go generate ./internal/diagnose", page)
	}
}

func guiltText(r *Rule) string {
	if r.Place {
		return string(r.Guilt) + ", of the machine"
	}
	return string(r.Guilt)
}

func makePage() []byte {
	var b bytes.Buffer
	b.WriteString(`# Why ranks fail

Made from ` + "`internal/diagnose/rules.json`" + ` by ` + "`go generate ./internal/diagnose`" + `. Rules are tried in this order over how a process ended and the
last 8 KiB it printed. Of all ranks of a generation the earliest end with a cause of its own is named; one that died of a *peer* never
is, unless there is no other. ` + "`restart`" + `: all ranks go on in place. ` + "`swap`" + `: the task moves to a place without that node, where there is one.
` + "`stop`" + `: tried once more; the same failure again at the same step within the window ends the task. *Of the machine*: two of
these in one rack, leaf or zone within the window, and the next place avoids it.

| cause | guilt | action | what happened | what to do |
|---|---|---|---|---|
`)
	for _, r := range rules {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s<br>%s | %s<br>%s |\n", r.ID, guiltText(r), r.Action, r.Text.EN, r.Text.ZH, r.Advice.EN, r.Advice.ZH)
	}
	return b.Bytes()
}
