package inside

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"syscall"
)

// maxOrder bounds an order: command and environment are at most what the kernel takes for an exec.
const maxOrder = 16 << 20

// The first process of a replica's pid namespace. See doc.go for why this is in an init.
func init() {
	if len(os.Args) == 1 && os.Args[0] == argv0 {
		syscall.Exit(first()) // not os.Exit, which waits a second under the race detector
	}
	if len(os.Args) == 1 && os.Args[0] == argv0Beside {
		syscall.Exit(beside())
	}
	if len(os.Args) == 1 && os.Args[0] == argv0Holder {
		syscall.Exit(holds())
	}
	if len(os.Args) == 1 && os.Args[0] == argv0Idle {
		syscall.Exit(idle())
	}
	if len(os.Args) == 2 && os.Args[0] == "fermi" && os.Args[1] == "hold" {
		syscall.Exit(hold())
	}
	if len(os.Args) == 2 && os.Args[0] == "fermi" && os.Args[1] == "notebook" {
		syscall.Exit(notebook())
	}
}

// first is process 1. Init functions run locked to the main thread, so what is set for the thread
// is what the child inherits.
func first() int {
	// Caught and dropped: the launcher signals every process itself, and an ignored signal would
	// stay ignored in the command.
	signal.Notify(make(chan os.Signal, 1))
	syscall.CloseOnExec(fdOrder)
	syscall.CloseOnExec(fdReport)
	tell := json.NewEncoder(os.NewFile(fdReport, "reports"))
	files, err := receiveFiles(fdOrder)
	if err != nil {
		return 1 // the launcher has died, or never meant us
	}
	var o order
	orders := os.NewFile(fdOrder, "order")
	if err := json.NewDecoder(io.LimitReader(orders, maxOrder)).Decode(&o); err != nil {
		return 1
	}
	if len(o.IDs) == 0 || o.Probe {
		_ = orders.Close()
	}
	given, err := o.take(files)
	if err != nil {
		_, said := fail(StepBuild, "descriptors", err)
		_ = tell.Encode(said)
		return 1
	}
	// Of this thread: every child is started by it.
	if o.Net != 0 {
		_, _, e := syscall.RawSyscall(sysSetns, uintptr(given.net), syscall.CLONE_NEWNET, 0)
		err = nonzero(e)
		_ = syscall.Close(given.net)
	} else if o.Alone {
		err = syscall.Unshare(syscall.CLONE_NEWNET)
	}
	if err != nil {
		_, said := fail(StepBuild, "network", err)
		_ = tell.Encode(said)
		return 1
	}
	if len(o.IDs) > 0 && !o.Probe {
		defer runtime.KeepAlive(orders) // it is the holder's
		return o.hold(given, tell)
	}
	running, said := begin(o, given)
	if o.Become && said.Step == stepStarted {
		become(o, given, tell)
		return 1
	}
	if tell.Encode(said) != nil || len(running) == 0 {
		return 1
	}
	_ = syscall.Close(0) // the commands' alone
	for _, fd := range given.outputs {
		_ = syscall.Close(fd)
	}
	for {
		var ws syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &ws, syscall.WALL, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // no child is left
			return 0
		default:
			i, ours := running[ended]
			switch {
			case ours:
				delete(running, ended) // another may get its number
				_ = tell.Encode(report{Step: stepEnded, Process: i, Status: ws})
			case o.Orphans:
				_ = tell.Encode(report{Step: stepOrphan, PID: ended, Status: ws})
			}
		}
	}
}

// handed are the descriptors that came with an order.
type handed struct {
	outputs   []int // two of each process
	own       int   // the launcher's program
	net, door int
}

// program is the file that an order names. Ours may be the small program: what is said to be the launcher's comes by a descriptor.
func (h handed) program(file string) string {
	if file == Whole {
		return "/proc/self/fd/" + strconv.Itoa(h.own)
	}
	return file
}

