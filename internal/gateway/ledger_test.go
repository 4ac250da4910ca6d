package gateway

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
)

// TestLedger: what is carried is counted by minute and revision and by hour and key; what was not taken is told again, whole; what is over
// and told is forgotten; what a key was refused for its own limits is no figure of the service.
func TestLedger(t *testing.T) {
	w := newWorld(t)
	w.token("few", api.TokenSpec{User: "ann", Limits: &api.KeyLimits{RequestsPerMinute: 1}})
	w.serve("chat", func(s *serving.ServiceEndpointsSpec) { s.Slow = api.Duration(time.Hour) }, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/bad") {
			rw.WriteHeader(500)
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, `{"usage":{"total_tokens":11}}`)
	}))
	for path, n := range map[string]int{"/inference/chat/": 3, "/inference/chat/bad": 2} {
		for range n {
			_, _, _ = w.do(w.request(http.MethodGet, path, "ann", nil))
		}
	}
	_, _, _ = w.do(w.request(http.MethodGet, "/inference/chat/", "few", nil))
	if status, _, _ := w.do(w.request(http.MethodGet, "/inference/chat/", "few", nil)); status != 429 {
		t.Errorf("beyond its limit: %d", status)
	}
	now := time.Now()
	sum := func(rows []serving.Served, width serving.Width, key string) (c serving.ServedCount, begun int64) {
		for _, r := range rows {
			if r.Width == width && r.Key == key && r.ServiceID == "svc-chat" && r.Service == "chat" && r.Gateway == w.g.name {
				c.Add(r.ServedCount)
				for _, n := range r.Begun {
					begun += n
				}
			}
		}
		return c, begun
	}
	var rows []serving.Served
	eventually(t, "all requests are counted", func() bool { // the last one is when its answer is out already
		w.g.ledger.untold(rows)
		rows = w.g.ledger.tell(now)
		c, _ := sum(rows, serving.Minute, "")
		return c.Requests == 6
	})
	if c, begun := sum(rows, serving.Minute, ""); c != (serving.ServedCount{Requests: 6, Errors: 2, Tokens: 44}) || begun != 6 {
		t.Errorf("minutes: %+v, %d began", c, begun)
	}
	if c, _ := sum(rows, serving.Hour, "ann"); c.Requests != 5 || c.Errors != 2 || c.Tokens != 33 {
		t.Errorf("a key: %+v", c)
	}
	if more := w.g.ledger.tell(now); len(more) != 0 {
		t.Errorf("told twice: %+v", more)
	}
	w.g.ledger.untold(rows)
	if again := w.g.ledger.tell(now); len(again) != len(rows) {
		t.Errorf("%d rows are told again, of %d", len(again), len(rows))
	}
	_ = w.g.ledger.tell(now.Add(3 * time.Hour))
	if n := len(w.g.ledger.rows); n != 0 {
		t.Errorf("%d rows are kept that are over", n)
	}
}

// TestBudget: a key with a budget is refused when it is used up, wherever that was; the next month it is let in again.
func TestBudget(t *testing.T) {
	w := newWorld(t)
	w.token("month", api.TokenSpec{User: "ann", Limits: &api.KeyLimits{RequestsPerMonth: 3, TokensPerMonth: 1000}})
	w.serve("chat", nil, http.HandlerFunc(echo))
	get := func() (int, string, http.Header) {
		return w.do(w.request(http.MethodGet, "/inference/chat/", "month", nil))
	}
	for range 3 {
		if status, body, _ := get(); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
	}
	if status, body, h := get(); status != 429 || !strings.Contains(body, "KeyBudget") || h.Get("Retry-After") == "" {
		t.Errorf("%d %s", status, body)
	}
	now := time.Now()
	w.g.limits.spentBy([]serving.KeySpent{{Key: "month", Requests: 1, Tokens: 999}}, now)
	if status, body, _ := get(); status != 200 {
		t.Errorf("the leader says that there is some left: %d %s", status, body)
	}
	w.g.limits.spentBy([]serving.KeySpent{{Key: "month", Requests: 1, Tokens: 1000}}, now)
	if status, body, _ := get(); status != 429 || !strings.Contains(body, "tokens") {
		t.Errorf("other gateways used it up: %d %s", status, body)
	}
	limit := &api.KeyLimits{RequestsPerMonth: 3, TokensPerMonth: 1000}
	if err := w.g.limits.take("month", limit, now); err == nil {
		t.Error("it has none left")
	}
	if err := w.g.limits.take("month", limit, serving.MonthOf(now).AddDate(0, 1, 0).Add(time.Second)); err != nil {
		t.Errorf("next month: %v", err)
	}
}
