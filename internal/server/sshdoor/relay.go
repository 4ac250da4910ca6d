package sshdoor

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"

	"golang.org/x/crypto/ssh"

	"github.com/fermi-cluster/fermi/internal/link/talk"
	"github.com/fermi-cluster/fermi/internal/link/talk/talkpb"
	"github.com/fermi-cluster/fermi/internal/sshrelay"
)

// relayProgram is this very program, as the tenant, behind the wall: what a client forwards listens and connects there with the tenant's rights.
var relayProgram = []string{"fermi", "ssh-relay"}

// relay is what a client has forwarded into the environment. Its program starts with the first wish.
type relay struct {
	v    *visit
	ctx  context.Context //nolint:containedctx // the connection's: its program lives as long
	conn ssh.Conn
	work *sync.WaitGroup

	mu      sync.Mutex
	program *sshrelay.Session
	ways    map[string]*way // what listens, by id
	agentAt string
}

// way is one that listens, and how the client is told of who comes.
type way struct {
	stream  io.Closer
	channel string
	head    func(a sshrelay.Arrival) []byte
}

func newRelay(ctx context.Context, v *visit, conn ssh.Conn, work *sync.WaitGroup) *relay {
	return &relay{v: v, ctx: ctx, conn: conn, work: work, ways: map[string]*way{}}
}

// running is the program, started if need be.
func (r *relay) running() (*sshrelay.Session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.program != nil {
		return r.program, nil
	}
	stream, end, err := r.v.line(r.ctx)
	if err != nil {
		return nil, err
	}
	end = sync.OnceFunc(end)
	pipe := &programPipe{line: sender{stream: stream}, end: end}
	if err := pipe.line.say(&talkpb.Frame{Message: &talkpb.Frame_Open{Open: &talkpb.Open{Session: "ssh-" + rand.Text(), Bound: true, Rank: -1, Command: relayProgram}}}); err != nil {
		end()
		return nil, err
	}
	s, err := sshrelay.NewSession(pipe)
	if err != nil {
		end()
		return nil, err
	}
	r.program = s
	stop := context.AfterFunc(r.ctx, func() { _ = s.Close() })
	r.work.Go(func() {
		defer stop()
		defer s.Close()
		r.arrivals(s)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.program, r.ways, r.agentAt = nil, map[string]*way{}, "" // somebody in there ended it: the next wish starts another
	})
	return s, nil
}

// arrivals brings the client who connects to what it has forwarded.
func (r *relay) arrivals(s *sshrelay.Session) {
	room := make(chan struct{}, mostChannels)
	for {
		c, a, err := s.Next()
		if err != nil {
			return
		}
		r.mu.Lock()
		w := r.ways[a.ID]
		r.mu.Unlock()
		select {
		case room <- struct{}{}:
		default:
			w = nil
		}
		if w == nil {
			_ = c.Close()
			continue
		}
		r.work.Go(func() {
			defer func() { <-room }()
			defer c.Close()
			ch, requests, err := r.conn.OpenChannel(w.channel, w.head(a))
			if err != nil {
				return
			}
			go ssh.DiscardRequests(requests)
			talk.Joint(ch, c)
		})
	}
}

// listen has the program listen; key is what the client names it by.
func (r *relay) listen(key string, ask sshrelay.Request, w *way) (sshrelay.Answer, error) {
	s, err := r.running()
	if err != nil {
		return sshrelay.Answer{}, err
	}
	ask.ID = key
	r.mu.Lock()
	_, taken := r.ways[key]
	if !taken {
		r.ways[key] = w // somebody may come before the answer does
	}
	r.mu.Unlock()
	if taken {
		return sshrelay.Answer{}, errors.New("it is forwarded already")
	}
	c, a, err := s.Ask(ask)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		delete(r.ways, key)
		return a, err
	}
	w.stream = c
	return a, nil
}

// end has the program listen no more.
func (r *relay) end(key string) bool {
	r.mu.Lock()
	w := r.ways[key]
	delete(r.ways, key)
	r.mu.Unlock()
	if w == nil || w.stream == nil {
		return false
	}
	return w.stream.Close() == nil
}

// answer hears what the client wishes beside its channels: -R, its ends, and signs of life.
func (r *relay) answer(q *ssh.Request) {
	ok, said := r.heard(q)
	if q.WantReply {
		_ = q.Reply(ok, said)
	}
}

