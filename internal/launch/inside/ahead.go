package inside

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// Ready are processes 1 that wait for their orders; the nil one has none.
type Ready struct {
	made  chan struct{} // closed when list is whole
	mu    sync.Mutex
	list  []*ahead
	fresh time.Time // until then they are used: they see what was mounted when they were made
}

const freshFor = 2 * time.Second

// GetReady starts n of them, whose walls have this mark and whose commands this program. They are made while we do other things; Drop waits for that.
func GetReady(n int, mark, program string) *Ready {
	r := &Ready{made: make(chan struct{}), fresh: time.Now().Add(freshFor)}
	go func() {
		defer close(r.made)
		for range n {
			a, err := prepare(mark, program)
			if err != nil {
				return // who starts one later says why it can't be
			}
			r.mu.Lock()
			r.list = append(r.list, a)
			r.mu.Unlock()
		}
	}()
	return r
}

func (r *Ready) take() *ahead {
	if r == nil {
		return nil
	}
	if time.Now().After(r.fresh) {
		r.Drop()
		return nil
	}
	r.mu.Lock()
	if len(r.list) == 0 {
		r.mu.Unlock()
		<-r.made
		r.mu.Lock()
	}
	defer r.mu.Unlock()
	if len(r.list) == 0 {
		return nil
	}
	a := r.list[0]
	r.list = r.list[1:]
	return a
}

// Drop ends those that nobody took.
func (r *Ready) Drop() {
	if r == nil {
		return
	}
	<-r.made
	r.mu.Lock()
	list := r.list
	r.list = nil
	r.mu.Unlock()
	for _, a := range list {
		a.drop()
	}
}

// Whole is the program of whoever reads it: the whole of Fermi where a launcher says it, and in an order what the launcher is.
const Whole = "/proc/self/exe"

// ahead is a process 1 that waits for its order. To start a program takes longer than all that it does then, so whoever
// knows that one will be needed prepares it. It sees what is mounted when it was made.
type ahead struct {
	pid, handle int
	give, hear  *os.File
}

// The descriptors of process 1 while it waits, beside the standard ones.
const (
	fdOrder  = 3
	fdReport = 4
)

// prepare starts a process 1 in namespaces of its own; mark is the wall's, program the command's. It ends when we do.
func prepare(mark, program string) (*ahead, error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	give := os.NewFile(uintptr(pair[0]), "orders")
	defer syscall.Close(pair[1]) // or a process 1 that died would leave us writing for ever
	hear, reports, err := os.Pipe()
	if err != nil {
		_ = give.Close()
		return nil, err
	}
	defer reports.Close()
	const closed = ^uintptr(0)
	a := &ahead{handle: -1, give: give, hear: hear}
	attr := &syscall.ProcAttr{
		Dir: "/", Env: []string{"FERMI_REPLICA=" + mark, "GOMAXPROCS=1"}, Files: []uintptr{closed, closed, closed, uintptr(pair[1]), reports.Fd()},
		Sys: &syscall.SysProcAttr{Setsid: true, PidFD: &a.handle, Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC},
	}
	if err = syscall.EPERM; program != "" {
		a.pid, err = syscall.ForkExec(program, []string{argv0}, attr)
	}
	if err != nil { // there is none, or this machine runs nothing but files it knows
		a.pid, err = syscall.ForkExec(Whole, []string{argv0}, attr)
	}
	if err != nil {
		_, _ = give.Close(), hear.Close()
		return nil, fmt.Errorf("enter new namespaces: %w", err)
	}
	return a, nil
}

// drop ends it and reaps it.
func (a *ahead) drop() {
	_, _ = a.give.Close(), a.hear.Close()
	_ = syscall.Close(a.handle)
	_ = syscall.Kill(a.pid, syscall.SIGKILL) // our own child, not yet reaped
	_, _ = syscall.Wait4(a.pid, nil, 0, nil)
}

// tell gives it its order. If that fails it has died; the missing report says so.
func (a *ahead) tell(o order, stdin uintptr, out []Pipes) *Tree {
	rooted := len(o.IDs) > 0 && !o.Probe
	if !rooted {
		defer a.give.Close()
	}
	own, err := syscall.Open(Whole, oPath|syscall.O_CLOEXEC, 0)
	if err == nil { // otherwise the order is one descriptor short, and refused
		defer syscall.Close(own)
	}
	files := []int{int(stdin)}
	for _, pipes := range out {
		files = append(files, int(pipes[0]), int(pipes[1]))
	}
	if err == nil {
		files = append(files, own)
	}
	if o.Net != 0 {
		files = append(files, int(o.Net))
	}
	if o.Door != nil {
		files = append(files, int(o.Door.Fd()))
	}
	o.Outputs, o.HasDoor = len(out), o.Door != nil
	limit := &io.LimitedReader{R: a.hear}
	t := &Tree{PID: a.pid, Handle: a.handle, pipe: a.hear, limit: limit, reports: json.NewDecoder(limit), rooted: rooted}
	if rooted {
		t.orders = a.give
	}
	if sendFiles(int(a.give.Fd()), files) == nil {
		_ = json.NewEncoder(a.give).Encode(o)
	}
	return t
}

// filesAtOnce is how many descriptors go with one byte; the kernel takes 253.
const filesAtOnce = 128

// sendFiles sends descriptors, the last ones with a 1.
func sendFiles(socket int, files []int) error {
	for {
		n := min(len(files), filesAtOnce)
		last := []byte{0}
		if n == len(files) {
			last[0] = 1
		}
		var rights []byte
		if n > 0 {
			rights = syscall.UnixRights(files[:n]...)
		}
		if err := syscall.Sendmsg(socket, last, rights, nil, 0); err != nil {
			return err
		}
		if files = files[n:]; len(files) == 0 {
			return nil
		}
	}
}

// receiveFiles is the other end of sendFiles; nothing that is exec'd inherits them.
func receiveFiles(socket int) (files []int, err error) {
	last, rights := make([]byte, 1), make([]byte, syscall.CmsgSpace(4*filesAtOnce))
	for last[0] == 0 {
		n, m, _, _, err := syscall.Recvmsg(socket, last, rights, syscall.MSG_CMSG_CLOEXEC)
		if err == syscall.EINTR {
			continue
		}
		if err == nil && n == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		messages, err := syscall.ParseSocketControlMessage(rights[:m])
		if err != nil {
			return nil, err
		}
		for i := range messages {
			some, err := syscall.ParseUnixRights(&messages[i])
			if err != nil {
				return nil, err
			}
			files = append(files, some...)
		}
	}
	return files, nil
}
