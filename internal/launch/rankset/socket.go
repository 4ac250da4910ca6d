package rankset

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/internal/launch/accept"
	"github.com/fermi-cluster/fermi/internal/launch/word"
)

// fileSocket is $FERMI_SOCKET: in the replica's folder or, behind a wall, in its /tmp.
const fileSocket = "fermi.sock"

// maxSocketPath is what fits into a socket's address.
const maxSocketPath = 107

// Socket is where ranks find their launcher.
type Socket struct {
	listener net.Listener
	folder   *os.File // held open: it is part of the address where the path is too long
	Path     string   // as ranks see it
}

// OpenSocket listens in the replica's folder before any process of the user's runs; behind a wall the socket lies in tmp, which is /tmp
// there, and is given to the tenant. The address the kernel is given leads over an open folder, so that its length does not matter.
func OpenSocket(dir, tmp string, give func(path string) error) (*Socket, error) {
	folder, err := os.Open(dir) // ours alone: nobody can put another file in the socket's place
	if err != nil {
		return nil, err
	}
	s := &Socket{folder: folder, Path: filepath.Join(dir, fileSocket)}
	within := "/fd/" + strconv.Itoa(int(folder.Fd())) + "/" + fileSocket
	_ = os.Remove(s.Path) // of a launcher before us that never said go
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: "/proc/self" + within})
	if err == nil {
		listener.SetUnlinkOnClose(tmp == "") // behind a wall it lies where the tenant could put another in its place
		s.listener = listener
		err = errors.Join(os.Chmod(s.Path, 0o600), give(s.Path))
	}
	if err == nil && tmp != "" {
		err = os.Rename(s.Path, filepath.Join(tmp, fileSocket)) // which follows no link
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("listen for ranks: %w", err)
	}
	switch {
	case tmp != "":
		s.Path = "/tmp/" + fileSocket
	case len(s.Path) > maxSocketPath: // they are who we are, and may look
		s.Path = "/proc/" + strconv.Itoa(os.Getpid()) + within
	}
	return s, nil
}

func (s *Socket) close() {
	if s.listener != nil {
		s.listener.Close()
	}
	s.folder.Close()
}

// Serve hears ranks until ctx ends, and returns when all their connections are closed.
func (s *Socket) Serve(ctx context.Context, r *Set, log *slog.Logger) {
	defer context.AfterFunc(ctx, s.close)()
	// Whoever connects and says nothing holds up only its like.
	accept.All(ctx, s.listener, 4*len(r.seals)+4, log, func(conn net.Conn) {
		if err := r.Converse(ctx, conn); err != nil {
			log.Warn("a rank was not understood", "error", err)
		}
	})
}

// rankConn is one rank's connection.
type rankConn struct {
	conn  net.Conn
	wake  chan struct{}
	ended chan struct{} // closed when nothing more is read

	// Of Conns, with its lock.
	local int    // rank
	can   bool   // leave its generation
	left  bool   // it
	why   string // its last words then
	stays bool   // in the next one, and has no place yet
	of    int64  // generation: what it says counts in no other

	mu  sync.Mutex
	out rankOutbox
}

// rankOutbox holds the newest of each thing to say: nothing queues up for a rank that does not read.
type rankOutbox struct {
	watermark  int64
	pin        *word.Pin
	keep       int64 // beside it: a step that is being read; 0: none
	held       bool  // what it offered to give up is known
	leave      *word.Leave
	place      *word.Place
	stop       *word.Stop
	roles      map[string]word.Role
	durable    *word.Durable
	interval   *word.Interval
	checkpoint *word.Checkpoint
}

func (c *rankConn) post(change func(*rankOutbox)) {
	c.mu.Lock()
	change(&c.out)
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *rankConn) close() { c.conn.Close() }

// helloFor is how long a connection may stay without a word.
const helloFor = 10 * time.Second

// talk hears a rank until it hangs up; an error is a word that was not understood.
func (c *rankConn) talk(r *Set) error {
	defer c.close()
	lines := bufio.NewScanner(c.conn)
	lines.Buffer(make([]byte, 4<<10), word.MaxWord)
	_ = c.conn.SetReadDeadline(time.Now().Add(helloFor))
	if !lines.Scan() {
		return tooLong(lines.Err())
	}
	w, err := word.Parse(lines.Bytes())
	if err != nil || w.Hello == nil {
		return errors.Join(errors.New("the first word must be hello"), err)
	}
	_ = c.conn.SetReadDeadline(time.Time{})
	welcome, ok := r.join(c, w.Hello)
	if !ok {
		return fmt.Errorf("rank %d of generation %d is none of ours", w.Hello.Rank, w.Hello.Generation)
	}
	defer r.Conns.remove(c)
	var writer sync.WaitGroup
	defer writer.Wait()
	defer close(c.ended)
	writer.Go(func() { c.write(welcome) })
	copied := make(chan *word.Copied, word.MaxSlots)
	defer close(copied)
	writer.Go(func() {
		for w := range copied {
			r.seal(c, w)
		}
	})
	for lines.Scan() {
		w, err := word.Parse(lines.Bytes())
		if err != nil {
			return err
		}
		if w.Hello != nil {
			return fmt.Errorf("%w: hello comes once", word.ErrWord)
		}
		if w.Copied == nil {
			r.Conns.parting(c, w)
			r.takeFrom(c, w)
			continue
		}
		select {
		case copied <- w.Copied:
		default:
			return fmt.Errorf("%w: more was copied than there are slots", word.ErrWord)
		}
	}
	return tooLong(lines.Err())
}

// tooLong is the one way of ending that is worth a word.
func tooLong(err error) error {
	if errors.Is(err, bufio.ErrTooLong) {
		return err
	}
	return nil
}

// write is the only one who sends.
func (c *rankConn) write(welcome word.Answer) {
	if _, err := c.conn.Write(welcome.Line()); err != nil {
		return
	}
	for {
		select {
		case <-c.ended:
			return
		case <-c.wake:
		}
		c.mu.Lock()
		out := c.out
		c.out = rankOutbox{}
		c.mu.Unlock()
		var lines []byte
		if out.stop != nil {
			lines = word.Answer{Stop: out.stop}.Line()
		}
		if out.leave != nil {
			lines = append(lines, word.Answer{Leave: out.leave}.Line()...)
		}
		if out.place != nil { // before what is said of the new generation
			lines = append(lines, word.Answer{Place: out.place}.Line()...)
		}
		for name, role := range out.roles { // each in a line of its own: a line is bounded
			lines = append(lines, word.Answer{Roles: map[string]word.Role{name: role}}.Line()...)
		}
		if out.pin != nil { // before a watermark that would free them
			lines = append(lines, word.Answer{Pin: out.pin}.Line()...)
		}
		if out.watermark > 0 || out.held {
			lines = append(lines, word.Answer{Watermark: &word.Watermark{Step: out.watermark, Held: out.held, Keep: out.keep}}.Line()...)
		}
		if out.durable != nil {
			lines = append(lines, word.Answer{Durable: out.durable}.Line()...)
		}
		if out.interval != nil {
			lines = append(lines, word.Answer{Interval: out.interval}.Line()...)
		}
		if out.checkpoint != nil {
			lines = append(lines, word.Answer{Checkpoint: out.checkpoint}.Line()...)
		}
		if _, err := c.conn.Write(lines); err != nil {
			return
		}
	}
}
