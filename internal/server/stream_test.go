package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/blob/logbook"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/logs"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/train"
	"github.com/fermi-cluster/fermi/internal/store"
)

func (w *world) drop(o api.Object) {
	w.t.Helper()
	_, err := w.store.Commit(context.Background(), store.Txn{Ops: []store.Op{store.Delete(api.KeyOf(o), 0)}})
	must(w.t, err)
}

func TestWatch(t *testing.T) {
	w := newWorld(t)
	a := w.submit("a")
	b := w.submit("b")
	_, err := w.store.Get(context.Background(), api.KeyOf(b), b.Meta.Revision)
	must(t, err)
	e := w.events("/api/v1/watch/training-tasks", w.admin)
	for _, want := range []string{"a", "b"} {
		if ev, name := e.want("added"); name != want || ev.id != "" {
			t.Fatalf("%+v", ev)
		}
	}
	synced, _ := e.want("synced")
	if synced.id == "" {
		t.Fatalf("%+v", synced)
	}
	c := w.submit("c")
	if ev, name := e.want("added"); name != "c" || ev.id != fmt.Sprint(c.Meta.Revision) {
		t.Fatalf("%+v", ev)
	}
	a = w.change(a, func(t *api.TrainingTask) { t.Status.Phase = api.PhaseRunning })
	ev, name := e.want("modified")
	if name != "a" || !strings.Contains(ev.data, "Running") {
		t.Fatalf("%+v", ev)
	}
	_ = e.resp.Body.Close()
	// Away, things happen; back, only those are told.
	w.drop(b)
	d := w.submit("d")
	_, err = w.store.Get(context.Background(), api.KeyOf(d), d.Meta.Revision)
	must(t, err)
	e = w.events("/api/v1/watch/training-tasks", w.admin, "Last-Event-ID", ev.id)
	e.want("reset")
	heard := map[string]bool{}
	for {
		ev, err := e.next()
		must(t, err)
		if ev.name == "synced" {
			break
		}
		if ev.name == "kept" {
			var k objects.KeptObject
			must(t, json.Unmarshal([]byte(ev.data), &k))
			heard["kept "+k.ID] = true
			continue
		}
		var o api.TrainingTask
		must(t, json.Unmarshal([]byte(ev.data), &o))
		heard[ev.name+" "+o.Meta.ID] = true
	}
	want := map[string]bool{"kept " + a.Meta.ID: true, "kept " + c.Meta.ID: true, "added " + d.Meta.ID: true}
	if diff := cmp.Diff(want, heard); diff != "" {
		t.Fatal(diff)
	}
	w.drop(c)
	if ev, name := e.want("deleted"); name != "c" || ev.id == "" {
		t.Fatalf("%+v", ev)
	}
	w.refused("GET", "/api/v1/watch/training-tasks?phase=x", nil, 400, "BadQuery")
	if a := w.do("GET", "/api/v1/watch/zones", w.admin, nil, "Last-Event-ID", "x"); a.Reason != "BadLastEventID" {
		t.Errorf("%s", a.raw)
	}
}

// TestWatchFilter: leaving the filter reads as deleted, entering it as added; nothing of others
// is told.
func TestWatchFilter(t *testing.T) {
	w := newWorld(t)
	w.put(&api.Project{Meta: api.Meta{Name: "lab"}, Spec: api.ProjectSpec{Members: []string{"ann"}}})
	ann := w.user("ann", api.RoleMember)
	e := w.events("/api/v1/watch/training-tasks?phase=Pending", ann)
	e.want("synced")
	w.submit("hidden")
	mine := w.submit("mine", func(t *api.TrainingTask) { t.Meta.Project = "lab" })
	if _, name := e.want("added"); name != "mine" {
		t.Fatal(name)
	}
	mine = w.change(mine, func(t *api.TrainingTask) { t.Status.Phase = api.PhaseInitializing })
	if _, name := e.want("deleted"); name != "mine" {
		t.Fatal(name)
	}
	w.change(mine, func(t *api.TrainingTask) { t.Status.Phase = api.PhasePending })
	if _, name := e.want("added"); name != "mine" {
		t.Fatal(name)
	}
	tokens := w.events("/api/v1/watch/tokens", w.admin)
	ev, _ := tokens.want("added")
	if strings.Contains(ev.data, "hash") {
		t.Errorf("a hash is shown: %s", ev.data)
	}
}

