package recovery

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/diagnose"
)

// fourNodes have one device each.
const fourNodes = `zones:
- {name: z, region: r, nodes: [{count: 4, cpu: 8, memory: 64Gi, devices: {count: 1, type: A100}}]}
`

func elasticWorld(t *testing.T) *world {
	t.Helper()
	file := filepath.Join(t.TempDir(), "zones.yaml")
	if err := os.WriteFile(file, []byte(fourNodes), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, "--zones", file, "--quantum", "1s")
	w.eventually("all nodes are ready", func() bool {
		page, err := w.cl.List(t.Context(), api.KindNode, client.ListOptions{})
		ready := 0
		for _, o := range page.Items {
			if o.(*api.Node).Status.Ready {
				ready++
			}
		}
		return err == nil && ready == 4
	})
	return w
}

// spirals is a training on so many nodes whose bits don't depend on how many there are.
func spirals(name string, steps int, pause string, low, replicas int) *api.TrainingTask {
	return &api.TrainingTask{
		Meta: api.Meta{Name: name},
		Spec: api.TrainingTaskSpec{
			Restart: &api.RestartPolicy{MaxRestarts: 9}, Preemptible: true, PriorityClass: "preemptible",
			Roles: []api.Role{{
				Name: "worker", Replicas: replicas, MinReplicas: &low, MaxReplicas: &replicas,
				Resources: api.Resources{CPU: 100, Memory: 1 << 28, Accelerators: api.Accelerators{Count: 1}},
				Command:   []string{"fermi", "sample", "train", "--steps", strconv.Itoa(steps), "--log-every", "1", "--hidden", "8", "--shards", "4", "--step-time", pause},
			}},
		},
	}
}

func (w *world) create(task *api.TrainingTask) training {
	w.t.Helper()
	if _, err := w.cl.Submit(w.t.Context(), task, false); err != nil {
		w.t.Fatal(err)
	}
	return training{task.Meta.Name, w.task(task.Meta.Name).Meta.ID}
}

// size is with how many ranks the task trains, 0 while it does not.
func (w *world) size(name string) int {
	w.t.Helper()
	s := w.task(name).Status
	if s.Phase.Finished() {
		w.t.Fatalf("%s ended %s: %s %+v", name, s.Phase, s.Message, s.Failure)
	}
	if s.Phase != api.PhaseRunning || s.Rendezvous == nil {
		return 0
	}
	return s.Rendezvous.World
}

// grows waits until the task trains with so many ranks, and has made some steps so; last is its newest.
func (w *world) grows(name string, ranks int, last func() int) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%d ranks", ranks), func() bool { return w.size(name) == ranks })
	at := last() // by those before: they have ended
	w.eventually("steps with them", func() bool { return w.size(name) == ranks && last() >= at+10 })
}

// through has a task of 2 to 4 ranks train with 4, with 2 beside a task of higher priority, with 3 when that
// has gone but one of its nodes takes no work, and with 4 again, and stops it.
func (w *world) through(name string, last func() int) {
	w.t.Helper()
	w.grows(name, 4, last)
	urgent := w.create(&api.TrainingTask{
		Meta: api.Meta{Name: "urgent"},
		Spec: api.TrainingTaskSpec{Roles: []api.Role{{
			Name: "worker", Replicas: 2, Command: []string{"sleep", "100000"},
			Resources: api.Resources{CPU: 100, Memory: 1 << 28, Accelerators: api.Accelerators{Count: 1}},
		}}},
	})
	w.eventually("the urgent one runs", func() bool { return w.task("urgent").Status.Phase == api.PhaseRunning })
	w.grows(name, 2, last)
	node := w.nodeOf(urgent, 0)
	w.verb("cordon", node)
	w.stop("urgent")
	w.grows(name, 3, last)
	w.verb("uncordon", node)
	w.grows(name, 4, last)
	w.stop(name)
}

// verb does something to a node.
func (w *world) verb(verb, node string) {
	w.t.Helper()
	if _, err := w.cl.NodeVerb(w.t.Context(), verb, node, -1); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) stop(name string) {
	w.t.Helper()
	if err := w.cl.Stop(w.t.Context(), "default", name); err != nil {
		w.t.Fatal(err)
	}
}

// last is the newest step of the curve.
func (w *world) last(tr training) int {
	return slices.Max(append(w.curve(tr), 0))
}

