package client

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// LogLine is one line, or a part of a long one, that a replica wrote.
type LogLine struct {
	Time    time.Time `json:"time"`
	Replica string    `json:"replica"` // role-index
	Attempt int       `json:"attempt,omitempty"`
	Rank    int       `json:"rank"`
	Stream  string    `json:"stream"` // stdout or stderr
	Text    string    `json:"text"`
	// Partial says that the line goes on in the next LogLine of this replica and stream.
	Partial bool `json:"partial,omitempty"`
	// Replace says that the text replaces what the line was so far: a progress bar went on.
	Replace bool `json:"replace,omitempty"`
}

// LogOptions select lines.
type LogOptions struct {
	Follow  bool
	Tail    int // last lines only; negative or 0: all
	Since   time.Time
	Replica string // role-index, such as worker-0
	// Lost, when set, is told when the stream broke and is being opened again.
	Lost func(error)
}

// lateBy is how far back a resumed stream looks for replicas whose lines reach the server late;
// what was seen already is dropped here.
const lateBy = time.Minute

// Logs hands every line to emit, in the server's order. With Follow it returns when the task has
// ended and everything was handed over; a broken stream is resumed where it broke. An error of
// emit ends it and is returned as it is.
func (c *Client) Logs(ctx context.Context, project, name string, o LogOptions, emit func(LogLine) error) error {
	return LogsOf(ctx, c, api.KindTrainingTask, project, name, o, emit)
}

// LogsOf is Logs of work of any kind.
func LogsOf(ctx context.Context, c *Client, kind api.Kind, project, name string, o LogOptions, emit func(LogLine) error) error {
	path, err := objectPath(kind, name)
	if err != nil {
		return err
	}
	path += "/logs"
	pos := newLogPosition()
	query := inProject(project)
	set(query, "replica", o.Replica)
	final := !o.Follow
	return keep(ctx, o.Lost, func() (bool, bool, error) {
		ended, heard := false, false
		pos.rewind()
		err := c.stream(ctx, path, pos.query(query, o, !final), func(ev serverEvent) error {
			heard = true
			switch ev.name {
			case "end":
				ended = true
				return nil
			case "error":
				return farewell(ev.data)
			case "", "message", "line", "log":
			default:
				return nil
			}
			var line LogLine
			if err := json.Unmarshal(ev.data, &line); err != nil {
				return notFermi(c.Server(), err)
			}
			if pos.seen(line) {
				return nil
			}
			if err := emit(line); err != nil {
				return stop{err}
			}
			return nil
		})
		if err != nil || ended || final {
			return true, heard, err
		}
		// A clean end without a word may be a server that shuts down. Only the end of the task is
		// the end of its log; then one more look fetches what came in between.
		obj, err := c.Get(ctx, kind, project, name)
		switch {
		case fault.Is(err, fault.NotFound):
			return true, heard, nil
		case err != nil:
			return false, heard, err
		}
		work, _ := api.WorkloadOf(obj)
		final = work.Phase.Finished()
		return false, heard, nil
	})
}

// logPosition knows, for each replica of each attempt, which line was handed over last. A
// replica's lines come in the same order every time, so that a new stream is skipped up to and
// including that line.
type logPosition struct {
	replicas map[string]*replicaPosition
}

type replicaPosition struct {
	at   time.Time
	last string         // the line handed over last, which has the time at
	n    map[string]int // lines with exactly that time, and how often each was handed over
	pass int            // how often last was met in the current stream
	live bool           // the current stream is past it
}

func newLogPosition() *logPosition { return &logPosition{map[string]*replicaPosition{}} }

// rewind is called before each new stream.
func (p *logPosition) rewind() {
	for _, r := range p.replicas {
		r.pass, r.live = 0, false
	}
}

// seen says whether a line was handed over by an earlier stream, and notes it if not.
func (p *logPosition) seen(l LogLine) bool {
	key := l.Replica + "/" + strconv.Itoa(l.Attempt)
	line := strconv.Itoa(l.Rank) + l.Stream + strconv.FormatBool(l.Partial) + l.Text
	r, ok := p.replicas[key]
	if !ok {
		r = &replicaPosition{live: true}
		p.replicas[key] = r
	}
	if !r.live && !l.Time.After(r.at) {
		if l.Time.Equal(r.at) && line == r.last {
			r.pass++
			r.live = r.pass == r.n[line]
		}
		return true
	}
	r.live = true
	if r.n == nil {
		r.n = map[string]int{}
	}
	if !l.Time.Equal(r.at) {
		r.at = l.Time
		clear(r.n)
	}
	r.last = line
	r.n[line]++
	return false
}

// query asks for the whole selection at first, then only for what may be missing.
func (p *logPosition) query(fixed url.Values, o LogOptions, follow bool) url.Values {
	q := url.Values{}
	for k, v := range fixed {
		q[k] = v
	}
	if follow {
		q.Set("follow", "true")
	}
	since := o.Since
	if len(p.replicas) == 0 {
		if o.Tail > 0 {
			q.Set("tail", strconv.Itoa(o.Tail))
		}
	} else if from := p.oldest().Add(-lateBy); from.After(since) && o.Tail <= 0 {
		since = from
	} else if o.Tail > 0 {
		// What was cut off by tail must stay cut off.
		since = p.oldest()
	}
	if !since.IsZero() {
		q.Set("since", since.UTC().Format(time.RFC3339Nano))
	}
	return q
}

func (p *logPosition) oldest() time.Time {
	var oldest time.Time
	for _, r := range p.replicas {
		if oldest.IsZero() || r.at.Before(oldest) {
			oldest = r.at
		}
	}
	return oldest
}
