package gateway

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/serving"
)

// TestRedact: what is somebody's own is not written down; what is not, is.
func TestRedact(t *testing.T) {
	for text, want := range map[string]string{
		`{"password": "a\"b", "x": 1}`:                                   `{"password": "***", "x": 1}`,
		`{"user_token":"abc","n":"ok"}`:                                  `{"user_token":"***","n":"ok"}`,
		`{"api_key":"cut off he`:                                         `{"api_key":"***"`,
		`Authorization: Bearer abcdef.123456`:                            `Authorization: Bearer ***`,
		`key fermi_bot_AAAAAAAAAAAAAAAAAAAA and sk-aaaaaaaaaaaaaaaaaaaa`: `key *** and ***`,
		`mail ann@example.com now`:                                       `mail *** now`,
		`call 138 0013 8000 or 11010119900307123X`:                       `call *** or ***`,
		`{"x": 1.25, "n": 123456789}`:                                    `{"x": 1.25, "n": 123456789}`,
		`a=1&secret=xyz&b=2`:                                             `a=1&secret=***&b=2`,
	} {
		if got := redact(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestRequestLog: of the requests of a service that asks for it so many are written down, and all that failed; no header, no value of a
// query, no secret; what the leader has not for good is told again, and what finds no room is counted.
func TestRequestLog(t *testing.T) {
	w := newWorld(t)
	w.serve("chat", func(s *serving.ServiceEndpointsSpec) {
		s.Gateway = &serving.ServiceGateway{Log: &serving.RequestLog{Percent: 100, Bodies: true}}
	}, http.HandlerFunc(echo))
	w.serve("quiet", func(s *serving.ServiceEndpointsSpec) {
		s.Gateway = &serving.ServiceGateway{Log: &serving.RequestLog{}}
	}, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/bad") {
			rw.WriteHeader(500)
		}
	}))
	ask := func(path, body string) {
		req := w.request(http.MethodPost, path, "ann", strings.NewReader(body))
		req.Header.Set("X-Private", "header-value")
		_, _, _ = w.do(req)
	}
	ask("/inference/chat/x?who=somebody", `{"text": "hello ann@example.com"}`)
	ask("/inference/quiet/good", "")
	ask("/inference/quiet/bad", "")
	lines := func(service string) string {
		_, data := w.g.ledger.logOf("svc-" + service).tell()
		return string(data)
	}
	eventually(t, "both are written", func() bool { return lines("chat") != "" && lines("quiet") != "" })
	said := lines("chat")
	for _, want := range []string{`"key":"ann"`, `"path":"/x"`, `"query":["who"]`, `"status":200`, `"replica":"chat-0"`, `hello ***`, " 0 O F {"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %s in %s", want, said)
		}
	}
	for _, secret := range []string{"somebody", "example.com", "header-value", secretOf("ann")} {
		if strings.Contains(said, secret) {
			t.Errorf("%s is in %s", secret, said)
		}
	}
	if said := lines("quiet"); strings.Count(said, "\n") != 1 || !strings.Contains(said, `"status":500`) {
		t.Errorf("of 0 percent those that failed: %s", said)
	}
	l := &requestLog{}
	line := &requestLine{Body: strings.Repeat("x", mostLogged)}
	for range 2 * mostLog / mostLogged {
		l.add(line, time.Now())
	}
	from, data := l.tell()
	if from != 0 || len(data) > mostLog || l.lost == 0 {
		t.Errorf("%d bytes are kept, %d lines lost", len(data), l.lost)
	}
	l.taken(int64(len(data)))
	l.taken(1) // said late
	l.add(line, time.Now())
	again, more := l.tell()
	if again != int64(len(data)) || !strings.Contains(string(more), `"lost":`) || strings.Count(string(more), "\n") != 1 {
		t.Errorf("from %d: %.200s", again, more)
	}
}
