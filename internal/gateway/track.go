package gateway

import (
	"context"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/gateway/wire"
)

// tally counts what a revision answered. Safe for concurrent use.
type tally struct {
	requests, errors, tokens atomic.Int64
	begun                    [serving.LoadBuckets]atomic.Int64
}

// answered counts an answer by its status and the time until it began.
func (t *tally) answered(status int, took time.Duration) {
	t.requests.Add(1)
	if status >= http.StatusInternalServerError {
		t.errors.Add(1)
	}
	t.begun[bucketOf(took)].Add(1)
}

// bucketOf is where a time until an answer began is counted.
func bucketOf(took time.Duration) (i int) {
	for i < serving.LoadBuckets-1 && took > serving.LoadBound(i) {
		i++
	}
	return i
}

// failed counts a question that got no answer, or half of one.
func (t *tally) failed(begun bool) {
	if !begun {
		t.requests.Add(1)
	}
	t.errors.Add(1)
}

// load is what is asked of the service, for the leader.
func (s *service) load() serving.ServiceLoad {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := serving.ServiceLoad{ServiceID: s.id, Waiting: len(s.waiting)}
	for _, r := range s.replicas {
		l.Busy += r.busy
	}
	for revision, t := range s.tallies {
		one := serving.RevisionLoad{Revision: revision, Requests: t.requests.Load(), Errors: t.errors.Load(), Tokens: t.tokens.Load(), Begun: make([]int64, serving.LoadBuckets)}
		for i := range t.begun {
			one.Begun[i] = t.begun[i].Load()
		}
		l.Revisions = append(l.Revisions, one)
	}
	return l
}

// track is which revisions may answer a request.
type track struct {
	canary int  // the new revision; 0: all are alike
	only   bool // it alone, or all but it
}

// fits says that a replica is on the track.
func (t track) fits(r *replica) bool { return t.canary == 0 || (r.revision == t.canary) == t.only }

// trackOf is the track of a request: what a rule says, and otherwise by the share of the canary.
func trackOf(road *serving.Road, r *http.Request, user string) track {
	if road.Canary == 0 {
		return track{}
	}
	for i := range road.Rules {
		if rule := &road.Rules[i]; fits(rule, r, user) {
			return track{road.Canary, rule.To == serving.TrackCanary && road.Percent > 0}
		}
	}
	return track{road.Canary, road.Percent > 0 && rand.IntN(100) < road.Percent}
}

// fits says that a request is all that a rule names.
func fits(rule *serving.TrafficRule, r *http.Request, user string) bool {
	has := func(value string) bool { return value != "" && (rule.Value == "" || value == rule.Value) }
	if rule.Header != "" && !has(r.Header.Get(rule.Header)) {
		return false
	}
	if rule.Cookie != "" {
		c, err := r.Cookie(rule.Cookie)
		if err != nil || !has(c.Value) {
			return false
		}
	}
	if rule.User != "" && rule.User != user {
		return false
	}
	if rule.Percent > 0 {
		h := fnv.New32a()
		_, _ = io.WriteString(h, user)
		return int(h.Sum32()%100) < rule.Percent
	}
	return true
}

// mostShadows bounds the copies that are under way at once.
const mostShadows = 64

// shadow sends the new revision a copy of a question. What it answers is counted and goes to nobody.
func (g *Gateway) shadow(t *trip) {
	road := &t.s.settings().Road
	if road.Shadow == 0 || road.Canary == 0 || !t.question.kept || t.framed || rand.IntN(100) >= road.Shadow {
		return
	}
	if g.shadows.Add(1) > mostShadows {
		g.shadows.Add(-1)
		return
	}
	q := &wire.Question{
		Method: t.in.Method, Target: t.to, Host: t.in.Host, Header: t.in.Header.Clone(), Skip: isPrivate, More: forwarded(t.in, t.s), Until: t.until, Body: t.question.body,
	}
	q.More = append(q.More, [2]string{"X-Fermi-Shadow", "1"})
	s, only := t.s, track{road.Canary, true}
	go func() {
		defer g.shadows.Add(-1)
		ctx, cancel := context.WithDeadline(context.Background(), q.Until.Add(time.Minute)) // it outlives its request, and ends with its time
		defer cancel()
		r := s.idle(only)
		if r == nil {
			return
		}
		defer s.release(r)
		if r.via != nil {
			ctx = context.WithValue(ctx, farReplica{}, r)
		}
		begun := time.Now()
		a, err := g.lines.Ask(ctx, r.way, q)
		if err != nil {
			r.tally.failed(false)
			return
		}
		defer a.Close()
		r.tally.answered(a.Response.StatusCode, time.Since(begun))
		if _, err := io.CopyN(io.Discard, a, 8<<20); err != nil && err != io.EOF {
			r.tally.failed(true)
		}
	}()
}

// idle is a replica of a track with room, without waiting; nil: there is none.
func (s *service) idle(on track) *replica {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.replicas {
		if on.fits(r) && s.free(r) > 0 {
			r.busy++
			return r
		}
	}
	return nil
}

const reportEvery = time.Second

// reporter tells the leader what gateways count.
type reporter struct{ g *Gateway }

// run tells what is asked of services: each second, and at once when a request waits and nobody works; and what was
// carried, every few seconds and at the end.
func (r reporter) run(ctx context.Context) {
	g := r.g
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			r.tell(last, true)
			return
		case <-g.cfg.Clock.After(reportEvery):
		case <-g.held:
		}
		r.tell(ctx, n%tellEvery == 0)
	}
}

// tell makes one report; with what was carried, where that is wanted.
func (r reporter) tell(ctx context.Context, carried bool) {
	g := r.g
	now := g.cfg.Clock.Now()
	said := &serving.LoadReport{Gateway: g.name}
	g.mu.RLock()
	list := make([]*service, 0, len(g.services))
	for _, s := range g.services {
		list = append(list, s)
	}
	g.mu.RUnlock()
	for _, s := range list {
		said.Services = append(said.Services, s.load())
	}
	if carried {
		said.Served, said.Logs = g.ledger.tell(now), g.ledger.lines()
	}
	reply, err := g.cfg.Report(ctx, said)
	if err != nil {
		g.ledger.untold(said.Served)
		g.cfg.Log.Debug("the leader did not take the report", "error", err)
		return
	}
	if reply != nil {
		g.limits.spentBy(reply.Spent, now)
		g.ledger.kept(reply.Logged)
	}
}
