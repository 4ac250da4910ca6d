package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/control/serve/demand"
	"github.com/fermi-cluster/fermi/internal/engine"
)

// figures adds what gateways told of a service.
func (c *Controller) figures(s *seen, now time.Time) {
	id := s.service.Meta.ID
	if a := s.service.Spec.Autoscale; a != nil {
		if a.Looks() {
			c.look(s, now)
		}
		s.stable = c.desk.Of(id, a.Policy.Window.Std(), now)
		s.panic = c.desk.Of(id, max(a.Policy.Window.Std()/10, time.Second), now)
	}
	if at, t := s.service.Status.Canary, s.service.Spec.Traffic; at != nil && at.Verdict == "" && t != nil && t.Canary != nil {
		s.counted = c.desk.Count(id, at.Revision, t.Canary.MaxLatency.Std())
		if t.Canary.Check != "" && at.Percent > 0 {
			s.checked = c.checks.of(s, at, t.Canary.Check, c.far)
		}
	}
}

// look notes what the replicas that answer used so far, as their launchers say.
func (c *Controller) look(s *seen, now time.Time) {
	for _, r := range s.replicas {
		if !r.Status.Ready || r.Spec.DrainAt != nil || r.Meta.DeletedAt != nil {
			continue
		}
		w := r.Workload()
		for i := range w.Roles {
			role := &w.Roles[i]
			for n := range role.Replicas {
				name := engine.NameOf(r.Meta.ID, role.Name, n, w.AttemptOf(role.Name))
				said, ok := c.cfg.Hub.Ranks(name)
				if u := said.Use; ok && u.Seconds > 0 && role.Resources.CPU > 0 {
					c.desk.Used(s.service.Meta.ID, string(name), demand.Use{CPU: 1000 * u.CPU / float64(role.Resources.CPU), Seconds: u.Seconds, Busy: u.Busy, Watched: u.Watched}, now)
				}
			}
		}
	}
}

const (
	checkFor  = 10 * time.Second
	maxChecks = 8 // at once
)

// checks asks new revisions what their users want them asked, once a step. Safe for concurrent use.
type checks struct {
	mu    sync.Mutex
	known map[string]demand.Checked // by service, revision and step
	now   int                       // under way
}

// Far dials a port of a replica on a machine that joined, through its agent.
type Far func(ctx context.Context, via serving.Via, port int) (net.Conn, error)

// of is what a check said; it is begun when it was not yet.
func (c *checks) of(s *seen, at *serving.CanaryStatus, path string, far Far) demand.Checked {
	key := fmt.Sprintf("%s/%d/%d", s.service.Meta.ID, at.Revision, at.Step)
	c.mu.Lock()
	defer c.mu.Unlock()
	if got, ok := c.known[key]; ok {
		return got
	}
	var asked *serving.Answers
	for _, r := range s.replicas {
		if r.Spec.Revision == at.Revision && r.Status.Ready && r.Spec.DrainAt == nil {
			asked = &r.Status.Answers
		}
	}
	if asked == nil || c.now >= maxChecks {
		return demand.Checked{}
	}
	to := *asked
	if c.known == nil || len(c.known) > 10_000 {
		c.known = map[string]demand.Checked{}
	}
	c.known[key] = demand.Checked{} // not again
	c.now++
	go func() {
		bad := checkOne(far, &to, path)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.now--
		c.known[key] = demand.Checked{Done: true, Bad: bad}
	}()
	return demand.Checked{}
}

var errNoRoad = errors.New("no road leads to machines that joined")

// checkOne asks a replica, through its agent where it has one; "": it is good. It follows nobody elsewhere.
func checkOne(far Far, to *serving.Answers, path string) string {
	transport := &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10}
	if to.Via != nil {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			_, text, _ := net.SplitHostPort(to.Address)
			port, err := strconv.Atoi(text)
			if err != nil || far == nil {
				return nil, errors.Join(errNoRoad, err)
			}
			return far(ctx, *to.Via, port)
		}
	}
	asker := &http.Client{
		Timeout: checkFor, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := asker.Get("http://" + to.Address + path)
	if err != nil {
		return "no answer"
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
	if resp.StatusCode/100 == 2 {
		return ""
	}
	return fmt.Sprintf("%d %.200q", resp.StatusCode, text)
}
