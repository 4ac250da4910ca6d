package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func TestEventReader(t *testing.T) {
	in := ": hello\n\nevent: added\nid: 5\ndata: {\"a\":\ndata: 1}\n\ndata:x\r\n\r\nevent: synced\n\nretry: 3\n\n"
	r := newEventReader(strings.NewReader(in))
	want := []serverEvent{{"added", "5", []byte("{\"a\":\n1}")}, {"", "", []byte("x")}, {"synced", "", nil}}
	for i, w := range want {
		got, err := r.next()
		if err != nil || got.name != w.name || got.id != w.id || !bytes.Equal(got.data, w.data) {
			t.Errorf("event %d: %+v, %v", i, got, err)
		}
	}
	if _, err := r.next(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	if _, err := newEventReader(strings.NewReader("data: half")).next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut in a line: %v", err)
	}
	if _, err := newEventReader(strings.NewReader("data: half\n")).next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut in an event: %v", err)
	}
	long := "data: " + strings.Repeat("x", maxEvent+100) + "\n\n"
	if _, err := newEventReader(strings.NewReader(long)).next(); !errors.Is(err, errEventTooLong) {
		t.Errorf("an endless event: %v", err)
	}
}

func FuzzEventReader(f *testing.F) {
	f.Add([]byte("event: a\ndata: b\n\n: c\n\nid:1\n\n"))
	f.Add([]byte("\r\n\r\ndata\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := newEventReader(bytes.NewReader(data))
		for range len(data) + 1 {
			if _, err := r.next(); err != nil {
				return
			}
		}
		t.Error("more events than bytes")
	})
}

// logServer keeps a log and serves it as the contract says, breaking off where the test wants.
type logServer struct {
	mu       sync.Mutex
	lines    []LogLine
	finished bool
	// breaks are numbers of lines after which a connection is cut, one for each connection; when
	// they are used up, streams live.
	breaks  []int
	queries []string
}

func (l *logServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !strings.HasSuffix(r.URL.Path, "/logs") {
		task := api.TrainingTask{Status: api.TrainingTaskStatus{Phase: api.PhaseRunning}}
		if l.finished {
			task.Status.Phase = api.PhaseCompleted
		}
		answer(w, task)
		return
	}
	q := r.URL.Query()
	l.queries = append(l.queries, q.Encode())
	lines := l.lines
	if s := q.Get("since"); s != "" {
		since, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			refuse(w, 400, "BadSince")
			return
		}
		lines = slices.DeleteFunc(slices.Clone(lines), func(x LogLine) bool { return x.Time.Before(since) })
	}
	if n := 0; q.Get("tail") != "" {
		fmt.Sscan(q.Get("tail"), &n)
		lines = lines[max(0, len(lines)-n):]
	}
	w.Header().Set("Content-Type", "text/event-stream")
	cut := -1
	if len(l.breaks) > 0 {
		cut, l.breaks = l.breaks[0], l.breaks[1:]
	}
	for i, line := range lines {
		if i == cut {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		data, _ := json.Marshal(line)
		fmt.Fprintf(w, ": alive\n\ndata: %s\n\n", data)
	}
	if cut < 0 || cut > len(lines) {
		fmt.Fprint(w, "event: end\ndata: {}\n\n")
	}
}

func manyLines(n int) []LogLine {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var out []LogLine
	for i := range n {
		// Several lines share a time, replicas take turns, and there is a second attempt.
		out = append(out, LogLine{
			Time: start.Add(time.Duration(i/4) * time.Second), Replica: fmt.Sprintf("worker-%d", i%2),
			Attempt: 1 + i/(n/2+1), Stream: "stdout", Text: fmt.Sprintf("line %d", i),
		})
	}
	return out
}

func texts(lines []LogLine) []string {
	var out []string
	for _, l := range lines {
		out = append(out, l.Text)
	}
	return out
}

func TestLogsResume(t *testing.T) {
	all := manyLines(40)
	for _, tt := range []struct {
		name   string
		breaks []int
		tail   int
		want   []LogLine
	}{
		{"no break", nil, 0, all},
		{"before the first line", []int{0, 0}, 0, all},
		{"within equal times", []int{5, 6, 7}, 0, all},
		{"every line", []int{1, 2, 3, 4, 5, 6, 7, 8, 9}, 0, all},
		{"late", []int{39}, 0, all},
		{"tail", []int{3}, 10, all[30:]},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := &logServer{lines: all, finished: true, breaks: tt.breaks}
			c := serve(t, srv.ServeHTTP)
			var got []LogLine
			lost := 0
			err := c.Logs(t.Context(), "p", "t", LogOptions{Follow: true, Tail: tt.tail, Lost: func(error) { lost++ }}, func(l LogLine) error {
				got = append(got, l)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(texts(tt.want), texts(got)); diff != "" {
				t.Error(diff)
			}
			if lost != len(tt.breaks) {
				t.Errorf("told of %d breaks, want %d", lost, len(tt.breaks))
			}
		})
	}
}

