package parity

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

// Engines are the columns of the table.
var Engines = []string{"host", "hosts", "kubernetes"}

// Place is a zone of an engine, and a way to the command line.
type Place struct {
	Engine  string
	Zone    string
	Mine    func(*api.Node) bool // the nodes of the engine
	Client  *client.Client
	Command func(args ...string) *exec.Cmd // fermi as the administrator; its folder and environment are free
}

// Seen is what became of a feature: "" is yes, else the reason of the refusal.
type Seen map[string]string

// try is a place in a test of one feature.
type try struct {
	*testing.T
	Place
	name string // for what it makes
}

// feature is a row. run is the test of it; it returns the reason of a refusal.
type feature struct {
	name string
	run  func(t *try) string
}

var features = []feature{
	{"a command with its log, exit code and output files", func(t *try) string {
		t.must("train", "run", "--name", t.name, "--zone", t.Zone, "--no-code", "--", "sh", "-c", "echo said; echo kept > $FERMI_OUTPUT/f")
		if out := t.must("logs", t.name); !strings.Contains(out, "said") {
			t.Errorf("log: %s", out)
		}
		dir := t.TempDir()
		t.must("train", "outputs", t.name, "--get", dir)
		if raw, err := os.ReadFile(filepath.Join(dir, "worker-0", "f")); err != nil || string(raw) != "kept\n" {
			t.Errorf("output: %q %v", raw, err)
		}
		return ""
	}},
	{"a folder of code that is sent along", func(t *try) string {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "hello.sh"), []byte("echo hello from the folder"), 0o600); err != nil {
			t.Fatal(err)
		}
		t.must("train", "run", "--name", t.name, "--zone", t.Zone, "--code", dir, "--", "sh", "hello.sh")
		if out := t.must("logs", t.name); !strings.Contains(out, "hello from the folder") {
			t.Errorf("log: %s", out)
		}
		return ""
	}},
	{"a gang whose ranks know each other", func(t *try) string {
		t.must("train", "run", "--name", t.name, "--zone", t.Zone, "--no-code", "--replicas", "2", "--framework", "pytorch-ddp", "--", "sh", "-c", `test -n "$MASTER_ADDR" && echo rank $RANK of $WORLD_SIZE`)
		if out := t.must("logs", t.name); !strings.Contains(out, "rank 0 of 2") || !strings.Contains(out, "rank 1 of 2") {
			t.Errorf("log: %s", out)
		}
		return ""
	}},
	{"a restart after a failure", func(t *try) string {
		t.must("train", "run", "--name", t.name, "--zone", t.Zone, "--no-code", "--restarts", "2", "--", "sh", "-c", `echo generation $FERMI_GENERATION; test $FERMI_GENERATION -gt 1`)
		if now := harness.Task(t.T, t.Client, t.name); len(now.Status.Restarts) != 1 {
			t.Errorf("%+v", now.Status)
		}
		return ""
	}},
	{"a training whose process is killed", func(t *try) string {
		t.must("train", "run", "--name", t.name, "--zone", t.Zone, "--no-code", "--restarts", "2", "--", "sh", "-c", "test $FERMI_GENERATION -gt 1 || kill -9 $$")
		now := harness.Task(t.T, t.Client, t.name)
		if len(now.Status.Restarts) != 1 || now.Status.Phase != api.PhaseCompleted {
			t.Errorf("%+v", now.Status)
		}
		return ""
	}},
	{"a stop that ends the whole tree", func(t *try) string {
		t.must("train", "run", "-d", "--name", t.name, "--zone", t.Zone, "--no-code", "--", "sh", "-c", "sleep 3600 & echo begun; wait")
		harness.Eventually(t.T, "it runs", func() bool { return harness.Task(t.T, t.Client, t.name).Status.Phase == api.PhaseRunning })
		t.must("train", "stop", t.name)
		harness.Eventually(t.T, "it has stopped", func() bool { return harness.Task(t.T, t.Client, t.name).Status.Phase == api.PhaseStopped })
		return ""
	}},
	{"secrets as variables", func(t *try) string {
		file := filepath.Join(t.TempDir(), "s")
		if err := os.WriteFile(file, []byte("hidden"), 0o600); err != nil {
			t.Fatal(err)
		}
		t.must("secret", "set", t.name, "word="+file)
		manifest := fmt.Sprintf(`{"kind":"TrainingTask","metadata":{"name":%q},"spec":{"zones":{"allow":[%q]},"roles":[{"name":"worker","replicas":1,"command":["sh","-c","test $W = hidden"],"env":[{"name":"W","valueFrom":{"secret":%q,"key":"word"}}],"resources":{"cpu":"100m","memory":"64Mi"}}]}}`, t.name, t.Zone, t.name)
		return t.applied(manifest)
	}},
	{"a task array", func(t *try) string {
		t.must("train", "run", "-d", "--name", t.name, "--zone", t.Zone, "--no-code", "--array", "1-3", "--", "sh", "-c", "echo index $FERMI_ARRAY_INDEX of $FERMI_ARRAY_COUNT")
		t.must("array", "wait", t.name)
		for i := 1; i <= 3; i++ {
			if out := t.must("logs", fmt.Sprintf("%s-%d", t.name, i)); !strings.Contains(out, fmt.Sprintf("index %d of 3", i)) {
				t.Errorf("log: %s", out)
			}
		}
		return ""
	}},
	{"a dataset, and one that its owner alone sees", func(t *try) string {
		t.must("data", "create", t.name+"-own", "--private")
		for _, name := range []string{t.name, t.name + "-own"} {
			t.must("data", "upload", name, t.file("points.csv", "x,y of "+name+"\n"))
			t.must("train", "run", "--name", name, "--zone", t.Zone, "--no-code", "--dataset", name, "--", "sh", "-c", "cat $FERMI_DATASET/points.csv")
			if out := t.must("logs", name); !strings.Contains(out, "x,y of "+name) {
				t.Errorf("log: %s", out)
			}
		}
		return ""
	}},
	{"nodes booked for another project", func(t *try) string {
		t.must("apply", "-f", t.file("project.yaml", fmt.Sprintf("kind: Project\nmetadata: {name: %s}\nspec: {queue: default}\n", t.name)))
		args := []string{"booking", "create", t.name, "--for-project", t.name, "--for", "1h"}
		for _, n := range t.nodes() {
			args = append(args, "--node", n)
		}
		t.must(args...)
		t.must("train", "run", "-d", "--name", t.name, "--zone", t.Zone, "--no-code", "--", "true")
		harness.Eventually(t.T, "it waits for the booking's end", func() bool { return strings.Contains(t.must("why", t.name), "booked") })
		t.must("--project", t.name, "train", "run", "--name", t.name+"-in", "--zone", t.Zone, "--no-code", "--", "true")
		t.must("booking", "end", t.name)
		harness.Eventually(t.T, "it runs once the booking is over", func() bool { return harness.Task(t.T, t.Client, t.name).Status.Phase == api.PhaseCompleted })
		return ""
	}},
	{"work that stays off spot nodes", func(t *try) string {
		t.must("train", "run", "--name", t.name, "--zone", t.Zone, "--no-code", "--spot", "never", "--", "true")
		return ""
	}},
	{"an environment: a shell, and a home that outlives stop and start", func(t *try) string {
		t.must("env", "create", t.name, "--zone", t.Zone)
		t.must("env", "shell", t.name, "--", "sh", "-c", "echo kept > ~/f")
		t.must("env", "stop", t.name)
		harness.Eventually(t.T, "it has stopped", func() bool {
			out, err := t.fermi("get", "env", t.name, "-o", "json")
			return err == nil && strings.Contains(out, `"Stopped"`)
		})
		t.must("env", "start", t.name)
		if out := t.must("env", "shell", t.name, "--", "sh", "-c", "cat ~/f"); !strings.Contains(out, "kept") {
			t.Errorf("after its restart: %s", out)
		}
		t.must("env", "delete", t.name, "--yes")
		return ""
	}},
	{"an environment after a template", func(t *try) string {
		t.must("apply", "-f", t.file("template.yaml", fmt.Sprintf("kind: EnvironmentTemplate\nmetadata: {name: %s}\nspec:\n  environment: {type: training, env: [{name: A, value: from the template}]}\n", t.name)))
		t.must("env", "create", t.name, "--zone", t.Zone, "--template", t.name)
		if out := t.must("env", "shell", t.name, "--", "sh", "-c", "echo $A"); !strings.Contains(out, "from the template") {
			t.Errorf("its variable: %s", out)
		}
		t.must("env", "delete", t.name, "--yes")
		return ""
	}},
	{"a snapshot of a home, and an environment that begins with it", func(t *try) string {
		t.must("env", "create", t.name, "--zone", t.Zone)
		t.must("env", "shell", t.name, "--", "sh", "-c", "mkdir ~/d; echo kept > ~/d/f")
		t.must("env", "stop", t.name)
		if out, err := t.fermi("env", "snapshot", t.name); err != nil {
			_, why, _ := strings.Cut(out, "error: ")
			t.must("env", "delete", t.name, "--yes")
			return refusal(t, why)
		}
		t.must("env", "create", t.name+"-new", "--zone", t.Zone, "--from", t.name)
		if out := t.must("env", "shell", t.name+"-new", "--", "sh", "-c", "cat ~/d/f"); !strings.Contains(out, "kept") {
			t.Errorf("in the new one: %s", out)
		}
		for _, name := range []string{t.name + "-new", t.name} {
			t.must("env", "delete", name, "--yes")
		}
		return ""
	}},
	{"fermi with nothing set, inside a task and an environment", func(t *try) string {
		t.must("train", "run", "--name", t.name, "--zone", t.Zone, "--no-code", "--", "sh", "-c", `fermi get task "$FERMI_TASK" && fermi train run -d --name "$FERMI_TASK-next" --zone "$FERMI_ZONE" --no-code -- true`)
		if out := t.must("logs", t.name); !strings.Contains(out, t.name) {
			t.Errorf("log: %s", out)
		}
		harness.Eventually(t.T, "what it submitted has run", func() bool { return harness.Task(t.T, t.Client, t.name+"-next").Status.Phase == api.PhaseCompleted })
		t.must("env", "create", t.name, "--zone", t.Zone)
		defer t.must("env", "delete", t.name, "--yes")
		if out := t.must("env", "shell", t.name, "--", "sh", "-c", "fermi env list"); !strings.Contains(out, t.name) {
			t.Errorf("in the environment: %s", out)
		}
		return ""
	}},
	{"training inside an environment", func(t *try) string {
		t.must("env", "create", t.name, "--zone", t.Zone)
		defer t.must("env", "delete", t.name, "--yes")
		return t.finished("train", "run", "--name", t.name+"-in", "--no-code", "--inside", t.name, "--", "true")
	}},
	{"a service behind the gateway", func(t *try) string {
		t.must("service", "create", t.name, "--replicas", "1", "--engine", "sample")
		harness.Eventually(t.T, "it answers", func() bool {
			out, err := t.fermi("service", "list")
			return err == nil && strings.Contains(out, "1/1")
		})
		t.must("service", "delete", t.name, "--yes")
		return ""
	}},
	{"a model of the registry with an adapter, and a dataset answered by them", func(t *try) string {
		models := []string{t.name + "-base", t.name + "-poet"}
		for i, m := range models {
			t.must("train", "run", "--name", m, "--zone", t.Zone, "--no-code", "--output-model", m+":model.json", "--", "fermi", "sample", "train", "--steps", fmt.Sprint(10*(i+1)), "--seed", fmt.Sprint(i+1))
			harness.Eventually(t.T, m+" is registered", func() bool { return harness.Task(t.T, t.Client, m).Status.Model != nil })
		}
		t.must("service", "create", t.name, "--replicas", "1", "--engine", "sample", "--model", models[0], "--adapter", "poet="+models[1])
		answers := map[string]bool{}
		for _, model := range []string{t.name, t.name + ":poet"} {
			answers[t.must("chat", model, "0.3 -0.2")] = true
		}
		if len(answers) != 2 {
			t.Errorf("the adapter answers as the model does: %v", answers)
		}
		t.must("service", "stop", t.name)
		t.must("data", "upload", t.name+"-points", t.file("points.jsonl", `{"points": [[1.5, -0.5]]}`+"\n"))
		t.must("service", "batch", t.name, "--name", t.name+"-batch", "--input", t.name+"-points", "--output", t.name+"-arms")
		harness.Eventually(t.T, "the answers are there", func() bool {
			out, err := t.fermi("data", "cat", t.name+"-arms", "points.000000.jsonl")
			return err == nil && strings.Contains(strings.ReplaceAll(out, " ", ""), `"status_code":200`)
		})
		t.must("service", "delete", t.name, "--yes")
		return ""
	}},
}

