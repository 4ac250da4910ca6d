package crash

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/sched/advice"
	"github.com/fermi-cluster/fermi/test/harness"
)

// movers is how many replicas move together, each with eight devices.
const movers = 2

// wanderer runs until it is told to end, and then says so in the journal.
func wanderer(l *load) *api.TrainingTask {
	task := l.j.Task("mover", 0, 0)
	role := &task.Spec.Roles[0]
	role.Replicas = movers
	role.Resources.Accelerators = api.Accelerators{Type: "A100", Count: 8}
	role.Command[2] = fmt.Sprintf(`trap 'echo "E $FERMI_REPLICA $$" >> %[1]s; exit 0' TERM; echo "S $FERMI_REPLICA $$" >> %[1]s; while :; do sleep 0.02; done`,
		filepath.Base(l.j.Path))
	return task
}

// TestCrashMove kills the server at random moments of a move. Whatever the moment: the task goes on
// whole in the old place or, surely when the move was acknowledged, in the new one; no replica is
// started twice or left behind; no device stays reserved; every stay is charged where it was.
func TestCrashMove(t *testing.T) {
	rnd := seeded(t)
	c, cl := launch(t, "up", "--demo")
	l := newLoad(t, rnd, 0)
	if _, err := cl.Submit(t.Context(), wanderer(l), false); err != nil {
		t.Fatal(err)
	}
	zones := map[int]string{} // by attempt
	task := settleMove(t, cl, l, zones)
	moved, acknowledged := 0, 0
	for range envInt("FERMI_CRASH_ROUNDS", 3) {
		from, to := task.Status.Zones[0], "shanghai-1"
		if from == to {
			to = "beijing-1"
		}
		answer := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			_, err := cl.Move(ctx, "default", "mover", client.MoveWish{Zone: to})
			answer <- err
		}()
		if rnd.IntN(2) == 0 {
			pause(rnd, 20*time.Millisecond) // before or about the write
		} else {
			pause(rnd, 400*time.Millisecond)
		}
		c.Kill()
		err := <-answer
		start(t, c)
		task = settleMove(t, cl, l, zones)
		if err == nil {
			acknowledged++
			if task.Status.Zones[0] != to {
				t.Fatalf("a move to %s was acknowledged, and it is in %v", to, task.Status.Zones)
			}
		}
		if task.Status.Zones[0] == to {
			moved++
		}
	}
	if err := cl.Stop(t.Context(), "default", "mover"); err != nil {
		t.Fatal(err)
	}
	found := l.settle(t, cl, c.Dir)
	rows, err := cl.Replicas(t.Context(), "default", "mover")
	if err != nil || len(rows) != movers*found["mover"].Status.Attempt {
		t.Errorf("%d stays of %d attempts are charged: %v", len(rows), found["mover"].Status.Attempt, err)
	}
	for _, r := range rows {
		if r.Zone != zones[r.Attempt] {
			t.Errorf("attempt %d was in %s and is charged in %s", r.Attempt, zones[r.Attempt], r.Zone)
		}
	}
	if log, err := os.ReadFile(filepath.Join(filepath.Dir(c.Dir), "log")); err != nil || strings.Contains(string(log), "does not fit the model") {
		t.Errorf("a device was given twice: %v", err)
	}
	t.Logf("%d rounds, %d moves acknowledged, %d carried out, %d attempts", envInt("FERMI_CRASH_ROUNDS", 3), acknowledged, moved, found["mover"].Status.Attempt)
}

// TestCrashMoveByFollower: a server that does not lead has the leader move a task, with its reasons;
// then the leader is killed, and the other one carries the move out.
func TestCrashMoveByFollower(t *testing.T) {
	rnd := seeded(t)
	endpoint := outsideEtcd(t)
	shared, err := os.MkdirTemp("/tmp", "fs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(shared) })
	first, _ := launch(t, "server", "--demo", "--etcd-endpoints", endpoint, "--shared", shared)
	_, follower := launch(t, "server", "--demo", "--etcd-endpoints", endpoint, "--shared", shared)
	t.Cleanup(func() { harness.KillMarked(shared) })
	l := newLoad(t, rnd, 0)
	if _, err := follower.Submit(t.Context(), wanderer(l), false); err != nil {
		t.Fatal(err)
	}
	zones := map[int]string{}
	to := "shanghai-1" // or the other one, where it is there already: how much fits on a machine decides
	if task := settleMove(t, follower, l, zones); task.Status.Zones[0] == to {
		to = "beijing-1"
	}
	wish := client.MoveWish{Nodes: []string{to + "-n01"}} // too few for the gang
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	_, err = follower.Move(ctx, "default", "mover", wish)
	if fault.ReasonOf(err) != advice.ReasonNeverFits || fault.From(err).Message.ZH == "" {
		t.Fatalf("the leader's reason: %v", err)
	}
	m, err := follower.Move(ctx, "default", "mover", client.MoveWish{Zone: to})
	if err != nil || !m.Moving {
		t.Fatalf("%+v %v", m, err)
	}
	first.Kill()
	if task := settleMove(t, follower, l, zones); task.Status.Zones[0] != to || task.Status.Attempt != 2 {
		t.Errorf("%+v", task.Status)
	}
	if err := follower.Stop(t.Context(), "default", "mover"); err != nil {
		t.Fatal(err)
	}
	l.settle(t, follower, shared)
}

// settleMove waits until the mover runs whole and alone, and nothing is reserved any more.
func settleMove(t *testing.T, c *client.Client, l *load, zones map[int]string) *api.TrainingTask {
	t.Helper()
	why := ""
	for deadline := time.Now().Add(harness.Patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		task, err := client.Get[*api.TrainingTask](t.Context(), c, "default", "mover")
		if err != nil {
			why = err.Error()
			continue
		}
		if why = unsettled(t.Context(), c, l.j, task); why != "" {
			continue
		}
		zones[task.Status.Attempt] = task.Status.Zones[0]
		return task
	}
	t.Fatalf("it never came to rest: %s", why)
	return nil
}

// unsettled says what is still to come; "" is nothing.
func unsettled(ctx context.Context, c *client.Client, j harness.Journal, task *api.TrainingTask) string {
	s := task.Status
	if s.Phase != api.PhaseRunning || len(s.Zones) != 1 {
		return fmt.Sprintf("it is %s in %v", s.Phase, s.Zones)
	}
	p, err := harness.PlaceOf(ctx, c, "mover")
	if err != nil || p.Spec.Evict != nil || len(p.Spec.Roles) != 1 || len(p.Spec.Roles[0].Slots) != movers {
		return fmt.Sprintf("its placement: %+v %v", p, err)
	}
	types, err := c.Capacity(ctx)
	if err != nil {
		return err.Error()
	}
	for _, ty := range types {
		if ty.Type == "A100" && ty.Used != 8*movers {
			return fmt.Sprintf("%v devices are held", ty.Used)
		}
	}
	starts, ends, err := j.Lives()
	if err != nil {
		return err.Error()
	}
	alive := 0
	for replica, n := range starts {
		last := strings.HasSuffix(replica, fmt.Sprintf("-%d", s.Attempt))
		if n != 1 || last == (ends[replica] == 1) {
			return fmt.Sprintf("%s started %d and ended %d times in attempt %d", replica, n, ends[replica], s.Attempt)
		}
		if last {
			alive++
		}
	}
	if alive != movers {
		return fmt.Sprintf("%d processes run", alive)
	}
	return ""
}
