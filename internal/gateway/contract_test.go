package gateway

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/gateway/contract"
)

// TestPath: the address alone leads where the service says, by every name that it has; a path of its own stays as it is.
func TestPath(t *testing.T) {
	w := newWorld(t)
	w.serve("model", func(s *serving.ServiceEndpointsSpec) { s.Path = "/v2/models/m/infer" }, http.HandlerFunc(echo))
	for path, want := range map[string]string{
		"/inference/model": "/v2/models/m/infer", "/inference/model/": "/v2/models/m/infer", "/inference/model?a=b": "/v2/models/m/infer?a=b", "/inference/model/v2/health/ready": "/v2/health/ready",
	} {
		if status, body := w.get(path, "ann"); status != 200 || !strings.HasPrefix(body, "GET "+want+" ") {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	req := w.request(http.MethodGet, "/", "ann", nil)
	req.Host = "svc--model.localhost"
	if status, body, _ := w.do(req); status != 200 || !strings.HasPrefix(body, "GET /v2/models/m/infer ") {
		t.Errorf("by its host: %d %s", status, body)
	}
}

// TestFormat: a question that is not what the service says is answered 400 with its field, and no replica hears of it; a change of
// what it says counts at once.
func TestFormat(t *testing.T) {
	w := newWorld(t)
	var asked atomic.Int64
	handler := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		echo(rw, r)
	})
	schema := map[string]any{"type": "object", "required": []any{"x"}, "properties": map[string]any{"x": map[string]any{"type": "number", "maximum": 10.0}}}
	servers := w.serve("model", func(s *serving.ServiceEndpointsSpec) {
		s.Contract = serving.Contract{Format: serving.FormatJSON, Schema: schema}
	}, handler)
	post := func(body io.Reader, length int64) (int, string) {
		t.Helper()
		req := w.request(http.MethodPost, "/inference/model/predict", "ann", body)
		req.ContentLength = length
		req.Header.Set("Accept-Language", "zh-CN")
		status, text, _ := w.do(req)
		return status, text
	}
	for body, field := range map[string]string{`{"x": 11}`: "x", `{}`: "x", `[`: "", ``: ""} {
		status, text := post(strings.NewReader(body), -1)
		var e struct {
			Reason, Message string
			Fields          []struct{ Path, Message string }
			Error           struct{ Param string }
		}
		if err := json.Unmarshal([]byte(text), &e); err != nil || status != 400 || e.Reason != "BadQuestion" || len(e.Fields) != 1 || e.Fields[0].Path != field || e.Error.Param != field || !strings.HasPrefix(e.Message, field) {
			t.Errorf("%s: %d %s %v", body, status, text, err)
		}
	}
	if status, text := post(io.LimitReader(zeros{}, contract.Most+1), -1); status != 400 || !strings.Contains(text, "TooLarge") {
		t.Errorf("a body without end: %d %.200s", status, text)
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("a replica was asked %d times", n)
	}
	long := `{"x": 1, "more": "` + strings.Repeat("a", keepBody) + `"}`
	for _, body := range []string{`{"x": 1}`, long} {
		for _, length := range []int64{int64(len(body)), -1} {
			if status, text := post(strings.NewReader(body), length); status != 200 || !strings.Contains(text, "more") && body == long || !strings.Contains(text, "x") {
				t.Errorf("%d bytes: %d %.80s", len(body), status, text)
			}
		}
	}
	if status, _ := w.get("/inference/model/healthz", "ann"); status != 200 {
		t.Errorf("a question without a body: %d", status)
	}
	at := servers[0].Listener.Addr().String()
	w.start = func(name string, _ http.Handler) serving.ServiceEndpoint {
		return serving.ServiceEndpoint{Replica: name, Address: at, Revision: 1}
	}
	w.serve("model", nil, handler)
	if status, _ := post(strings.NewReader(`[`), -1); status != 200 {
		t.Errorf("nothing is checked any more: %d", status)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}
