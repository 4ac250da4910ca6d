package launch

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/pattern"
)

// dumpWait is how long a dump of stacks is waited for.
const dumpWait = 400 * time.Millisecond

// dump asks the Python ranks for their stacks, which go to their log (the SDK answers SIGUSR1), and
// gives what each printed. A rank of an unmodified script is only looked at from outside.
func (w *witness) dump(pids map[int]int) map[int]string {
	before, asked := map[int]int64{}, false
	for local, pid := range pids {
		if p, err := record.Describe(pid); err == nil && w.ranks.Progress.SpeaksPython(local) && process.Catches(pid, unix.SIGUSR1) {
			before[local] = w.procs.Tails[local].Printed()
			asked = p.Signal(unix.SIGUSR1) == nil || asked
		}
	}
	if asked {
		<-w.clock.After(dumpWait)
	}
	out := map[int]string{}
	for local, n := range before {
		out[local] = w.spool.Masked(w.procs.Tails[local].Words(n))
	}
	return out
}

// collective finds a wait for other ranks in the innermost frames of a stack.
var collective = pattern.New(`(?m)\(most recent call first\):\n(?:.*\n){0,4}?.*(?:distributed_c10d|all_reduce|allreduce|all_gather|reduce_scatter|broadcast|barrier|synchronize|horovod|mpi4py|/gloo|/nccl)`)

// backward finds PyTorch's way back through the graph as the innermost frame: what it does there, and that it waits for
// the gradients of others as DDP does, no frame says.
var backward = pattern.New(`\(most recent call first\):\n.*torch/autograd/\w+\.py", line \d+,? in (?:backward|_engine_run_backward)`)

// profile is what one rank does at this moment, as text.
func (w *witness) profile(local, pid int) string {
	var b bytes.Buffer
	v := new(process.Census).VitalsOf(pid, true)
	if v == nil {
		return ""
	}
	fmt.Fprintf(&b, "rank %d pid %d state %c cpu %v step %d\n", w.g.FirstRank+local, pid, v.State, time.Duration(v.Ticks)*process.ClockTick, w.ranks.Progress.StepOf(local))
	if at := process.WaitsIn(pid); at != "" {
		fmt.Fprintf(&b, "waits in %s\n", at)
	}
	for _, line := range process.InKernel(pid) {
		fmt.Fprintln(&b, line.EN)
	}
	if frames := w.dump(map[int]int{local: pid})[local]; frames != "" {
		fmt.Fprintf(&b, "%s\n", strings.TrimSpace(frames))
	}
	return b.String()
}
