package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fermi-cluster/fermi/test/harness"
)

// patientServer is a server of a user's own: it writes down each question, and takes a moment for it.
const patientServer = `
import http.server, json, os, sys, time

class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send(b"ok")

    def do_POST(self):
        asked = self.rfile.read(int(self.headers["Content-Length"]))
        with open(sys.argv[1], "a") as log:
            log.write(asked.decode() + "\n")
        time.sleep(0.005)
        self.send(json.dumps({"twice": 2 * json.loads(asked)["n"]}).encode())

http.server.ThreadingHTTPServer(("0.0.0.0", int(os.environ["PORT"])), Answers).serve_forever()
`

// TestBatch: a member has all questions of a dataset answered, by the engine of a service that does not run and by a server of their own. All its
// processes are killed in the middle: each question has one answer, and what was written down is not asked again.
func TestBatch(t *testing.T) {
	folder := t.TempDir()
	for _, err := range []error{os.Chmod(filepath.Dir(folder), 0o755), os.Chmod(folder, 0o777), os.WriteFile(filepath.Join(folder, "server.py"), []byte(patientServer), 0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t, "--folder", "work="+folder)
	w.grant("work")
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		at := filepath.Join(dir, name)
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return at
	}

	// A model of the registry answers, as it does in a service.
	w.fermi("train", "run", "--name", "spiral", "--no-code", "--output-model", "spiral:model.json", "--", "fermi", "sample", "train", "--steps", "123")
	w.modelThere("spiral@1")
	w.fermi("data", "upload", "points", write("points.jsonl", `{"points": [[1.5, -0.5]]}`+"\n"+`{"custom_id": "far", "url": "/predict", "body": {"points": [[3, 3], [1, 1]]}}`+"\n"+`{"points": []}`+"\n"))
	w.fermi("service", "create", "spirals", "--engine", "sample", "--model", "spiral")
	w.fermi("service", "stop", "spirals")
	w.fermi("service", "batch", "spirals", "--name", "arms", "--input", "points", "--output", "arms")
	got := w.answers("arms", "points.000000.jsonl")
	if len(got) != 3 || got[1].ID != "far" || len(got[1].Response.Body.Predictions) != 2 || got[0].Response.Status != 200 || got[2].Error == nil || got[2].Response.Status != 400 {
		t.Errorf("answers: %+v", got)
	}
	if shown := w.fermi("data", "show", "arms"); !strings.Contains(shown, "points@1") || !strings.Contains(shown, "spiral@1") {
		t.Errorf("what it was made from: %s", shown)
	}
	if shown := w.fermi("model", "show", "spiral"); !strings.Contains(shown, "arms@1") {
		t.Errorf("what the model went into: %s", shown)
	}

	// A server of one's own, killed twice.
	const n = 600
	var questions strings.Builder
	for i := range n {
		fmt.Fprintf(&questions, "{\"n\": %d}\n", i)
	}
	w.fermi("data", "upload", "numbers", write("numbers.jsonl", questions.String()))
	log := filepath.Join(folder, "asked")
	asked := func() int {
		raw, _ := os.ReadFile(log)
		return strings.Count(string(raw), "\n")
	}
	w.fermi("service", "batch", "--name", "twice", "--input", "numbers", "--output", "twice", "--path", "/", "--health", "/", "--part", "100", "--max-concurrency", "2", "--folder", "work",
		"--", "python3", "server.py", log)
	harness.Eventually(t, "a hundred and fifty were asked", func() bool { return asked() >= 150 })
	task := w.task("twice")
	for _, pid := range harness.Processes("FERMI_TASK_ID=" + task) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	harness.Eventually(t, "it goes on", func() bool { return asked() >= 300 })
	seen := map[float64]bool{}
	parts := 0
	for i := range n / 100 {
		list := w.answers("twice", fmt.Sprintf("numbers.%06d.jsonl", i))
		for k, a := range list {
			if want := float64(2 * (100*i + k)); a.Response == nil || a.Response.Body.Twice != want || seen[want] {
				t.Fatalf("answer %d of part %d: %+v", k, i, a)
			}
			seen[a.Response.Body.Twice] = true
		}
		parts++
	}
	if len(seen) != n || asked() > n+2 {
		t.Errorf("%d answers in %d parts, %d asked: more than the two that were under way were asked again", len(seen), parts, asked())
	}
}

