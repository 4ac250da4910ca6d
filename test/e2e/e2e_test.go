// Package e2e drives the shipped binary as a user would: commands in, text and exit codes out.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

type world struct {
	*harness.Cluster
	t   *testing.T
	api *client.Client
}

func up(t *testing.T, args ...string) *world {
	t.Helper()
	return upAs(t, nil, func(*harness.Cluster) {}, args...)
}

// upAs is up as another user (nil: ourselves), after a change.
func upAs(t *testing.T, who *syscall.Credential, change func(*harness.Cluster), args ...string) *world {
	t.Helper()
	bin, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	c, err := harness.New(bin, "up", args...)
	if err != nil {
		t.Fatal(err)
	}
	c.Credential = who
	change(c)
	w := &world{Cluster: c, t: t}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.LogTail())
		}
		c.Cleanup()
	})
	w.start()
	if slices.Contains(args, "--demo") { // the leader writes them, a moment after the server is up
		harness.Eventually(t, "the demo's zones and nodes", func() bool {
			return strings.Contains(w.must("zone", "list"), "深圳-1") && strings.Contains(w.must("get", "nodes", "-o", "name"), "shenzhen-1-n16")
		})
	}
	return w
}

func (w *world) start() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), harness.Patience)
	defer cancel()
	if err := w.Start(ctx); err != nil {
		w.t.Fatal(err)
	}
	cl, err := w.Client()
	if err != nil {
		w.t.Fatal(err)
	}
	w.api = cl
}

type result struct {
	out, err string
	code     int
}

// fermi runs the command line in dir.
func (w *world) fermiIn(dir string, env []string, args ...string) result {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), harness.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.Bin, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "FERMI_SERVER=http://"+w.Addr, "FERMI_DATA="+w.Dir, "FERMI_LANG=en", "FERMI_TOKEN=")
	cmd.Env = append(cmd.Env, env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatalf("fermi %v: %v", args, err)
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

func (w *world) fermi(args ...string) result {
	w.t.Helper()
	return w.fermiIn(w.t.TempDir(), nil, args...)
}

// must runs a command that has to succeed and returns its stdout.
func (w *world) must(args ...string) string {
	w.t.Helper()
	r := w.fermi(args...)
	if r.code != 0 {
		w.t.Fatalf("fermi %v ended with %d\n%s\n%s", args, r.code, r.out, r.err)
	}
	return r.out
}

func (w *world) task(name string) *api.TrainingTask {
	w.t.Helper()
	task, err := client.Get[*api.TrainingTask](w.t.Context(), w.api, "default", name)
	if err != nil {
		w.t.Fatal(err)
	}
	return task
}

// until waits for a condition on a task.
func (w *world) until(name, what string, ok func(*api.TrainingTask) bool) *api.TrainingTask {
	w.t.Helper()
	for deadline := time.Now().Add(harness.Patience); ; time.Sleep(20 * time.Millisecond) {
		task := w.task(name)
		if ok(task) {
			return task
		}
		if time.Now().After(deadline) {
			status, _ := json.MarshalIndent(task.Status, "", "  ")
			w.t.Fatalf("%s: never %s: %s\n%s", name, what, status, w.fermi("logs", name, "--tail", "20").out)
		}
	}
}

func (w *world) phase(name string, phase api.Phase) *api.TrainingTask {
	w.t.Helper()
	return w.until(name, string(phase), func(t *api.TrainingTask) bool { return t.Status.Phase == phase })
}

func (w *world) submit(task *api.TrainingTask) {
	w.t.Helper()
	if _, err := w.api.Submit(w.t.Context(), task, false); err != nil {
		w.t.Fatal(err)
	}
}

// explained waits until what `fermi why` says has all parts: who plans hears of a task a moment after it was submitted.
func (w *world) explained(name string, parts ...string) (said string) {
	w.t.Helper()
	harness.Eventually(w.t, fmt.Sprintf("why %s says %q", name, parts), func() bool {
		said = w.must("why", name)
		return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(said, p) })
	})
	return said
}

func shell(name string, replicas int, script string) *api.TrainingTask {
	return &api.TrainingTask{Meta: api.Meta{Name: name}, Spec: api.TrainingTaskSpec{Roles: []api.Role{{
		Name: "worker", Replicas: replicas, Command: []string{"/bin/sh", "-c", script},
		Resources: api.Resources{CPU: 1000, Memory: 1 << 28},
	}}}}
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("no %q in:\n%s", p, text)
		}
	}
}

