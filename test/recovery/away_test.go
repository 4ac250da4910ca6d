package recovery

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/test/harness"
)

// awayPace is how long the training rests after each step: so it is sure to outlast the server's absence.
const awayPace = 100 * time.Millisecond

// made is a line of a rank's trace.
type made struct{ generation, step, pid int }

func (r torchRun) trace(t *testing.T, rank int) (all []made) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(r.dir, "trace."+strconv.Itoa(rank)))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(raw) {
		var m made
		if n, _ := fmt.Sscanf(string(line), "%d %d %d\n", &m.generation, &m.step, &m.pid); n == 3 {
			all = append(all, m)
		}
	}
	return all
}

// TestTorchServerAway: the server is killed with SIGKILL and stays away for FERMI_AWAY seconds. No rank misses a step or
// starts again meanwhile; one that is killed before the server is back starts again when it is, and the
// end is bit for bit the one without all this. make e2e-torch runs it.
func TestTorchServerAway(t *testing.T) {
	seconds := harness.EnvInt("FERMI_AWAY", 0)
	if seconds == 0 {
		t.Skip("FERMI_AWAY is not set; make e2e-torch sets it")
	}
	away := time.Duration(seconds) * time.Second
	steps := int((away + 15*time.Second) / awayPace)
	w := newWorld(t)
	want := w.digests(w.torch("whole", steps))
	r := w.torch("alone", steps, api.EnvVar{Name: "PACE", Value: strconv.FormatFloat(awayPace.Seconds(), 'f', -1, 64)})
	w.eventually("steps", func() bool { _, step, _ := r.at(3); return step >= 10 })
	w.killServer()
	gone := time.Now()
	_, before, _ := r.at(3)
	after, pid := 0, 0
	w.eventually("steps through the server's absence", func() bool {
		_, after, pid = r.at(2)
		return time.Since(gone) >= away && after >= before+10
	})
	outer, err := harness.ProcessInside("FERMI_TASK_ID="+r.id, pid)
	if err != nil || syscall.Kill(outer, syscall.SIGKILL) != nil {
		t.Fatalf("rank 2 at step %d of %d: %v", after, steps, err)
	}
	w.start()
	if got := w.digests(r); got != want {
		t.Errorf("%sinstead of\n%s", got, want)
	}
	for rank := range torchRanks {
		consecutive(t, rank, r.trace(t, rank), after, steps)
	}
	if g := w.task(r.name).Status.Generation; g != 2 {
		t.Errorf("generation %d", g)
	}
	t.Logf("steps %d to %d without a server, which was away for %v", before, after, away)
}

// consecutive says that a rank made every step of the first generation once, in one process, up to after at least, and those of
// the second from one that it had saved to the last.
func consecutive(t *testing.T, rank int, all []made, after, steps int) {
	t.Helper()
	for i, m := range all {
		switch {
		case i == 0 && m.step == 1 && m.generation == 1:
		case i > 0 && m.step == all[i-1].step+1 && m.generation == all[i-1].generation && m.pid == all[i-1].pid:
		case i > 0 && m.generation == 2 && all[i-1].generation == 1 && m.step <= all[i-1].step+1 && all[i-1].step >= after-1:
		default:
			t.Fatalf("rank %d: %+v after %+v", rank, m, all[max(i-1, 0)])
		}
	}
	if last := all[len(all)-1]; last.step != steps || last.generation != 2 {
		t.Errorf("rank %d: ended with %+v", rank, last)
	}
}
