package logs

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/internal/blob/logbook"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/stream"
)

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
	only   string // a label; "": all
	prefix bool
	times  bool
	lang   string

	mu   sync.Mutex // parts write side by side
	held held
	buf  bytes.Buffer
	open string // label, rank and stream whose line was cut and goes on
}

func (w *logWriter) line(label string, attempt int, l logbook.Line) error {
	if w.only != "" && label != w.only {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	l.Text = w.ours(l.Text)
	if w.st.Events {
		stream := "stdout"
		if l.Stream == 'E' {
			stream = "stderr"
		}
		text, replace := bytes.CutPrefix(l.Text, []byte{'\r'})
		return w.st.Event("", "", LogLine{l.Time, label, attempt, l.Rank, stream, string(text), l.Partial, replace})
	}
	from := fmt.Sprintf("%s %d %d %c", label, attempt, l.Rank, l.Stream)
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

// finish writes what had no end.
func (w *logWriter) finish() error {
	if w.st.Events {
		_ = w.st.Event("end", "", struct{}{})
		return nil
	}
	for _, from := range slices.Sorted(maps.Keys(w.held)) {
		label, _, _ := strings.Cut(from, " ")
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
