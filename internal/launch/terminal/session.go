package terminal

import (
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/launch/inside"
	"github.com/fermi-cluster/fermi/internal/link/talk/talkpb"
)

const (
	// ahead is how far output may be before what its client was sent.
	ahead = ringBytes / 2
	// drainFor is how long output is waited for after the end of the process: what it left behind may hold its terminal.
	drainFor = 300 * time.Millisecond
	// killAfter is how long a shell may take to end after it was hung up on.
	killAfter = 2 * time.Second
)

// label is what a session is known by.
type label struct {
	id   string
	name string // of the program that it is for; "": a shell to type at, or one that carries files
	tty  bool
}

// session is one shell or command. Safe for concurrent use.
type session struct {
	label
	proc *inside.Joined
	in   *os.File   // the terminal, or the standard input
	outs []*os.File // the terminal, or output and errors

	mu     sync.Mutex
	news   *sync.Cond // something below changed
	ring   ring
	client *client // nil: nobody is attached
	exit   *talkpb.Exit
	used   time.Time // when somebody was attached last
	told   bool      // somebody heard how it ended
	// waiting is how many readers wait for a client; closed: nobody does any more.
	waiting int
	closed  bool
	once    sync.Once
}

// client is who is attached to a session.
type client struct {
	at   int64 // what it was sent
	gone bool
	ask  bool // it shall be sent a word, to see whether it is there
}

func newSession(id, name string, tty bool, proc *inside.Joined, in *os.File, outs ...*os.File) *session {
	s := &session{label: label{id, name, tty}, proc: proc, in: in, outs: outs}
	s.news = sync.NewCond(&s.mu)
	return s
}

// run follows the process to its end.
func (s *session) run(now func() time.Time) {
	var readers sync.WaitGroup
	for i, out := range s.outs {
		readers.Go(func() { s.read(out, i == 1) })
	}
	ws, err := s.proc.Ended()
	drained := make(chan struct{})
	go func() { readers.Wait(); close(drained) }()
	for over := false; !over; {
		before := s.printed()
		select {
		case <-drained:
			over = true
		case <-time.After(drainFor):
			over = s.printed() == before && !s.holdsUp()
		}
	}
	e := &talkpb.Exit{Code: 137, Signal: "SIGKILL"} // with process 1, which told nobody
	switch {
	case err != nil:
	case ws.Signaled():
		e = &talkpb.Exit{Code: int32(128 + ws.Signal()), Signal: unix.SignalName(ws.Signal())}
	default:
		e = &talkpb.Exit{Code: int32(ws.ExitStatus())}
	}
	s.close()
	<-drained
	s.mu.Lock()
	s.exit, s.used = e, now()
	s.news.Broadcast()
	s.mu.Unlock()
}

// printed is how much there was so far.
func (s *session) printed() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ring.end
}

// holdsUp says that there is more, and a client has to take what it has first.
func (s *session) holdsUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting > 0
}

// close closes our ends; the shell hears a hang-up, and nobody is waited for any more.
func (s *session) close() {
	s.once.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.news.Broadcast()
		s.mu.Unlock()
		_ = s.in.Close()
		for _, out := range s.outs {
			_ = out.Close() // the terminal's second close is an error, and fine
		}
	})
}

// read keeps what is printed.
func (s *session) read(out *os.File, isErrors bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := out.Read(buf)
		if n > 0 {
			s.keep(append([]byte(nil), buf[:n]...), isErrors)
		}
		if err != nil {
			return
		}
	}
}

// keep adds to the ring. A client that is slow is waited for, and where there is no terminal any client: what a command prints is
// somebody's data, what a terminal shows is for the eye.
func (s *session) keep(data []byte, isErrors bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting++
	for !s.closed && (s.client != nil && s.ring.end-s.client.at > ahead || s.client == nil && !s.tty && s.ring.end-s.ring.start() > ahead) {
		s.news.Wait()
	}
	s.waiting--
	s.ring.add(data, isErrors)
	s.news.Broadcast()
}

// attach makes c the one client; another one is gone then.
func (s *session) attach(from int64) *client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		s.client.gone = true
	}
	s.client = &client{at: min(max(from, s.ring.start()), s.ring.end)}
	s.news.Broadcast()
	return s.client
}

// detach leaves the session to others.
func (s *session) detach(c *client, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.gone = true
	if s.client == c {
		s.client, s.used = nil, now
	}
	s.news.Broadcast()
}

// next is what a client is told next: output, or the end. nil: it is not attached any more.
func (s *session) next(c *client) *talkpb.Frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if c.gone {
			return nil
		}
		if p, ok := s.ring.after(c.at); ok {
			c.at = p.offset + int64(len(p.data))
			s.news.Broadcast() // room for more
			return &talkpb.Frame{Message: &talkpb.Frame_Data{Data: &talkpb.Data{Data: p.data, Errors: p.errors, Offset: p.offset}}}
		}
		if s.exit != nil {
			s.told = true
			return &talkpb.Frame{Message: &talkpb.Frame_Exit{Exit: s.exit}}
		}
		if c.ask {
			c.ask = false
			return &talkpb.Frame{Message: &talkpb.Frame_Data{Data: &talkpb.Data{Offset: c.at}}}
		}
		s.news.Wait()
	}
}

// ask has a client sent a frame with nothing in it.
func (s *session) ask(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.ask = true
	s.news.Broadcast()
}

// state is how far it is.
func (s *session) state() (ended, told, attached bool, used time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.exit != nil, s.told, s.client != nil, s.used
}

// hear does what a client says; false: it hung up.
func (s *session) hear(f *talkpb.Frame) bool {
	switch m := f.GetMessage().(type) {
	case *talkpb.Frame_Data:
		_, _ = s.in.Write(m.Data.GetData()) // of a process that has ended: the end is told
	case *talkpb.Frame_Resize:
		if s.tty {
			_ = inside.Resize(s.in, inside.Size{Columns: int(m.Resize.GetColumns()), Rows: int(m.Resize.GetRows())})
		}
	case *talkpb.Frame_End:
		if !s.tty {
			_ = s.in.Close()
		}
	case *talkpb.Frame_Signal:
		if sig := unix.SignalNum(m.Signal.GetName()); sig > 0 && sig < 32 {
			_ = s.proc.Signal(sig)
		}
	case *talkpb.Frame_Close:
		s.hangUp()
		return false
	}
	return true
}

// hangUp ends it: as when a terminal is closed, and by force where that is not heard.
func (s *session) hangUp() {
	if ended, _, _, _ := s.state(); ended {
		return
	}
	_ = s.proc.Signal(syscall.SIGHUP)
	_ = s.proc.Signal(syscall.SIGCONT)
	if s.tty {
		s.close()
	}
	time.AfterFunc(killAfter, func() { _ = s.proc.Signal(syscall.SIGKILL) })
}

// pipes makes the standard files of a command without a terminal: ours, and theirs.
func pipes() (ours, theirs [3]*os.File, err error) {
	for i := range 3 {
		r, w, perr := os.Pipe()
		if perr != nil {
			closeAll(ours[:], theirs[:])
			return ours, theirs, perr
		}
		if ours[i], theirs[i] = r, w; i == 0 {
			ours[i], theirs[i] = w, r
		}
	}
	return ours, theirs, nil
}

func closeAll[F io.Closer](lists ...[]F) {
	for _, list := range lists {
		for _, f := range list {
			_ = f.Close() // of nil, too
		}
	}
}
