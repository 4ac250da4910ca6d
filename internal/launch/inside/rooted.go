package inside

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"
)

// Where an image has a root of its own, the command and all shells live in one user namespace. The simple story: process 1 builds the mounts as
// the machine's root, then starts this same binary once more in a new user namespace; that one, the holder, starts the commands. How the code differs:
// nobody but a process of one thread can enter a user namespace later, and Go has more; so the holder also starts the shells, for which the launcher
// asks it over the socket that brought process 1 its order. The holder is the tenant's: it can be traced and ended by root in there, and its
// words are input.

// IDs are numbers of a user namespace: what they are inside, what outside, and how many.
type IDs struct{ Inside, Outside, Count int }

// User is who a command is behind the wall, in the numbers of its user namespace.
type User struct {
	UID, GID int
	Groups   []int `json:",omitempty"`
}

const (
	argv0Holder = "fermi-holder"
	argv0Idle   = "fermi-idle"
	// fdRequests is, of the holder, where the launcher asks for shells.
	fdRequests = 5
	// maxRequest bounds a request: command and environment.
	maxRequest = 16 << 20
)

// mappings are the ids as the package syscall wants them.
func mappings(ids []IDs) (list []syscall.SysProcIDMap) {
	for _, m := range ids {
		list = append(list, syscall.SysProcIDMap{ContainerID: m.Inside, HostID: m.Outside, Size: m.Count})
	}
	return list
}

// groups are the numbers of groups in the user namespace.
func (i *Image) groups() []IDs {
	if len(i.GroupIDs) > 0 {
		return i.GroupIDs
	}
	return i.IDs
}

// outside is what a number of a user namespace is on the machine.
func outside(ids []IDs, number int) int {
	for _, m := range ids {
		if number >= m.Inside && number < m.Inside+m.Count {
			return m.Outside + number - m.Inside
		}
	}
	return -1
}

// giveRoot makes a file that we made root's of the user namespace.
func (w *Wall) giveRoot(file string) error {
	return os.Lchown(file, outside(w.IDs, 0), outside(w.groups(), 0))
}

// hold builds the wall, and becomes who waits for the holder. It says nothing once the holder runs.
func (o *order) hold(given handed, tell *json.Encoder) int {
	said := o.startHolder(given)
	if said.Step != stepStarted {
		_ = tell.Encode(said)
		return 1
	}
	for fd := range 3 {
		_ = syscall.Close(fd)
	}
	_ = syscall.Close(fdReport)
	_ = syscall.Close(fdOrder)
	for {
		var ws syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &ws, syscall.WALL, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0
		case ended == said.PID && ws.Signaled(): // what ran ends with us, unheard
			return 128 + int(ws.Signal())
		case ended == said.PID:
			return ws.ExitStatus()
		}
	}
}

// startHolder gives the holder's pid, or a refusal.
func (o *order) startHolder(given handed) report {
	refuse := func(what string, err error) report {
		var s *stepError
		if errors.As(err, &s) {
			_, said := fail(s.step, s.file, s.err)
			return said
		}
		_, said := fail(StepBuild, what, err)
		return said
	}
	if err := o.build(); err != nil {
		return refuse("", err)
	}
	if _, err := dropRights(scopeAbstract | scopeSignal); err != nil {
		return refuse("rights", err)
	}
	if err := o.enterGroup(given.door); err != nil {
		return refuse("cgroup", err)
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return refuse("orders", err)
	}
	defer syscall.Close(pair[0])
	pid, err := syscall.ForkExec("/proc/self/exe", []string{argv0Holder}, &syscall.ProcAttr{
		Dir: "/", Env: []string{"FERMI_REPLICA=" + o.Mark, "GOMAXPROCS=1"}, Files: []uintptr{0, 1, 2, uintptr(pair[1]), fdReport, fdOrder},
		Sys: &syscall.SysProcAttr{
			Setsid: true, Cloneflags: syscall.CLONE_NEWUSER, UidMappings: mappings(o.IDs), GidMappings: mappings(o.groups()), GidMappingsEnableSetgroups: true,
			Credential: &syscall.Credential{}, UseCgroupFD: o.HasDoor && o.Clone, CgroupFD: given.door,
		},
	})
	_ = syscall.Close(pair[1])
	if err != nil {
		return refuse("user namespace", err)
	}
	preferForOOM(pid)
	next := *o
	next.Net, next.Door, next.HasDoor, next.IDs, next.GroupIDs = 0, nil, false, nil, nil
	if err := sendFiles(pair[0], append(append([]int{0}, given.outputs...), given.own)); err == nil { // otherwise it has ended, and we with it
		to := os.NewFile(uintptr(pair[0]), "orders")
		_ = json.NewEncoder(to).Encode(next)
	}
	return report{Step: stepStarted, PID: pid}
}