// TestTour is the README's first minute.
func TestTour(t *testing.T) {
	w := up(t, "--demo")
	r := w.fermi("train", "run", "--name", "first", "--", "fermi", "sample", "train", "--steps", "60")
	if r.code != 0 {
		t.Fatalf("the sample ended with %d\n%s\n%s", r.code, r.out, r.err)
	}
	contains(t, r.out, "step=10 ", "loss=")
	contains(t, w.must("get", "task", "first"), "first", "Completed")
	contains(t, w.must("describe", "task", "first"), "Completed", "Placed")
	contains(t, w.must("events", "task/first"), "Placed", "Completed")
	contains(t, w.must("logs", "first", "--tail", "1"), "step=")
	dir := t.TempDir()
	w.must("train", "outputs", "first", "--get", dir)
	if found, _ := filepath.Glob(filepath.Join(dir, "*", "model.json")); len(found) == 0 {
		if found, _ = filepath.Glob(filepath.Join(dir, "model.json")); len(found) == 0 {
			t.Error("no model.json among the outputs")
		}
	}
	contains(t, w.must("zone", "list"), "北京-1", "上海-1", "深圳-1", "24", "32")
	contains(t, w.must("node", "list"), "beijing-1", "A100")
	w.must("train", "clone", "first", "--name", "second")
	w.phase("second", api.PhaseCompleted)
}

func TestCodeFolderHyperParametersAndExitCode(t *testing.T) {
	w := up(t, "--demo")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "train.sh"), []byte("echo lr=$FERMI_HP_LR rank=$FERMI_RANK/$FERMI_WORLD_SIZE; cat $FERMI_HP_FILE; mkdir -p $FERMI_OUTPUT/a; echo kept > $FERMI_OUTPUT/a/b.txt; exit 7\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := w.fermiIn(dir, nil, "train", "run", "--name", "mine", "--hp", "lr=0.1", "--", "sh", "train.sh")
	if r.code != 7 {
		t.Fatalf("exit code %d, want the task's 7\n%s\n%s", r.code, r.out, r.err)
	}
	contains(t, r.out, "lr=0.1 rank=0/1")
	task := w.phase("mine", api.PhaseFailed)
	if f := task.Status.Failure; f == nil || f.ExitCode != 7 || f.Reason != "ExitedNonZero" {
		t.Errorf("failure %+v", task.Status.Failure)
	}
	outs, err := w.api.Outputs(t.Context(), "default", "mine")
	if err != nil || len(outs) != 1 || !strings.HasSuffix(outs[0].Path, "a/b.txt") {
		t.Errorf("outputs of a failed task: %+v %v", outs, err)
	}
}

func TestGangRunsOnDemoNodesWithDevices(t *testing.T) {
	w := up(t, "--demo")
	task := shell("gang", 4, `echo "I am $FERMI_RANK of $FERMI_WORLD_SIZE on $FERMI_NODE cuda=[$CUDA_VISIBLE_DEVICES]"`)
	task.Meta.DisplayName = "GPT大模型分布式训练"
	task.Spec.Roles[0].Resources.Accelerators = api.Accelerators{Type: "H800", Count: 8}
	w.submit(task)
	done := w.phase("gang", api.PhaseCompleted)
	if done.Status.Replicas.Succeeded != 4 {
		t.Errorf("replicas %+v", done.Status.Replicas)
	}
	log := w.must("logs", "gang")
	for i := range 4 {
		contains(t, log, fmt.Sprintf("I am %d of 4 on shanghai-1", i))
	}
	contains(t, log, "cuda=[]")
	contains(t, w.must("get", "tasks"), "GPT大模型分布式训练")
	usage, err := w.api.Replicas(t.Context(), "default", "gang")
	if err != nil || len(usage) != 4 {
		t.Errorf("replicas after the end: %+v %v", usage, err)
	}
}

