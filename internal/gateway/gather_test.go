package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
)

// gathers is a service that gathers questions of up to size rows, and the numbers of rows that its replica was asked. It doubles; it refuses
// all of a question in which one row is 13, fails at 14, and leaves a row out at 15.
func gathers(w *world, size int, wait time.Duration) func() []int {
	var mu sync.Mutex
	var asked []int
	w.serve("double", wants(serving.ServiceGateway{Batch: &serving.RequestBatch{Size: size, Wait: api.Duration(wait)}}), http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var q struct {
			Instances []int `json:"instances"`
		}
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &q)
		mu.Lock()
		asked = append(asked, len(q.Instances))
		mu.Unlock()
		switch {
		case slices.Contains(q.Instances, 13):
			rw.WriteHeader(http.StatusBadRequest)
			return
		case slices.Contains(q.Instances, 14):
			rw.WriteHeader(http.StatusInternalServerError)
			return
		case slices.Contains(q.Instances, 15):
			q.Instances = q.Instances[1:]
		}
		out := []int{}
		for _, n := range q.Instances {
			out = append(out, 2*n)
		}
		_ = json.NewEncoder(rw).Encode(map[string]any{"predictions": out})
	}))
	return func() []int {
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(asked)
		return asked
	}
}

// askAll asks one question for each number at the same time, and gives the answers in order.
func askAll(w *world, numbers ...int) []string {
	out := make([]string, len(numbers))
	var all sync.WaitGroup
	for i, n := range numbers {
		all.Go(func() {
			status, text, _ := w.do(w.request(http.MethodPost, "/inference/double/", "ann", strings.NewReader(fmt.Sprintf(`{"instances": [%d]}`, n))))
			out[i] = fmt.Sprint(status, " ", strings.TrimSpace(text))
		})
	}
	all.Wait()
	return out
}

// TestGather: sixteen questions that come together are two of eight to the replica, and each client has its own answer. One question that the
// replica refuses spoils no other; when it fails, all are told; an answer with other rows than were asked is nobody's.
func TestGather(t *testing.T) {
	w := newWorld(t)
	asked := gathers(w, 8, time.Minute) // a group goes when it is full, however long that takes
	var numbers []int
	for i := range 16 {
		numbers = append(numbers, 100+i)
	}
	for i, text := range askAll(w, numbers...) {
		if want := fmt.Sprintf(`200 {"predictions":[%d]}`, 2*(100+i)); text != want {
			t.Errorf("question %d: %s", i, text)
		}
	}
	if got := asked(); !slices.Equal(got, []int{8, 8}) {
		t.Errorf("the replica was asked %v", got)
	}
	refused := askAll(w, 1, 2, 3, 13, 5, 6, 7, 8)
	for i, text := range refused {
		if want := i != 3; strings.HasPrefix(text, "200 ") != want {
			t.Errorf("question %d beside one that is refused: %s", i, text)
		}
	}
	if got := asked(); len(got) != 3+8 {
		t.Errorf("the replica was asked %v", got)
	}
	for _, text := range askAll(w, 1, 2, 3, 14, 5, 6, 7, 8) {
		if !strings.HasPrefix(text, "500 ") {
			t.Errorf("a replica that failed: %s", text)
		}
	}
	for _, text := range askAll(w, 1, 2, 3, 15, 5, 6, 7, 8) {
		if !strings.HasPrefix(text, "503 ") || !strings.Contains(text, "NotRows") {
			t.Errorf("an answer without a row: %s", text)
		}
	}
}