// holder is the process that starts whatever runs in the user namespace.
type holder struct {
	mu      sync.Mutex // held while a process is made or reaped: a pid means the same meanwhile
	running map[int]int
	shells  map[int]chan syscall.WaitStatus
	orphans bool
	given   handed
	tell    *json.Encoder
}

// holds is the holder's life.
func holds() int {
	signal.Notify(make(chan os.Signal, 1))
	for fd := fdOrder; fd <= fdRequests; fd++ {
		syscall.CloseOnExec(fd)
	}
	files, err := receiveFiles(fdOrder)
	if err != nil {
		return 1
	}
	var o order
	if err := json.NewDecoder(io.LimitReader(os.NewFile(fdOrder, "order"), maxOrder)).Decode(&o); err != nil {
		return 1
	}
	given, err := o.take(files)
	h := &holder{running: map[int]int{}, shells: map[int]chan syscall.WaitStatus{}, orphans: o.Orphans, tell: json.NewEncoder(os.NewFile(fdReport, "reports"))}
	if err != nil {
		_, said := fail(StepBuild, "descriptors", err)
		_ = h.tell.Encode(said)
		return 1
	}
	const prSetChildSubreaper = 36
	if _, _, e := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0, 0, 0, 0); e != 0 {
		_, said := fail(StepBuild, "subreaper", e)
		_ = h.tell.Encode(said)
		return 1
	}
	h.given = given
	said := h.begin(&o, given)
	if h.tell.Encode(said) != nil || said.Step != stepStarted {
		return 1
	}
	for fd := range 3 {
		_ = syscall.Close(fd)
	}
	for _, fd := range given.outputs[2:] {
		_ = syscall.Close(fd)
	}
	go h.serve(fdRequests)
	h.reap()
	return 0
}

// begin starts the commands.
func (h *holder) begin(o *order, given handed) report {
	file, err := o.File, error(nil)
	if file == "" {
		if file, err = Find(o.Args[0], o.Dir, lookup(o.Env, "PATH")); err != nil {
			_, said := fail(StepExec, o.Args[0], err)
			return said
		}
	}
	for i, own := range o.Each {
		pid, err := syscall.ForkExec(given.program(file), Args(file, o.Args), &syscall.ProcAttr{
			Dir: o.Dir, Env: append(slices.Clone(o.Env), own...), Files: []uintptr{0, uintptr(given.outputs[2*i]), uintptr(given.outputs[2*i+1])},
			Sys: &syscall.SysProcAttr{Setsid: true, Credential: o.User.credential()},
		})
		if err != nil {
			_, said := fail(StepExec, file, err)
			return said
		}
		h.running[pid] = i
	}
	return report{Step: stepStarted}
}

func (u User) credential() *syscall.Credential {
	c := &syscall.Credential{Uid: uint32(u.UID), Gid: uint32(u.GID)}
	for _, g := range u.Groups {
		c.Groups = append(c.Groups, uint32(g))
	}
	return c
}