// said is a line of what a batch leaves.
type said struct {
	ID       string `json:"custom_id"`
	Response *struct {
		Status int `json:"status_code"`
		Body   struct {
			Predictions []any   `json:"predictions"`
			Twice       float64 `json:"twice"`
		} `json:"body"`
	} `json:"response"`
	Error *struct {
		Code string `json:"code"`
	} `json:"error"`
}

// answers are the lines of one file of the newest version of a dataset, once it is there.
func (w *world) answers(dataset, file string) (out []said) {
	w.t.Helper()
	text := ""
	harness.Eventually(w.t, "the dataset "+dataset+" is there", func() bool {
		var err error
		text, err = w.try("data", "cat", dataset, file)
		return err == nil
	})
	for line := range strings.Lines(text) {
		var a said
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			w.t.Fatalf("%s: %v", line, err)
		}
		out = append(out, a)
	}
	return out
}

// modelThere waits until a version is registered.
func (w *world) modelThere(version string) {
	w.t.Helper()
	harness.Eventually(w.t, version+" is there", func() bool {
		_, err := w.try("model", "show", version)
		return err == nil
	})
}

// task is the id of one.
func (w *world) task(name string) string {
	w.t.Helper()
	var t struct {
		Metadata struct {
			ID string `json:"id"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal([]byte(w.fermi("get", "task", name, "-o", "json")), &t); err != nil {
		w.t.Fatal(err)
	}
	return t.Metadata.ID
}

// TestAdaptersServe: one service answers with its model and with two adapters, which are versions of models, as OpenAI's clients name them;
// one that is taken away is not answered any more.
func TestAdaptersServe(t *testing.T) {
	w := newWorld(t)
	for i, steps := range []string{"5", "60", "300"} {
		name := fmt.Sprintf("spiral-%d", i)
		w.fermi("train", "run", "--name", name, "--no-code", "--output-model", name+":model.json", "--", "fermi", "sample", "train", "--steps", steps, "--seed", fmt.Sprint(i+1))
		w.modelThere(name + "@1")
	}
	w.fermi("service", "create", "arms", "--engine", "sample", "--model", "spiral-0", "--adapter", "second=spiral-1", "--adapter", "third=spiral-2@1")
	chat := func(model string) (int, string) {
		status, body, err := ask(t.Context(), http.MethodPost, w.gateway+"/v1/chat/completions", w.key, strings.NewReader(`{"model": "`+model+`", "messages": [{"role": "user", "content": "0.3 -0.2"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		var a struct {
			Choices []struct {
				Message struct{ Content string }
			}
		}
		if status != 200 {
			return status, body
		}
		if err := json.Unmarshal([]byte(body), &a); err != nil || len(a.Choices) != 1 {
			t.Fatalf("%s: %v", body, err)
		}
		return status, a.Choices[0].Message.Content
	}
	heard := map[string]string{}
	for _, model := range []string{"arms", "arms:second", "arms:third"} {
		status, text := chat(model)
		if status != 200 || heard[text] != "" {
			t.Errorf("%s: %d %s, as %s", model, status, text, heard[text])
		}
		heard[text] = model
	}
	if status, text := chat("third"); status != 200 || heard[text] != "arms:third" { // by its name alone
		t.Errorf("third: %d %s, as %s", status, text, heard[text])
	}
	if _, body, err := ask(t.Context(), http.MethodGet, w.gateway+"/v1/models", w.key, nil); err != nil || !strings.Contains(body, `"arms:third"`) {
		t.Errorf("models: %s %v", body, err)
	}
	w.fermi("service", "update", "arms", "--adapter", "third=")
	harness.Eventually(t, "an adapter that was taken away is unknown", func() bool {
		status, body := chat("arms:third")
		return status == 404 && strings.Contains(body, "NoAdapter")
	})
	if status, text := chat("arms:second"); status != 200 {
		t.Errorf("the other one: %d %s", status, text)
	}
	if !strings.Contains(w.fermi("model", "show", "spiral-1"), "arms") || strings.Contains(w.fermi("model", "show", "spiral-2"), "arms") {
		t.Error("the service uses other versions than its adapters")
	}
}