// TestGatherAlone: a question that nobody joins is asked by itself after its wait, one that is large enough, or of another form, at once.
func TestGatherAlone(t *testing.T) {
	w := newWorld(t)
	asked := gathers(w, 4, time.Millisecond)
	if text := askAll(w, 21)[0]; text != `200 {"predictions":[42]}` {
		t.Errorf("alone: %s", text)
	}
	asked2 := gathers(w, 4, time.Hour)
	for _, body := range []string{`{"instances": [1, 2, 3, 4]}`, `{"text": "x"}`, `torn`} {
		if status, text, _ := w.do(w.request(http.MethodPost, "/inference/double/", "ann", strings.NewReader(body))); status != 200 {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	if one, two := asked(), asked2(); !slices.Equal(one, []int{1}) || !slices.Equal(two, []int{0, 0, 4}) {
		t.Errorf("the replicas were asked %v %v", one, two)
	}
}

// TestGatherTimeout: who waits for a group longer than the service's time is told; nobody is asked for who left.
func TestGatherTimeout(t *testing.T) {
	w := newWorld(t)
	asked := gathers(w, 4, time.Hour)
	req := w.request(http.MethodPost, "/inference/double/", "ann", strings.NewReader(`{"instances": [1]}`))
	req.Header.Set("X-Request-Timeout", "500ms")
	if status, text, _ := w.do(req); status != http.StatusGatewayTimeout || len(asked()) != 0 {
		t.Errorf("%d %s, asked %v", status, text, asked())
	}
}

// TestAdapterRoutes: OpenAI's entrance knows NAME:ADAPTER, lists it, and refuses one that the service has not; the replica hears the name as it was said.
func TestAdapterRoutes(t *testing.T) {
	w := newWorld(t)
	w.serve("chat", func(s *serving.ServiceEndpointsSpec) { s.Adapters = []string{"poet"} }, http.HandlerFunc(echo))
	for model, want := range map[string]string{"chat": "200", "chat:poet": "200", "chat:other": "404 NoAdapter", "other:poet": "404 NoService", ":poet": "400 NoModel"} {
		status, text, _ := w.do(w.request(http.MethodPost, "/v1/chat/completions", "ann", strings.NewReader(`{"model": "`+model+`"}`)))
		code, reason, _ := strings.Cut(want, " ")
		if fmt.Sprint(status) != code || !strings.Contains(text, reason) || status == 200 && !strings.Contains(text, model) {
			t.Errorf("%s: %d %s", model, status, text)
		}
	}
	for ask, want := range map[string]string{ // where there is nothing, and where only the model is missing
		"GET /v1/nope": "404 UnknownRoute", "POST /v1/nope": "404 UnknownRoute", "GET /v1/": "404 UnknownRoute", "POST /v1/chat/completions": "400 NoModel", "POST /v1/audio/speech": "400 NoModel",
		"GET /v1/nope?model=chat": "200 GET /v1/nope", "GET /v1/nope?model=other": "404 NoService",
	} {
		method, path, _ := strings.Cut(ask, " ")
		status, text, _ := w.do(w.request(method, path, "ann", strings.NewReader("{}")))
		code, reason, _ := strings.Cut(want, " ")
		if fmt.Sprint(status) != code || !strings.Contains(text, reason) {
			t.Errorf("%s: %d %s", ask, status, text)
		}
	}
	if _, text, _ := w.do(w.request(http.MethodGet, "/v1/models", "ann", nil)); !strings.Contains(text, `"id":"chat:poet"`) || !strings.Contains(text, `"parent":"chat"`) {
		t.Errorf("listed: %s", text)
	}
	if status, text, _ := w.do(w.request(http.MethodGet, "/v1/models/chat:poet", "ann", nil)); status != 200 || !strings.Contains(text, `"chat:poet"`) {
		t.Errorf("shown: %d %s", status, text)
	}
}

// TestLargeOnesAlone: a question that is held only because it is checked is too large to be asked with others.
func TestLargeOnesAlone(t *testing.T) {
	w := newWorld(t)
	asked := gathers(w, 8, 200*time.Millisecond)
	s := w.g.find("double")
	spec := *s.settings()
	spec.Format = serving.FormatJSON
	s.take(&spec)
	var all sync.WaitGroup
	for n := range 2 {
		all.Go(func() {
			body := fmt.Sprintf(`{"instances":[%d]%s}`, n, strings.Repeat(" ", keepBody))
			if status, text, _ := w.do(w.request(http.MethodPost, "/inference/double/", "ann", strings.NewReader(body))); status != 200 || !strings.Contains(text, fmt.Sprintf(`[%d]`, 2*n)) {
				t.Errorf("%d: %d %s", n, status, text)
			}
		})
	}
	all.Wait()
	if got := asked(); !slices.Equal(got, []int{1, 1}) {
		t.Errorf("asked %v", got)
	}
}
