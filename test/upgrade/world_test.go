package upgrade

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/test/harness"
)

// project is the tenant's; the administrator looks at it.
const project = "lab"

// topology is small enough that something has to wait.
const topology = `zones:
- {name: z, region: r, nodes: [{count: 3, cpu: 16, memory: 64Gi, devices: {count: 2, type: A100}}]}
`

// world is one data folder and who is served from it.
type world struct {
	*harness.Cluster
	t     *testing.T
	real  bool // its node is this machine
	admin *client.Client
	bot   string // the member's token
	code  string // a folder of the machine that a task uses
	doors bool   // its release asks who may use which queue, priority and folder
}

func newWorld(t *testing.T, bin string, real bool) *world {
	t.Helper()
	c, err := harness.New(bin, "up")
	if err != nil {
		t.Fatal(err)
	}
	zones := filepath.Join(filepath.Dir(c.Dir), "zones.yaml")
	c.Args = []string{"--archive-after", "1s", "--checkpoints-store", filepath.Join(filepath.Dir(c.Dir), "store")}
	if !real {
		c.Args = append(c.Args, "--zones", zones)
	}
	w := &world{Cluster: c, t: t, real: real, code: filepath.Join(filepath.Dir(c.Dir), "code")}
	if help, err := exec.CommandContext(t.Context(), bin, "up", "--help").Output(); err != nil {
		t.Fatal(err)
	} else if w.doors = bytes.Contains(help, []byte("--folder ")); w.doors {
		c.Args = append(c.Args, "--folder", "code="+w.code)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.LogTail())
		}
		c.Cleanup()
	})
	if err := errors.Join(os.WriteFile(zones, []byte(topology), 0o644), os.Mkdir(w.code, 0o777), os.Chmod(w.code, 0o777), os.Chmod(filepath.Dir(c.Dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	w.start()
	return w
}

// start runs the program that the world has now.
func (w *world) start() {
	w.t.Helper()
	harness.Ready(w.t, w.Cluster)
	var err error
	if w.admin, err = w.Client(); err != nil {
		w.t.Fatal(err)
	}
	want := 3
	if w.real {
		want = 1
	}
	harness.Eventually(w.t, "the nodes are ready", func() bool { return len(w.nodes()) == want })
}

// nodes are those that are ready.
func (w *world) nodes() (out []*api.Node) {
	page, err := w.admin.List(w.t.Context(), api.KindNode, client.ListOptions{})
	if err != nil {
		return nil
	}
	for _, o := range page.Items {
		if n := o.(*api.Node); n.Status.Ready {
			out = append(out, n)
		}
	}
	return out
}

type result struct {
	out, err string
	code     int
}

// run is the command line of the program at hand, by a token ("": the administrator's).
func (w *world) run(token, input string, args ...string) result {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), harness.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.Bin, args...)
	cmd.Dir, cmd.Stdin = w.t.TempDir(), strings.NewReader(input)
	cmd.Env = append(os.Environ(), "FERMI_SERVER=http://"+w.Addr, "FERMI_DATA="+w.Dir, "FERMI_LANG=en", "FERMI_TOKEN="+token, "FERMI_PROJECT="+project)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatalf("fermi %v: %v", args, err)
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

func (w *world) must(token string, args ...string) string { return w.mustIn(token, "", args...) }

func (w *world) mustIn(token, input string, args ...string) string {
	w.t.Helper()
	r := w.run(token, input, args...)
	if r.code != 0 {
		w.t.Fatalf("fermi %v ended with %d\n%s\n%s", args, r.code, r.out, r.err)
	}
	return r.out
}

func (w *world) task(name string) *api.TrainingTask {
	w.t.Helper()
	task, err := client.Get[*api.TrainingTask](w.t.Context(), w.admin, project, name)
	if err != nil {
		w.t.Fatal(err)
	}
	return task
}

// until waits for a condition on a task.
func (w *world) until(name, what string, ok func(*api.TrainingTask) bool) *api.TrainingTask {
	w.t.Helper()
	var last *api.TrainingTask
	defer func() {
		if w.t.Failed() && last != nil {
			status, _ := json.MarshalIndent(last.Status, "", "  ")
			w.t.Logf("%s: %s\n%s", name, status, w.run("", "", "logs", name, "--tail", "20").out)
		}
	}()
	harness.Eventually(w.t, name+": "+what, func() bool {
		last = w.task(name)
		return ok(last)
	})
	return last
}

func (w *world) phase(name string, phase api.Phase) *api.TrainingTask {
	w.t.Helper()
	return w.until(name, string(phase), func(t *api.TrainingTask) bool { return t.Status.Phase == phase })
}

// process is one that runs, told from a later one with its pid.
type process struct {
	pid   int
	start uint64
}

// processes are those of a task, by their mark.
func (w *world) processes(id string) (out []process) {
	for _, pid := range harness.Processes("FERMI_TASK_ID=" + id) {
		if st, err := record.ReadStat(pid); err == nil && st.State != 'Z' {
			out = append(out, process{pid, st.StartTicks})
		}
	}
	slices.SortFunc(out, func(a, b process) int { return a.pid - b.pid })
	return out
}

// folders are those of replicas: of a task by its id, or by a pattern of names.
func (w *world) folders(id string) []string {
	if !strings.Contains(id, "*") {
		id += "-*"
	}
	dirs, err := filepath.Glob(filepath.Join(w.Dir, "engine", "replicas", id))
	if err != nil {
		w.t.Fatal(err)
	}
	slices.Sort(dirs)
	return dirs
}

// launchers are those that keep a task, or some replicas of it.
func (w *world) launchers(id string) (out []record.Process) {
	w.t.Helper()
	for _, dir := range w.folders(id) {
		var p record.Process
		if ok, err := record.Read(dir, record.FileLauncher, &p); err != nil {
			w.t.Fatal(err)
		} else if ok {
			out = append(out, p)
		}
	}
	return out
}

// steps are those that rank 0 wrote down, in order.
func (w *world) steps(id string) (out []int) {
	for _, dir := range w.folders(id) {
		raw, _ := os.ReadFile(filepath.Join(dir, "output", "metrics.jsonl"))
		for line := range bytes.Lines(raw) {
			var at struct{ Step int }
			if json.Unmarshal(line, &at) == nil {
				out = append(out, at.Step)
			}
		}
	}
	return out
}

func last(steps []int) int {
	if len(steps) == 0 {
		return 0
	}
	return steps[len(steps)-1]
}

// signIn is a browser's.
func (w *world) signIn(user, password string) int {
	w.t.Helper()
	body, _ := json.Marshal(map[string]string{"user": user, "password": password})
	resp, err := http.Post("http://"+w.Addr+"/api/v1/session", "application/json", bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// file is one output of a task.
func (w *world) file(name, path string) string {
	w.t.Helper()
	r, _, err := w.admin.OpenOutput(w.t.Context(), project, name, path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Close()
	raw, err := io.ReadAll(r)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(raw)
}

// raw is an answer of the API as it is, no type of this tree between.
func (w *world) raw(path, query string) map[string]any {
	w.t.Helper()
	values, err := url.ParseQuery(query)
	if err != nil {
		w.t.Fatal(err)
	}
	raw, err := w.admin.Raw(w.t.Context(), path, values)
	if err != nil {
		w.t.Fatal(fmt.Errorf("%s: %w", path, err))
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		w.t.Fatal(fmt.Errorf("%s: %w", path, err))
	}
	return out
}
