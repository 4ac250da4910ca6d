package steward

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/launch/deed"
)

// Patience is how long one answer, or one part of a long one, is waited for.
const Patience = 30 * time.Second

// ErrStuck says that the tenant's file system did not answer in time.
var ErrStuck = errors.New("the file system of the task does not answer")

// Helper is a process that serves deeds.
type Helper struct {
	Conn *net.UnixConn
	// Kill ends it at once and may be called again; the process is reaped by whoever reaps children.
	Kill func()
}

// Steward has deeds done. Safe for concurrent use.
type Steward struct {
	start    func() (*Helper, error) // nil: we do it ourselves
	patience time.Duration

	mu     sync.Mutex
	now    *running
	closed bool
}

// New is a steward whose helper start starts, when it is needed first; nil: there is no tenant.
func New(start func() (*Helper, error)) *Steward {
	return &Steward{start: start, patience: Patience}
}

// running is one helper with its lanes.
type running struct {
	*Helper
	quick, slow lane
}

// lane is a socket, one request at a time.
type lane struct {
	mu   sync.Mutex
	conn *net.UnixConn
}

// Warm starts the helper, so that the first request need not wait for it.
func (s *Steward) Warm() error {
	if s.start == nil {
		return nil
	}
	_, err := s.helper()
	return err
}

// Close ends the helper; nothing can be asked any more.
func (s *Steward) Close() {
	s.mu.Lock()
	now := s.now
	s.now, s.closed = nil, true
	s.mu.Unlock()
	if now != nil {
		now.end()
	}
}

func (r *running) end() {
	r.Kill()
	_ = r.quick.conn.Close()
	_ = r.slow.conn.Close()
}

func (s *Steward) helper() (*running, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("the steward is gone")
	}
	if s.now != nil {
		return s.now, nil
	}
	h, err := s.start()
	if err != nil {
		return nil, err
	}
	r := &running{Helper: h}
	r.quick.conn = h.Conn
	if r.slow.conn, err = r.quick.fork(s.patience); err != nil {
		h.Kill()
		return nil, errors.Join(fmt.Errorf("the steward's process: %w", err), h.Conn.Close())
	}
	s.now = r
	return r, nil
}

// drop ends a helper that failed, once.
func (s *Steward) drop(r *running) {
	s.mu.Lock()
	if s.now == r {
		s.now = nil
	}
	s.mu.Unlock()
	r.end()
}

// fork has the helper serve a second socket.
func (l *lane) fork(patience time.Duration) (*net.UnixConn, error) {
	ours, theirs, err := Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	a, files, err := l.exchange(deed.Request{Op: deed.OpLane}, theirs, patience, nil)
	closeAll(files)
	if err == nil && a.Errno != 0 {
		err = a.Errno
	}
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	return ours, nil
}

// FilePair makes a connection between two processes that are to be started: an end for each.
func FilePair() (a, b *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(pair[0]), "pair"), os.NewFile(uintptr(pair[1]), "pair"), nil
}

// Pair makes a connection to a helper: our end, and the one that it gets.
func Pair() (ours *net.UnixConn, theirs *os.File, err error) {
	own, theirs, err := FilePair()
	if err != nil {
		return nil, nil, err
	}
	defer own.Close()
	conn, err := net.FileConn(own)
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return conn.(*net.UnixConn), theirs, nil
}

// isQuick says that a request is of the memory that a recovery waits for.
type isQuick bool

const (
	quick isQuick = true
	slow  isQuick = false
)

// do has a request done. take sees the parts of a long answer, perhaps twice. The files that come back are regular ones.
func (s *Steward) do(which isQuick, r deed.Request, take func(deed.Answer) error) (deed.Answer, []*os.File, error) {
	if s.start == nil {
		a, files := deed.Do(r, func(part deed.Answer) error { return checked(part, take) })
		return s.judge(r, a, files)
	}
	for try := 0; ; try++ {
		h, err := s.helper()
		if err != nil {
			return deed.Answer{}, nil, err
		}
		l := &h.slow
		if which == quick {
			l = &h.quick
		}
		a, files, err := l.exchange(r, nil, s.patience, take)
		if err == nil {
			return s.judge(r, a, files)
		}
		s.drop(h)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return deed.Answer{}, nil, fmt.Errorf("%s %q: %w", r.Op, about(r), ErrStuck)
		case try > 0:
			return deed.Answer{}, nil, fmt.Errorf("%s %q: the steward's process: %w", r.Op, about(r), err)
		}
	}
}