// reap returns when neither a command nor anything that one left behind lives; shells alone keep nothing alive.
func (h *holder) reap() {
	for waitAny() == nil {
		h.mu.Lock()
		for {
			var ws syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &ws, syscall.WALL|syscall.WNOHANG, nil)
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if err != nil || pid <= 0 {
				break
			}
			h.note(pid, ws)
		}
		over := len(h.running) == 0 && !h.hasOthers()
		h.mu.Unlock()
		if over {
			return
		}
	}
}

func (h *holder) note(pid int, ws syscall.WaitStatus) {
	if i, ours := h.running[pid]; ours {
		delete(h.running, pid)
		_ = h.tell.Encode(report{Step: stepEnded, Process: i, Status: ws})
		return
	}
	if said, is := h.shells[pid]; is {
		delete(h.shells, pid)
		said <- ws
		return
	}
	if h.orphans {
		_ = h.tell.Encode(report{Step: stepOrphan, PID: pid, Status: ws})
	}
}

// hasOthers says that we have a child that is no shell.
func (h *holder) hasOthers() bool {
	list, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	self := os.Getpid()
	for _, e := range list {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || h.shells[pid] != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[0] != "Z" && fields[1] == strconv.Itoa(self) {
			return true
		}
	}
	return false
}

// waitAny waits until a child has ended, and leaves it there.
func waitAny() error {
	const pAll, exited, noWait, wall = 0, 4, 0x01000000, 0x40000000
	var info [128]byte
	for {
		_, _, e := syscall.Syscall6(syscall.SYS_WAITID, pAll, 0, uintptr(unsafe.Pointer(&info[0])), exited|noWait|wall, 0, 0)
		if e != syscall.EINTR {
			return nonzero(e)
		}
	}
}

// serve starts shells until the launcher hangs up.
func (h *holder) serve(socket int) {
	in := os.NewFile(uintptr(socket), "requests")
	for {
		files, err := receiveFiles(socket)
		if err != nil {
			return
		}
		var head [4]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return
		}
		data := make([]byte, min(binary.LittleEndian.Uint32(head[:]), maxRequest))
		if _, err := io.ReadFull(in, data); err != nil {
			return
		}
		var s Shell
		err = json.Unmarshal(data, &s)
		want := 5
		if s.TTY {
			want = 2
		}
		if err != nil || len(files) != want {
			return
		}
		h.shell(s, files)
	}
}

// shell starts one, with its standard files unless it gets a terminal, where its orders come from and where its reports go.
func (h *holder) shell(s Shell, files []int) {
	n := len(files) - 2
	orders, reports := os.NewFile(uintptr(files[n]), "orders"), os.NewFile(uintptr(files[n+1]), "reports")
	tell := json.NewEncoder(reports)
	ended := make(chan syscall.WaitStatus, 1)
	h.mu.Lock()
	pid, said := s.start(h.given.program, files[:n], files[n])
	if pid != 0 {
		h.shells[pid] = ended
	}
	h.mu.Unlock()
	for _, fd := range files[:n] {
		_ = syscall.Close(fd)
	}
	if err := tell.Encode(said); err != nil || pid == 0 {
		_, _ = orders.Close(), reports.Close()
		return
	}
	go h.hear(pid, orders)
	go func() {
		_ = tell.Encode(report{Step: stepEnded, Status: <-ended})
		_, _ = reports.Close(), orders.Close()
	}()
}

// hear brings a shell its signals.
func (h *holder) hear(pid int, orders io.Reader) {
	buf := make([]byte, 1)
	for {
		n, err := orders.Read(buf)
		if err != nil || n == 0 {
			return
		}
		h.mu.Lock()
		if _, there := h.shells[pid]; there && buf[0] >= signalMark {
			_ = syscall.Kill(-pid, syscall.Signal(buf[0]-signalMark))
		}
		h.mu.Unlock()
	}
}

