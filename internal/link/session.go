package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/proto"

	"github.com/fermi-cluster/fermi/internal/link/door"
	"github.com/fermi-cluster/fermi/internal/link/endpoint"
	"github.com/fermi-cluster/fermi/internal/link/hearing"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
	"github.com/fermi-cluster/fermi/internal/link/message"
)

// identity is the metadata of every call.
type identity struct{ name, token string }

func (i identity) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{metaToken: "Bearer " + i.token, MetaReplica: i.name}, nil
}

// RequireTransportSecurity is false: within one machine the socket's folder is the guard.
func (identity) RequireTransportSecurity() bool { return false }

// window is how much may be under way unread. It is said, not measured: measuring answers every small
// message with a ping, which doubles what a generation of many launchers costs.
const window = 4 << 20

// quiet is when gRPC itself asks whether the other end is still there; it does so for connections that carry
// no beats.
const quiet = 20 * time.Second

// dial makes a connection that is given up at the first failure: when and where to dial again is
// decided in Run, not by gRPC.
func (c *Client) dial(target string) (*grpc.ClientConn, error) {
	to, err := endpoint.Split(target)
	if err != nil {
		return nil, err
	}
	connect, err := c.road.To(to, c.cfg.Dial)
	if err != nil {
		return nil, err
	}
	return grpc.NewClient("passthrough:///"+to.Address,
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			conn, err := connect(ctx, to.Network, to.Address)
			if err != nil {
				return nil, err
			}
			return door.Attended(conn, hearing.BeatEvery), nil
		}),
		grpc.WithAuthority("fermi"), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithPerRPCCredentials(identity{string(c.cfg.Name), c.cfg.Token}),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(), grpc.WithIdleTimeout(0),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: maxPause, Multiplier: 1, MaxDelay: maxPause}, MinConnectTimeout: patience}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: quiet, Timeout: quiet}),
		grpc.WithReadBufferSize(8<<10), grpc.WithWriteBufferSize(32<<10),
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window),
	)
}

// session is one stream to one server. sent… is what this server has been told.
type session struct {
	c      *Client
	stream linkpb.Link_AttachClient
	said   facts

	next     int64 // log offset to send next
	received int64 // what the hub took in; guarded by c.mu
	lastSent bool
	buf      []byte
	acked    chan struct{} // received moved
	asked    chan struct{} // a beat came
}

// session says hello and speaks until the stream breaks. welcomed: the server took us.
func (c *Client) session(ctx context.Context, target string, greet time.Duration) (welcomed bool, err error) {
	conn, err := c.dial(target)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel(nil) // before the wait, so that the watchdog ends
	alive := c.watchdog(ctx, cancel, &watch, target, greet)
	stream, err := linkpb.NewLinkClient(conn).Attach(ctx)
	if err != nil {
		return false, err
	}
	welcome, err := c.greet(stream)
	if err != nil {
		return false, err
	}
	alive(time.Duration(welcome.GetNextNanos()))
	c.mu.Lock()
	c.target = target
	c.log.durable = max(c.log.durable, welcome.GetLogFrom())
	c.mu.Unlock()
	s := &session{
		c: c, stream: stream, next: welcome.GetLogFrom(), received: welcome.GetLogFrom(),
		acked: make(chan struct{}, 1), asked: make(chan struct{}, 1),
	}
	if c.cfg.Beside != nil {
		watch.Go(func() { c.cfg.Beside(ctx, conn) })
	}
	heard := make(chan error, 1)
	go func() {
		err := s.listen(alive)
		cancel(err)
		heard <- err
	}()
	err = s.speak(ctx)
	if c.finished() {
		_ = stream.CloseSend() // so that the server reads to the end before it sees us go
	} else {
		cancel(err)
	}
	return true, errors.Join(err, <-heard)
}

// watchdog ends the session when nothing was heard for limit at first, then for what the last beat
// allows; longer where target is the only server. The returned function says that something was, and
// when the next beat is due; 0: as before.
func (c *Client) watchdog(ctx context.Context, cancel context.CancelCauseFunc, wg *sync.WaitGroup, target string, limit time.Duration) func(next time.Duration) {
	heard := make(chan struct{}, 1)
	var due atomic.Int64
	wg.Go(func() {
		silent := time.Duration(0)
		for {
			select {
			case <-ctx.Done():
				return
			case <-heard:
				silent = 0
				limit = hearing.SilenceAfter(time.Duration(due.Load()))
			case <-c.cfg.Clock.After(limit):
				if silent += limit; silent < patience && slices.Equal(c.endpoints(), []string{target}) {
					limit = min(2*limit, patience-silent) // thousands may wait so, and each look is a file read
					continue
				}
				cancel(fmt.Errorf("nothing heard for %v", silent))
				return
			}
		}
	})
	return func(next time.Duration) {
		if next > 0 {
			due.Store(int64(next))
		}
		select {
		case heard <- struct{}{}:
		default:
		}
	}
}