// TestRevokedStream: a stream ends soon after its token, and says why.
func TestRevokedStream(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.Limits.Recheck, c.Limits.KeepAlive, c.Limits.Streams = 20*time.Millisecond, 10*time.Millisecond, 1
	})
	ann := w.user("ann", api.RoleMember)
	again := w.token("again", "ann", "", nil)
	e := w.events("/api/v1/watch/zones", ann)
	e.want("synced")
	if a := w.do("GET", "/api/v1/watch/zones", again, nil); a.Reason != "TooManyStreams" {
		t.Fatalf("%s", a.raw)
	}
	w.ok("DELETE", "/api/v1/tokens/ann", nil, nil)
	ev, err := e.next()
	if err != nil || ev.name != "error" || !strings.Contains(ev.data, "BadToken") {
		t.Fatalf("%+v %v", ev, err)
	}
	if _, err := e.next(); err != errEnded {
		t.Fatal("the stream goes on")
	}
	eventually(t, "its place is free", func() bool {
		resp := w.open("GET", "/api/v1/watch/zones", again, nil)
		defer resp.Body.Close()
		return resp.StatusCode == 200
	})
}

// writeLog hands lines over as a launcher does.
type writeLog struct {
	w       *world
	task    string
	replica string
	offset  int64
}

func (l *writeLog) add(texts ...string) {
	l.w.t.Helper()
	var data []byte
	for _, text := range texts {
		partial := strings.HasSuffix(text, "…")
		data = logbook.AppendLine(data, logbook.Line{Time: time.Now().UTC(), Stream: 'O', Text: []byte(strings.TrimSuffix(text, "…")), Partial: partial})
	}
	_, err := l.w.logs.Append(context.Background(), l.task, l.replica, l.offset, data)
	must(l.w.t, err)
	l.offset += int64(len(data))
}

func TestLogs(t *testing.T) {
	w := newWorld(t)
	task := w.submit("t")
	log := &writeLog{w: w, task: task.Meta.ID, replica: string(engine.NameOf(task.Meta.ID, "worker", 0, 1))}
	log.add("one", "two", "long…", "er")
	path := "/api/v1/training-tasks/t/logs"
	for query, want := range map[string]string{
		"":                                 "one\ntwo\nlonger\n",
		"?replica=worker-0":                "one\ntwo\nlonger\n",
		"?replica=worker-1":                "",
		"?since=1h":                        "one\ntwo\nlonger\n",
		"?follow=false":                    "one\ntwo\nlonger\n",
		"?since=" + "2100-01-01T00:00:00Z": "",
	} {
		a := w.do("GET", path+query, w.admin, nil)
		if a.status != 200 || string(a.raw) != want || !strings.HasPrefix(a.header.Get("Content-Type"), "text/plain") {
			t.Errorf("%q: %d %q, want %q", query, a.status, a.raw, want)
		}
	}
	if a := w.do("GET", path+"?timestamps=true", w.admin, nil); !strings.HasPrefix(string(a.raw), "20") {
		t.Errorf("%q", a.raw)
	}
	w.refused("GET", path+"?since=yesterday", nil, 400, "BadQuery")
	// A progress bar is shown as its last state, and our own lines in one language.
	bar := w.submit("bar")
	one := &writeLog{w: w, task: bar.Meta.ID, replica: string(engine.NameOf(bar.Meta.ID, "worker", 0, 1))}
	one.add("before", " 10%…", "\r 20%…", "\r100%", "[fermi] "+fault.T("ours", "我们的").Pack(), "\r 5%…", "\r 6%…")
	for query, want := range map[string]string{"": "before\n100%\n[fermi] ours\n 6%\n", "?tail=2": "100%\n[fermi] ours\n 6%\n"} {
		if a := w.do("GET", "/api/v1/training-tasks/bar/logs"+query, w.admin, nil); string(a.raw) != want {
			t.Errorf("%q, not %q", a.raw, want)
		}
	}
	e := w.events("/api/v1/training-tasks/bar/logs", w.admin)
	for _, want := range []string{`"before"}`, `" 10%","partial":true}`, `" 20%","partial":true,"replace":true}`, `"100%","replace":true}`, `"[fermi] ours"}`} {
		if ev, err := e.next(); err != nil || !strings.HasSuffix(ev.data, want) {
			t.Fatalf("%+v %v, not %s", ev, err, want)
		}
	}
	// Two replicas: every line says whose it is.
	pair := w.submit("pair", func(t *api.TrainingTask) { t.Spec.Roles[0].Replicas = 2 })
	for i := range 2 {
		one := &writeLog{w: w, task: pair.Meta.ID, replica: string(engine.NameOf(pair.Meta.ID, "worker", i, 1))}
		one.add(fmt.Sprintf("hello %d", i))
	}
	if a := w.do("GET", "/api/v1/training-tasks/pair/logs", w.admin, nil); string(a.raw) != "[worker-0] hello 0\n[worker-1] hello 1\n" {
		t.Errorf("%q", a.raw)
	}
	if a := w.do("GET", "/api/v1/training-tasks/pair/logs?tail=1&replica=worker-1", w.admin, nil); string(a.raw) != "[worker-1] hello 1\n" {
		t.Errorf("%q", a.raw)
	}
}