// Run tests all features at a place, and notes what became of them where FERMI_PARITY names a folder.
func Run(t *testing.T, p Place) {
	p.only(t)
	seen := Seen{}
	for i, f := range features {
		t.Run(f.name, func(t *testing.T) {
			one := &try{T: t, Place: p, name: fmt.Sprintf("%s-%d", p.Engine, i)}
			reason := f.run(one)
			if !t.Failed() {
				seen[f.name] = reason
			}
		})
	}
	dir := os.Getenv("FERMI_PARITY")
	if dir == "" || t.Failed() {
		return
	}
	raw, err := json.MarshalIndent(seen, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, p.Engine+".json"), append(raw, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// only keeps work away from all other zones: not every kind can name its own.
func (p Place) only(t *testing.T) {
	t.Helper()
	list, err := p.Client.List(t.Context(), api.KindNode, client.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Items {
		verb := "uncordon"
		if !p.Mine(o.(*api.Node)) {
			verb = "cordon"
		}
		if out, err := p.Command("node", verb, o.GetMeta().Name).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
	}
}

func (t *try) fermi(args ...string) (string, error) {
	t.Helper()
	out, err := t.Command(args...).CombinedOutput()
	return string(out), err
}

// file is one with this text.
func (t *try) file(name, text string) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return at
}

// nodes are the names of the engine's own.
func (t *try) nodes() (out []string) {
	t.Helper()
	list, err := t.Client.List(t.Context(), api.KindNode, client.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Items {
		if t.Mine(o.(*api.Node)) {
			out = append(out, o.GetMeta().Name)
		}
	}
	return out
}

func (t *try) must(args ...string) string {
	t.Helper()
	out, err := t.fermi(args...)
	if err != nil {
		t.Fatalf("fermi %v: %v\n%s", args, err, out)
	}
	return out
}

// finished runs a command that makes the task of this try's name with "-in"; the reason why it was refused, else "".
func (t *try) finished(args ...string) string {
	t.Helper()
	out, err := t.fermi(args...)
	if err == nil {
		return ""
	}
	return refusal(t, out)
}

// applied makes a task of a manifest and waits for its end; the reason why it can't be there, else "".
func (t *try) applied(manifest string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "task.json")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := t.fermi("apply", "-f", file); err != nil {
		return refusal(t, out)
	}
	harness.Eventually(t.T, t.name+" has ended", func() bool { return harness.Task(t.T, t.Client, t.name).Status.Phase.Finished() })
	s := harness.Task(t.T, t.Client, t.name).Status
	if s.Phase == api.PhaseCompleted {
		return ""
	}
	if s.Failure == nil {
		t.Fatalf("%+v", s)
	}
	return refusal(t, s.Failure.Message.EN)
}

// refusal is what a user reads in the table: the words of who refused it.
func refusal(t *try, said string) string {
	t.Helper()
	said = strings.Join(strings.Fields(said), " ")
	if _, why, ok := strings.Cut(said, " Why: "); ok { // of the lines that the command line prints, the one that matters
		said, _, _ = strings.Cut(why, " where: ")
	}
	if said == "" || !strings.Contains(said, "host") && !strings.Contains(said, "Kubernetes") && !strings.Contains(said, "folder") {
		t.Fatalf("this is no refusal: %q", said)
	}
	said = strings.ReplaceAll(strings.ReplaceAll(said, t.name, "NAME"), t.Zone, "ZONE")
	return strings.ReplaceAll(said, "|", "/")
}

// Table is docs/parity.md, made of what was noted in a folder.
func Table(dir string) (string, error) {
	all := map[string]Seen{}
	for _, engine := range Engines {
		raw, err := os.ReadFile(filepath.Join(dir, engine+".json"))
		if err != nil {
			return "", err
		}
		seen := Seen{}
		if err := json.Unmarshal(raw, &seen); err != nil {
			return "", err
		}
		all[engine] = seen
	}
	var b, notes strings.Builder
	fmt.Fprintf(&b, "# What runs where\n\nEach answer was given by a test that ran the feature on that engine (`test/parity`): on one host, on hosts that joined by `fermi agent`, on Kubernetes. A number is the refusal that a user reads there.\n\n| feature | host | hosts | Kubernetes |\n|---|---|---|---|\n")
	n := 0
	for _, f := range features {
		fmt.Fprintf(&b, "| %s |", f.name)
		for _, engine := range Engines {
			switch reason, ok := all[engine][f.name]; {
			case !ok:
				b.WriteString(" not tested |")
			case reason == "":
				b.WriteString(" yes |")
			default:
				n++
				fmt.Fprintf(&b, " no (%d) |", n)
				fmt.Fprintf(&notes, "%d. %s\n", n, reason)
			}
		}
		b.WriteString("\n")
	}
	if n > 0 {
		fmt.Fprintf(&b, "\n%s", notes.String())
	}
	return b.String(), nil
}
