package inside

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// A process beside those that run: somebody's shell. The simple story: start this same binary again; it enters the namespaces of process
// 1, gives up what rights a child could inherit, and starts the shell as the tenant. How the code differs: entering a pid namespace holds
// for children only, so that the helper stays outside and tells when the shell has ended; and only one thread may enter, so it is locked.

// Beside says where a further process is started.
type Beside struct {
	// PID is process 1 of a wall; 0: there is none, and the process is who we are.
	PID int
	// Still says that PID is still who it was; asked when its namespaces are in hand.
	Still func() bool `json:"-"`
	Mark  string      // as of a wall
	UID   int         // of the tenant
	// Apart: the namespaces have a network of their own, and with it abstract sockets.
	Apart bool
	// Door and Clone are as of a wall.
	Door  *os.File `json:"-"`
	Clone bool
}

// Shell is what is started there.
type Shell struct {
	File string // behind the wall
	Args []string
	Env  []string
	Dir  string
	TTY  bool // its standard input is a terminal that it shall have for its own
}

// besides is what the helper is told.
type besides struct {
	Beside
	Shell
	Spaces  []int // kinds of the namespaces whose descriptors come along, in order; then the root's
	HasDoor bool
}

// argv0Beside tells its start from any other.
const argv0Beside = "fermi-beside"

// spaces are those that a process beside enters, in this order: the last holds for its children alone.
var spaces = []struct {
	name string
	kind int
}{{"ipc", syscall.CLONE_NEWIPC}, {"net", syscall.CLONE_NEWNET}, {"mnt", syscall.CLONE_NEWNS}, {"pid", syscall.CLONE_NEWPID}}

// Joined is a process that was started beside others.
type Joined struct {
	limit   *io.LimitedReader
	reports *json.Decoder
	pipe    *os.File
	orders  *os.File
	once    sync.Once
}

// Join starts a process beside those behind a wall, with these standard files. The caller's reaper reaps the helper.
func Join(b Beside, s Shell, files [3]uintptr) (*Joined, error) {
	o := besides{Beside: b, Shell: s, HasDoor: b.Door != nil}
	handed := []int{int(files[0]), int(files[1]), int(files[2])}
	if b.PID != 0 {
		own, err := openSpaces(b.PID)
		for _, f := range own {
			defer f.Close()
		}
		if err != nil {
			return nil, err
		}
		if !b.Still() {
			return nil, syscall.ESRCH
		}
		for i, f := range own {
			handed = append(handed, int(f.Fd()))
			if i < len(spaces) {
				o.Spaces = append(o.Spaces, spaces[i].kind)
			}
		}
	}
	if b.Door != nil {
		handed = append(handed, int(b.Door.Fd()))
	}
	a, err := prepareBeside(b.Mark)
	if err != nil {
		return nil, err
	}
	limit := &io.LimitedReader{R: a.hear}
	j := &Joined{limit: limit, reports: json.NewDecoder(limit), pipe: a.hear, orders: a.give}
	err = sendFiles(int(a.give.Fd()), handed)
	if err == nil {
		err = json.NewEncoder(a.give).Encode(o)
	}
	var r report
	if err == nil {
		r, err = j.next()
	}
	if err == nil && r.Step != stepStarted {
		err = &Refused{Step: r.Step, File: r.File, Errno: r.Errno, Text: r.Text}
	}
	if err != nil {
		_, _ = j.orders.Close(), j.pipe.Close()
		return nil, err
	}
	return j, nil
}

// openSpaces opens the namespaces of a process, and its root.
func openSpaces(pid int) (out []*os.File, err error) {
	at := "/proc/" + strconv.Itoa(pid)
	for _, s := range spaces {
		f, err := os.Open(at + "/ns/" + s.name)
		if err != nil {
			return out, err
		}
		out = append(out, f)
	}
	fd, err := syscall.Open(at+"/root", oPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return out, err
	}
	return append(out, os.NewFile(uintptr(fd), "root")), nil
}

