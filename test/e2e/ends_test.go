package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/test/harness"
)

// inStep saves every step in memory on ranks that wait for each other in every step, and does nothing about signals.
// Who says that it made step N knows that all have saved N-1, or said that they did not.
const inStep = `
import os, socket, time, fermi
fermi.init()
rank, world = fermi.rank(), fermi.world_size()
got = fermi.checkpoint.restore()
step = got.step if got else 0
assert not got or got.state == {"rank": rank, "step": step}, got.state
meeting = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    with socket.create_server(meeting) as door:
        peers = [door.accept()[0] for _ in range(1, world)]
while rank:
    try:
        peers = [socket.create_connection(meeting)]
        break
    except ConnectionRefusedError:
        time.sleep(0.01)
print("rank %d begins after %d" % (rank, step), flush=True)
while True:
    step += 1
    for say in (rank != 0, rank == 0):
        for peer in peers:
            if say:
                peer.sendall(b".")
            elif not peer.recv(1):
                raise SystemExit("a peer is gone")
    print("rank %d made %d" % (rank, step), flush=True)
    saved = fermi.checkpoint.save(step, {"rank": rank, "step": step})
    print("rank %d %s %d" % (rank, "saved" if saved else "skipped", step), flush=True)
    time.sleep(0.1)
`

const inStepRanks = 4

func stepper(name string) *api.TrainingTask {
	task := shell(name, inStepRanks, "")
	task.Spec.Roles[0].Command = []string{"python3", "-c", inStep}
	task.Spec.Restart, task.Spec.Timeouts = &api.RestartPolicy{MaxRestarts: 5}, patientEnd()
	return task
}

// stepped waits until a task has made steps, and gives it as it is then.
func (w *world) stepped(name string) *api.TrainingTask {
	w.t.Helper()
	harness.Eventually(w.t, name+" to make steps", func() bool { return strings.Contains(w.must("logs", name), "saved 6\n") })
	return w.task(name)
}

// goesOn waits for the next generation of a task, and holds the step that it goes on from against what its ranks had said
// before: at most one step that they had made is lost and, where their launchers had the time to hear them out, none that all had saved.
func (w *world) goesOn(name string, before *api.TrainingTask, heard bool) *api.TrainingTask {
	w.t.Helper()
	now := w.until(name, "running again", func(t *api.TrainingTask) bool {
		return t.Status.Phase == api.PhaseRunning && t.Status.Rendezvous != nil && t.Status.Generation > before.Status.Generation && t.Status.Rendezvous.Restore > 0
	})
	from := now.Status.Rendezvous.Restore
	again := fmt.Sprintf("begins after %d\n", from)
	var log string
	harness.Eventually(w.t, "all ranks to begin", func() bool {
		log = w.must("logs", name)
		return strings.Count(log, again) >= inStepRanks
	})
	var made, kept int64
	saved, skipped := map[int64]uint{}, map[int64]bool{} // by step; which ranks
	ended := map[int]bool{}                              // ranks whose next generation the log has begun to tell
	for line := range strings.Lines(log) {
		_, line, _ = strings.Cut(line, "rank ")
		var rank int
		var verb string
		var step int64
		if n, _ := fmt.Sscanf(line, "%d begins after %d", &rank, &step); n == 2 {
			ended[rank] = step == from
			continue
		}
		if n, _ := fmt.Sscanf(line, "%d %s %d", &rank, &verb, &step); n != 3 || ended[rank] {
			continue
		}
		switch made = max(made, step); verb {
		case "saved":
			if saved[step] |= 1 << rank; saved[step] == 1<<inStepRanks-1 {
				kept = max(kept, step)
			}
		case "skipped":
			skipped[step] = true
		}
	}
	for step := range skipped {
		if step <= from {
			delete(skipped, step)
		}
	}
	w.t.Logf("%s made %d, all saved %d, %d skipped since, goes on from %d", name, made, kept, len(skipped), from)
	if heard && from < kept || made-from > 1+int64(len(skipped)) {
		w.t.Errorf("%s goes on from step %d: %d was made, %d saved by all, %d skipped since\n%s", name, from, made, kept, len(skipped), w.must("events", "task/"+name))
	}
	return now
}

// TestEndsLoseAtMostOneStep: ranks that save every step in memory are evicted, drained, told to end with their launcher,
// and killed. Nothing was due on any tier.
func TestEndsLoseAtMostOneStep(t *testing.T) {
	w := up(t, "--demo", "--checkpoints-store", t.TempDir())

	t.Run("preempted", func(t *testing.T) {
		w := w.in(t)
		low := stepper("low")
		priority := 100
		low.Spec.Roles[0].Resources.Accelerators = api.Accelerators{Type: "V100", Count: 8} // all there are
		low.Spec.Priority, low.Spec.Preemptible = &priority, true
		w.submit(low)
		before := w.stepped("low")
		w.submit(waiter("high", 1, 8, 500))
		w.phase("high", api.PhaseRunning)
		w.must("train", "stop", "high")
		after := w.goesOn("low", before, true)
		if after.Status.Attempt != 2 || after.Status.Rendezvous.Origin == nil || len(after.Status.Restarts) != 0 {
			t.Errorf("%+v", after.Status)
		}
		contains(t, w.must("events", "task/low"), "Preempted", "LastStepSaved")
		w.ends("low")
	})

	t.Run("drained", func(t *testing.T) {
		w := w.in(t)
		w.submit(stepper("leaves"))
		before := w.stepped("leaves")
		rows, err := w.api.Replicas(t.Context(), "default", "leaves")
		if err != nil || len(rows) == 0 {
			t.Fatal(rows, err)
		}
		w.must("node", "drain", rows[0].Node)
		after := w.goesOn("leaves", before, true)
		if after.Status.Rendezvous.Origin == nil || len(after.Status.Restarts) != 0 {
			t.Errorf("%+v", after.Status)
		}
		contains(t, w.must("events", "task/leaves"), "Drained", "LastStepSaved")
		w.must("node", "uncordon", rows[0].Node)
		w.ends("leaves")
	})

	t.Run("launcher told to end", func(t *testing.T) {
		w := w.in(t)
		w.submit(stepper("told"))
		before := w.stepped("told")
		for name, pid := range w.launchers(before) {
			if strings.Contains(name, "worker-1") {
				signal(t, pid, syscall.SIGTERM)
			}
		}
		w.goesOn("told", before, true)
		contains(t, w.must("events", "task/told"), "LastStepSaved")
		w.ends("told")
	})

	t.Run("rank killed", func(t *testing.T) {
		w := w.in(t)
		w.submit(stepper("cut"))
		before := w.stepped("cut")
		pids := harness.Processes("FERMI_TASK_ID="+before.Meta.ID, "RANK=2")
		if len(pids) == 0 {
			t.Fatal("rank 2 is not there")
		}
		signal(t, pids[0], syscall.SIGKILL)
		after := w.goesOn("cut", before, false)
		if after.Status.Attempt != 1 || after.Status.Rendezvous.Origin != nil {
			t.Errorf("not from memory: %+v", after.Status)
		}
		w.ends("cut")
	})
}

// in is the same world for a part of a test.
func (w *world) in(t *testing.T) *world { return &world{w.Cluster, t, w.api} }

func (w *world) ends(name string) {
	w.t.Helper()
	w.must("train", "stop", name)
	w.phase(name, api.PhaseStopped)
}

func signal(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
}
