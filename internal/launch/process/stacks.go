package process

import (
	"errors"
	"io"
	"os"
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

// Vitals are what a rank's process and its descendants did.
type Vitals struct {
	State byte
	Ticks uint64 // of CPU, all of them
	Queue uint64 // nanoseconds in which they could have run but had no processor, all of them
	Bytes uint64 // read and written, all of them
}

// Works says whether they did something since an earlier look.
func (v *Vitals) Works(first *Vitals, span time.Duration) bool {
	if first == nil || span < stallSpan {
		return true // not known yet
	}
	cpu := time.Duration(v.Ticks-min(first.Ticks, v.Ticks))*ClockTick + time.Duration(v.Queue-min(first.Queue, v.Queue))
	return cpu.Seconds() > busyShare*span.Seconds() || v.Bytes-min(first.Bytes, v.Bytes) > busyBytes
}

// Census is one look at all processes, taken when it is needed: it is dear where there are thousands.
type Census struct{ stats map[int]record.Stat }

// VitalsOf looks at a process and, as a whole, its descendants; nil: it has ended.
func (c *Census) VitalsOf(pid int, whole bool) *Vitals {
	own, err := record.ReadStat(pid)
	if err != nil || own.State == 'Z' || own.State == 'X' {
		return nil
	}
	v := &Vitals{State: own.State}
	if v.State == 't' { // by a debugger
		v.State = 'T'
	}
	if !whole {
		return v
	}
	if c.stats == nil {
		c.stats = ReadAll()
	}
	for id, st := range c.stats {
		if id == pid || Descends(id, pid, c.stats) {
			v.Ticks += st.UserTicks + st.KernTicks
			v.Queue += queued(id)
			v.Bytes += transferred(id)
		}
	}
	return v
}

// queued is how long the main thread of a process waited for a processor so far: one that would work, had
// its neighbours or its quota left it the time, does not hang.
func queued(pid int) uint64 {
	f := strings.Fields(ProcFile(pid, "schedstat"))
	if len(f) < 2 {
		return 0
	}
	n, _ := strconv.ParseUint(f[1], 10, 64)
	return n
}

// transferred is what a process read and wrote so far.
func transferred(pid int) (sum uint64) {
	for line := range strings.Lines(ProcFile(pid, "io")) {
		if name, value, ok := strings.Cut(line, ": "); ok && (name == "rchar" || name == "wchar") {
			n, _ := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
			sum += n
		}
	}
	return sum
}

// ProcFile is one of the kernel's short texts about a process; "" where there is none.
func ProcFile(pid int, name string) string {
	text, _ := ReadProc(pid, name)
	return text
}

// ReadProc is the same with why there is none: some are only for who may trace the process, or for root.
func ReadProc(pid int, name string) (string, error) {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/" + name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 16<<10))
	return string(data), err
}

// InKernel is the system call that a process is in, and its stack there, a line each. What may not be read is said so.
func InKernel(pid int) (lines []fault.Text) {
	call, err := ReadProc(pid, "syscall")
	if lines = append(lines, fault.T("system call %s", "系统调用 %s", strings.TrimSpace(call))); err != nil {
		lines[0] = fault.T("system call: can't be read (%v)", "系统调用：无法读取（%v）", bare(err))
	}
	stack, err := ReadProc(pid, "stack")
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

// WaitsIn is what the kernel says a process waits in.
func WaitsIn(pid int) string {
	wchan := strings.TrimSpace(ProcFile(pid, "wchan"))
	if wchan == "" || wchan == "0" {
		return ""
	}
	return wchan
}

// Catches says whether the process has a handler for the signal: to others it would be the end.
func Catches(pid int, sig unix.Signal) bool {
	for line := range strings.Lines(ProcFile(pid, "status")) {
		if mask, ok := strings.CutPrefix(line, "SigCgt:"); ok {
			bits, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			return err == nil && bits&(1<<(sig-1)) != 0
		}
	}
	return false
}
