package train

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/blob/logbook"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/audit"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/stream"
	"github.com/fermi-cluster/fermi/internal/server/tracker"
	"github.com/fermi-cluster/fermi/internal/store"
)

var logParams = []rest.Param{
	rest.ParamProject, rest.ParamRevision,
	{Name: "follow", Form: rest.FormBool, Doc: "Go on until the task has ended."},
	{Name: "tail", Form: rest.FormInt, Max: 1000000, Doc: "Only the last lines; all when absent or 0."},
	{Name: "since", Form: rest.FormTime, Doc: "RFC 3339, or a span back from now such as 10m."},
	{Name: "replica", Doc: "role-index, such as worker-0, or a replica's whole name."},
	{Name: "timestamps", Form: rest.FormBool, Doc: "Begin each line of text with its time."},
}

// Logs serves the logs of tasks.
type Logs struct {
	desk     *Desk
	book     LogReader
	tasks    *tracker.Tracker
	live     Live
	streams  *stream.Streams
	auditor  *audit.Auditor
	log      *slog.Logger
	handOver time.Duration // how long a followed log waits for replicas after the task ended
}

func NewLogs(d *Desk, book LogReader, tasks *tracker.Tracker, live Live, st *stream.Streams, a *audit.Auditor, log *slog.Logger, handOver time.Duration) *Logs {
	return &Logs{desk: d, book: book, tasks: tasks, live: live, streams: st, auditor: a, log: log, handOver: handOver}
}

// Routes are the one of a task's log.
func (s *Logs) Routes(reg *rest.Schemas) []*rest.Route {
	rt := readRoute("logs", "readTaskLog", "The log, as text or as Server-Sent Events.", logParams, logEvents(reg), s.read)
	rt.Verb, rt.Look, rt.Media = "read-log", true, "text/plain "+rest.MediaEvents
	return []*rest.Route{rt}
}

// LogLine is one line of the event stream.
type LogLine struct {
	Time    time.Time `json:"time"`
	Replica string    `json:"replica" doc:"role-index"`
	Attempt int       `json:"attempt,omitempty"`
	Rank    int       `json:"rank"`
	Stream  string    `json:"stream" doc:"stdout or stderr"`
	Text    string    `json:"text"`
	Partial bool      `json:"partial,omitempty" doc:"The line goes on in the next one of this replica and stream."`
	Replace bool      `json:"replace,omitempty" doc:"The text replaces what the line was so far: a progress bar went on."`
}

// logEvents is the schema of what a log sends as events.
func logEvents(reg *rest.Schemas) *huma.Schema {
	return &huma.Schema{AnyOf: []*huma.Schema{
		rest.EventSchema(rest.SchemaOf[LogLine](reg), "message"),
		rest.EventSchema(rest.Object(nil, nil), "end"),
		rest.EventSchema(rest.SchemaOf[rest.Refusal](reg), "error"),
	}}
}

// read streams a task's log as text, or as events where asked for. A followed log ends by itself
// once the task has finished and its replicas have handed everything over.
func (s *Logs) read(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	f, task, err := s.desk.task(ctx, c)
	if err != nil {
		return nil, err
	}
	media := "text/plain"
	if stream.WantsEvents(c.R) {
		media = rest.MediaEvents
	}
	s.auditor.RememberRead(c, c.Query.Text("replica"))
	st, err := s.streams.Open(ctx, c, media)
	if err != nil {
		return nil, err
	}
	defer st.End()
	if c.R.Method == http.MethodHead {
		return nil, nil
	}
	opts, only := s.options(c, task)
	if opts.Follow && !f.Archived {
		done := make(chan struct{})
		opts.Done = done
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.untilDone(st.Ctx, task, done)
		}()
		defer func() { st.Cancel(nil); <-ended }()
	} else {
		opts.Follow = false
	}
	replicas, _ := size(task)
	w := &logWriter{st: st, task: task.Meta.ID, only: only, prefix: replicas > 1, times: c.Query.Yes("timestamps"), lang: c.Lang}
	err = s.book.Read(st.Ctx, task.Meta.ID, opts, w.line)
	if gone := st.Gone(); gone != nil {
		st.Farewell(gone)
		return nil, nil
	}
	if err != nil {
		if !st.Events {
			return nil, err // a text cannot say it: the connection is cut
		}
		s.log.Warn("a log could not be read", "task", task.Meta.ID, "error", err)
		st.Farewell(err)
		return nil, nil
	}
	return nil, w.finish()
}

// options translate the query. A label such as worker-0 means that replica in every attempt,
// which is a filter; with tail it means the current attempt, so that the count is right.
func (s *Logs) options(c *rest.Call, task *api.TrainingTask) (logbook.ReadOptions, string) {
	opts := logbook.ReadOptions{
		Tail: int(c.Query.Number("tail")), Since: c.Query.Moment("since", s.desk.clock.Now()), Follow: c.Query.Yes("follow"),
	}
	replica := c.Query.Text("replica")
	if strings.HasPrefix(replica, task.Meta.ID+"-") {
		opts.Replica = replica
		return opts, ""
	}
	if replica != "" && opts.Tail > 0 {
		if role, index, ok := cutLabel(replica); ok {
			opts.Replica = string(engine.NameOf(task.Meta.ID, role, index, max(task.Status.AttemptOf(role), 1)))
			return opts, ""
		}
	}
	return opts, replica
}

func cutLabel(label string) (role string, index int, ok bool) {
	i := strings.LastIndexByte(label, '-')
	if i <= 0 {
		return "", 0, false
	}
	n, err := strconv.Atoi(label[i+1:])
	return label[:i], n, err == nil && n >= 0
}