// TestFollow: a followed log shows lines as they come, and ends by itself once the task has
// finished and its replicas have handed everything over.
func TestFollow(t *testing.T) {
	w := newWorld(t)
	task := w.submit("t")
	name := string(engine.NameOf(task.Meta.ID, "worker", 0, 1))
	log := &writeLog{w: w, task: task.Meta.ID, replica: name}
	w.live.set(task.Meta.ID, train.ReplicaView{Name: name, State: string(engine.StateRunning)})
	e := w.events("/api/v1/training-tasks/t/logs?follow=true", w.admin)
	text := w.open("GET", "/api/v1/training-tasks/t/logs?follow=true", w.admin, nil)
	defer text.Body.Close()
	lines := bufio.NewReader(text.Body)
	for i := range 3 {
		want := fmt.Sprintf("line %d", i)
		log.add(want)
		ev, err := e.next()
		must(t, err)
		var got logs.LogLine
		must(t, json.Unmarshal([]byte(ev.data), &got))
		if got.Text != want || got.Replica != "worker-0" || got.Stream != "stdout" || got.Attempt != 1 {
			t.Fatalf("%+v", got)
		}
		line, err := lines.ReadString('\n')
		must(t, err)
		if line != want+"\n" {
			t.Fatalf("%q", line)
		}
	}
	w.change(task, func(t *api.TrainingTask) { t.Status.Phase = api.PhaseCompleted })
	log.add("last words") // the task is over, its log is not
	ev, err := e.next()
	must(t, err)
	if !strings.Contains(ev.data, "last words") {
		t.Fatalf("%+v", ev)
	}
	w.live.set(task.Meta.ID, train.ReplicaView{Name: name, State: string(engine.StateDone)})
	if ev, err := e.next(); err != nil || ev.name != "end" {
		t.Fatalf("%+v %v", ev, err)
	}
	if _, err := e.next(); err != errEnded {
		t.Fatal("the stream goes on")
	}
	rest, err := io.ReadAll(lines)
	if err != nil || string(rest) != "last words\n" {
		t.Fatalf("%q %v", rest, err)
	}
}

// TestShutdown: the end of Run ends streams, and nothing it started is left.
func TestShutdown(t *testing.T) {
	before := goleak.IgnoreCurrent()
	w := newWorld(t)
	task := w.submit("t")
	e := w.events("/api/v1/watch/training-tasks", w.admin)
	e.want("added")
	follow := w.events("/api/v1/training-tasks/"+task.Meta.Name+"/logs?follow=true", w.admin)
	w.stop()
	for _, stream := range []*feed{e, follow} {
		for {
			if _, err := stream.next(); err != nil {
				break
			}
		}
		_ = stream.resp.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
	goleak.VerifyNone(t, before)
}

// TestPanic: a handler that panics answers like any other failure.
func TestPanic(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Ready = func() error { panic("ouch") } })
	if a := w.do("GET", "/readyz", "", nil); a.status != 500 || a.Reason != "Internal" {
		t.Errorf("%d %s", a.status, a.raw)
	}
}
