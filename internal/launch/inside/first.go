package inside

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"
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
	syscall.CloseOnExec(3)
	syscall.CloseOnExec(4)
	tell := json.NewEncoder(os.NewFile(4, "reports"))
	var o order
	if err := json.NewDecoder(io.LimitReader(os.NewFile(3, "order"), maxOrder)).Decode(&o); err != nil {
		return 1 // the launcher has died, or never meant us
	}
	_ = syscall.Close(3)
	pid, said := begin(o)
	if tell.Encode(said) != nil || pid == 0 {
		return 1
	}
	for fd := range 3 { // the command's alone
		_ = syscall.Close(fd)
	}
	for {
		var ws syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &ws, syscall.WALL, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // no child is left
			return 0
		case ended == pid:
			_ = tell.Encode(report{Step: stepEnded, Status: ws})
		}
	}
}

// begin builds the wall and starts the command. pid 0: it did not start, or was only a probe.
func begin(o order) (pid int, said report) {
	fail := func(step, file string, err error) (int, report) {
		r := report{Step: step, File: file}
		if !errors.As(err, &r.Errno) {
			r.Text = err.Error() + ": "
		}
		return 0, r
	}
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
	if o.Probe {
		if err := as(o.UID, o.GID, func() error { return nil }); err != nil {
			return fail(StepBuild, "uid "+strconv.Itoa(o.UID), err)
		}
		return 0, report{Step: stepStarted, Missing: missing}
	}
	file := o.Own
	step := StepDir
	if err := as(o.UID, o.GID, func() (err error) {
		if _, err := os.Stat(o.Dir + "/."); err != nil {
			return err
		}
		if step = StepFind; file == "" {
			file, err = Find(o.Args[0], o.Dir, lookup(o.Env, "PATH"))
		}
		return err
	}); err != nil {
		return fail(step, file, err)
	}
	pid, err = syscall.ForkExec(file, o.Args, &syscall.ProcAttr{
		Dir: o.Dir, Env: o.Env, Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: uint32(o.UID), Gid: uint32(o.GID)}},
	})
	if err != nil {
		return fail(StepExec, file, err)
	}
	preferForOOM(pid)
	return pid, report{Step: stepStarted, Missing: missing}
}
