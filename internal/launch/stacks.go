package launch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// A process works if its tree used, or waited for, so much of one core, or read and wrote so many bytes, since it
// was first looked at: it evaluates, loads or saves without having said so.
const (
	stallSpan = time.Second // between two looks that tell whether it works
	busyShare = 0.2
	busyBytes = 1 << 20
)

// vitals are what a rank's process and its descendants did.
type vitals struct {
	state byte
	ticks uint64 // of CPU, all of them
	queue uint64 // nanoseconds in which they could have run but had no processor, all of them
	bytes uint64 // read and written, all of them
}

// works says whether they did something since an earlier look.
func (v *vitals) works(first *vitals, span time.Duration) bool {
	if first == nil || span < stallSpan {
		return true // not known yet
	}
	cpu := time.Duration(v.ticks-min(first.ticks, v.ticks))*clockTick + time.Duration(v.queue-min(first.queue, v.queue))
	return cpu.Seconds() > busyShare*span.Seconds() || v.bytes-min(first.bytes, v.bytes) > busyBytes
}

// census is one look at all processes, taken when it is needed: it is dear where there are thousands.
type census struct{ stats map[int]record.Stat }

// vitalsOf looks at a process and, as a whole, its descendants; nil: it has ended.
func (c *census) vitalsOf(pid int, whole bool) *vitals {
	own, err := record.ReadStat(pid)
	if err != nil || own.State == 'Z' || own.State == 'X' {
		return nil
	}
	v := &vitals{state: own.State}
	if v.state == 't' { // by a debugger
		v.state = 'T'
	}
	if !whole {
		return v
	}
	if c.stats == nil {
		c.stats = readAll()
	}
	for id, st := range c.stats {
		if id == pid || descends(id, pid, c.stats) {
			v.ticks += st.UserTicks + st.KernTicks
			v.queue += queued(id)
			v.bytes += transferred(id)
		}
	}
	return v
}

// queued is how long the main thread of a process waited for a processor so far: one that would work, had
// its neighbours or its quota left it the time, does not hang.
func queued(pid int) uint64 {
	f := strings.Fields(procFile(pid, "schedstat"))
	if len(f) < 2 {
		return 0
	}
	n, _ := strconv.ParseUint(f[1], 10, 64)
	return n
}

// transferred is what a process read and wrote so far.
func transferred(pid int) (sum uint64) {
	for line := range strings.Lines(procFile(pid, "io")) {
		if name, value, ok := strings.Cut(line, ": "); ok && (name == "rchar" || name == "wchar") {
			n, _ := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
			sum += n
		}
	}
	return sum
}

// procFile is one of the kernel's short texts about a process; "" where there is none.
func procFile(pid int, name string) string {
	text, _ := readProc(pid, name)
	return text
}

// readProc is the same with why there is none: some are only for who may trace the process, or for root.
func readProc(pid int, name string) (string, error) {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/" + name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 16<<10))
	return string(data), err
}

// inKernel is the system call that a process is in, and its stack there, a line each. What may not be read is said so.
func inKernel(pid int) (lines []fault.Text) {
	call, err := readProc(pid, "syscall")
	if lines = append(lines, fault.T("system call %s", "系统调用 %s", strings.TrimSpace(call))); err != nil {
		lines[0] = fault.T("system call: can't be read (%v)", "系统调用：无法读取（%v）", bare(err))
	}
	stack, err := readProc(pid, "stack")
	switch stack = strings.TrimSpace(stack); {
	case err != nil:
		return append(lines, fault.T("kernel stack: can't be read (%v)", "内核栈：无法读取（%v）", bare(err)))
	case stack == "":
		return append(lines, fault.T("kernel stack: empty", "内核栈：空"))
	}
	lines = append(lines, fault.T("kernel stack:", "内核栈："))
	for frame := range strings.Lines(stack) {
		frame = "  " + strings.TrimSpace(frame)
		lines = append(lines, fault.Text{EN: frame, ZH: frame})
	}
	return lines
}

// bare is an error without the path of the file.
func bare(err error) error {
	if path := (*os.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	return err
}

// waitsIn is what the kernel says a process waits in.
func waitsIn(pid int) string {
	wchan := strings.TrimSpace(procFile(pid, "wchan"))
	if wchan == "" || wchan == "0" {
		return ""
	}
	return wchan
}

// catches says whether the process has a handler for the signal: to others it would be the end.
func catches(pid int, sig unix.Signal) bool {
	for line := range strings.Lines(procFile(pid, "status")) {
		if mask, ok := strings.CutPrefix(line, "SigCgt:"); ok {
			bits, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			return err == nil && bits&(1<<(sig-1)) != 0
		}
	}
	return false
}

// dumpWait is how long a dump of stacks is waited for.
const dumpWait = 400 * time.Millisecond

// dump asks the Python ranks for their stacks, which go to their log (the SDK answers SIGUSR1), and
// gives what each printed. A rank of an unmodified script is only looked at from outside.
func (w *warden) dump(pids map[int]int) map[int]string {
	before, asked := map[int]int64{}, false
	for local, pid := range pids {
		if p, err := record.Describe(pid); err == nil && w.l.ranks.speaksPython(local) && catches(pid, unix.SIGUSR1) {
			before[local] = w.procs.tails[local].printed()
			asked = p.Signal(unix.SIGUSR1) == nil || asked
		}
	}
	if asked {
		<-w.l.clock.After(dumpWait)
	}
	out := map[int]string{}
	for local, n := range before {
		out[local] = w.l.spool.masked(w.procs.tails[local].words(n))
	}
	return out
}

// collective finds a wait for other ranks in the innermost frames of a stack.
var collective = regexp.MustCompile(`(?m)\(most recent call first\):\n(?:.*\n){0,4}?.*(?:distributed_c10d|all_reduce|allreduce|all_gather|reduce_scatter|broadcast|barrier|synchronize|horovod|mpi4py|/gloo|/nccl)`)

// backward finds PyTorch's way back through the graph as the innermost frame: what it does there, and that it waits for
// the gradients of others as DDP does, no frame says.
var backward = regexp.MustCompile(`\(most recent call first\):\n.*torch/autograd/\w+\.py", line \d+,? in (?:backward|_engine_run_backward)`)

// profile is what one rank does at this moment, as text.
func (w *warden) profile(local, pid int) string {
	var b bytes.Buffer
	v := new(census).vitalsOf(pid, true)
	if v == nil {
		return ""
	}
	fmt.Fprintf(&b, "rank %d pid %d state %c cpu %v step %d\n", w.g.FirstRank+local, pid, v.state, time.Duration(v.ticks)*clockTick, w.l.ranks.stepOf(local))
	if at := waitsIn(pid); at != "" {
		fmt.Fprintf(&b, "waits in %s\n", at)
	}
	for _, line := range inKernel(pid) {
		fmt.Fprintln(&b, line.EN)
	}
	if frames := w.dump(map[int]int{local: pid})[local]; frames != "" {
		fmt.Fprintf(&b, "%s\n", strings.TrimSpace(frames))
	}
	return b.String()
}
