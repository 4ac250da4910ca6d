package recovery

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

const (
	replicas = 2
	ranks    = 2 // each
	steps    = 120
)

// world is a server and the training it runs.
type world struct {
	t  *testing.T
	c  *harness.Cluster
	cl *client.Client
	up bool // the server runs
}

func newWorld(t *testing.T, args ...string) *world {
	t.Helper()
	if len(args) == 0 {
		args = []string{"--demo"}
	}
	c, cl := harness.Up(t, args...)
	return &world{t: t, c: c, cl: cl, up: true}
}

func (w *world) start() {
	w.t.Helper()
	harness.Ready(w.t, w.c)
	w.up = true
}

func (w *world) killServer() {
	w.c.Kill()
	w.up = false
}

// eventually waits for a condition.
func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	harness.Eventually(w.t, what, ok)
}

// training is one that was submitted.
type training struct{ name, id string }

// submit starts a training that waits so long after every step.
func (w *world) submit(name, stepTime string) training {
	w.t.Helper()
	_, err := w.cl.Submit(w.t.Context(), &api.TrainingTask{
		Meta: api.Meta{Name: name},
		Spec: api.TrainingTaskSpec{
			Restart: &api.RestartPolicy{MaxRestarts: 5},
			Roles: []api.Role{{
				Name: "worker", Replicas: replicas, Ranks: ranks, Resources: api.Resources{CPU: 100, Memory: 1 << 28},
				Command: []string{"fermi", "sample", "train", "--steps", strconv.Itoa(steps), "--log-every", "1", "--step-time", stepTime},
			}},
		},
	}, false)
	if err != nil {
		w.t.Fatal(err)
	}
	return training{name, w.task(name).Meta.ID}
}

func (w *world) task(name string) *api.TrainingTask {
	w.t.Helper()
	return harness.Task(w.t, w.cl, name)
}

// curve is what rank 0 has written so far: the steps of its metrics file.
func (w *world) curve(tr training) []int {
	files, _ := filepath.Glob(filepath.Join(w.c.Dir, "engine", "replicas", tr.id+"-worker-*", "output", "metrics.jsonl"))
	var out []int
	for _, file := range files {
		raw, _ := os.ReadFile(file)
		for line := range bytes.Lines(raw) {
			var at struct{ Step int }
			if json.Unmarshal(line, &at) == nil {
				out = append(out, at.Step)
			}
		}
	}
	return out
}

// reach waits until the training is at a step; false: it has ended meanwhile.
func (w *world) reach(tr training, step int) (there bool) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("step %d", step), func() bool {
		at := w.curve(tr)
		there = len(at) > 0 && at[len(at)-1] >= step
		return there || w.over(tr)
	})
	return there
}

// over says that the training has ended. Folders go only while there is a server.
func (w *world) over(tr training) bool {
	ended, _ := filepath.Glob(filepath.Join(w.c.Dir, "engine", "replicas", tr.id+"-*", "exit.json"))
	return len(ended) > 0 || w.up && w.task(tr.name).Status.Phase.Finished()
}

// kill ends a rank of the task with SIGKILL; false: there is none any more.
func (w *world) kill(tr training, rank int) bool {
	pids := harness.Processes("FERMI_TASK_ID="+tr.id, "RANK="+strconv.Itoa(rank))
	return len(pids) > 0 && syscall.Kill(pids[0], syscall.SIGKILL) == nil
}

// sums waits for the end and gives the SHA-256 of the weights and of the curve.
func (w *world) sums(name string) map[string]string {
	w.t.Helper()
	w.eventually(name+" has ended", func() bool { return w.task(name).Status.Phase.Finished() })
	task := w.task(name)
	if task.Status.Phase != api.PhaseCompleted {
		w.t.Fatalf("%s ended %s: %s %+v", name, task.Status.Phase, task.Status.Message, task.Status.Failure)
	}
	files, err := w.cl.Outputs(w.t.Context(), "default", name)
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range files {
		body, _, err := w.cl.OpenOutput(w.t.Context(), "default", name, f.Path)
		if err != nil {
			w.t.Fatal(err)
		}
		sum := sha256.New()
		_, err = io.Copy(sum, body)
		if err := errors.Join(err, body.Close()); err != nil {
			w.t.Fatal(err)
		}
		out[filepath.Base(f.Path)] = hex.EncodeToString(sum.Sum(nil))
	}
	if out["model.json"] == "" || out["metrics.jsonl"] == "" {
		w.t.Fatalf("%s left %v", name, files)
	}
	return out
}

// same holds a training that was interrupted against the one that was not.
func (w *world) same(name string, want map[string]string) {
	w.t.Helper()
	for file, sum := range w.sums(name) {
		if want[file] != sum {
			w.t.Errorf("%s: %s is %s, uninterrupted %s", name, file, sum, want[file])
		}
	}
	s := w.task(name).Status
	if s.Attempt != 1 || s.Generation < 2 || s.Rendezvous == nil || s.Rendezvous.World != replicas*ranks {
		w.t.Errorf("%s: attempt %d, generation %d, %+v", name, s.Attempt, s.Generation, s.Rendezvous)
	}
}

// interrupt runs a training, and kills a rank of it once it is at a step and meanwhile is done. A
// machine that let the whole training pass by then gets another one to try.
func (w *world) interrupt(name, stepTime string, at, rank int, meanwhile func(training)) training {
	w.t.Helper()
	for try := range 5 {
		tr := w.submit(fmt.Sprintf("%s-%d", name, try), stepTime)
		if !w.reach(tr, at) {
			continue
		}
		meanwhile(tr)
		if w.kill(tr, rank) {
			return tr
		}
		if !w.up {
			w.start()
		}
	}
	w.t.Fatalf("%s always ended before its rank could be killed", name)
	return training{}
}

// TestRankKilled kills ranks, rank 0 in a quarter of the rounds.
func TestRankKilled(t *testing.T) {
	seed := uint64(harness.EnvInt("FERMI_RECOVERY_SEED", int(time.Now().UnixNano()&0xffff)))
	t.Logf("seed %d (FERMI_RECOVERY_SEED=%d repeats it)", seed, seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t)
	w.submit("whole", "0s")
	want := w.sums("whole")
	for round := range harness.EnvInt("FERMI_RECOVERY_ROUNDS", 4) {
		rank := 1 + rnd.IntN(replicas*ranks-1)
		if round%4 == 0 {
			rank = 0
		}
		at := 2 + rnd.IntN(steps/2)
		tr := w.interrupt(fmt.Sprintf("cut-%d", round), "10ms", at, rank, func(training) {})
		killed := time.Now()
		w.eventually("the next generation", func() bool { return w.task(tr.name).Status.Generation > 1 })
		opened := time.Since(killed)
		restore := int(w.task(tr.name).Status.Rendezvous.Restore)
		w.eventually("the next step", func() bool { return slices.Contains(w.curve(tr), restore+1) || w.over(tr) })
		t.Logf("rank %d killed at about step %d: next generation after %v, step %d after %v",
			rank, at, opened.Round(time.Millisecond), restore+1, time.Since(killed).Round(time.Millisecond))
		w.same(tr.name, want)
	}
}

// TestServerAway: without its server a training goes on, step by step; a rank that dies meanwhile
// starts again when the server is back.
func TestServerAway(t *testing.T) {
	w := newWorld(t)
	w.submit("whole", "0s")
	want := w.sums("whole")
	tr := w.interrupt("alone", "20ms", 10, 2, func(tr training) {
		w.killServer()
		w.reach(tr, 60)
	})
	w.start()
	w.same(tr.name, want)
}