// prepareBeside starts a helper that waits for its order.
func prepareBeside(mark string) (*ahead, error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	give := os.NewFile(uintptr(pair[0]), "orders")
	defer syscall.Close(pair[1])
	hear, reports, err := os.Pipe()
	if err != nil {
		_ = give.Close()
		return nil, err
	}
	defer reports.Close()
	const closed = ^uintptr(0)
	pid, err := syscall.ForkExec("/proc/self/exe", []string{argv0Beside}, &syscall.ProcAttr{
		Dir: "/", Env: []string{"FERMI_REPLICA=" + mark, "GOMAXPROCS=1"}, Files: []uintptr{closed, closed, closed, uintptr(pair[1]), reports.Fd()},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		_, _ = give.Close(), hear.Close()
		return nil, fmt.Errorf("start a process beside: %w", err)
	}
	return &ahead{pid: pid, handle: -1, give: give, hear: hear}, nil
}

func (j *Joined) next() (report, error) {
	var r report
	j.limit.N = maxReport
	err := j.reports.Decode(&r)
	return r, err
}

// Ended waits for its end. An error means that nobody knows how: with process 1 everything behind its wall was killed.
func (j *Joined) Ended() (syscall.WaitStatus, error) {
	r, err := j.next()
	if err == nil && r.Step != stepEnded {
		err = fmt.Errorf("the process beside said %q", r.Step)
	}
	j.once.Do(func() { _, _ = j.orders.Close(), j.pipe.Close() })
	return r.Status, err
}

// signalMark is added to the number of a signal on its way to the helper.
const signalMark = 128

// Signal reaches it and what it started in its own group; none after its end.
func (j *Joined) Signal(s syscall.Signal) error {
	_, err := j.orders.Write([]byte{signalMark + byte(s)})
	return err
}

// beside is the helper. Init functions run locked to the main thread; locked by name, too, it makes no thread from this one, which the
// kernel would refuse after the pid namespace was entered.
func beside() int {
	runtime.LockOSThread()
	signal.Notify(make(chan os.Signal, 1))
	syscall.CloseOnExec(fdOrder)
	syscall.CloseOnExec(fdReport)
	tell := json.NewEncoder(os.NewFile(fdReport, "reports"))
	files, err := receiveFiles(fdOrder)
	if err != nil {
		return 1
	}
	orders := os.NewFile(fdOrder, "orders")
	var o besides
	d := json.NewDecoder(io.LimitReader(orders, maxOrder))
	if err := d.Decode(&o); err != nil {
		return 1
	}
	pid, said := o.start(files)
	if tell.Encode(said) != nil || pid == 0 {
		return 1
	}
	for _, fd := range files {
		_ = syscall.Close(fd)
	}
	var mu sync.Mutex // between a signal and the moment in which its number is free for others
	over := false
	go func() {
		buf := make([]byte, 1)
		for {
			n, err := orders.Read(buf)
			if err != nil || n == 0 {
				return
			}
			mu.Lock()
			if !over && buf[0] >= signalMark { // the order's own end of line is none
				_ = syscall.Kill(-pid, syscall.Signal(buf[0]-signalMark))
			}
			mu.Unlock()
		}
	}()
	for waitid(pid) == syscall.EINTR { //nolint:errorlint // an errno
	}
	mu.Lock()
	over = true
	mu.Unlock()
	var ws syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(pid, &ws, 0, nil); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	_ = tell.Encode(report{Step: stepEnded, Status: ws})
	return 0
}

// waitid waits until a child has ended, and leaves it there.
func waitid(pid int) error {
	const pPID, exited, noWait = 1, 4, 0x01000000
	var info [128]byte
	_, _, e := syscall.Syscall6(syscall.SYS_WAITID, pPID, uintptr(pid), uintptr(unsafe.Pointer(&info[0])), exited|noWait, 0, 0)
	return nonzero(e)
}

// start enters and starts; 0: it did not.
func (o *besides) start(files []int) (int, report) {
	want := 3 + len(o.Spaces)
	if len(o.Spaces) > 0 {
		want++
	}
	if o.HasDoor {
		want++
	}
	if len(files) != want {
		_, said := fail(StepBuild, "descriptors", syscall.EBADF)
		return 0, said
	}
	preferForOOM(os.Getpid()) // while /proc is the machine's; the shell inherits it
	door := files[want-1]
	if err := o.enter(files[3:]); err != nil {
		_, said := fail(StepBuild, "namespaces", err)
		return 0, said
	}
	attr := &syscall.SysProcAttr{Setsid: true, Setctty: o.TTY, Ctty: 0, UseCgroupFD: o.HasDoor && o.Clone, CgroupFD: door}
	if o.UID != 0 {
		scope := uint64(scopeAbstract)
		if o.Apart {
			scope = 0
		}
		if _, err := dropRights(scope); err != nil {
			_, said := fail(StepBuild, "rights", err)
			return 0, said
		}
		attr.Credential = &syscall.Credential{Uid: uint32(o.UID), Gid: uint32(o.UID)}
	}
	if o.HasDoor && !o.Clone {
		if _, err := syscall.Write(door, []byte("0")); err != nil {
			_, said := fail(StepBuild, "cgroup", err)
			return 0, said
		}
	}
	pid, err := syscall.ForkExec(o.File, o.Args, &syscall.ProcAttr{
		Dir: o.Dir, Env: o.Env, Files: []uintptr{uintptr(files[0]), uintptr(files[1]), uintptr(files[2])}, Sys: attr,
	})
	if err != nil {
		_, said := fail(StepExec, o.File, err)
		return 0, said
	}
	return pid, report{Step: stepStarted}
}

// enter takes this thread into the namespaces, and to their root.
func (o *besides) enter(files []int) error {
	if len(o.Spaces) == 0 {
		return nil
	}
	if err := syscall.Unshare(syscall.CLONE_FS); err != nil { // or the kernel refuses the mounts
		return err
	}
	for i, kind := range o.Spaces {
		if _, _, e := syscall.RawSyscall(sysSetns, uintptr(files[i]), uintptr(kind), 0); e != 0 {
			return e
		}
	}
	root := files[len(o.Spaces)]
	if err := syscall.Fchdir(root); err != nil {
		return err
	}
	return syscall.Chroot(".")
}

// hold waits for SIGTERM: it is what an environment runs whose user named nothing. What it says goodbye to has a moment to end well.
func hold() int {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	<-end
	time.Sleep(holdOn)
	return 0
}

const holdOn = 300 * time.Millisecond
