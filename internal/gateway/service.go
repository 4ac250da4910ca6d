package gateway

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/gateway/cache"
	"github.com/fermi-cluster/fermi/internal/gateway/contract"
	"github.com/fermi-cluster/fermi/internal/gateway/prefix"
)

// service is one service as the gateway knows it: its replicas, and who waits for one.
type service struct {
	name, id, project string
	clock             clock.Clock
	spec              atomic.Pointer[serving.ServiceEndpointsSpec]
	meters            atomic.Pointer[serviceMeters]
	cold              func() // said when a request waits and no replica is there; nil: nobody wants to know
	beside

	mu       sync.Mutex
	replicas []*replica     // that may be chosen
	tallies  map[int]*tally // by revision
	waiting  []*waiter      // oldest first
	closed   bool
	holds    time.Duration // how long a request has its replica, of late
	zones    zones
}

// beside is what is known of questions themselves.
type beside struct {
	contract  atomic.Pointer[contract.Contract] // what they look like; nil: nobody says
	cached    cache.Cache                       // answers, where they may be given again
	gathering gathering
}

// replica is one that answers.
type replica struct {
	name, address string
	via           *serving.Via // the agent that passes requests on; nil: the address is reached directly
	// way tells replicas apart by how they are reached: no two have the same, though machines that joined give the same addresses inside.
	way      string
	revision int
	zone     string
	tally    *tally       // its revision's
	seen     prefix.Known // beginnings of questions, where that counts
	busy     int          // requests that it works on
	failures int          // in a row
	bad      int          // answers in a row that say that it can't
	away     time.Time    // not chosen before, while there are others
	said     said         // by its engine, where that is asked
}

// wayTo is a replica's way.
func wayTo(address string, via *serving.Via) string {
	if via == nil {
		return address
	}
	_, port, _ := net.SplitHostPort(address)
	return net.JoinHostPort(strings.ToLower(via.Replica+".on."+strings.NewReplacer(":", "-", "[", "", "]", "").Replace(via.Agent)), port)
}

// waiter is a request that waits for a replica.
type waiter struct {
	turn chan *replica // has room for one
	want want
	done bool // guarded by service.mu: it has its replica, or waits no more
}

func newService(name, id, project string, c clock.Clock) *service {
	s := &service{name: name, id: id, project: project, clock: c, tallies: map[int]*tally{}}
	s.spec.Store(&serving.ServiceEndpointsSpec{ServiceID: id, Project: project})
	return s
}

// take makes the newest endpoints count. A replica that stays keeps what is known of it.
func (s *service) take(spec *serving.ServiceEndpointsSpec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := map[string]*replica{}
	for _, r := range s.replicas {
		known[r.name+" "+r.way] = r
	}
	old := s.spec.Load()
	if !reflect.DeepEqual(old.Contract, spec.Contract) {
		s.contract.Store(contract.New(&spec.Contract))
	}
	s.spec.Store(spec)
	s.project = spec.Project
	if g := spec.Gateway; g != nil && g.Cache != nil {
		s.cached.Fit(int64(g.Cache.Bytes), !slices.Equal(revisionsOf(old), revisionsOf(spec))) // another revision may answer otherwise
	} else {
		s.cached.Fit(0, true)
	}
	s.replicas = make([]*replica, 0, len(spec.Replicas))
	for _, e := range spec.Replicas {
		r := &replica{name: e.Replica, address: e.Address, via: e.Via, way: wayTo(e.Address, e.Via), revision: e.Revision, zone: e.Zone, tally: s.tallies[e.Revision]}
		if had := known[r.name+" "+r.way]; had != nil {
			r = had
		} else if r.tally == nil {
			r.tally = &tally{}
			s.tallies[e.Revision] = r.tally
		}
		s.replicas = append(s.replicas, r)
	}
	s.serve()
}

func (s *service) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.replicas = true, nil
	for _, w := range s.waiting {
		w.done = true
		close(w.turn)
	}
	s.waiting = nil
}

// settings are the newest bounds; nobody changes them.
func (s *service) settings() *serving.ServiceEndpointsSpec { return s.spec.Load() }

// waitingNow is how many requests wait.
func (s *service) waitingNow() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}

// free is how many requests more a replica takes.
func (s *service) free(r *replica) int { return max(s.settings().MaxConcurrency, 1) - r.busy }