func (c *Client) greet(stream linkpb.Link_AttachClient) (*linkpb.Welcome, error) {
	c.mu.Lock()
	c.sessions++
	hello := &linkpb.Hello{
		Replica: string(c.cfg.Name), Attempt: int32(c.parts.Attempt), TaskId: c.parts.TaskID,
		Epoch: c.epoch, State: string(c.state), BootId: c.boot, Pid: int32(os.Getpid()), Session: c.sessions, Calls: c.cfg.Calls != nil,
	}
	c.mu.Unlock()
	if err := stream.Send(&linkpb.FromLauncher{Message: &linkpb.FromLauncher_Hello{Hello: hello}}); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	m, err := stream.Recv() // after a failed Send this has the reason
	if err != nil {
		return nil, err
	}
	w := m.GetWelcome()
	if w == nil || w.GetEpoch() <= 0 || w.GetLogFrom() < 0 || w.GetNextNanos() < 0 || w.GetNextNanos() > int64(hearing.BeatMost) {
		return nil, errors.New("the server's first word is no welcome")
	}
	return w, c.raise(w.GetEpoch())
}

// raise remembers the epoch, or refuses a lower one. A new leader is told of the ranks again: with its epoch they have
// heard all that the last one said.
func (c *Client) raise(epoch int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if epoch < c.epoch {
		return errSuperseded
	}
	if r := c.facts.ranks; r != nil && epoch > c.epoch {
		next := proto.Clone(r).(*linkpb.Ranks) // the old one may be on its way
		next.Epoch, c.facts.ranks = epoch, next
		poke(c.wake)
	}
	c.epoch = epoch
	return nil
}

// listen takes what the server says.
func (s *session) listen(alive func(time.Duration)) error {
	for {
		m, err := s.stream.Recv()
		if err != nil {
			return err
		}
		if err := checkToLauncher(m); err != nil {
			return err
		}
		alive(time.Duration(m.GetBeat().GetNextNanos()))
		switch v := m.GetMessage().(type) {
		case *linkpb.ToLauncher_Go:
			if int(v.Go.GetAttempt()) != s.c.parts.Attempt {
				return fmt.Errorf("go for attempt %d", v.Go.GetAttempt())
			}
			if err := s.c.raise(v.Go.GetEpoch()); err != nil {
				return err
			}
			s.c.mu.Lock()
			s.c.world = int(v.Go.GetWorld())
			s.c.mu.Unlock()
			s.c.cfg.Orders.Go(v.Go.GetEpoch(), message.GenerationOf(v.Go))
		case *linkpb.ToLauncher_Beat:
			if e := v.Beat.GetEpoch(); e > 0 {
				if err := s.c.raise(e); err != nil {
					return err
				}
			}
			poke(s.asked)
		case *linkpb.ToLauncher_Stop:
			s.c.cfg.Orders.Stop(time.Duration(v.Stop.GetGraceNanos()))
		case *linkpb.ToLauncher_Watermark:
			w := message.WatermarkOf(v.Watermark)
			s.c.marked(w)
			s.c.cfg.Orders.Watermark(w)
		case *linkpb.ToLauncher_Probe:
			s.c.cfg.Orders.Probe(message.ProbeOf(v.Probe))
		case *linkpb.ToLauncher_Call:
			if s.c.cfg.Calls != nil {
				s.c.cfg.Calls(v.Call.GetId())
			}
		case *linkpb.ToLauncher_LogAck:
			s.ack(v.LogAck)
		}
	}
}

func (s *session) ack(a *linkpb.LogAck) {
	c := s.c
	size, closed := c.cfg.Spool.Size()
	c.mu.Lock()
	s.received = max(s.received, a.GetReceived())
	c.log.durable = max(c.log.durable, a.GetDurable())
	all := closed && s.lastSent && c.log.durable >= size
	if all && !c.log.all {
		c.log.all = true
		close(c.log.ended)
	}
	c.mu.Unlock()
	poke(s.acked)
}

