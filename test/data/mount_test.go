package data

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/test/harness"
)

// get asks the API as the project's member, without a client of ours, and gives the data of the answer.
func (w *world) get(path string, into any) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.proxy+"/api/v1/"+path, nil)
	w.must(err)
	req.Header.Set("Authorization", "Bearer "+w.lab)
	resp, err := http.DefaultClient.Do(req)
	w.must(err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	w.must(err)
	var answer struct{ Data json.RawMessage }
	w.must(json.Unmarshal(raw, &answer))
	if resp.StatusCode != http.StatusOK {
		w.t.Fatalf("GET %s: %d %s", path, resp.StatusCode, raw)
	}
	w.must(json.Unmarshal(answer.Data, into))
}

// task is one of the project's.
func (w *world) task(name string) *api.TrainingTask {
	w.t.Helper()
	out := &api.TrainingTask{}
	w.get("training-tasks/"+name+"?project=lab", out)
	return out
}

func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	harness.Eventually(w.t, what, ok)
}

// trainer is a plain Python program: it reads a data set, fits a line, and leaves a model. It is nobody's of ours.
const trainer = `
import csv, json, os, sys
rows = [(float(r["x"]), float(r["y"])) for r in csv.DictReader(open("/data/points/train/points.csv"))]
n = len(rows); mx = sum(x for x, _ in rows)/n; my = sum(y for _, y in rows)/n
slope = sum((x-mx)*(y-my) for x, y in rows)/sum((x-mx)**2 for x, _ in rows)
for bad in ("/data/points/new", "/data/new", "/data/points/train/points.csv"):
    try:
        open(bad, "a").write("x"); print("WRITTEN", bad)
    except OSError as e:
        print("refused", e.errno)
json.dump({"slope": slope, "base": os.path.exists(os.environ.get("FERMI_MODEL", "/nowhere"))}, open(os.environ["FERMI_OUTPUT"]+"/model.json", "w"))
print("slope %.1f of %d at %s" % (slope, n, os.environ["FERMI_DATASET_POINTS"]))
`

// points makes a data set on a line, and uploads it.
func (w *world) points(slope, n int) (folder string) {
	w.t.Helper()
	folder = filepath.Join(w.t.TempDir(), "points")
	w.must(os.MkdirAll(filepath.Join(folder, "train"), 0o755))
	var b strings.Builder
	b.WriteString("x,y\n")
	for i := range n {
		fmt.Fprintf(&b, "%d,%d\n", i, slope*i+1)
	}
	w.must(os.WriteFile(filepath.Join(folder, "train", "points.csv"), []byte(b.String()), 0o644))
	w.fermi("data", "upload", "points", folder)
	return folder
}

func (w *world) code(text string) string {
	w.t.Helper()
	dir := w.t.TempDir()
	w.must(os.WriteFile(filepath.Join(dir, "train.py"), []byte(text), 0o644))
	return dir
}

func (w *world) needsPython() string {
	w.t.Helper()
	const python = "/usr/bin/python3" // the system's: every project may run it
	if _, err := os.Stat(python); err != nil {
		w.t.Fatal("no python3: ", err)
	}
	return python
}

// TestMount: a member's task reads the version that was the newest when it was submitted, leaves a model, and a service answers with it.
func TestMount(t *testing.T) {
	w := newWorld(t)
	python := w.needsPython()
	w.points(3, 100)
	out := w.fermi("train", "run", "--name", "fit", "--code", w.code(trainer), "--dataset", "points", "--output-model", "line:model.json", "--", python, "train.py")
	for _, want := range []string{"slope 3.0 of 100 at /data/points", "refused 30", "It left version 1 of the model line"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "WRITTEN") {
		t.Errorf("the data set was written to:\n%s", out)
	}
	w.points(5, 50) // points@2; the task keeps what it was given
	if d := w.task("fit").Spec.Datasets; len(d) != 1 || d[0].Version != "1" || d[0].Path != "/data/points" || len(d[0].Digest) != 64 {
		t.Errorf("%+v", d)
	}
	if m := w.task("fit").Status.Model; m == nil || m.Name != "line" || m.Version != 1 || m.Reason != "" {
		t.Errorf("%+v", m)
	}
	if got := w.fermi("model", "show", "line@1"); !strings.Contains(got, "task fit") || !strings.Contains(got, "points@1") || !strings.Contains(got, "json") {
		t.Errorf("%s", got)
	}
	if got := w.fermi("model", "cat", "line@1", "model.json"); !strings.Contains(got, `"slope": 3.0`) {
		t.Errorf("%s", got)
	}
	if got := w.fermi("data", "show", "points@1"); !strings.Contains(got, "line@1") || !strings.Contains(got, "fit") {
		t.Errorf("%s", got)
	}
	// What is on the node is mounted at once; a plain folder elsewhere, and a model beside it.
	out = w.fermi("train", "run", "--name", "again", "--no-code", "--dataset", "points@1:/mnt/deep/p", "--model", "line", "--", "sh", "-c", "cat /mnt/deep/p/train/points.csv | wc -l; cat $FERMI_MODEL/model.json; ls /models /mnt")
	if !strings.Contains(out, "101") || !strings.Contains(out, `"slope": 3.0`) {
		t.Errorf("%s", out)
	}
	// A service by the model's version, and its next revision.
	serve := `import http.server, os
class H(http.server.SimpleHTTPRequestHandler):
    def __init__(self, *a): super().__init__(*a, directory=os.environ["FERMI_MODEL"])
http.server.ThreadingHTTPServer(("", int(os.environ["PORT"])), H).serve_forever()`
	w.fermi("service", "create", "lines", "--model", "line@latest", "--health", "/model.json", "--", python, "-c", serve)
	ask := func() string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.proxy+"/inference/lines/model.json", nil)
		w.must(err)
		req.Header.Set("Authorization", "Bearer "+w.lab)
		resp, err := http.DefaultClient.Do(req)
		w.must(err)
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		w.must(err)
		return string(raw)
	}
	if got := ask(); !strings.Contains(got, `"slope": 3.0`) {
		t.Errorf("%s", got)
	}
	w.fermi("train", "run", "--name", "fit-two", "--code", w.code(trainer), "--dataset", "points", "--output-model", "line:model.json", "--", python, "train.py")
	if got := ask(); !strings.Contains(got, `"slope": 3.0`) {
		t.Errorf("a service changed by itself: %s", got)
	}
	w.fermi("service", "update", "lines", "--model", "line@latest")
	if got := ask(); !strings.Contains(got, `"slope": 5.0`) {
		t.Errorf("%s", got)
	}
	w.refused(w.lab, "lines", "model", "delete", "line@2")
	w.fermi("service", "update", "lines", "--model", "line@1")
	w.fermi("model", "delete", "line@2")
	w.refused(w.lab, "lines", "model", "delete", "line")
}

