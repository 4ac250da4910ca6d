package gateway

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/serving"
)

const (
	// mostRows bounds what is remembered until the leader has it; keys beyond that are counted together, under no name.
	mostRows = 20_000
	// mostTold bounds one report.
	mostTold = 2000
	// tellEvery is how many reports later the leader hears again what was carried.
	tellEvery = 5
)

// ledger counts what is carried, by minute and revision and by hour and key, until the leader has written it down. What is told again
// replaces what was told before. Safe for concurrent use.
type ledger struct {
	gateway string

	mu   sync.Mutex
	rows map[rowName]*ledgerRow
	logs map[string]*requestLog // by the service's id
}

// rowName is what a row is of.
type rowName struct {
	service, key string
	revision     int
	width        serving.Width
	start        int64 // seconds
}

type ledgerRow struct {
	serving.Served
	changed bool // since it was told
}

// trade is one request that came to its end.
type trade struct {
	s        *service
	key      string
	revision int // 0: no replica answered
	code     int
	cut      bool
	took     time.Duration // until the answer began
	tokens   int64
}

// enter counts a request.
func (l *ledger) enter(t *trade, now time.Time) {
	spec := t.s.settings()
	n := serving.ServedCount{Requests: 1, Tokens: t.tokens}
	switch {
	case t.code >= http.StatusInternalServerError || t.cut:
		n.Errors = 1
	case t.code == http.StatusTooManyRequests:
		n.Refused = 1
	case spec.Slow > 0 && t.took > spec.Slow.Std():
		n.Slow = 1
	}
	bucket := -1
	if t.revision > 0 {
		bucket = bucketOf(t.took)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	minute := l.row(t.s, rowName{service: t.s.id, revision: t.revision, width: serving.Minute, start: now.Truncate(time.Minute).Unix()})
	minute.Add(n)
	if bucket >= 0 {
		if minute.Begun == nil {
			minute.Begun = make([]int64, serving.LoadBuckets)
		}
		minute.Begun[bucket]++
	}
	l.row(t.s, rowName{service: t.s.id, key: t.key, width: serving.Hour, start: now.Truncate(time.Hour).Unix()}).Add(n)
}

// row is what is counted under a name. mu held.
func (l *ledger) row(s *service, name rowName) *serving.Served {
	r := l.rows[name]
	if r == nil {
		if len(l.rows) >= mostRows {
			name.key = ""
			r = l.rows[name]
		}
		if r == nil {
			r = &ledgerRow{Served: serving.Served{
				Gateway: l.gateway, ServiceID: s.id, Project: s.settings().Project, Service: s.name, Key: name.key, Revision: name.revision, Width: name.width, Start: time.Unix(name.start, 0).UTC(),
			}}
			if l.rows == nil {
				l.rows = map[rowName]*ledgerRow{}
			}
			l.rows[name] = r
		}
	}
	r.changed = true
	return &r.Served
}

// tell gives what changed, and forgets what is over and was told.
func (l *ledger) tell(now time.Time) (out []serving.Served) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, r := range l.rows {
		over := now.Sub(r.Start) > time.Duration(r.Width)+time.Minute
		switch {
		case r.changed && len(out) < mostTold:
			r.changed = false
			one := r.Served
			one.Begun = slices.Clone(r.Begun)
			out = append(out, one)
		case over && !r.changed:
			delete(l.rows, name)
		}
	}
	return out
}

// untold takes back what the leader did not take.
func (l *ledger) untold(rows []serving.Served) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range rows {
		r := &rows[i]
		if known := l.rows[rowName{r.ServiceID, r.Key, r.Revision, r.Width, r.Start.Unix()}]; known != nil {
			known.changed = true
		}
	}
}
