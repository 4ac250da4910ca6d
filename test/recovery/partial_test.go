package recovery

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/test/harness"
)

// place is where a rank is, and which process it is as seen from here.
type place struct{ generation, step, pid int }

// partial runs the script whose healthy ranks keep their process; it rests so many seconds after each step.
func (w *world) partial(name string, steps int, pace string) torchRun {
	return w.torch(name, steps, api.EnvVar{Name: "PARTIAL", Value: "1"}, api.EnvVar{Name: "PACE", Value: pace})
}

// standbyReady waits until a place can be taken by a fork.
func (w *world) standbyReady(r torchRun) {
	w.t.Helper()
	w.eventually("a standby", func() bool { return w.inLaunchersLog(r, "standby ready") > 0 })
}

// inLaunchersLog is how often a launcher of the task said so.
func (w *world) inLaunchersLog(r torchRun, text string) (n int) {
	logs, _ := filepath.Glob(filepath.Join(w.c.Dir, "engine", "replicas", r.id+"-*", "launcher.log"))
	for _, file := range logs {
		raw, _ := os.ReadFile(file)
		n += bytes.Count(raw, []byte(text))
	}
	return n
}

// whereabouts is where all ranks are, once they are all so many steps into a generation after this one; false: the
// training has ended.
func (w *world) whereabouts(r torchRun, after, steps int) (all [torchRanks]place, ok bool) {
	w.t.Helper()
	first := map[int]int{}
	w.eventually(fmt.Sprintf("%d steps of a generation after %d", steps, after), func() bool {
		if w.task(r.name).Status.Phase.Finished() {
			return true
		}
		for rank := range torchRanks {
			raw, _ := os.ReadFile(filepath.Join(r.dir, "trace."+strconv.Itoa(rank)))
			raw = bytes.TrimSuffix(raw, []byte("\n"))
			var p place
			var start uint64
			n, _ := fmt.Sscanf(string(raw[bytes.LastIndexByte(raw, '\n')+1:]), "%d %d %d %d", &p.generation, &p.step, &p.pid, &start)
			if n < 4 || p.generation <= after || p.generation != all[0].generation && rank > 0 {
				return false
			}
			var err error
			if p.pid, err = harness.ProcessStarted("FERMI_TASK_ID="+r.id, p.pid, start); err != nil {
				return false
			}
			all[rank] = p
		}
		if _, known := first[all[0].generation]; !known {
			first[all[0].generation] = all[0].step
		}
		ok = all[0].step >= first[all[0].generation]+steps
		return ok
	})
	return all, ok
}

// TestTorchPartial: real PyTorch under a real server; one of four ranks is killed at random moments, FERMI_KILLS times, and the
// other three keep their process; the end has the bits of the run that was not interrupted. make e2e-torch
// runs it.
func TestTorchPartial(t *testing.T) {
	kills := killsWanted(t)
	seed := uint64(harness.EnvInt("FERMI_RECOVERY_SEED", 1))
	rnd := rand.New(rand.NewPCG(seed, 3))
	w := newWorld(t)
	steps := 40 + 20*min(kills, killsARun)
	want := w.digests(w.partial("whole", steps, "0"))
	for done, run := 0, 0; done < kills; run++ {
		r := w.partial(fmt.Sprintf("cut-%d", run), steps, "0.02")
		w.standbyReady(r)
		here, stayed := w.cutOften(r, min(killsARun, kills-done), rnd)
		if here == 0 {
			t.Fatalf("%s ended before a rank could be killed", r.name)
		}
		if got := w.digests(r); got != want {
			t.Fatalf("seed %d: after %d kills\n%sinstead of\n%s", seed, here, got, want)
		}
		kept := 0
		for _, i := range w.task(r.name).Status.Interruptions.Last {
			kept += i.Kept
			t.Log(i.Kept, i.Phases())
		}
		if kept != stayed && here <= api.MaxRecoveries {
			t.Errorf("%d ranks kept their process, the status says %d", stayed, kept)
		}
		late := w.inLaunchersLog(r, "did not leave in time") // a machine that is busy with others
		if stayed+late < here*(torchRanks-1) || stayed == 0 {
			t.Errorf("%d kills: %d ranks kept their process, %d did not leave in time", here, stayed, late)
		}
		done += here
		t.Logf("%d kills, the same bits in generation %d; %d of %d healthy ranks kept their process", here, w.task(r.name).Status.Generation, stayed, here*(torchRanks-1))
	}
}

// cutOften kills one rank after the other; stayed is how often another kept its process through that.
func (w *world) cutOften(r torchRun, kills int, rnd *rand.Rand) (done, stayed int) {
	w.t.Helper()
	before, ok := w.whereabouts(r, 0, rnd.IntN(6))
	for ; ok && done < kills; done++ {
		victim := rnd.IntN(torchRanks)
		if syscall.Kill(before[victim].pid, syscall.SIGKILL) != nil {
			return done, stayed // it has ended
		}
		var after [torchRanks]place
		if after, ok = w.whereabouts(r, before[0].generation, rnd.IntN(6)); !ok {
			return done, stayed
		}
		for rank := range torchRanks {
			switch same := after[rank].pid == before[rank].pid; {
			case same && rank != victim:
				stayed++
			case same:
				w.t.Errorf("rank %d was killed and is the same process", rank)
			}
		}
		before = after
	}
	return done, stayed
}