// take puts the standard files of the first process where programs look for them.
func (o *order) take(files []int) (h handed, err error) {
	n := 1 + 2*o.Outputs
	want := n + 1
	if o.Net != 0 {
		want++
	}
	if o.HasDoor {
		want++
	}
	if o.Outputs < 1 || len(files) != want {
		return h, syscall.EBADF
	}
	h.outputs, h.door = files[1:n], files[want-1]
	if o.Net != 0 {
		h.net = files[n+1]
	}
	// Where a child that is made with these files puts nothing else.
	own, _, e := syscall.Syscall(syscall.SYS_FCNTL, uintptr(files[n]), syscall.F_DUPFD_CLOEXEC, uintptr(slices.Max(files)+len(files)+1))
	if e != 0 {
		return h, e
	}
	_ = syscall.Close(files[n])
	h.own = int(own)
	for to, from := range files[:3] {
		if err := syscall.Dup3(from, to, 0); err != nil {
			return h, err
		}
		_ = syscall.Close(from)
	}
	h.outputs[0], h.outputs[1] = 1, 2
	return h, nil
}

func nonzero(e syscall.Errno) error {
	if e != 0 {
		return e
	}
	return nil
}

func fail(step, file string, err error) (map[int]int, report) {
	r := report{Step: step, File: file}
	if !errors.As(err, &r.Errno) {
		r.Text = err.Error() + ": "
	}
	return nil, r
}

// become makes this process the user's own program: what the thread gives up is given up for good, and with the exec the
// other threads are gone.
func become(o order, given handed, tell *json.Encoder) {
	file := given.program(o.File)
	if o.Itself {
		file = Whole
	}
	if err := takeOn(o.UID, o.GID); err != nil {
		_, said := fail(StepBuild, "uid "+strconv.Itoa(o.UID), err)
		_ = tell.Encode(said)
		return
	}
	if tell.Encode(report{Step: stepStarted}) != nil {
		return
	}
	const sysCloseRange, cloexec = 436, 4                                     // the same on every architecture
	syscall.RawSyscall(sysCloseRange, fdOrder, uintptr(^uint32(0)), cloexec)  // what our maker forgot to close
	_ = syscall.Exec(file, o.Args, append(slices.Clone(o.Env), o.Each[0]...)) // its other end sees that it is gone
}

// begin builds the wall and starts the processes: pid → place. None: one did not start, and with us
// all end; or it was only a probe.
func begin(o order, given handed) (running map[int]int, said report) {
	if err := o.build(); err != nil {
		var s *stepError
		if errors.As(err, &s) {
			return fail(s.step, s.file, s.err)
		}
		return fail(StepBuild, "", err)
	}
	missing, err := dropRights(scopeAbstract | scopeSignal)
	if err != nil {
		return fail(StepBuild, "rights", err)
	}
	switch {
	case o.Probe:
		if err := takeOn(o.UID, o.GID); err != nil {
			return fail(StepBuild, "uid "+strconv.Itoa(o.UID), err)
		}
		return nil, report{Step: stepStarted, Missing: missing}
	case o.Become:
		return nil, report{Step: stepStarted, Missing: missing}
	}
	if err := o.enterGroup(given.door); err != nil {
		return fail(StepBuild, "cgroup", err)
	}
	running = map[int]int{}
	for i, own := range o.Each {
		out, errs := given.outputs[2*i], given.outputs[2*i+1]
		pid, err := syscall.ForkExec(given.program(o.File), Args(o.File, o.Args), &syscall.ProcAttr{
			Dir: o.Dir, Env: append(slices.Clone(o.Env), own...), Files: []uintptr{0, uintptr(out), uintptr(errs)},
			Sys: &syscall.SysProcAttr{
				Setsid: true, Credential: &syscall.Credential{Uid: uint32(o.UID), Gid: uint32(o.GID)},
				UseCgroupFD: o.HasDoor && o.Clone, CgroupFD: given.door,
			},
		})
		if err != nil {
			return fail(StepExec, o.File, err)
		}
		preferForOOM(pid)
		running[pid] = i
	}
	return running, report{Step: stepStarted, Missing: missing}
}

// enterGroup takes this thread, which forks the command and nothing else, into the command's cgroup: what it forks is born
// there. Other threads of ours stay outside, so that a command that has used up its processes can't keep us from making one.
func (o *order) enterGroup(door int) error {
	if !o.HasDoor || o.Clone {
		return nil
	}
	_, err := syscall.Write(door, []byte("0"))
	return err
}
