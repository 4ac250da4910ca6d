package inside

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"
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
	var o order
	if err := json.NewDecoder(io.LimitReader(os.NewFile(fdOrder, "order"), maxOrder)).Decode(&o); err != nil {
		return 1 // the launcher has died, or never meant us
	}
	_ = syscall.Close(fdOrder)
	if o.Net != 0 {
		// Of this thread: every child is started by it.
		if _, _, e := syscall.RawSyscall(sysSetns, fdNet, syscall.CLONE_NEWNET, 0); e != 0 {
			_, said := fail(StepBuild, "network", e)
			_ = tell.Encode(said)
			return 1
		}
		_ = syscall.Close(fdNet)
	}
	for i := range o.Each {
		if i > 0 {
			out, err := pipesOf(i)
			syscall.CloseOnExec(out)
			syscall.CloseOnExec(err)
		}
	}
	running, said := begin(o)
	if o.Become && said.Step == stepStarted {
		become(o, tell)
		return 1
	}
	if tell.Encode(said) != nil || len(running) == 0 {
		return 1
	}
	_ = syscall.Close(0) // the commands' alone
	for i := range o.Each {
		out, err := pipesOf(i)
		_ = syscall.Close(out)
		_ = syscall.Close(err)
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

// pipesOf are the descriptors of process i.
func pipesOf(i int) (out, err int) {
	if i == 0 {
		return 1, 2
	}
	return fdMore + 2*(i-1), fdMore + 2*(i-1) + 1
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
func become(o order, tell *json.Encoder) {
	if err := takeOn(o.UID, o.GID); err != nil {
		_, said := fail(StepBuild, "uid "+strconv.Itoa(o.UID), err)
		_ = tell.Encode(said)
		return
	}
	if tell.Encode(report{Step: stepStarted}) != nil {
		return
	}
	const sysCloseRange, cloexec = 436, 4                                       // the same on every architecture
	syscall.RawSyscall(sysCloseRange, fdOrder, uintptr(^uint32(0)), cloexec)    // what our maker forgot to close
	_ = syscall.Exec(o.File, o.Args, append(slices.Clone(o.Env), o.Each[0]...)) // its other end sees that it is gone
}

// begin builds the wall and starts the processes: pid → place. None: one did not start, and with us
// all end; or it was only a probe.
func begin(o order) (running map[int]int, said report) {
	if err := o.build(); err != nil {
		var s *stepError
		if errors.As(err, &s) {
			return fail(s.step, s.file, s.err)
		}
		return fail(StepBuild, "", err)
	}
	missing, err := dropRights()
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
	if err := o.enter(); err != nil {
		return fail(StepBuild, "cgroup", err)
	}
	running = map[int]int{}
	for i, own := range o.Each {
		out, errs := pipesOf(i)
		pid, err := syscall.ForkExec(o.File, Args(o.File, o.Args), &syscall.ProcAttr{
			Dir: o.Dir, Env: append(slices.Clone(o.Env), own...), Files: []uintptr{0, uintptr(out), uintptr(errs)},
			Sys: &syscall.SysProcAttr{
				Setsid: true, Credential: &syscall.Credential{Uid: uint32(o.UID), Gid: uint32(o.GID)},
				UseCgroupFD: o.DoorFD > 0 && o.Clone, CgroupFD: o.DoorFD,
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

// enter takes this thread, which forks the command and nothing else, into the command's cgroup: what it forks is born
// there. Other threads of ours stay outside, so that a command that has used up its processes can't keep us from making one.
func (o *order) enter() error {
	if o.DoorFD == 0 {
		return nil
	}
	syscall.CloseOnExec(o.DoorFD)
	if o.Clone {
		return nil
	}
	_, err := syscall.Write(o.DoorFD, []byte("0"))
	return err
}
