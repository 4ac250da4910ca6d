package upgrade

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/test/harness"
)

const (
	password = "an0ther-pass-word"
	secret   = "s3cret-of-the-lab"
)

// finished are the tasks that have ended before the update, and how.
var finished = map[string]api.Phase{"done": api.PhaseCompleted, "failed": api.PhaseFailed, "saved": api.PhaseCompleted}

// objects are made by the administrator of the older release.
const objects = `
apiVersion: fermi/v1
kind: Queue
metadata: {name: extra}
spec: {weight: 3, maxPending: 50, limit: {devices: 6}}
`

// manifest is one task of the member: a plain shell unless it says otherwise.
func manifest(name, spec, role string) string {
	return fmt.Sprintf(`---
apiVersion: fermi/v1
kind: TrainingTask
metadata: {name: %s, project: %s}
spec:
%s
  roles:
  - name: worker
%s
`, name, project, indent(2, spec), indent(4, role))
}

func indent(n int, text string) string {
	text = strings.Trim(text, "\n")
	return strings.Repeat(" ", n) + strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", n))
}

// shell is a role of one replica that runs a script.
func shell(script string, more ...string) string {
	return fmt.Sprintf("replicas: 1\ncommand: [/bin/sh, -c, %q]\nresources: {cpu: 100m, memory: 128Mi}\n", script) + strings.Join(more, "\n")
}

// sample is a role of two replicas with two ranks each.
func (w *world) sample(steps int, pause string) string {
	return fmt.Sprintf("replicas: 2\nranks: 2\ncommand: [fermi, sample, train, --steps, %q, --log-every, '1', --step-time, %s]\nresources: %s", strconv.Itoa(steps), pause, w.resources("100m", 1))
}

// resources are cores, and devices where there are any.
func (w *world) resources(cpu string, devices int) string {
	if w.real {
		return fmt.Sprintf("{cpu: %s, memory: 256Mi}", cpu)
	}
	return fmt.Sprintf("{cpu: 100m, memory: 256Mi, accelerators: {type: A100, count: %d}}", devices)
}

// TestUpgrade lets the program of this tree take over a folder of each release, which ended in each
// way, of this machine and of virtual nodes.
func TestUpgrade(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("projects are kept apart only as root")
	}
	next, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	all, ways, nodes := releases(), []string{"kill", "stop"}, []string{"real", "virtual"}
	if os.Getenv("FERMI_UPGRADE") == "sample" {
		all, ways, nodes = all[:1], ways[:1], nodes[:1]
	}
	for _, release := range all {
		old := build(t, release)
		for _, node := range nodes {
			for _, way := range ways {
				t.Run(release+"/"+node+"/"+way, func(t *testing.T) { upgrade(t, newWorld(t, old, node == "real"), next, way) })
			}
		}
	}
}

func upgrade(t *testing.T, w *world, next, way string) {
	old := w.Bin
	w.people()
	w.past()
	w.present()
	ids := map[string]string{}
	for _, name := range []string{"train", "hold", "secret", "folder"} {
		ids[name] = w.task(name).Meta.ID
	}
	before, uid, places := w.keep(), w.uid(), w.places()
	generation, processes, launchers := w.task("train").Status.Generation, map[string][]process{}, map[string][]record.Process{}
	for _, name := range []string{"train", "secret", "folder"} {
		processes[name], launchers[name] = w.processes(ids[name]), w.launchers(ids[name])
		if len(processes[name]) == 0 {
			t.Fatalf("%s: no process found", name)
		}
	}
	if way == "kill" {
		w.Kill()
	} else if err := w.Stop(); err != nil {
		t.Fatal(err)
	}
	at := last(w.steps(ids["train"]))
	harness.Eventually(t, "training goes on without a server", func() bool { return last(w.steps(ids["train"])) > at })

	w.Bin = next
	w.start()
	untouched := func() {
		t.Helper()
		for name := range processes {
			if now := w.processes(ids[name]); !slices.Equal(now, processes[name]) {
				t.Errorf("%s: its processes were %v and are %v", name, processes[name], now)
			}
			if now := w.launchers(ids[name]); !slices.Equal(now, launchers[name]) {
				t.Errorf("%s: its launchers were %v and are %v", name, launchers[name], now)
			}
		}
	}
	w.attached("train", "hold", "secret", "folder")
	untouched()
	var after map[string]map[string]any
	harness.Eventually(t, "places bear their owners' ids", func() bool {
		after = w.places()
		for id, now := range after {
			if now["name"] != id {
				return false
			}
		}
		return true
	})
	for name, id := range ids {
		if was, now := places[id], after[id]; was == nil || !reflect.DeepEqual(was["spec"], now["spec"]) {
			t.Errorf("the place of %s was %v and is %v", name, was, now)
		}
	}
	for _, problem := range lost("", before, w.keep()) {
		t.Error(problem)
	}
	if now := w.uid(); now != uid || uid == 0 {
		t.Errorf("the project's uid was %d and is %d", uid, now)
	}
	w.older(5) // two of train, and one of each of the others
	w.allowed()
	at = last(w.steps(ids["train"]))
	harness.Eventually(t, "training goes on", func() bool { return last(w.steps(ids["train"])) > at+10 })
	for i, step := range w.steps(ids["train"]) {
		if step != i+1 {
			t.Fatalf("entry %d of the training is step %d", i+1, step)
		}
	}
	if task := w.task("train"); task.Status.Generation != generation || len(task.Status.Restarts) > 0 || task.Status.Attempt != 1 {
		t.Errorf("train: %+v", task.Status)
	}
	untouched()
	if way == "kill" {
		w.refused(old, next)
		w.attached("train", "hold", "secret", "folder")
		untouched()
	}
	w.room(ids["hold"])
	w.recovers(ids["train"], generation, launchers["train"], way == "kill")
	w.reruns(ids)
	if r := w.run("", "", "audit", "verify"); r.code == 0 {
		t.Log(strings.TrimSpace(r.out))
	} else if !strings.Contains(r.err, "no command") {
		t.Errorf("audit verify: %+v", r)
	}
}