// about is what a request is about, for words.
func about(r deed.Request) string {
	name := string(r.Name)
	if len(r.Names) > 0 {
		name = string(r.Names[0])
	}
	at := path.Join(r.Base, r.Sub, name)
	return at[:min(len(at), 256)]
}

// judge looks at an answer as at any input.
func (s *Steward) judge(r deed.Request, a deed.Answer, files []*os.File) (deed.Answer, []*os.File, error) {
	want := 0
	switch {
	case r.Op == deed.OpCreate && a.Errno == 0:
		want = 1
	case r.Op == deed.OpOpen && a.Errno == 0:
		for _, e := range a.Errnos {
			if e == 0 {
				want++
			}
		}
	}
	bad := len(files) != want || (r.Op == deed.OpOpen || r.Op == deed.OpLink) && a.Errno == 0 && len(a.Errnos) != len(r.Names) || len(a.Path) > deed.MaxPath ||
		a.Entry != nil && !sound(*a.Entry) || r.Op == deed.OpList && len(a.Entries) > r.Most
	for _, e := range a.Entries {
		bad = bad || !sound(e)
	}
	for _, f := range files {
		i, err := f.Stat()
		bad = bad || err != nil || !i.Mode().IsRegular()
	}
	if bad {
		closeAll(files)
		return deed.Answer{}, nil, fmt.Errorf("%s %q: the answer is none", r.Op, about(r))
	}
	if a.Errno != 0 {
		return a, nil, &fs.PathError{Op: r.Op, Path: about(r), Err: a.Errno}
	}
	return a, files, nil
}

// sound says that an entry can be one.
func sound(e deed.Entry) bool {
	return len(e.Name) > 0 && len(e.Name) <= deed.MaxPath && e.Size >= 0 && e.Nsec >= 0 && e.Nsec < 1e9
}

// checked hands on a part of a long answer.
func checked(part deed.Answer, take func(deed.Answer) error) error {
	if take == nil || part.Errno != 0 || len(part.Errnos) > 0 || len(part.Entries) > deed.MaxEntries {
		return errors.New("a part that nobody asked for")
	}
	for _, e := range part.Entries {
		if !sound(e) {
			return errors.New("an entry that is none")
		}
	}
	return take(part)
}

// maxParts bounds the parts of one answer.
const maxParts = 16_384

// exchange asks, and hears until the answer is whole.
func (l *lane) exchange(r deed.Request, with *os.File, patience time.Duration, take func(deed.Answer) error) (deed.Answer, []*os.File, error) {
	frame, err := deed.Frame(r)
	if err != nil {
		return deed.Answer{}, nil, err
	}
	var oob []byte
	if with != nil {
		oob = syscall.UnixRights(int(with.Fd()))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return deed.Answer{}, nil, err
	}
	n, _, err := l.conn.WriteMsgUnix(frame, oob, nil)
	if err == nil && n < len(frame) {
		_, err = l.conn.Write(frame[n:])
	}
	for range maxParts {
		if err != nil {
			return deed.Answer{}, nil, err
		}
		var a deed.Answer
		var files []*os.File
		if a, files, err = l.receive(); err != nil {
			return deed.Answer{}, nil, err
		}
		if !a.More {
			return a, files, nil
		}
		closeAll(files)
		if err = checked(a, take); err == nil {
			err = l.conn.SetDeadline(time.Now().Add(patience))
		}
	}
	return deed.Answer{}, nil, errors.New("an answer without end")
}

func (l *lane) receive() (a deed.Answer, files []*os.File, err error) {
	head, oob := make([]byte, 4), make([]byte, deed.OOB)
	n, oobn, flags, _, err := l.conn.ReadMsgUnix(head, oob)
	if err != nil {
		return a, nil, err
	}
	if files, err = deed.Files(oob[:oobn]); err == nil && flags&unix.MSG_CTRUNC != 0 {
		err = errors.New("more descriptors than were asked for")
	}
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err == nil {
		_, err = io.ReadFull(l.conn, head[n:])
	}
	var length int
	if err == nil {
		length, err = deed.Length(head)
	}
	if err == nil {
		err = json.NewDecoder(io.LimitReader(l.conn, int64(length))).Decode(&a)
	}
	if err != nil {
		closeAll(files)
		return deed.Answer{}, nil, err
	}
	return a, files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