// speak is the only one who sends: facts first, then answers to beats, then as much log as the window allows.
func (s *session) speak(ctx context.Context) error {
	clock := s.c.cfg.Clock
	var rest <-chan time.Time // a small batch was sent just now: gather a little
	for {
		if told, err := s.sayFacts(); err != nil || told {
			return err
		}
		if rest == nil {
			n, err := s.sendLog()
			if err != nil {
				return err
			}
			if n >= small {
				continue
			}
			if n > 0 {
				rest = clock.After(gather)
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.asked:
			m := &linkpb.FromLauncher{Message: &linkpb.FromLauncher_Beat{Beat: &linkpb.Beat{SentUnixNano: clock.Now().UnixNano()}}}
			if err := s.send(m); err != nil {
				return err
			}
		case <-rest:
			rest = nil
		case <-s.c.wake:
		case <-s.acked:
		case <-s.c.cfg.Spool.Changed():
		}
	}
}

// send returns the stream's end instead of EOF where it has one.
func (s *session) send(m *linkpb.FromLauncher) error {
	err := s.stream.Send(m)
	if errors.Is(err, io.EOF) {
		return errors.New("the server closed the stream")
	}
	return err
}

// sayFacts says what is new since the last time on this stream; told: done was among it.
func (s *session) sayFacts() (told bool, err error) {
	s.c.mu.Lock()
	now := s.c.facts
	s.c.mu.Unlock()
	var list []*linkpb.FromLauncher
	if now.started != s.said.started {
		list = append(list, &linkpb.FromLauncher{Message: &linkpb.FromLauncher_Started{Started: now.started}})
	}
	if now.usage != s.said.usage {
		list = append(list, &linkpb.FromLauncher{Message: &linkpb.FromLauncher_Usage{Usage: now.usage}})
	}
	if now.ranks != s.said.ranks {
		list = append(list, &linkpb.FromLauncher{Message: &linkpb.FromLauncher_Ranks{Ranks: now.ranks}})
	}
	if now.probed != s.said.probed {
		list = append(list, &linkpb.FromLauncher{Message: &linkpb.FromLauncher_Probed{Probed: now.probed}})
	}
	if now.exited != s.said.exited {
		list = append(list, &linkpb.FromLauncher{Message: &linkpb.FromLauncher_Exited{Exited: now.exited}})
	}
	if now.done != s.said.done {
		list = append(list, &linkpb.FromLauncher{Message: &linkpb.FromLauncher_Done{Done: now.done}})
	}
	for _, m := range list {
		if err := s.send(m); err != nil {
			return false, err
		}
	}
	s.said = now
	if now.done != nil && !s.c.finished() {
		close(s.c.doneCh)
	}
	return now.done != nil, nil
}

// sendLog sends one batch of whole lines, if there is one and the window has room.
func (s *session) sendLog() (int, error) {
	size, closed := s.c.cfg.Spool.Size()
	s.c.mu.Lock()
	room := s.received + logWindow - s.next
	s.c.mu.Unlock()
	// A spool shorter than what the server has (a disk that lost its tail) has nothing to add.
	n := int(min(size-s.next, maxLogData))
	if n > 0 && room < maxLogData {
		return 0, nil
	}
	last := closed && !s.lastSent && s.next+int64(max(n, 0)) >= size
	if n <= 0 && !last {
		return 0, nil
	}
	data, err := s.readLines(max(n, 0))
	if err != nil {
		return 0, err
	}
	last = last && s.next+int64(len(data)) >= size
	if last {
		s.c.mu.Lock()
		s.lastSent = true
		s.c.mu.Unlock()
	}
	m := &linkpb.LogData{Offset: s.next, Data: data, Last: last}
	if err := s.send(&linkpb.FromLauncher{Message: &linkpb.FromLauncher_Log{Log: m}}); err != nil {
		return 0, err
	}
	s.next += int64(len(data))
	return len(data), nil
}

// readLines reads at most n bytes of the spool and cuts after the last whole line.
func (s *session) readLines(n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	if cap(s.buf) < n {
		s.buf = make([]byte, max(n, 4<<10))
	}
	buf := s.buf[:n]
	if k, err := s.c.cfg.Spool.ReadAt(buf, s.next); k < n {
		return nil, fmt.Errorf("read spool at %d: %w", s.next, err)
	}
	for i := n; i > 0; i-- {
		if buf[i-1] == '\n' {
			return buf[:i], nil
		}
	}
	return nil, fmt.Errorf("spool has no line end within %d bytes of %d", n, s.next)
}