func (r *relay) heard(q *ssh.Request) (ok bool, said []byte) {
	switch q.Type {
	case "tcpip-forward", "cancel-tcpip-forward":
		var at struct {
			Host string
			Port uint32
		}
		if ssh.Unmarshal(q.Payload, &at) != nil || at.Port > 65535 || len(at.Host) > 255 {
			return false, nil
		}
		if q.Type != "tcpip-forward" {
			return r.end(tcpKey(at.Host, at.Port)), nil
		}
		return r.port(at.Host, at.Port)
	case "streamlocal-forward@openssh.com", "cancel-streamlocal-forward@openssh.com":
		var at struct{ Path string }
		if ssh.Unmarshal(q.Payload, &at) != nil || len(at.Path) > maxPath {
			return false, nil
		}
		if q.Type != "streamlocal-forward@openssh.com" {
			return r.end("unix " + at.Path), nil
		}
		_, err := r.listen("unix "+at.Path, sshrelay.Request{Kind: sshrelay.KindUnix, Path: at.Path}, &way{channel: "forwarded-streamlocal@openssh.com", head: func(sshrelay.Arrival) []byte {
			return ssh.Marshal(struct{ Path, Reserved string }{at.Path, ""})
		}})
		return err == nil, nil
	}
	return false, nil // keep-alives are answered so
}

// maxPath is how long the path of a socket may be.
const maxPath = 4096

func tcpKey(host string, port uint32) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// port forwards a port of the environment's loopback; 0: any, which the client is told and names from then on.
func (r *relay) port(host string, port uint32) (ok bool, said []byte) {
	w := &way{channel: "forwarded-tcpip"}
	named := port
	w.head = func(a sshrelay.Arrival) []byte {
		r.mu.Lock()
		defer r.mu.Unlock()
		return ssh.Marshal(struct {
			Host       string
			Port       uint32
			Origin     string
			OriginPort uint32
		}{host, named, a.Host, uint32(a.Port)})
	}
	key := tcpKey(host, port)
	if port == 0 {
		key = "any " + rand.Text()
	}
	a, err := r.listen(key, sshrelay.Request{Kind: sshrelay.KindTCP, Port: int(port)}, w)
	if err != nil || a.Port < 1 || a.Port > 65535 {
		r.end(key)
		return false, nil
	}
	if port != 0 {
		return true, nil
	}
	r.mu.Lock()
	named = uint32(a.Port)
	r.ways[tcpKey(host, named)] = w // for its end
	r.mu.Unlock()
	return true, ssh.Marshal(struct{ Port uint32 }{named})
}

// agent is where the client's agent is reached in the environment.
func (r *relay) agent() (string, error) {
	r.mu.Lock()
	at := r.agentAt
	r.mu.Unlock()
	if at != "" {
		return at, nil
	}
	a, err := r.listen("agent", sshrelay.Request{Kind: sshrelay.KindAgent}, &way{channel: "auth-agent@openssh.com", head: func(sshrelay.Arrival) []byte { return nil }})
	if err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.agentAt = a.Path
	return a.Path, nil
}

// dial is a connection of -L to a socket of the environment.
func (r *relay) dial(c ssh.NewChannel) {
	var to struct {
		Path      string
		Reserved  string
		Reserved2 uint32
	}
	if err := ssh.Unmarshal(c.ExtraData(), &to); err != nil || len(to.Path) > maxPath {
		_ = c.Reject(ssh.ConnectionFailed, "no path")
		return
	}
	s, err := r.running()
	if err != nil {
		_ = c.Reject(ssh.ConnectionFailed, "the environment is not reached")
		return
	}
	stream, _, err := s.Ask(sshrelay.Request{Kind: sshrelay.KindDial, Path: to.Path})
	if err != nil {
		_ = c.Reject(ssh.ConnectionFailed, clip(err.Error()))
		return
	}
	defer stream.Close()
	ch, requests, err := c.Accept()
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	talk.Joint(ch, stream)
}

// programPipe is the program's standard input and output.
type programPipe struct {
	line sender
	end  func()
	rest []byte // of one reader
}

func (p *programPipe) Read(b []byte) (int, error) {
	for len(p.rest) == 0 {
		f, err := p.line.stream.Recv()
		if err != nil {
			return 0, err
		}
		switch m := f.GetMessage().(type) {
		case *talkpb.Frame_Data:
			if !m.Data.GetErrors() {
				p.rest = m.Data.GetData()
			}
		case *talkpb.Frame_Exit, *talkpb.Frame_Refused:
			return 0, io.EOF
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

func (p *programPipe) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		part := append([]byte(nil), b[:min(len(b), 32<<10)]...) // gRPC keeps what it is given
		if err := p.line.say(&talkpb.Frame{Message: &talkpb.Frame_Data{Data: &talkpb.Data{Data: part}}}); err != nil {
			return n, err
		}
		n, b = n+len(part), b[len(part):]
	}
	return n, nil
}

// Close has the launcher hang up on the program.
func (p *programPipe) Close() error {
	p.end()
	return nil
}
