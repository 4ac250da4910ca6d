package hostengine

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
)

// TestMain lets the test binary play the launcher: the engine starts `<this> launch --dir FOLDER`.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "launch" && os.Args[2] == "--dir" {
		syscall.Exit(fixture{dir: os.Args[3]}.run()) // not os.Exit, which waits a second under the race detector
	}
	if len(os.Args) == 4 && os.Args[1] == "own" {
		syscall.Exit(own(os.Args[2], os.Args[3]))
	}
	os.Exit(m.Run())
}

// fixture is a small launcher that keeps to the contract of package record. What it is to do
// wrong is in the replica's environment:
//
//	GATE=1        before it takes the lock it waits for the file "gate"
//	CRASH=n       the first n launchers end before they take the lock
//	DEAF=1        launchers that should only hand over fail
//	NOGO=1        it never gets go
//	RAN=file      a line is appended to this file, too, for each time that the command ran
//
// It runs the replica's command and appends a line to the files "locked" and "ran" for each time
// that it took the lock and ran the command.
type fixture struct {
	dir string
	env map[string]string
}

func (f fixture) run() int {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	token, err := io.ReadAll(os.NewFile(3, "token"))
	f.must(err)
	var r engine.Replica
	if ok, err := record.Read(f.dir, record.FileReplica, &r); !ok || err != nil {
		f.must(fmt.Errorf("replica: %v %w", ok, err))
	}
	f.env = map[string]string{}
	for _, v := range r.Env {
		f.env[v.Name] = v.Value
	}
	f.appendLine("begun", "x")
	if n := f.env["CRASH"]; n != "" && fmt.Sprint(f.lines("begun")) <= n {
		return 1
	}
	f.appendLine("token", string(token))
	f.describe()
	if f.env["GATE"] != "" {
		f.await("gate")
	}
	lock, err := f.lock()
	if err != nil {
		return 0
	}
	defer lock.Close()
	if record.Exists(f.dir, record.FileDone) {
		return 0 // another one was first, and is over already
	}
	f.appendLine("locked", fmt.Sprint(os.Getpid()))
	f.must(record.Write(f.dir, record.FileLauncher, record.Self()))
	if record.Exists(f.dir, record.FileExit) {
		if f.env["DEAF"] != "" {
			return 1
		}
		return f.done()
	}
	if record.Exists(f.dir, record.FileGo) {
		return 1
	}
	if f.stopped() {
		return f.exit(engine.Exit{Reason: engine.ReasonStopped, Code: 143})
	}
	if f.env["NOGO"] != "" {
		for !f.stopped() {
			<-stop
		}
		return f.exit(engine.Exit{Reason: engine.ReasonStopped, Code: 143})
	}
	f.must(record.Write(f.dir, record.FileGo, record.Go{Epoch: 1, Attempt: r.Attempt, At: time.Now()}))
	return f.work(r, stop)
}

func (f fixture) work(r engine.Replica, stop <-chan os.Signal) int {
	f.appendLine("ran", fmt.Sprint(os.Getpid()))
	if file := f.env["RAN"]; file != "" {
		fixture{dir: filepath.Dir(file)}.appendLine(filepath.Base(file), fmt.Sprint(os.Getpid()))
	}
	cmd := exec.Command(r.Command[0], r.Command[1:]...)
	cmd.Dir = f.dir
	cmd.Env = append(os.Environ(), mark+string(r.Name))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	f.must(cmd.Start())
	child, err := record.Describe(cmd.Process.Pid)
	f.must(err)
	f.must(record.Write(f.dir, record.FileStart, record.Start{Process: child, At: time.Now()}))
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case <-stop:
			if !f.stopped() {
				continue
			}
			_ = cmd.Process.Kill()
			<-ended
			return f.exit(engine.Exit{Reason: engine.ReasonStopped, Code: 143})
		case <-ended:
			return f.exit(engine.Exit{Reason: engine.ReasonSucceeded, Code: cmd.ProcessState.ExitCode()})
		}
	}
}

// stopped says that the leader of the current epoch ordered it.
func (f fixture) stopped() bool {
	var ends record.Link
	_, err := record.Read(f.dir, record.FileEndpoint, &ends)
	f.must(err)
	epoch, err := record.CurrentEpoch(ends.Epochs)
	f.must(err)
	return record.Exists(f.dir, record.StopFile(epoch))
}

func (f fixture) exit(e engine.Exit) int {
	e.At = time.Now()
	f.must(record.Write(f.dir, record.FileExit, e))
	if f.env["DEAF"] != "" {
		return 1
	}
	return f.done()
}

func (f fixture) done() int {
	f.must(record.Write(f.dir, record.FileDone, record.Done{At: time.Now()}))
	return 0
}

func (f fixture) lock() (*os.File, error) {
	for range 50 {
		lock, err := record.TryLock(f.dir)
		if err == nil {
			return lock, nil
		}
		time.Sleep(2 * time.Millisecond)
	}
	return nil, record.ErrLocked
}

func (f fixture) await(file string) {
	for !record.Exists(f.dir, file) {
		time.Sleep(2 * time.Millisecond)
	}
}

// describe writes down what it was born with.
func (f fixture) describe() {
	cwd, _ := os.Getwd()
	sid, _, _ := syscall.Syscall(syscall.SYS_GETSID, 0, 0, 0)
	groups, _ := os.ReadFile("/proc/self/cgroup")
	var files []string
	for fd := range 64 {
		if to, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err == nil {
			files = append(files, to)
		}
	}
	text := fmt.Sprintf("cwd=%s\nsession=%v\nenv=%s\n%s\nfiles=%s\n", cwd, int(sid) == os.Getpid(),
		strings.Join(os.Environ(), ","), groups, strings.Join(files, ","))
	f.must(os.WriteFile(filepath.Join(f.dir, "born"), []byte(text), 0o600))
}

func (f fixture) appendLine(file, line string) {
	out, err := os.OpenFile(filepath.Join(f.dir, file), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	f.must(err)
	_, err = out.WriteString(line + "\n")
	f.must(err)
	f.must(out.Close())
}

func (f fixture) lines(file string) int { return countLines(f.dir, file) }

func countLines(dir, file string) int {
	data, _ := os.ReadFile(filepath.Join(dir, file))
	return strings.Count(string(data), "\n")
}

func (f fixture) must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "fixture:", err)
		syscall.Exit(70)
	}
}