// labelOf cuts "task-…-worker-0-2" into worker-0 and attempt 2; other names are left alone.
func labelOf(taskID, replica string) (string, int) {
	rest, ok := strings.CutPrefix(replica, taskID+"-")
	if !ok {
		return replica, 0
	}
	label, attempt, ok := cutLabel(rest)
	if !ok {
		return rest, 0
	}
	return label, attempt
}

// logWriter renders lines.
type logWriter struct {
	st     *stream.Stream
	task   string
	only   string
	prefix bool
	times  bool
	lang   string
	held   held
	buf    bytes.Buffer
	open   string // replica and stream whose line was cut and goes on
}

func (w *logWriter) line(replica string, l logbook.Line) error {
	label, attempt := labelOf(w.task, replica)
	if w.only != "" && label != w.only {
		return nil
	}
	l.Text = w.ours(l.Text)
	if w.st.Events {
		stream := "stdout"
		if l.Stream == 'E' {
			stream = "stderr"
		}
		text, replace := bytes.CutPrefix(l.Text, []byte{'\r'})
		return w.st.Event("", "", LogLine{l.Time, label, attempt, l.Rank, stream, string(text), l.Partial, replace})
	}
	from := fmt.Sprintf("%s %d %c", replica, l.Rank, l.Stream)
	if l = w.held.pass(from, l); l.Text == nil {
		return nil
	}
	return w.put(from, label, l)
}

// put writes a line, or a part of one, as text.
func (w *logWriter) put(from, label string, l logbook.Line) error {
	w.buf.Reset()
	switch {
	case w.open == from: // goes on
	case w.open != "":
		w.buf.WriteByte('\n')
		fallthrough
	default:
		if w.times {
			w.buf.WriteString(l.Time.UTC().Format("2006-01-02T15:04:05.000000Z") + " ")
		}
		if w.prefix {
			w.buf.WriteString("[" + label + "] ")
		}
	}
	w.buf.Write(l.Text)
	w.open = from
	if !l.Partial {
		w.buf.WriteByte('\n')
		w.open = ""
	}
	return w.st.Write(w.buf.Bytes())
}

// ours picks the reader's language of a line that a launcher wrote into the log in both.
func (w *logWriter) ours(text []byte) []byte {
	const mark = "[fermi] "
	if rest, ok := bytes.CutPrefix(text, []byte(mark)); ok {
		return []byte(mark + fault.Unpack(string(rest)).In(w.lang))
	}
	return text
}

func (w *logWriter) finish() error {
	if w.st.Events {
		_ = w.st.Event("end", "", struct{}{})
		return nil
	}
	for _, from := range slices.Sorted(maps.Keys(w.held)) {
		replica, _, _ := strings.Cut(from, " ")
		label, _ := labelOf(w.task, replica)
		_ = w.put(from, label, w.held[from])
	}
	if w.open != "" {
		_ = w.st.Write([]byte("\n"))
	}
	return nil
}

// held are the lines that have not ended, by who wrote them, as they are now. A text can't take back what it said, and a
// progress bar is drawn over until its line ends.
type held map[string]logbook.Line

// pass is what to write of a line; its Text is nil where that is nothing so far.
func (h *held) pass(from string, l logbook.Line) logbook.Line {
	const most = 4 * logbook.MaxText
	text, over := bytes.CutPrefix(l.Text, []byte{'\r'})
	if over {
		l.Text = text
	} else {
		l.Text = slices.Concat([]byte{}, (*h)[from].Text, text)
	}
	if !l.Partial || len(l.Text) > most {
		delete(*h, from)
		return l
	}
	if *h == nil {
		*h = held{}
	}
	l.Text = bytes.Clone(l.Text)
	(*h)[from] = l
	return logbook.Line{}
}

// untilDone closes done once the task has finished (or is gone) and no replica of it still hands
// over its log, or has taken longer for that than we wait.
func (s *Logs) untilDone(ctx context.Context, task *api.TrainingTask, done chan<- struct{}) {
	moved, stop := s.tasks.Watch(task.Meta.ID)
	defer stop()
	for !s.finished(ctx, task.Meta.ID) {
		select {
		case <-ctx.Done():
			return
		case <-moved:
		case <-s.desk.clock.After(5 * time.Second): // in case nobody counts
		}
	}
	deadline := s.desk.clock.Now().Add(s.handOver)
	for s.handingOver(ctx, task.Meta.ID) && s.desk.clock.Now().Before(deadline) {
		select {
		case <-ctx.Done():
			return
		case <-moved:
		case <-s.desk.clock.After(100 * time.Millisecond):
		}
	}
	close(done)
}

func (s *Logs) finished(ctx context.Context, id string) bool {
	o, err := store.WorkByID(ctx, s.desk.truth, id, 0)
	if fault.Is(err, fault.NotFound) && s.desk.truth.Newest() > 0 {
		o, err = store.WorkByID(ctx, s.desk.truth, id, s.desk.truth.Newest())
	}
	if err != nil {
		return fault.Is(err, fault.NotFound)
	}
	return o.Workload().Phase.Finished()
}

func (s *Logs) handingOver(ctx context.Context, id string) bool {
	if s.live == nil {
		return false
	}
	replicas, err := s.live.Replicas(ctx, id)
	if err != nil {
		return fault.Is(err, fault.Unavailable) // nobody leads just now: not known yet
	}
	for _, r := range replicas {
		if r.State != string(engine.StateDone) {
			return true
		}
	}
	return false
}