func TestWhyAndQueue(t *testing.T) {
	w := up(t, "--demo")
	never := []string{"train", "run", "--dry-run", "--no-code", "--gpus", "9", "--gpu-type", "A100", "--", "true"}
	harness.Eventually(t, "what can never start is refused, once the nodes are known", func() bool { return w.fermi(never...).code != 0 })
	contains(t, w.fermi(never...).err, "the largest has 8")
	contains(t, w.fermiIn(t.TempDir(), []string{"FERMI_LANG=zh"}, never...).err, "最多的有 8")
	w.must("queue", "pause", "default")
	big := shell("big", 1, "true")
	w.submit(big)
	w.submit(shell("later", 1, "true"))
	w.explained("later", "QueuePaused")
	described := w.fermiIn(t.TempDir(), []string{"FERMI_LANG=zh"}, "queue", "describe", "default").out
	contains(t, described, "default/later")
	contains(t, described, "QueuePaused")
	w.must("train", "stop", "big")
	w.phase("big", api.PhaseStopped)
	w.must("queue", "resume", "default")
	w.phase("later", api.PhaseCompleted)
	w.must("delete", "task", "big")
	deadline := time.Now().Add(harness.Patience)
	for w.fermi("get", "task", "big").code != 5 {
		if time.Now().After(deadline) {
			t.Fatal("a deleted task is still there")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestStopEndsTheWholeTree(t *testing.T) {
	w := up(t, "--demo")
	task := shell("tree", 1, `trap 'echo got TERM' TERM; (setsid sleep 1000 &) ; sleep 1000 & echo up; while true; do wait; done`)
	task.Spec.Timeouts = &api.Timeouts{StopGrace: api.Duration(3 * time.Second)}
	w.submit(task)
	w.logUntil("default", "tree", "up") // a script that has only begun has no trap yet
	id := w.task("tree").Meta.ID
	w.must("train", "stop", "tree")
	w.phase("tree", api.PhaseStopped)
	if left := marked(id); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	contains(t, w.must("logs", "tree"), "up", "got TERM")
}

// marked finds live processes of a task by their environment.
func marked(taskID string) []string {
	var left []string
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		environ, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err == nil && bytes.Contains(environ, []byte("FERMI_TASK_ID="+taskID+"\x00")) {
			cmd, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
			left = append(left, e.Name()+" "+strings.ReplaceAll(string(cmd), "\x00", " "))
		}
	}
	return left
}

func TestRestartPolicy(t *testing.T) {
	w := up(t, "--demo")
	task := shell("flaky", 2, `echo attempt $FERMI_ATTEMPT; [ $FERMI_ATTEMPT -ge 3 ]`)
	task.Spec.Restart = &api.RestartPolicy{MaxRestarts: 5}
	w.submit(task)
	done := w.phase("flaky", api.PhaseCompleted)
	if done.Status.Generation != 3 || len(done.Status.Restarts) != 2 {
		t.Errorf("generation %d, %d restarts", done.Status.Generation, len(done.Status.Restarts))
	}
	contains(t, w.must("events", "task/flaky"), "Restarting")
}

func TestRestartOfTheServerTouchesNothing(t *testing.T) {
	w := up(t, "--demo")
	w.submit(shell("long", 3, `i=0; while [ $i -lt 30 ]; do echo line $i; i=$((i+1)); sleep 0.4; done`))
	w.phase("long", api.PhaseRunning)
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}
	w.start()
	done := w.phase("long", api.PhaseCompleted)
	if done.Status.Attempt != 1 {
		t.Errorf("attempt %d", done.Status.Attempt)
	}
	for i := range 3 {
		log := w.must("logs", "long", "--replica", fmt.Sprintf("worker-%d", i))
		if n := strings.Count(log, "line "); n != 30 {
			t.Errorf("replica %d: %d of 30 lines", i, n)
		}
	}
}

func TestBackupAndRestore(t *testing.T) {
	w := up(t, "--demo")
	w.submit(shell("kept", 1, "echo remember me; echo x > $FERMI_OUTPUT/f"))
	w.phase("kept", api.PhaseCompleted)
	file := filepath.Join(t.TempDir(), "backup.tar")
	w.must("backup", file)
	fresh := filepath.Join(filepath.Dir(w.Dir), "restored")
	w.must("restore", file, "--data", fresh)
	if r := w.fermi("restore", file, "--data", fresh); r.code != 6 {
		t.Errorf("a second restore over it ended with %d: %s", r.code, r.err)
	}
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}
	w.Dir = fresh
	w.start()
	contains(t, w.must("get", "task", "kept"), "Completed")
	contains(t, w.must("logs", "kept"), "remember me")
	w.submit(shell("after", 1, "true"))
	w.phase("after", api.PhaseCompleted)
}

