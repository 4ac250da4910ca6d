package logs

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/errgroup"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/blob/logbook"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/audit"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/stream"
	"github.com/fermi-cluster/fermi/internal/server/tracker"
	"github.com/fermi-cluster/fermi/internal/server/train"
	"github.com/fermi-cluster/fermi/internal/store"
)

var params = []rest.Param{
	rest.ParamProject, rest.ParamRevision,
	{Name: "follow", Form: rest.FormBool, Doc: "Go on until it has ended."},
	{Name: "tail", Form: rest.FormInt, Max: 1000000, Doc: "Only the last lines, of each replica of a service; all when absent or 0."},
	{Name: "since", Form: rest.FormTime, Doc: "RFC 3339, or a span back from now such as 10m."},
	{Name: "replica", Doc: "role-index, such as worker-0, or a replica's whole name."},
	{Name: "timestamps", Form: rest.FormBool, Doc: "Begin each line of text with its time."},
}

// Part is work whose log is a part of that of other work, under a name of its own.
type Part struct{ ID, Label string }

// Logs serves the logs of all kinds of work. Safe for concurrent use.
type Logs struct {
	Finder  *objects.Finder
	Book    train.LogReader
	Tasks   *tracker.Tracker
	Live    train.Live // nil: nobody knows what the leader does
	Streams *stream.Streams
	Auditor *audit.Auditor
	Log     *slog.Logger
	Clock   clock.Clock
	// Parts are those of a kind that prints nothing itself.
	Parts map[api.Kind]func(ctx context.Context, o api.Object) ([]Part, error)
	// HandOver is how long a followed log waits for replicas after the work ended.
	HandOver time.Duration
}

// Routes are one for each kind of work.
func (s *Logs) Routes(reg *rest.Schemas, rules *access.Rules) (out []*rest.Route) {
	for _, kind := range api.WorkKinds() {
		row := api.MustInfo(kind)
		id := "read" + string(kind) + "Log"
		if kind == api.KindTrainingTask {
			id = "readTaskLog"
		} else {
			rules.AsGet(id, kind)
		}
		out = append(out, &rest.Route{
			Method: http.MethodGet, Path: rest.Prefix + "/" + row.Plural + "/{name}/logs", ID: id, Summary: "The log, as text or as Server-Sent Events.", Tag: row.Plural,
			Kind: kind, Query: params, Data: events(reg), Verb: "read-log", Look: true, Media: "text/plain " + rest.MediaEvents,
			Handle: func(ctx context.Context, c *rest.Call) (*rest.Reply, error) { return s.read(ctx, c, row) },
		})
	}
	return out
}

// events is the schema of what a log sends as events.
func events(reg *rest.Schemas) *huma.Schema {
	return &huma.Schema{AnyOf: []*huma.Schema{
		rest.EventSchema(rest.SchemaOf[LogLine](reg), "message"),
		rest.EventSchema(rest.Object(nil, nil), "end"),
		rest.EventSchema(rest.SchemaOf[rest.Refusal](reg), "error"),
	}}
}

// read streams a log as text, or as events where asked for. A followed log ends by itself once the work has finished and its
// replicas have handed everything over.
func (s *Logs) read(ctx context.Context, c *rest.Call, row api.KindInfo) (*rest.Reply, error) {
	name := c.R.PathValue("name")
	c.Note.Names(row.Kind, name)
	f, err := s.Finder.Resolve(ctx, c, row, name)
	if err != nil {
		return nil, err
	}
	c.Note.About(f.Object)
	media := "text/plain"
	if stream.WantsEvents(c.R) {
		media = rest.MediaEvents
	}
	s.Auditor.RememberRead(c, c.Query.Text("replica"))
	st, err := s.Streams.Open(ctx, c, media)
	if err != nil {
		return nil, err
	}
	defer st.End()
	if c.R.Method == http.MethodHead {
		return nil, nil
	}
	o := f.Object.(api.Work)
	w := &logWriter{st: st, times: c.Query.Yes("timestamps"), lang: c.Lang}
	if list := s.Parts[row.Kind]; list != nil {
		w.prefix, w.only = true, c.Query.Text("replica")
		err = s.parts(st.Ctx, o, s.options(c), w, list)
	} else {
		err = s.whole(st.Ctx, c, f, w)
	}
	if gone := st.Gone(); gone != nil {
		st.Farewell(gone)
		return nil, nil
	}
	if err != nil {
		if !st.Events {
			return nil, err // a text cannot say it: the connection is cut
		}
		s.Log.Warn("a log could not be read", "work", o.GetMeta().ID, "error", err)
		st.Farewell(err)
		return nil, nil
	}
	return nil, w.finish()
}

