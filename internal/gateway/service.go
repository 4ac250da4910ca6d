package gateway

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// service is one service as the gateway knows it: its replicas, and who waits for one.
type service struct {
	name, id, project string
	clock             clock.Clock

	mu       sync.Mutex
	spec     serving.ServiceEndpointsSpec
	replicas []*replica // that may be chosen
	waiting  []*waiter  // oldest first
	closed   bool
}

// replica is one that answers.
type replica struct {
	name, address string
	busy          int       // requests that it works on
	failures      int       // in a row
	away          time.Time // not chosen before, while there are others
}

// waiter is a request that waits for a replica.
type waiter struct {
	turn chan *replica // has room for one
	done bool          // guarded by service.mu: it has its replica, or waits no more
}

func newService(name, id, project string, c clock.Clock) *service {
	return &service{name: name, id: id, project: project, clock: c}
}

// take makes the newest endpoints count. A replica that stays keeps what is known of it.
func (s *service) take(spec *serving.ServiceEndpointsSpec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := map[string]*replica{}
	for _, r := range s.replicas {
		known[r.name+" "+r.address] = r
	}
	s.spec, s.project = *spec, spec.Project
	s.replicas = make([]*replica, 0, len(spec.Replicas))
	for _, e := range spec.Replicas {
		r := known[e.Replica+" "+e.Address]
		if r == nil {
			r = &replica{name: e.Replica, address: e.Address}
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

// settings are the newest bounds.
func (s *service) settings() serving.ServiceEndpointsSpec {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spec
}

// waitingNow is how many requests wait.
func (s *service) waitingNow() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}

// free is how many requests more a replica takes.
func (s *service) free(r *replica) int { return max(s.spec.MaxConcurrency, 1) - r.busy }

// choose is the less busy of two replicas at random, among those with room; those that failed a moment ago and those that
// the request has met before come last. nil: none has room. mu held.
func (s *service) choose(met []*replica) *replica {
	now := s.clock.Now()
	var best, rest []*replica
	for _, r := range s.replicas {
		switch {
		case s.free(r) <= 0:
		case now.Before(r.away) || contains(met, r):
			rest = append(rest, r)
		default:
			best = append(best, r)
		}
	}
	if len(best) == 0 {
		best = rest
	}
	if len(best) == 0 {
		return nil
	}
	a, b := best[rand.IntN(len(best))], best[rand.IntN(len(best))]
	if b.busy < a.busy {
		a = b
	}
	return a
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

// acquire waits for a replica with room, at most as long as ctx lasts. Who has it gives it back with release.
func (s *service) acquire(ctx context.Context, met []*replica) (*replica, error) {
	s.mu.Lock()
	switch {
	case s.closed:
		s.mu.Unlock()
		return nil, errGone
	case s.spec.Stopped:
		s.mu.Unlock()
		return nil, errStopped
	}
	if len(s.waiting) == 0 {
		if r := s.choose(met); r != nil {
			r.busy++
			s.mu.Unlock()
			return r, nil
		}
	}
	if len(s.waiting) >= max(s.spec.MaxQueue, 1)*max(len(s.replicas), 1) {
		err := tooMany(&s.spec)
		s.mu.Unlock()
		return nil, err
	}
	w := &waiter{turn: make(chan *replica, 1)}
	s.waiting = append(s.waiting, w)
	s.mu.Unlock()
	select {
	case r := <-w.turn:
		if r == nil {
			return nil, errGone
		}
		return r, nil
	case <-ctx.Done():
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
	return nil, ctx.Err()
}

// serve gives replicas with room to those who wait. mu held.
func (s *service) serve() {
	for len(s.waiting) > 0 {
		r := s.choose(nil)
		if r == nil {
			return
		}
		w := s.waiting[0]
		s.waiting = s.waiting[1:]
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

func (s *service) answered(r *replica) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.failures, r.away = 0, time.Time{}
}