// start starts a shell in the holder. If it gets a terminal, our end of that goes to who asked.
func (s *Shell) start(program func(string) string, files []int, to int) (int, report) {
	refuse := func(err error) (int, report) {
		_, said := fail(StepExec, s.File, err)
		return 0, said
	}
	args, env, file := s.Args, s.Env, s.File
	if file == "" {
		var err error
		if file, args, env, err = s.found(); err != nil {
			return refuse(err)
		}
	}
	if s.TTY {
		ours, theirs, err := openTerminal(0, s.Size) // it is root's as it is
		if err != nil {
			_, said := fail(StepBuild, "terminal", err)
			return 0, said
		}
		defer syscall.Close(ours)
		defer syscall.Close(theirs)
		files = []int{theirs, theirs, theirs}
		defer func() { _ = sendFiles(to, []int{ours}) }() // who does not get it hears so; the shell then hears a hang-up
	}
	pid, err := syscall.ForkExec(program(file), args, &syscall.ProcAttr{
		Dir: s.Dir, Env: env, Files: []uintptr{uintptr(files[0]), uintptr(files[1]), uintptr(files[2])},
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: s.TTY, Ctty: 0},
	})
	if err != nil {
		return refuse(err)
	}
	return pid, report{Step: stepStarted}
}

// found looks for the program behind the wall.
func (s *Shell) found() (file string, args, env []string, err error) {
	err = syscall.ENOENT
	for _, name := range s.Names {
		if file, err = Find(name, s.Dir, lookup(s.Env, "PATH")); err != nil {
			continue
		}
		if !s.Login {
			return file, Args(file, append([]string{name}, s.Args...)), s.Env, nil
		}
		if len(s.Args) == 0 {
			name = "-" + name
		}
		return file, append([]string{name}, s.Args...), append(slices.Clone(s.Env), "SHELL="+file), nil
	}
	return "", nil, nil, err
}

func lookup(env []string, name string) string {
	for _, kv := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// ask has the holder start a shell.
func (t *Tree) ask(s Shell, files []uintptr) (*Joined, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	orders := os.NewFile(uintptr(pair[0]), "orders")
	defer syscall.Close(pair[1])
	hear, reports, err := os.Pipe()
	if err != nil {
		_ = orders.Close()
		return nil, err
	}
	var handed []int
	for _, f := range files {
		handed = append(handed, int(f))
	}
	t.mu.Lock()
	if t.orders == nil {
		err = syscall.ESRCH
	} else if err = sendFiles(int(t.orders.Fd()), append(handed, pair[1], int(reports.Fd()))); err == nil {
		_, err = t.orders.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(data))), data...))
	}
	t.mu.Unlock()
	_ = reports.Close() // the holder has its own: we hear of its end
	if err != nil {
		_, _ = orders.Close(), hear.Close()
		return nil, err
	}
	return joined(hear, orders, s.TTY)
}

// Rooted says that the command is root of a user namespace, whose holder starts shells.
func (t *Tree) Rooted() bool { return t != nil && t.rooted }

// idle is a process whose user namespace somebody looks at; it waits for its standard input to end.
func idle() int {
	_, _ = io.Copy(io.Discard, os.NewFile(0, "stdin"))
	return 0
}

// namespace makes a user namespace that nobody lives in, and opens it.
func namespace(ids, groups []IDs) (*os.File, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer write.Close()
	const closed = ^uintptr(0)
	pid, err := syscall.ForkExec(Whole, []string{argv0Idle}, &syscall.ProcAttr{
		Dir: "/", Env: []string{"GOMAXPROCS=1"}, Files: []uintptr{read.Fd(), closed, closed},
		Sys: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: mappings(ids), GidMappings: mappings(groups)},
	})
	_ = read.Close()
	if err != nil {
		return nil, &stepError{StepBuild, "user namespace", err}
	}
	f, err := os.Open(path.Join("/proc", strconv.Itoa(pid), "ns/user"))
	_ = write.Close()
	for {
		if _, werr := syscall.Wait4(pid, nil, 0, nil); !errors.Is(werr, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, &stepError{StepBuild, "user namespace", err}
	}
	return f, nil
}