func TestASecondUpAndANewerFolderAreRefused(t *testing.T) {
	w := up(t)
	r := w.fermi("up", "--data", w.Dir, "--listen", "127.0.0.1:0")
	if r.code == 0 || !strings.Contains(r.err, fmt.Sprint(w.PID())) {
		t.Errorf("a second up: %d %s", r.code, r.err)
	}
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.Dir, "format"), []byte(`{"format":99,"version":"v99.0"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r = w.fermi("up", "--data", w.Dir, "--listen", "127.0.0.1:0")
	if r.code == 0 || !strings.Contains(r.err, "v99.0") {
		t.Errorf("a newer folder: %d %s", r.code, r.err)
	}
}

func TestBadInput(t *testing.T) {
	w := up(t)
	manifest := func(text string) string {
		path := filepath.Join(t.TempDir(), "m.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tests := map[string]struct {
		args []string
		code int
		want []string
	}{
		"unknown field": {[]string{"apply", "-f", manifest("kind: TrainingTask\nmetadata: {name: a}\nspec:\n  roles: [{comand: [x]}]\n")}, 2, []string{"spec.roles[0].comand", "command"}},
		"bad quantity":  {[]string{"apply", "-f", manifest("kind: TrainingTask\nmetadata: {name: a}\nspec:\n  roles: [{command: [x], resources: {memory: 12XB}}]\n")}, 2, []string{"spec.roles[0].resources.memory", "12XB"}},
		"not built yet": {[]string{"apply", "-f", manifest("kind: TrainingTask\nmetadata: {name: a}\nspec:\n  datasets: [{name: x}]\n  roles: [{command: [x]}]\n")}, 2, []string{"spec.datasets"}},
		"no image":      {[]string{"apply", "-f", manifest("kind: TrainingTask\nmetadata: {name: a}\nspec:\n  image: No Image\n  roles: [{command: [x], image: 'a:b:c'}]\n")}, 2, []string{"spec.image", "spec.roles[0].image", "name@sha256:"}},
		"no such task":  {[]string{"get", "task", "nobody"}, 5, []string{"nobody"}},
		"no such kind":  {[]string{"get", "unicorns"}, 2, []string{"unicorns", "task"}},
		"no such verb":  {[]string{"dance"}, 2, []string{"dance"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := w.fermi(tc.args...)
			if r.code != tc.code {
				t.Errorf("exit code %d, want %d\n%s", r.code, tc.code, r.err)
			}
			contains(t, r.err, tc.want...)
		})
	}
	r := w.fermiIn(t.TempDir(), []string{"FERMI_TOKEN=fermi_admin_wrong"}, "get", "tasks")
	if r.code != 4 {
		t.Errorf("a wrong token: %d %s", r.code, r.err)
	}
	r = w.fermiIn(t.TempDir(), []string{"FERMI_SERVER=http://127.0.0.1:1"}, "get", "tasks")
	if r.code != 7 || !strings.Contains(r.err, "fermi up") {
		t.Errorf("no server: %d %s", r.code, r.err)
	}
}

func TestApplyGetDelete(t *testing.T) {
	w := up(t, "--demo")
	dir := t.TempDir()
	file := filepath.Join(dir, "t.yaml")
	text := "apiVersion: fermi/v1\nkind: Queue\nmetadata: {name: night, displayName: 夜间队列}\nspec: {projects: [default]}\n---\nkind: TrainingTask\nmetadata:\n  displayName: BERT中文预训练\n  name: bert\nspec:\n  queue: night\n  roles:\n    - command: [echo, 你好]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.must("apply", "-f", file)
	w.phase("bert", api.PhaseCompleted)
	contains(t, w.must("logs", "bert"), "你好")
	var got api.TrainingTask
	if err := json.Unmarshal([]byte(w.must("get", "task", "bert", "-o", "json")), &got); err != nil {
		t.Fatal(err)
	}
	if got.Meta.DisplayName != "BERT中文预训练" || got.Spec.Queue != "night" {
		t.Errorf("%+v", got)
	}
	contains(t, w.must("get", "queue", "night", "-o", "yaml"), "夜间队列")
	w.must("delete", "task", "bert")
}

// TestFullDisk fills the disk under the data folder: a clear refusal, nothing acknowledged is
// lost, and the server goes on once there is room.
func TestFullDisk(t *testing.T) {
	w, mount := smallDisk(t, "")
	mount("400m")
	c := w.Cluster
	w.start()
	w.submit(shell("before", 1, "true"))
	w.phase("before", api.PhaseCompleted)
	balloon := filepath.Join(c.Dir, "balloon")
	fill(t, balloon)
	var acked []string
	refused := false
	for i := range 200 {
		name := fmt.Sprintf("full-%d", i)
		_, err := w.api.Submit(t.Context(), shell(name, 1, "true"), false)
		if err == nil {
			acked = append(acked, name)
			continue
		}
		refused = true
		contains(t, err.Error(), "Full")
		break
	}
	if !refused {
		t.Error("a full disk refused nothing")
	}
	if err := os.Remove(balloon); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.Ended(): // etcd may have died of it: then a restart must find everything
		w.start()
	default:
	}
	deadline := time.Now().Add(harness.Patience)
	for {
		if _, err := w.api.Submit(t.Context(), shell("after", 1, "true"), false); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal("no task is taken after the disk was freed:", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	for _, name := range append(acked, "before", "after") {
		w.phase(name, api.PhaseCompleted)
	}
}

func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size >= 4096; size /= 2 {
		for {
			if _, err := f.Write(make([]byte, size)); err != nil {
				break
			}
		}
	}
}
