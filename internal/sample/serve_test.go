package sample

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// trained is an answerer with a model that the trainer wrote.
func trained(t *testing.T) *Answerer {
	t.Helper()
	o := DefaultOptions()
	o.Output = t.TempDir()
	if _, err := Train(t.Context(), o, io.Discard); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(o.Output, "model.json"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := LoadModel(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestAnswers: what the model learned is what it answers, in each form, and a question that is none is refused.
func TestAnswers(t *testing.T) {
	a := trained(t)
	srv := httptest.NewServer(a.Handler())
	defer srv.Close()
	ask := func(method, path, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(context.Background(), method, srv.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		out, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(out)
	}
	right := 0
	points := newTrainer(DefaultOptions()).data[:200]
	for _, p := range points {
		status, body := ask(http.MethodGet, fmt.Sprintf("/predict?x=%v&y=%v", p.X, p.Y), "")
		var out Prediction
		if status != 200 || json.Unmarshal([]byte(body), &out) != nil {
			t.Fatalf("%d %s", status, body)
		}
		if float64(out.Spiral) == p.Label {
			right++
		}
	}
	if right < len(points)*8/10 {
		t.Errorf("%d of %d are right", right, len(points))
	}
	if status, body := ask(http.MethodPost, "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"1 2"}]}]}`); status != 200 || !strings.Contains(body, "is on spiral") {
		t.Errorf("%d %s", status, body)
	}
	if status, body := ask(http.MethodPost, "/v1/chat/completions", `{"stream":true,"messages":[{"role":"user","content":"hello"}]}`); status != 200 || !strings.HasSuffix(body, "data: [DONE]\n\n") {
		t.Errorf("%d %s", status, body)
	}
	for path, body := range map[string]string{"/predict": `{}`, "/v1/chat/completions": `{"messages":[]}`} {
		if status, answer := ask(http.MethodPost, path, body); status != 400 || !strings.Contains(answer, "error") {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
	if status, _ := ask(http.MethodGet, "/predict?x=one", ""); status != 400 {
		t.Error(status)
	}
}

// TestBadModels: what is no model, or one whose parts do not fit together, is refused before it is used.
func TestBadModels(t *testing.T) {
	for _, text := range []string{
		``, `[]`, `{}`, `{"layers":[]}`, `{"layers":[{"in":2,"out":1,"weight":[1],"bias":[1]}]}`, `{"layers":[{"in":3,"out":1,"weight":[1,1,1],"bias":[1]}]}`,
		`{"layers":[{"in":2,"out":2,"weight":[1,1,1,1],"bias":[1,1]}]}`, `{"layers":[{"in":2,"out":-1,"weight":[],"bias":[]}]}`,
	} {
		if _, err := LoadModel(strings.NewReader(text)); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}