// ended waits for the end and gives the weights and the curve: rank 0 may have been here and there.
func (w *world) ended(name string) (model string, last int, curve map[int]string) {
	w.t.Helper()
	w.eventually(name+" has ended", func() bool { return w.task(name).Status.Phase.Finished() })
	files, err := w.cl.Outputs(w.t.Context(), "default", name)
	if err != nil {
		w.t.Fatal(err)
	}
	curve = map[int]string{}
	for _, f := range files {
		body, _, err := w.cl.OpenOutput(w.t.Context(), "default", name, f.Path)
		if err != nil {
			w.t.Fatal(err)
		}
		raw, err := io.ReadAll(body)
		body.Close()
		if err != nil {
			w.t.Fatal(err)
		}
		for line := range bytes.Lines(raw) {
			var at struct{ Step int }
			switch err := json.Unmarshal(line, &at); {
			case err != nil:
				w.t.Fatalf("%s: %v", f.Path, err)
			case filepath.Base(f.Path) == "metrics.jsonl":
				curve[at.Step] = string(line)
			case at.Step > last:
				last, model = at.Step, string(line)
			}
		}
	}
	if model == "" || len(curve) == 0 {
		w.t.Fatalf("%s left %v", name, files)
	}
	return model, last, curve
}

// sameAs runs as many steps without any change, and holds the two against each other.
func (w *world) sameAs(name string) {
	w.t.Helper()
	model, last, curve := w.ended(name)
	w.create(spirals(name+"-whole", last, "0s", 4, 4))
	want, _, line := w.ended(name + "-whole")
	if model != want {
		w.t.Errorf("%s: after %d steps the weights differ", name, last)
	}
	for step, is := range curve {
		if line[step] != is {
			w.t.Fatalf("%s: step %d is %s, without any change %s", name, step, is, line[step])
		}
	}
	if len(curve) != len(line) {
		w.t.Errorf("%s: %d steps of %d", name, len(curve), len(line))
	}
}

// changes are the sizes a task had one after the other, by its events; hangs are restarts for ranks that made
// no step for seconds, as may be on a machine that is busy with others.
func (w *world) changes(name string) (sizes []string, hangs int) {
	w.t.Helper()
	all, err := w.cl.Events(w.t.Context(), client.EventOptions{Project: "default", Kind: api.KindTrainingTask, Name: name})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range all {
		w.t.Log(e.Time.Format("15:04:05.000"), e.Reason, e.Message.EN)
		switch e.Reason {
		case "Resized":
			sizes = append(sizes, strings.SplitN(e.Message.EN, ",", 2)[0])
		case diagnose.ReasonHung:
			hangs++
		}
	}
	return sizes, hangs
}

// TestElasticSameBits: 4 → 2 ranks for a task of higher priority, → 3 and → 4 when it has gone: the same
// bits as without, in one attempt, and every replica is charged for as long as it was there.
func TestElasticSameBits(t *testing.T) {
	w := elasticWorld(t)
	tr := w.create(spirals("elastic", 1_000_000, "10ms", 2, 4))
	w.through("elastic", func() int { return w.last(tr) })
	w.sameAs("elastic")
	w.went("elastic")
	w.charged(tr, 6)
}

// went checks that a task went through 4, 2, 3 and 4 ranks, in one attempt and without a fault.
func (w *world) went(name string) {
	w.t.Helper()
	sizes, hangs := w.changes(name)
	slices.Sort(sizes)
	if want := []string{"2 processes instead of 4", "3 processes instead of 2", "4 processes instead of 3"}; !slices.Equal(sizes, want) {
		w.t.Errorf("it had %q", sizes)
	}
	if s := w.task(name).Status; s.Attempt != 1 || s.Generation != 4+hangs || len(s.Restarts) != hangs {
		w.t.Errorf("attempt %d, generation %d, %d restarts", s.Attempt, s.Generation, len(s.Restarts))
	}
}

// charged checks that so many replicas were charged, each from its start to its end.
func (w *world) charged(tr training, replicas int) {
	w.t.Helper()
	all, err := w.cl.Replicas(w.t.Context(), "default", tr.name)
	if err != nil {
		w.t.Fatal(err)
	}
	hours := 0.0
	for _, r := range all {
		if r.Started == nil || r.Finished == nil {
			w.t.Fatalf("%+v has no end", r)
		}
		hours += r.Finished.Sub(*r.Started).Hours() * float64(r.Devices)
	}
	used, err := w.cl.Usage(w.t.Context(), client.UsageOptions{By: "task"})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, sum := range used.Items {
		if sum.Key == tr.id && len(all) == replicas && sum.Replicas == replicas && sum.Running == 0 && math.Abs(sum.DeviceHours-hours) < 1e-6 {
			return
		}
	}
	w.t.Errorf("%d replicas, %g device hours, charged %+v", len(all), hours, used.Items)
}

