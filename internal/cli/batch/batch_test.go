package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain is an engine too: it says what it was asked, and writes down each question that it answers.
func TestMain(m *testing.M) {
	if asked := os.Getenv("BATCH_ENGINE"); asked != "" {
		serve(asked)
		return
	}
	os.Exit(m.Run())
}

func serve(asked string) {
	log, err := os.OpenFile(asked, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	http.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	http.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(log, "%s %s\n", r.URL.Path, body)
		switch {
		case strings.Contains(string(body), "die"):
			os.Exit(3)
		case strings.Contains(string(body), "refuse"):
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
		fmt.Fprintf(w, `{"said": %s}`, body)
	})
	panic(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil))
}

// bench is a dataset, what becomes of it, and what the engine was asked.
type bench struct {
	*Work
	t     *testing.T
	asked string
}

func newBench(t *testing.T, lines ...string) *bench {
	b := &bench{t: t, asked: filepath.Join(t.TempDir(), "asked")}
	t.Setenv("BATCH_ENGINE", b.asked)
	b.Work = &Work{
		In: t.TempDir(), Out: t.TempDir(), Engine: []string{os.Args[0]}, Health: "/healthz", Path: "/ask", Concurrency: 4, Part: 10, Timeout: time.Minute, Of: 1, Log: t.Output(),
	}
	b.write(filepath.Join(b.In, "sub", "q.jsonl"), strings.Join(lines, "\n"))
	return b
}

func (b *bench) write(at, text string) {
	b.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)); err != nil {
		b.t.Fatal(err)
	}
}

// left are the answers of all parts, in order.
func (b *bench) left() (out []Answer) {
	b.t.Helper()
	err := partsIn(filepath.Join(b.Out, underAnswers), func(line []byte) error {
		var a Answer
		out = append(out, a)
		return json.Unmarshal(line, &out[len(out)-1])
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

func partsIn(root string, do func([]byte) error) error {
	names, err := files(root)
	for _, name := range names {
		raw, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(raw)) {
			if err := do([]byte(line)); err != nil {
				return err
			}
		}
	}
	return err
}

func (b *bench) questions() (n int) {
	raw, _ := os.ReadFile(b.asked)
	return strings.Count(string(raw), "\n")
}

func numbered(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf(`{"n": %d}`, i))
	}
	return out
}

// TestAnswers: each line has one answer in its place; lines that OpenAI's clients made keep their name and path; what can't be
// asked, and what the engine refuses, is told.
func TestAnswers(t *testing.T) {
	lines := append(numbered(23), `{"custom_id": "mine", "method": "POST", "url": "/v1/other", "body": {"x": 1}}`, `{torn`, `{"refuse": true}`, `{"custom_id": "far", "url": "http://elsewhere/", "body": {}}`)
	b := newBench(t, lines...)
	if err := b.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := b.left()
	if len(got) != len(lines) {
		t.Fatalf("%d answers to %d questions", len(got), len(lines))
	}
	for i := range 23 {
		if want := fmt.Sprintf(`{"said":{"n":%d}}`, i); got[i].Response == nil || string(got[i].Response.Body) != want || got[i].Error != nil || got[i].ID != fmt.Sprintf("sub/q.jsonl:%d", i+1) {
			t.Fatalf("answer %d: %+v", i, got[i])
		}
	}
	if got[23].ID != "mine" || string(got[23].Response.Body) != `{"said":{"x":1}}` {
		t.Errorf("a question of OpenAI's: %+v", got[23])
	}
	for i, code := range map[int]string{24: "bad_line", 25: "status", 26: "bad_line"} {
		if got[i].Error == nil || got[i].Error.Code != code {
			t.Errorf("answer %d has no error %s: %+v", i, code, got[i])
		}
	}
	if raw, _ := os.ReadFile(b.asked); !strings.Contains(string(raw), "/v1/other ") || b.questions() != 25 {
		t.Errorf("%d questions: %s", b.questions(), raw)
	}
	if err := b.Run(t.Context()); err != nil || b.questions() != 25 { // all is there: the engine is not even started
		t.Errorf("again: %v, %d questions", err, b.questions())
	}
}

// TestGoesOn: what was answered before the engine died, and what a torn line of the journal does not hold, is all that is asked again.
func TestGoesOn(t *testing.T) {
	lines := numbered(40)
	lines[25] = `{"n": "die"}`
	b := newBench(t, lines...)
	b.Concurrency = 1
	if err := b.Run(t.Context()); err == nil {
		t.Fatal("the engine died and nobody noticed")
	}
	if n := b.questions(); n != 26 {
		t.Fatalf("%d questions", n)
	}
	journal := filepath.Join(b.Out, underJournal, "sub", "q.000002.jsonl")
	raw, err := os.ReadFile(journal)
	if err != nil || strings.Count(string(raw), "\n") != 5 {
		t.Fatalf("journal: %v %s", err, raw)
	}
	b.write(journal, string(raw[:len(raw)-5])) // the last one is torn: one of five is asked again
	lines[25] = `{"n": 25}`
	b.write(filepath.Join(b.In, "sub", "q.jsonl"), strings.Join(lines, "\n"))
	if err := b.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.questions(); n != 26+1+15 {
		t.Errorf("%d questions", n)
	}
	for i, a := range b.left() {
		if want := fmt.Sprintf(`{"said":{"n":%d}}`, i); a.Response == nil || string(a.Response.Body) != want {
			t.Errorf("answer %d: %+v", i, a)
		}
	}
}

// stored are outputs of an earlier attempt on another machine.
type stored map[string]string

func (s stored) List(context.Context) (out []string, err error) {
	for name := range s {
		out = append(out, name)
	}
	return out, nil
}

func (s stored) Fetch(_ context.Context, output, file string) error {
	return os.WriteFile(file, []byte(s[output]), 0o644)
}

// TestEarlierAttempt: parts that another machine left whole are not made again, and of others only what is missing; two replicas
// share the rest, each its own.
func TestEarlierAttempt(t *testing.T) {
	b := newBench(t, numbered(40)...)
	b.Earlier = stored{
		"worker-0/answers/sub/q.000000.jsonl": "whole", "worker-1/journal/sub/q.000001.jsonl": `{"line":3,"answer":{"custom_id":"x","response":null,"error":null}}` + "\n",
		"worker-0/journal/sub/q.000000.jsonl": "old", "worker-0/answers/../../etc/q.jsonl": "", "worker-0/journal/../../../q.jsonl": "",
	}
	for i := range 2 {
		b.Index, b.Of = i, 2
		if err := b.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.questions(); n != 29 {
		t.Errorf("%d questions", n)
	}
	if got := b.left(); len(got) != 30 || got[3].ID != "x" {
		t.Errorf("%d answers: %+v", len(got), got)
	}
}

// TestNothingGood: a batch none of whose answers is good has failed, and so has one without questions.
func TestNothingGood(t *testing.T) {
	b := newBench(t, `{"refuse": 1}`, `{"refuse": 2}`)
	if err := b.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no question has a good answer") {
		t.Errorf("said: %v", err)
	}
	b.In = t.TempDir()
	if err := b.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "*.jsonl") {
		t.Errorf("said: %v", err)
	}
	b = newBench(t, `{}`)
	b.Engine = []string{"/bin/false"}
	if err := b.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "ended before it answered") {
		t.Errorf("said: %v", err)
	}
}
