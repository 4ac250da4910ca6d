package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/api/v1/serving"
)

// TestAdapterAlone: an adapter is found by its name alone where one service that the caller may ask has it; the engine hears of it as SERVICE:ADAPTER,
// and all else of the question arrives as it was sent.
func TestAdapterAlone(t *testing.T) {
	w := newWorld(t)
	has := func(project string, adapters ...string) func(*serving.ServiceEndpointsSpec) {
		return func(s *serving.ServiceEndpointsSpec) { s.Project, s.Adapters = project, adapters }
	}
	w.serve("chat", has("a", "poet", "sql"), http.HandlerFunc(echo))
	w.serve("talk", has("a", "sql", "chat"), http.HandlerFunc(echo))
	w.serve("hers", has("b", "poet", "secret"), http.HandlerFunc(echo))
	post := func(who, model string) (int, string) {
		t.Helper()
		status, body, _ := w.do(w.request(http.MethodPost, "/v1/chat/completions", who, strings.NewReader(fmt.Sprintf(`{ "n": 1.0, "model" : %q,"messages":[{"model":"x"}] }`, model))))
		return status, body
	}
	for _, tc := range []struct {
		who, model string
		status     int
		want       string // in the answer, or what the engine is asked for
	}{
		{"ann", "poet", 200, "chat:poet"}, {"bob", "poet", 200, "hers:poet"}, {"ann", "chat:sql", 200, "chat:sql"}, {"ann", "chat", 200, "chat"},
		{"ann", "sql", 400, "chat:sql, talk:sql"}, {"ann", "secret", 404, "NoService"}, {"ann", "talk:poet", 404, "NoAdapter"}, {"root", "poet", 400, "chat:poet, hers:poet"}, {"", "poet", 401, "NoToken"},
	} {
		status, body := post(tc.who, tc.model)
		want := tc.want
		if tc.status == 200 {
			want = fmt.Sprintf("POST /v1/chat/completions %q", fmt.Sprintf(`{ "n": 1.0, "model" : %q,"messages":[{"model":"x"}] }`, tc.want))
		}
		if status != tc.status || !strings.Contains(body, want) {
			t.Errorf("%q asks %s: %d %s, want %d %s", tc.who, tc.model, status, body, tc.status, want)
		}
	}
	if status, body := w.get("/v1/realtime?model=poet&a=b", "ann"); status != 200 || !strings.HasPrefix(body, "GET /v1/realtime?a=b&model=chat%3Apoet ") {
		t.Errorf("in the query: %d %s", status, body)
	}
	if status, body := w.get("/v1/models/poet", "ann"); status != 200 || !strings.Contains(body, `"id":"chat:poet"`) {
		t.Errorf("%d %s", status, body)
	}
	w.serve("chat", has("a", "sql"), http.HandlerFunc(echo))
	w.g.forget("talk")
	if status, _ := post("ann", "poet"); status != 404 {
		t.Errorf("an adapter that was taken away: %d", status)
	}
	if status, body := post("ann", "sql"); status != 200 || !strings.Contains(body, "chat:sql") {
		t.Errorf("the other service is gone: %d %s", status, body)
	}
}

// FuzzWithModel: the model is another one, and all else is as it was.
func FuzzWithModel(f *testing.F) {
	f.Add([]byte(`{"model":"a","b":[1,{"model":2}]}`))
	f.Add([]byte(` { "Model" : "a" , "model":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var was, is map[string]any
		if json.Unmarshal(body, &was) != nil || was == nil {
			return
		}
		out, err := withModel(body, "s:x")
		if err != nil || json.Unmarshal(out, &is) != nil || len(is) != len(was) {
			t.Fatalf("%q: %q %v", body, out, err)
		}
		for name, v := range is {
			if strings.EqualFold(name, "model") && v != "s:x" || !strings.EqualFold(name, "model") && fmt.Sprint(v) != fmt.Sprint(was[name]) {
				t.Errorf("%q: %q", body, out)
			}
		}
	})
}