// TestMountRefused: what can't be mounted is refused at the door, by its field.
func TestMountRefused(t *testing.T) {
	w := newWorld(t)
	w.points(1, 10)
	out, err := w.command(t.Context(), w.stranger, "data", "upload", "theirs", w.code("x")).CombinedOutput()
	if err != nil {
		t.Fatalf("%s", out)
	}
	for words, args := range map[string][]string{
		"theirs":             {"--dataset", "theirs"},
		"no version \"7\"":   {"--dataset", "points@7"},
		"below /data":        {"--dataset", "points:/etc/x"},
		"clean path":         {"--dataset", "points:/data/../etc"},
		"each other's way":   {"--dataset", "points:/data/a", "--dataset", "points@1:/data/a/b"},
		"NAME@VERSION:/PATH": {"--dataset", "points:data"},
		"is not the name":    {"--dataset", "../../etc"},
		"nothing-there":      {"--model", "nothing-there"},
		"model.name":         {"--output-model", "Bad_Name"},
		"model.path":         {"--output-model", "good:../../etc"},
	} {
		w.refused(w.lab, words, append(append([]string{"train", "run", "--name", "bad", "--no-code"}, args...), "--", "true")...)
	}
}

// TestDeleteMounted: what work reads can't be deleted, and who reads it is named; once it has ended it can.
func TestDeleteMounted(t *testing.T) {
	w := newWorld(t)
	w.points(1, 10)
	w.fermi("train", "run", "-d", "--name", "reader", "--no-code", "--dataset", "points", "--", "sh", "-c", "ls /data/points; sleep 100000")
	phase := func(of string) api.Phase { return w.task(of).Status.Phase }
	w.refused(w.lab, "reader", "data", "delete", "points@1")
	w.until("it runs", func() bool { return phase("reader") == api.PhaseRunning })
	w.refused(w.lab, "reader", "data", "delete", "points@1")
	w.refused(w.lab, "reader", "data", "delete", "points")
	w.fermi("train", "stop", "reader")
	w.until("it has ended", func() bool { return phase("reader").Finished() })
	w.fermi("data", "delete", "points")
}

// laying says that so many versions are, or were, on their way on this machine.
func (w *world) laying(before int) bool {
	found, err := filepath.Glob(filepath.Join(w.c.Dir, "engine", "assets", "*", "*"))
	w.must(err)
	n := 0
	for _, path := range found {
		if !strings.Contains(path, "/locks/") {
			n++
		}
	}
	return n > before
}

// TestMountKilled: servers that are killed while versions are on their way: the task starts, its data is whole, and it leaves one version of a model.
func TestMountKilled(t *testing.T) {
	w := newWorld(t)
	rounds := harness.EnvInt("FERMI_DATA_ROUNDS", 10)
	src := filepath.Join(t.TempDir(), "src")
	for round := range rounds {
		w.write(filepath.Join(src, "large.bin"), 120<<20)
		for i := range 200 {
			w.write(filepath.Join(src, "small", fmt.Sprint(i)), 10_000)
		}
		w.fermi("data", "upload", "big", src)
		sum, err := exec.Command("sh", "-c", `cd "$0" && find . -type f | sort | xargs sha256sum | sha256sum | cut -c1-16`, src).Output()
		w.must(err)
		name := fmt.Sprintf("killed-%d", round)
		w.fermi("train", "run", "-d", "--name", name, "--no-code", "--dataset", "big", "--output-model", "sums", "--", "sh", "-c",
			`cd /data/big && find . -type f | sort | xargs sha256sum | sha256sum | cut -c1-16 > $FERMI_OUTPUT/sums.txt`)
		w.until("it is on its way", func() bool { return w.laying(round) })
		w.c.Kill()
		<-w.c.Ended()
		w.must(w.c.Start(t.Context()))
		var task *api.TrainingTask
		w.until("it has completed", func() bool {
			task = w.task(name)
			return task.Status.Phase.Finished() && (task.Status.Model != nil || task.Status.Phase != api.PhaseCompleted)
		})
		if task.Status.Phase != api.PhaseCompleted || task.Status.Model.Version != round+1 {
			t.Fatalf("round %d: %s %+v, restarts %d", round, task.Status.Phase, task.Status.Model, len(task.Status.Restarts))
		}
		if got := w.fermi("model", "cat", fmt.Sprintf("sums@%d", round+1), "sums.txt"); got != string(sum) {
			t.Fatalf("round %d: it read %s, not %s", round, got, sum)
		}
	}
}
