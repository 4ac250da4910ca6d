package gateway

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/pattern"
)

const (
	// mostLog is what a service's log may hold until the leader has it; what comes then is counted, not kept.
	mostLog = 256 << 10
	// mostLogged bounds the text of a question in it, and of a path.
	mostLogged = 2 << 10
	// mostPieces bounds one report: together they are less than what a server takes.
	mostPieces = 16
)

// requestLog are lines about requests of one service on their way to the leader, as a launcher's log is. Safe for concurrent use.
type requestLog struct {
	mu   sync.Mutex
	from int64 // offset of the first byte of data
	data []byte
	lost int // lines for which there was no room
}

// requestLine is what is said of a request. Nothing of its headers is, and of its query only the names.
type requestLine struct {
	Key      string   `json:"key"`
	Method   string   `json:"method"`
	Path     string   `json:"path"`
	Query    []string `json:"query,omitempty"`
	Status   int      `json:"status"`
	MS       float64  `json:"ms,omitempty"` // until the answer began
	Revision int      `json:"revision,omitempty"`
	Replica  string   `json:"replica,omitempty"`
	Tokens   int64    `json:"tokens,omitempty"`
	Cut      bool     `json:"cut,omitempty"`
	Body     string   `json:"body,omitempty"`
	Lost     int      `json:"lost,omitempty"` // lines before this one that found no room
}

// logTime has a fixed width, as lines of logs have.
const logTime = "2006-01-02T15:04:05.000000000Z"

// chosen says that a request is written down: each so many of 100, and every one that failed.
func chosen(l *serving.RequestLog, t *trade) bool {
	return l != nil && (t.code >= http.StatusInternalServerError || t.cut || rand.IntN(100) < l.Percent)
}

// add writes a line, if there is room.
func (l *requestLog) add(line *requestLine, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line.Lost = l.lost
	text, err := json.Marshal(line) // escapes newlines
	if err != nil || len(l.data)+len(text) > mostLog {
		l.lost++
		return
	}
	l.lost = 0
	l.data = now.UTC().AppendFormat(l.data, logTime)
	l.data = append(l.data, " 0 O F "...)
	l.data = append(append(l.data, text...), '\n')
}

// tell is what the leader is to take.
func (l *requestLog) tell() (from int64, data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.from, slices.Clone(l.data)
}

// taken hears up to where the leader has it for good.
func (l *requestLog) taken(to int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := to - l.from; n > 0 && n <= int64(len(l.data)) {
		l.data = slices.Delete(l.data, 0, int(n))
		l.from = to
	}
}

// write says of a request what may be said of it.
func (l *ledger) write(t *trade, r *http.Request, q *question, replica, to string, now time.Time) {
	g := t.s.settings().Gateway
	if g == nil || !chosen(g.Log, t) {
		return
	}
	path, query, _ := strings.Cut(to, "?")
	line := &requestLine{
		Key: t.key, Method: r.Method, Path: clip(redact(path[:min(len(path), 2*mostLogged)])), Query: namesOf(query), Status: t.code, MS: float64(t.took.Microseconds()) / 1000, Revision: t.revision, Replica: replica, Tokens: t.tokens, Cut: t.cut,
	}
	if g.Log.Bodies && q != nil && q.body != nil {
		line.Body = clip(redact(string(q.body[:min(len(q.body), 2*mostLogged)])))
	}
	l.logOf(t.s.id).add(line, now)
}

// logOf is the log of a service.
func (l *ledger) logOf(id string) *requestLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.logs == nil {
		l.logs = map[string]*requestLog{}
	}
	one := l.logs[id]
	if one == nil {
		one = &requestLog{}
		l.logs[id] = one
	}
	return one
}

// forget drops the log of a service that is gone.
func (l *ledger) forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.logs, id)
}

// lines are those of all services that the leader has not yet.
func (l *ledger) lines() (out []serving.LogPiece) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, one := range l.logs {
		if from, data := one.tell(); len(data) > 0 && len(out) < mostPieces {
			out = append(out, serving.LogPiece{ServiceID: id, Offset: from, Data: data})
		}
	}
	return out
}

// kept hears what the leader has for good.
func (l *ledger) kept(pieces []serving.LogPiece) {
	for _, p := range pieces {
		l.logOf(p.ServiceID).taken(p.Offset)
	}
}

func clip(s string) string {
	if len(s) <= mostLogged {
		return strings.ToValidUTF8(s, "�")
	}
	n := mostLogged
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.ToValidUTF8(s[:n], "�") + "…"
}

// namesOf are the names in a query, without what is said of them.
func namesOf(query string) (out []string) {
	values, _ := url.ParseQuery(query[:min(len(query), mostLogged)])
	for name := range values {
		out = append(out, clip(redact(name)))
	}
	slices.Sort(out)
	return out
}

// hidden stands for what is not written down.
const hidden = "***"

// secrets are what looks like something that is nobody else's: fields with such names, keys, addresses of mail, long numbers (telephones,
// identity and bank cards).
var secrets = []struct {
	form *pattern.Pattern
	as   string
}{
	{pattern.New(`(?i)("[a-z0-9_-]*(?:password|passwd|secret|token|api[_-]?key|authorization|credential|id[_-]?card|ssn)[a-z0-9_-]*"\s*:\s*)"(?:[^"\\]|\\.)*("|$)`), `${1}"` + hidden + `"`},
	{pattern.New(`(?i)\b((?:password|passwd|secret|token|api[_-]?key)=)[^&\s"]+`), `${1}` + hidden},
	{pattern.New(`(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{8,}`), `${1} ` + hidden},
	{pattern.New(`\b(?:sk|pk|ghp|gho|hf|xox[abp]|AKIA|fermi)[-_]?[A-Za-z0-9_-]{16,}`), hidden},
	{pattern.New(`[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}`), hidden},
	{pattern.New(`\d(?:[ -]?\d){9,}[\dXx]?`), hidden},
}

func redact(s string) string {
	for _, x := range secrets {
		s = x.form.ReplaceAllString(s, x.as)
	}
	return s
}