// TestLogsSilentEnd: a server that shuts down ends its streams cleanly; that isn't the log's end.
func TestLogsSilentEnd(t *testing.T) {
	srv := &logServer{lines: manyLines(8)}
	calls := 0
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/logs") {
			srv.mu.Lock()
			srv.finished = calls > 1
			srv.mu.Unlock()
			srv.ServeHTTP(w, r)
			return
		}
		if calls++; calls < 3 {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, l := range srv.lines[:calls*2] {
				data, _ := json.Marshal(l)
				fmt.Fprintf(w, "data: %s\n\n", data)
			}
			return
		}
		if r.URL.Query().Has("follow") {
			t.Error("the last look follows")
		}
		srv.ServeHTTP(w, r)
	})
	var got []LogLine
	if err := c.Logs(t.Context(), "", "t", LogOptions{Follow: true}, func(l LogLine) error {
		got = append(got, l)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(texts(srv.lines), texts(got)); diff != "" {
		t.Error(diff)
	}
}

func TestLogsEnd(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.URL.Path, "/revoked/"):
			fmt.Fprint(w, "event: error\ndata: {\"code\":401,\"reason\":\"BadToken\",\"message\":\"x\"}\n\n")
		case strings.Contains(r.URL.Path, "/absent/"):
			refuse(w, 404, "NotFound")
		default:
			fmt.Fprint(w, "data: {\"text\":\"a\"}\n\ndata: {\"text\":\"b\"}\n\n")
		}
	})
	none := func(LogLine) error { return nil }
	if err := c.Logs(t.Context(), "", "revoked", LogOptions{Follow: true}, none); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("revoked: %v", err)
	}
	if err := c.Logs(t.Context(), "", "absent", LogOptions{Follow: true}, none); !fault.Is(err, fault.NotFound) {
		t.Errorf("absent: %v", err)
	}
	enough := errors.New("enough")
	if err := c.Logs(t.Context(), "", "x", LogOptions{}, func(LogLine) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("an error of emit: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := c.Logs(ctx, "", "x", LogOptions{Follow: true}, func(LogLine) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestWatchReconnects(t *testing.T) {
	put := func(w io.Writer, event, name string, rev int64) {
		z := zone(name)
		z.Meta.Revision = rev
		data, _ := json.Marshal(z)
		fmt.Fprintf(w, "event: %s\nid: %d\ndata: %s\n\n", event, rev, data)
	}
	conn := 0
	var query string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.RequestURI()
		w.Header().Set("Content-Type", "text/event-stream")
		switch conn++; conn {
		case 1:
			put(w, "added", "a", 1)
			put(w, "added", "b", 2)
			fmt.Fprint(w, "event: synced\nid: 2\ndata: {\"revision\":2}\n\n")
			put(w, "modified", "a", 3)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case 2: // cut before synced: nothing may be taken for deleted
			put(w, "added", "a", 3)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		default: // b went while nobody listened, c came, a is as it was
			put(w, "added", "a", 3)
			put(w, "added", "c", 7)
			fmt.Fprint(w, "event: synced\nid: 8\ndata: {}\n\n")
			put(w, "deleted", "a", 9)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []string
	err := c.Watch(ctx, api.KindZone, WatchOptions{Name: "x"}, func(ch Change) error {
		name := ""
		if ch.Object != nil {
			name = ch.Object.GetMeta().Name
		}
		got = append(got, fmt.Sprintf("%s %s %d", ch.Type, name, ch.Revision))
		if ch.Type == Deleted && name == "a" {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	want := []string{"added a 1", "added b 2", "synced  2", "modified a 3", "added c 7", "deleted b 2", "deleted a 9"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if query != "/api/v1/watch/zones?name=x" {
		t.Error(query)
	}
}

func TestTextForms(t *testing.T) {
	var e Explanation
	in := `{"reason":"QueuePaused","message":{"en":"a","zh":"甲"},"evidence":["x",{"en":"y","zh":"乙"}],"action":"do"}`
	if err := json.Unmarshal([]byte(in), &e); err != nil {
		t.Fatal(err)
	}
	if e.Message.In("zh") != "甲" || e.Evidence[0].In("zh") != "x" || e.Evidence[1].In("zh") != "乙" || e.Action.In("en") != "do" {
		t.Errorf("%+v", e)
	}
	out, err := json.Marshal(e)
	if err != nil || !strings.Contains(string(out), `"evidence":["x",{"en":"y","zh":"乙"}]`) {
		t.Errorf("%s, %v", out, err)
	}
}