// revisionsOf are those that answer, in order.
func revisionsOf(spec *serving.ServiceEndpointsSpec) (out []int) {
	for _, r := range spec.Replicas {
		out = append(out, r.Revision)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// want is what a request asks of a replica.
type want struct {
	on     track
	begins []uint64 // its blocks, where it prefers who has seen its beginning
	region string   // where it comes from; "": not known
}

// missCosts is how many requests under way a replica that has seen nothing of a question is behind one that has seen all of it.
const missCosts = 4

// choose is the less busy of two replicas at random, among those of the track with room, or the one that has seen most of the
// question and has not clearly more to do; those that failed a moment ago and those that the request has met before come
// last. nil: none has room. mu held.
func (s *service) choose(q *want, met []*replica) *replica {
	now, on := s.clock.Now(), q.on
	if !slices.ContainsFunc(s.replicas, on.fits) {
		on = track{} // nobody of it is there: better another revision than none
	}
	zone := s.relieve(s.zones.pick(s, q.region, now), now)
	for _, in := range []string{zone, ""} { // a zone without room gives away
		for _, spared := range []bool{false, true} {
			if in != "" && spared {
				continue // first those of other zones that are well
			}
			fit := func(r *replica) bool {
				return on.fits(r) && (in == "" || r.zone == in) && s.free(r) > 0 && (now.Before(r.away) || contains(met, r)) == spared
			}
			if best := s.best(q, fit); best != nil {
				return best
			}
		}
		if zone == "" {
			break
		}
	}
	return nil
}

// best is who of those that fit shall answer. mu held.
func (s *service) best(q *want, fit func(*replica) bool) (best *replica) {
	if len(q.begins) > 0 {
		least, now := 0.0, s.clock.Now()
		first := rand.IntN(len(s.replicas) + 1) // of equals none is always the first
		for i := range s.replicas {
			r := s.replicas[(first+i)%len(s.replicas)]
			if !fit(r) {
				continue
			}
			cost := float64(r.busy) + r.said.cost(now) + missCosts*(1-float64(r.seen.Match(q.begins))/float64(len(q.begins)))
			if best == nil || cost < least {
				best, least = r, cost
			}
		}
		if best != nil {
			best.seen.Saw(q.begins)
		}
		return best
	}
	n := 0
	for _, r := range s.replicas {
		if fit(r) {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	a, b := rand.IntN(n), rand.IntN(n)
	n = 0
	for _, r := range s.replicas {
		if !fit(r) {
			continue
		}
		if (n == a || n == b) && (best == nil || r.busy < best.busy) {
			best = r
		}
		n++
	}
	return best
}

func contains(list []*replica, r *replica) bool {
	for _, x := range list {
		if x == r {
			return true
		}
	}
	return false
}

var (
	errStopped = fault.New(fault.Unavailable, "ServiceStopped", fault.T("The service is stopped.", "服务已停止。")).
			WithHint(fault.T("Start it: fermi service start NAME.", "启动：fermi service start NAME。"))
	errNobody = fault.New(fault.Unavailable, "NoReplica", fault.T("No replica of the service answers now.", "当前没有副本应答。")).
			WithHint(fault.T("See why: fermi service get NAME.", "查看原因：fermi service get NAME。"))
	errGone = fault.New(fault.NotFound, "NoService", fault.T("The service was deleted.", "服务已删除。"))
)

// tooMany is the answer to a request that finds the queue full. It is a promise of little: somebody may be faster.
func tooMany(spec *serving.ServiceEndpointsSpec) *fault.Error {
	e := fault.New(fault.TooMany, "QueueFull", fault.T("All replicas are busy and %d requests wait for each already.", "全部副本繁忙，每个副本已有 %d 个请求排队。", spec.MaxQueue)).
		WithHint(fault.T("Ask again later, or give the service more replicas.", "请稍后重试，或增加服务副本数。"))
	e.RetryAfter = time.Second
	return e
}

// wait is how long a request waits that comes now; 0: not known. mu held.
func (s *service) wait() time.Duration {
	places := len(s.replicas) * max(s.settings().MaxConcurrency, 1)
	if places == 0 {
		return 0
	}
	return s.holds * time.Duration(len(s.waiting)+1) / time.Duration(places)
}

// held hears how long a request had its replica.
func (s *service) held(took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds += (took - s.holds) / 8
}

// tooLate is the answer to a request whose time would be over before its turn.
func tooLate(wait time.Duration) *fault.Error {
	e := fault.New(fault.TooMany, "TooLate", fault.T("It would wait about %s, which is longer than its time.", "预计排队 %s，超过请求时限。", wait.Round(time.Millisecond))).
		WithHint(fault.T("Ask again later, or give the service more replicas.", "请稍后重试，或增加服务副本数。"))
	e.RetryAfter = max(wait, time.Second)
	return e
}

// acquire waits for a replica with room, at most until then. Who has it gives it back with release.
func (s *service) acquire(ctx context.Context, until time.Time, q want, met []*replica) (*replica, error) {
	s.mu.Lock()
	switch {
	case s.closed:
		s.mu.Unlock()
		return nil, errGone
	case s.settings().Stopped:
		s.mu.Unlock()
		return nil, errStopped
	}
	if len(s.waiting) == 0 {
		if r := s.choose(&q, met); r != nil {
			r.busy++
			s.mu.Unlock()
			return r, nil
		}
	}
	if len(s.waiting) >= max(s.settings().MaxQueue, 1)*max(len(s.replicas), 1) {
		err := tooMany(s.settings())
		s.mu.Unlock()
		return nil, err
	}
	if wait := s.wait(); wait > time.Until(until) {
		s.mu.Unlock()
		return nil, tooLate(wait)
	}
	w := &waiter{turn: make(chan *replica, 1), want: q}
	s.waiting = append(s.waiting, w)
	nobody := len(s.replicas) == 0
	s.mu.Unlock()
	if nobody && s.cold != nil {
		s.cold()
	}
	limit := time.NewTimer(time.Until(until))
	defer limit.Stop()
	select {
	case r := <-w.turn:
		if r == nil {
			return nil, errGone
		}
		return r, nil
	case <-ctx.Done():
	case <-limit.C:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.done { // both happened
		if r := <-w.turn; r != nil {
			s.put(r)
		}
	}
	w.done = true
	for i, x := range s.waiting {
		if x == w {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			break
		}
	}
	if len(s.replicas) == 0 {
		return nil, errNobody
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, errTimeout
}

// onlyMet says that there is no replica that the question has not met.
func (s *service) onlyMet(met []*replica) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.replicas {
		if !contains(met, r) {
			return false
		}
	}
	return true
}

// serve gives replicas with room to those who wait. mu held.
func (s *service) serve() {
	for i := 0; i < len(s.waiting); {
		w := s.waiting[i]
		r := s.choose(&w.want, nil)
		if r == nil {
			if w.want.on == (track{}) {
				return // no replica has room
			}
			i++
			continue
		}
		s.waiting = slices.Delete(s.waiting, i, i+1)
		r.busy++
		w.done = true
		w.turn <- r
	}
}

// put gives a replica back. mu held.
func (s *service) put(r *replica) {
	r.busy--
	s.serve()
}

func (s *service) release(r *replica) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(r)
}

// The time that a replica is spared after it failed.
const (
	firstAway = 100 * time.Millisecond
	lastAway  = 5 * time.Second
)

// failed spares a replica for a while; answered ends that.
func (s *service) failed(r *replica) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.failures++
	r.away = s.clock.Now().Add(min(lastAway, firstAway<<min(r.failures-1, 10)))
}

// The answers in a row that say that a replica can't, after which it is spared, and for how long.
const (
	mostBad  = 5
	firstBad = time.Second
	lastBad  = 30 * time.Second
)

// answered hears how a replica answered. One that only fails is spared while most others are not: it may be the question's fault.
func (s *service) answered(r *replica, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.failures, r.away = 0, time.Time{}
	if status != http.StatusInternalServerError && status != http.StatusBadGateway && status != http.StatusServiceUnavailable && status != http.StatusGatewayTimeout {
		r.bad = 0
		return
	}
	r.bad++
	if r.bad < mostBad {
		return
	}
	now, away := s.clock.Now(), 1
	for _, x := range s.replicas {
		if x != r && now.Before(x.away) {
			away++
		}
	}
	if 2*away <= len(s.replicas) {
		r.away = now.Add(min(lastBad, firstBad<<min(r.bad-mostBad, 10)))
	}
}
