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
	// Tree is that of process 1; one that is rooted starts the process itself.
	Tree *Tree `json:"-"`
}

// Shell is what is started there.
type Shell struct {
	File  string   // behind the wall; "": the first of Names that is found there, which only one that is rooted looks for
	Names []string `json:",omitempty"`
	// Login: a shell that was looked for is told so by its name, where it has no Args, and by $SHELL. Args of what is looked for are those after its name.
	Login bool
	Args  []string
	Env   []string
	Dir   string
	TTY   bool // it gets a terminal of its own, of this size, in the place of standard files
	Size  Size
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
	// Terminal is our end of its own; nil: it has none. Who asked for it closes it.
	Terminal *os.File

	limit   *io.LimitedReader
	reports *json.Decoder
	pipe    *os.File
	orders  *os.File
	once    sync.Once
}

// Join starts a process beside those behind a wall, with these standard files, or on a terminal of its own. The caller's reaper reaps the helper.
func Join(b Beside, s Shell, files ...uintptr) (*Joined, error) {
	if b.Tree.Rooted() {
		return b.Tree.ask(s, files)
	}
	o := besides{Beside: b, Shell: s, HasDoor: b.Door != nil}
	var handed []int
	for _, f := range files {
		handed = append(handed, int(f))
	}
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
	err = sendFiles(int(a.give.Fd()), handed)
	if err == nil {
		err = json.NewEncoder(a.give).Encode(o)
	}
	if err != nil {
		_, _ = a.give.Close(), a.hear.Close()
		return nil, err
	}
	return joined(a.hear, a.give, s.TTY)
}

// joined is a process that was asked for: it says that it runs, or why not.
func joined(hear, orders *os.File, tty bool) (*Joined, error) {
	limit := &io.LimitedReader{R: hear}
	j := &Joined{limit: limit, reports: json.NewDecoder(limit), pipe: hear, orders: orders}
	r, err := j.next()
	if err == nil && r.Step != stepStarted {
		err = &Refused{Step: r.Step, File: r.File, Errno: r.Errno, Text: r.Text}
	}
	if err == nil && tty {
		err = j.takeTerminal()
	}
	if err != nil {
		_, _ = j.orders.Close(), j.pipe.Close()
		return nil, err
	}
	return j, nil
}

// takeTerminal takes the terminal that the helper made where it is.
func (j *Joined) takeTerminal() error {
	fd, err := receiveFile(int(j.orders.Fd()))
	if err != nil {
		return err
	}
	const terminal = 5<<8 | 2 // our end of one
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFCHR || st.Rdev != terminal {
		_ = syscall.Close(fd)
		return syscall.ENOTTY
	}
	j.Terminal = os.NewFile(uintptr(fd), "terminal")
	return nil
}

// receiveFile takes one descriptor from who may be a tenant's: what comes beside it the kernel drops.
func receiveFile(socket int) (int, error) {
	one, rights := make([]byte, 1), make([]byte, syscall.CmsgSpace(4))
	for {
		n, m, _, _, err := syscall.Recvmsg(socket, one, rights, syscall.MSG_CMSG_CLOEXEC)
		if err == syscall.EINTR {
			continue
		}
		if err == nil && n == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return -1, err
		}
		messages, err := syscall.ParseSocketControlMessage(rights[:m])
		if err != nil || len(messages) != 1 {
			return -1, syscall.EBADF
		}
		fds, err := syscall.ParseUnixRights(&messages[0])
		if err != nil || len(fds) == 0 {
			return -1, syscall.EBADF
		}
		for _, fd := range fds[1:] { // there is room for two where messages are aligned
			_ = syscall.Close(fd)
		}
		return fds[0], nil
	}
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
	standard := 3
	if o.TTY {
		standard = 0
	}
	want := standard + len(o.Spaces)
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
	if err := o.enter(files[standard:]); err != nil {
		_, said := fail(StepBuild, "namespaces", err)
		return 0, said
	}
	ours, std := -1, files[:standard]
	if o.TTY {
		var theirs int
		var err error
		if ours, theirs, err = openTerminal(o.UID, o.Size); err != nil {
			_, said := fail(StepBuild, "terminal", err)
			return 0, said
		}
		defer syscall.Close(ours)
		defer syscall.Close(theirs)
		std = []int{theirs, theirs, theirs}
	}
	attr := &syscall.SysProcAttr{Setsid: true, Setctty: o.TTY, Ctty: 0, UseCgroupFD: o.HasDoor && o.Clone}
	door := 0
	if o.HasDoor {
		door = files[want-1]
		attr.CgroupFD = door
	}
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
		Dir: o.Dir, Env: o.Env, Files: []uintptr{uintptr(std[0]), uintptr(std[1]), uintptr(std[2])}, Sys: attr,
	})
	if err != nil {
		_, said := fail(StepExec, o.File, err)
		return 0, said
	}
	if o.TTY { // who does not get it hears so from the missing descriptor; the shell then hears a hang-up
		_ = sendFiles(fdOrder, []int{ours})
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