// TestElasticLost: a launcher is lost with its node: the others go on without it in time, and another
// joins when the node takes work again.
func TestElasticLost(t *testing.T) {
	w := elasticWorld(t)
	task := spirals("elastic", 1_000_000, "10ms", 2, 4)
	task.Spec.Restart.RdzvTimeout = 1e9
	tr := w.create(task)
	grows := func(ranks int) { t.Helper(); w.grows("elastic", ranks, func() int { return w.last(tr) }) }
	grows(4)
	node := w.nodeOf(tr, 1)
	w.verb("cordon", node)
	w.killLauncher(tr, 1)
	grows(3)
	w.verb("uncordon", node)
	grows(4)
	w.killLauncher(tr, 2) // its node takes work: another one is started there
	w.eventually("the same size", func() bool {
		s := w.task(tr.name).Status
		return s.Generation > 3 && w.size(tr.name) == 4
	})
	grows(4)
	w.stop("elastic")
	w.sameAs("elastic")
	sizes, hangs := w.changes("elastic")
	if s := w.task("elastic").Status; s.Attempt != 1 || len(s.Restarts) != 2+hangs {
		t.Errorf("attempt %d, %d restarts; it had %q", s.Attempt, len(s.Restarts), sizes)
	}
}

func (w *world) nodeOf(tr training, index int) string {
	w.t.Helper()
	all, err := w.cl.Replicas(w.t.Context(), "default", tr.name)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range all {
		if r.Index == index {
			return r.Node
		}
	}
	w.t.Fatalf("no replica %d among %+v", index, all)
	return ""
}

// killLauncher ends the launcher of a replica with SIGKILL.
func (w *world) killLauncher(tr training, index int) {
	w.t.Helper()
	files, _ := filepath.Glob(filepath.Join(w.c.Dir, "engine", "replicas", fmt.Sprintf("%s-worker-%d-*", tr.id, index), "launcher.json"))
	if len(files) == 0 {
		w.t.Fatalf("no launcher of replica %d", index)
	}
	var self struct{ PID int }
	raw, err := os.ReadFile(files[0])
	if err == nil {
		err = json.Unmarshal(raw, &self)
	}
	if err == nil && self.PID > 0 {
		err = syscall.Kill(self.PID, syscall.SIGKILL)
	}
	if err != nil || self.PID <= 0 {
		w.t.Fatalf("launcher %d: %v", self.PID, err)
	}
}

// asksFirst saves only when it is asked to.
const asksFirst = `
import time, fermi
fermi.init()
got = fermi.checkpoint.restore()
step = got.step if got else 0
while not fermi.should_stop():
    step += 1
    time.sleep(0.02)
    fermi.report(step=step)
    if fermi.should_checkpoint():
        fermi.checkpoint.save(step, {"step": step})
`

// TestGrowingAsksForASave: a task that would have saved nothing yet goes on from a step that it made a moment before.
func TestGrowingAsksForASave(t *testing.T) {
	w := elasticWorld(t)
	w.create(&api.TrainingTask{
		Meta: api.Meta{Name: "urgent"},
		Spec: api.TrainingTaskSpec{Roles: []api.Role{{
			Name: "worker", Replicas: 3, Command: []string{"sleep", "100000"},
			Resources: api.Resources{CPU: 100, Memory: 1 << 28, Accelerators: api.Accelerators{Count: 1}},
		}}},
	})
	w.eventually("the urgent one runs", func() bool { return w.task("urgent").Status.Phase == api.PhaseRunning })
	task := spirals("asks", 1, "0s", 1, 2)
	task.Spec.Roles[0].Command = []string{"python3", "-c", asksFirst}
	w.create(task)
	w.eventually("some steps", func() bool { p := w.task("asks").Status.Pace; return w.size("asks") == 1 && p != nil && p.Step > 20 })
	w.stop("urgent")
	w.eventually("two ranks", func() bool { return w.size("asks") == 2 })
	if r := w.task("asks").Status.Rendezvous; r.Restore < 20 {
		t.Errorf("it goes on from step %d", r.Restore)
	}
	w.stop("asks")
	w.eventually("its end", func() bool { return w.task("asks").Status.Phase.Finished() })
}