// people makes a project, who works in it, and a queue.
func (w *world) people() {
	w.must("", "user", "create", "ann", "--role", "member")
	w.mustIn("", password+"\n", "user", "passwd", "ann")
	w.must("", "project", "create", project)
	w.must("", "project", "add-member", project, "ann")
	w.bot = strings.TrimSpace(w.must("", "token", "create", "bot", "--user", "ann", "--scope", "tasks", "--only-project", project, "--expires", "24h"))
	w.mustIn("", objects, "apply", "-f", "-")
	if w.doors {
		w.must("", "queue", "set", "extra", "--add-project", project)
		w.must("", "project", "set", project, "--max-priority", "5000", "--folders", "code")
	}
	value := filepath.Join(w.t.TempDir(), "value")
	if err := os.WriteFile(value, []byte(secret), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.must("", "secret", "set", "hub", "token="+value)
}

// How checkpoints are kept: on the nodes' disks, or in the store that all share.
const (
	disk   = "checkpoint: {local: {everySteps: 20, keep: {last: 100}}, shared: {disabled: true}}\nrestartPolicy: {maxRestarts: 5}"
	shared = "checkpoint: {shared: {everySteps: 20, keep: {last: 100}}, local: {disabled: true}}\nrestartPolicy: {maxRestarts: 5}"
)

// past is what has ended.
func (w *world) past() {
	w.mustIn(w.bot, manifest("done", "queue: extra", shell("echo one; echo two; mkdir -p $FERMI_OUTPUT/a; echo kept > $FERMI_OUTPUT/a/b.txt"))+
		manifest("failed", "queue: default", shell("echo before the end; exit 7"))+
		manifest("saved", shared, w.sample(60, "1ms")), "apply", "-f", "-")
	for name, phase := range finished {
		w.phase(name, phase)
	}
}

// present is what runs and what waits.
func (w *world) present() {
	w.mustIn(w.bot, manifest("train", "queue: extra\npriority: 5000\n"+disk, w.sample(1_000_000, "50ms"))+
		manifest("hold", "queue: extra", "replicas: 1\ncommand: [/bin/sh, -c, 'i=0; while :; do i=$((i+1)); echo n=$i; sleep 0.1; done']\nresources: "+w.resources("1", 2))+
		manifest("secret", "queue: default", shell(`printf %s "$TOKEN" | sha256sum; exec sleep 1000000`, "env: [{name: TOKEN, valueFrom: {secret: hub, key: token}}]"))+
		manifest("folder", "code: {folder: "+w.code+"}", shell("echo there > seen; exec sleep 1000000")), "apply", "-f", "-")
	for _, name := range []string{"train", "hold", "secret", "folder"} {
		w.phase(name, api.PhaseRunning)
	}
	// Two whole virtual nodes, or all cores but half of one: there is no room beside hold.
	replicas, cores := 2, ""
	if w.real {
		replicas, cores = 1, fmt.Sprintf("%dm", int(w.nodes()[0].Spec.CPU)-500)
	}
	w.mustIn(w.bot, manifest("wait", "queue: extra", fmt.Sprintf("replicas: %d\ncommand: [/bin/sh, -c, 'echo begun; exec sleep 1000000']\nresources: %s", replicas, w.resources(cores, 2))), "apply", "-f", "-")
	harness.Eventually(w.t, "a checkpoint of the training on the disk", func() bool {
		return len(items(w.raw("/training-tasks/train/checkpoints", "project="+project))) > 0
	})
	harness.Eventually(w.t, "the secret was used, and the folder", func() bool {
		_, err := os.Stat(filepath.Join(w.code, "seen"))
		return err == nil && strings.Contains(w.must("", "logs", "secret"), sum())
	})
	if task := w.task("wait"); task.Status.Phase != api.PhasePending {
		w.t.Fatalf("wait: %+v", task.Status)
	}
}

func sum() string { return fmt.Sprintf("%x", sha256.Sum256([]byte(secret))) }

func (w *world) uid() int {
	w.t.Helper()
	p, err := client.Get[*api.Project](w.t.Context(), w.admin, "", project)
	if err != nil {
		w.t.Fatal(err)
	}
	return p.Status.UID
}

// attached waits until the server knows again that tasks run.
func (w *world) attached(names ...string) {
	w.t.Helper()
	for _, name := range names {
		w.until(name, "runs, as its launchers say", func(t *api.TrainingTask) bool {
			list, err := w.admin.Replicas(w.t.Context(), project, name)
			return err == nil && len(list) > 0 && t.Status.Phase == api.PhaseRunning &&
				!slices.ContainsFunc(list, func(r client.Replica) bool { return r.State != "Running" })
		})
	}
}

// older waits until the nodes say that so many launchers are of an older version.
func (w *world) older(want int) {
	w.t.Helper()
	var said string
	harness.Eventually(w.t, fmt.Sprintf("the nodes count %d older launchers", want), func() bool {
		n := 0
		for _, node := range w.nodes() {
			for _, l := range node.Status.Launchers {
				n, said = n+l.Count, node.Meta.Name
			}
		}
		return n == want
	})
	if want > 0 {
		if out := w.must("", "describe", "node", said); !regexp.MustCompile(`Launchers:.* still runs?: `).MatchString(out) {
			w.t.Errorf("describe node %s:\n%s", said, out)
		}
	}
}

// allowed tries what each could do before.
func (w *world) allowed() {
	w.t.Helper()
	if code := w.signIn("ann", password); code != 200 {
		w.t.Errorf("ann signs in: %d", code)
	}
	if out := w.must(w.bot, "whoami"); !strings.Contains(out, "ann") {
		w.t.Error(out)
	}
	w.mustIn(w.bot, manifest("same", "queue: extra\npriority: 5000", shell(`printf %s "$TOKEN" | sha256sum; echo x > $FERMI_OUTPUT/f`,
		"env: [{name: TOKEN, valueFrom: {secret: hub, key: token}}]")), "apply", "-f", "-")
	w.phase("same", api.PhaseCompleted)
	if log := w.must(w.bot, "logs", "same"); !strings.Contains(log, sum()) {
		w.t.Errorf("the secret was not opened:\n%s", log)
	}
	if log := w.must(w.bot, "logs", "done"); log != "one\ntwo\n" {
		w.t.Errorf("the log of a finished task:\n%s", log)
	}
	list, err := w.admin.Checkpoints(w.t.Context(), project, "saved")
	if err != nil || len(list) == 0 {
		w.t.Fatalf("checkpoints: %v, %v", list, err)
	}
	step := strconv.FormatInt(list[len(list)/2].Step, 10)
	w.mustIn(w.bot, manifest("from", "checkpoint: {from: {task: saved, step: "+step+"}}", w.sample(60, "1ms")), "apply", "-f", "-")
	w.phase("from", api.PhaseCompleted)
	if log := w.must(w.bot, "logs", "from"); !strings.Contains(log, "goes on after step="+step) {
		w.t.Errorf("it did not begin from the older checkpoint:\n%s", log)
	}
	if w.file("from", w.model("from")) != w.file("saved", w.model("saved")) {
		w.t.Error("from an older checkpoint come other weights")
	}
}

// refused starts the older program on the folder that the newer one has served: it changes nothing
// and says why.
func (w *world) refused(old, next string) {
	w.t.Helper()
	if err := w.Stop(); err != nil {
		w.t.Fatal(err)
	}
	w.Bin = old
	if err := w.Spawn(); err != nil {
		w.t.Fatal(err)
	}
	<-w.Ended()
	if log := w.LogTail(); !strings.Contains(log, "written by a newer Fermi") {
		w.t.Errorf("an older program on a newer folder said:\n%s", log)
	}
	w.Bin = next
	w.start()
}

// room ends what is in the way of the one that waits.
func (w *world) room(hold string) {
	w.t.Helper()
	if task := w.task("wait"); task.Status.Phase != api.PhasePending {
		w.t.Errorf("wait did not wait: %+v", task.Status)
	}
	w.must(w.bot, "train", "stop", "hold")
	w.phase("hold", api.PhaseStopped)
	n := 0
	for line := range strings.Lines(w.must(w.bot, "logs", "hold")) {
		if got, ok := strings.CutPrefix(strings.TrimSpace(line), "n="); ok {
			if n++; got != strconv.Itoa(n) {
				w.t.Fatalf("line %d of its log is n=%s", n, got)
			}
		}
	}
	if n == 0 {
		w.t.Error("hold left no log")
	}
	w.phase("wait", api.PhaseRunning)
	w.newer(w.task("wait"))
	w.must(w.bot, "train", "stop", "wait")
	w.phase("wait", api.PhaseStopped)
}

// newer checks that the launchers of a task's attempt are of the program at hand.
func (w *world) newer(task *api.TrainingTask) {
	w.t.Helper()
	version := strings.Fields(w.must("", "version", "--client"))
	found := w.launchers(fmt.Sprintf("%s-worker-*-%d", task.Meta.ID, task.Status.Attempt))
	if len(found) == 0 {
		w.t.Errorf("%s has no launchers", task.Meta.Name)
	}
	for _, p := range found {
		if p.Version == "" || !slices.Contains(version, p.Version) {
			w.t.Errorf("a launcher of version %q; the program says %v", p.Version, version)
		}
	}
}

// recovers kills a rank of a training whose launchers are older, then these launchers, or one of
// them: it goes on, with newer ones in their stead.
func (w *world) recovers(id string, generation int, launchers []record.Process, whole bool) {
	w.t.Helper()
	ranks := harness.Processes("FERMI_TASK_ID="+id, "RANK=3")
	if len(ranks) == 0 {
		w.t.Fatal("rank 3 is not there")
	}
	at := last(w.steps(id))
	if err := syscall.Kill(ranks[0], syscall.SIGKILL); err != nil {
		w.t.Fatal(err)
	}
	w.until("train", "recovers", func(t *api.TrainingTask) bool {
		return t.Status.Phase == api.PhaseRunning && t.Status.Generation > generation && last(w.steps(id)) > at+10
	})
	if now := w.launchers(id); !slices.Equal(now, launchers) {
		w.t.Errorf("the launchers were %v and are %v", launchers, now)
	}
	was := w.task("train").Status.Generation
	if !whole {
		launchers = launchers[:1]
	}
	for _, p := range launchers { // and all that is in its memory
		if err := p.Signal(syscall.SIGKILL); err != nil {
			w.t.Fatal(err)
		}
	}
	back := w.until("train", "goes on from what older launchers left", func(t *api.TrainingTask) bool {
		return t.Status.Phase == api.PhaseRunning && t.Status.Generation > was
	})
	if origin := back.Status.Rendezvous.Origin; whole && origin == nil {
		w.t.Error("it did not go on from the disk")
	}
	at = last(w.steps(id))
	w.until("train", "trains", func(t *api.TrainingTask) bool {
		return t.Status.Phase == api.PhaseRunning && last(w.steps(id)) > at+10
	})
	if whole {
		w.newer(back)
	}
}

// reruns ends what is older; the same again has newer launchers, and then no older one is left.
func (w *world) reruns(ids map[string]string) {
	w.t.Helper()
	w.must(w.bot, "train", "stop", "train")
	w.phase("train", api.PhaseStopped)
	w.older(2)
	w.must(w.bot, "train", "clone", "train", "--name", "again")
	again := w.until("again", "trains", func(t *api.TrainingTask) bool {
		return t.Status.Phase == api.PhaseRunning && last(w.steps(t.Meta.ID)) > 10
	})
	w.newer(again)
	// Where folders need a name and a grant, what runs keeps its folder; the next run needs both.
	if r := w.run(w.bot, "", "train", "clone", "folder", "--name", "folder-again"); w.doors {
		if r.code != 0 {
			w.t.Errorf("a folder that was granted: %+v", r)
		}
		w.phase("folder-again", api.PhaseRunning)
		w.must(w.bot, "train", "stop", "folder-again")
		w.phase("folder-again", api.PhaseStopped)
	} else if r.code == 0 || !strings.Contains(r.err, w.code) || !strings.Contains(r.err, "spec.code.folder") {
		w.t.Errorf("a folder that nobody granted: %+v", r)
	}
	for _, name := range []string{"secret", "folder", "again"} {
		w.must(w.bot, "train", "stop", name)
		w.phase(name, api.PhaseStopped)
	}
	w.older(0)
	for name, id := range ids {
		if left := w.processes(id); len(left) > 0 {
			w.t.Errorf("%s: processes left: %v", name, left)
		}
	}
}