// options translate the query.
func (s *Logs) options(c *rest.Call) logbook.ReadOptions {
	return logbook.ReadOptions{Tail: int(c.Query.Number("tail")), Since: c.Query.Moment("since", s.Clock.Now()), Follow: c.Query.Yes("follow")}
}

// whole reads the log of work that prints itself.
func (s *Logs) whole(ctx context.Context, c *rest.Call, f objects.Found, w *logWriter) error {
	work := f.Object.(api.Work).Workload()
	opts := s.options(c)
	opts.Follow = opts.Follow && !f.Archived
	opts.Replica, w.only = replica(c.Query.Text("replica"), opts.Tail > 0, &work)
	replicas := 0
	for _, role := range work.Roles {
		replicas += role.Replicas
	}
	w.prefix = replicas > 1
	return s.one(ctx, work.Meta.ID, opts, func(replica string, l logbook.Line) error {
		label, attempt := labelOf(work.Meta.ID, replica)
		return w.line(label, attempt, l)
	})
}

// replica is which one is read, by its name or by its label. A label such as worker-0 means that replica in every attempt,
// which is a filter; with tail it means the current attempt, so that the count is right.
func replica(asked string, tail bool, work *api.Workload) (name, label string) {
	if strings.HasPrefix(asked, work.Meta.ID+"-") {
		return asked, ""
	}
	if asked != "" && tail {
		if role, index, ok := cutLabel(asked); ok {
			return string(engine.NameOf(work.Meta.ID, role, index, max(work.AttemptOf(role), 1))), ""
		}
	}
	return "", asked
}

// one reads the log under an id; followed, until that work has ended.
func (s *Logs) one(ctx context.Context, id string, opts logbook.ReadOptions, emit func(string, logbook.Line) error) error {
	if !opts.Follow {
		return s.Book.Read(ctx, id, opts, emit)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	opts.Done = done
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.untilDone(ctx, id, done)
	}()
	defer func() { cancel(); <-ended }()
	return s.Book.Read(ctx, id, opts, emit)
}

// parts reads the logs of what work consists of: one after the other, or side by side where they are followed, those that
// come later too.
func (s *Logs) parts(ctx context.Context, o api.Work, opts logbook.ReadOptions, w *logWriter, list func(context.Context, api.Object) ([]Part, error)) error {
	moved, stop := s.Tasks.Watch(o.GetMeta().ID)
	defer stop()
	group, inner := errgroup.WithContext(ctx)
	if !opts.Follow {
		group.SetLimit(1)
	}
	seen := map[string]bool{}
	for {
		now, err := list(inner, o)
		if err != nil {
			group.Go(func() error { return err })
			break
		}
		for _, p := range now {
			if seen[p.ID] || w.only != "" && p.Label != w.only {
				continue
			}
			seen[p.ID] = true
			group.Go(func() error {
				return s.one(inner, p.ID, opts, func(_ string, l logbook.Line) error { return w.line(p.Label, 0, l) })
			})
		}
		if !opts.Follow || s.finished(inner, o.GetMeta().ID) || !s.wait(inner, moved, 5*time.Second) {
			break
		}
	}
	return group.Wait()
}

// wait returns when something moved, or after a while in case nobody counts; false: ctx has ended.
func (s *Logs) wait(ctx context.Context, moved <-chan struct{}, most time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-moved:
	case <-s.Clock.After(most):
	}
	return true
}

// untilDone closes done once the work has finished (or is gone) and no replica of it still hands over its log, or has taken
// longer for that than we wait.
func (s *Logs) untilDone(ctx context.Context, id string, done chan<- struct{}) {
	moved, stop := s.Tasks.Watch(id)
	defer stop()
	for !s.finished(ctx, id) {
		if !s.wait(ctx, moved, 5*time.Second) {
			return
		}
	}
	deadline := s.Clock.Now().Add(s.HandOver)
	for s.handingOver(ctx, id) && s.Clock.Now().Before(deadline) {
		if !s.wait(ctx, moved, 100*time.Millisecond) {
			return
		}
	}
	close(done)
}

// finished says that work has ended or is gone.
func (s *Logs) finished(ctx context.Context, id string) bool {
	o, err := store.WorkByID(ctx, s.Finder.Truth, id, 0)
	if fault.Is(err, fault.NotFound) && s.Finder.Truth.Newest() > 0 {
		o, err = store.WorkByID(ctx, s.Finder.Truth, id, s.Finder.Truth.Newest())
	}
	if err != nil {
		return fault.Is(err, fault.NotFound)
	}
	return o.Workload().Phase.Finished()
}

func (s *Logs) handingOver(ctx context.Context, id string) bool {
	if s.Live == nil {
		return false
	}
	replicas, err := s.Live.Replicas(ctx, id)
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
