package link

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/hearing"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
)

var (
	errNotLeading = status.Error(codes.Unavailable, "this server does not lead now")
	errReplaced   = status.Error(codes.Aborted, "a newer stream of the same replica took over")
	errSilent     = status.Error(codes.Unavailable, "no heartbeat")
	errHungUp     = status.Error(codes.Unavailable, "the launcher hung up")
)

// peer is one attached launcher: of this server or, at the leader, of a follower. The handler's goroutine writes, a second one reads, a third
// appends log data, so that a slow blob store holds up only the log.
type peer struct {
	name  engine.Name
	parts Parts
	epoch int64 // of the leader when it attached
	// session counts the launcher's streams; the higher one is the newer.
	session int64
	every   time.Duration  // between the welcome and the first beat
	told    *linkpb.Go     // the last order; guarded by the hub
	voice   *hearing.Voice // where what it says is noted; set when it is attached
	via     *follower      // that it is attached to; nil: to us, and only then what follows is used

	ctx    context.Context // ends with the stream; never kept beyond it
	cancel context.CancelCauseFunc
	wake   chan struct{} // has one if out changed
	logs   chan *linkpb.LogData
	again  bool // it sends all of its log, also what is stored; set before logs is read, and then its reader's

	mu  sync.Mutex
	out outbox
}

// outbox holds the newest of each thing to say; each is idempotent, so nothing ever queues up.
type outbox struct {
	start     *linkpb.Go
	stop      *linkpb.StopOrder
	ack       *linkpb.LogAck
	watermark *linkpb.Watermark
	probe     *linkpb.Probe
	calls     []*linkpb.Call
	epoch     int64 // a new leader's
}

// queuedLogs holds the whole window even when it comes in small pieces of a busy moment; a
// launcher that sends more than its window waits in its own pipe.
const queuedLogs = 64

// hangUp ends the stream, if it is ours to end.
func (p *peer) hangUp(why error) {
	if p.via == nil {
		p.cancel(why)
	}
}

// post changes what the launcher is told next.
func (p *peer) post(change func(*outbox)) {
	if p.via != nil {
		p.via.post(p.name, change)
		return
	}
	p.mu.Lock()
	change(&p.out)
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *peer) take() outbox {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.out
	p.out = outbox{}
	return out
}

// Attach is a launcher's stream.
func (s *linkServer) Attach(stream linkpb.Link_AttachServer) error {
	who := caller(stream.Context())
	name, parts := who.name, who.parts
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	hello, err := s.hello(stream, who)
	if err != nil {
		return err
	}
	p := &peer{
		name: name, parts: parts, session: hello.GetSession(), ctx: ctx, cancel: cancel,
		wake: make(chan struct{}, 1), logs: make(chan *linkpb.LogData, queuedLogs),
	}
	from, err := s.welcome(ctx, p, hello)
	if err != nil {
		return err
	}
	if err := s.hub.roll.attach(p, engine.State(hello.GetState())); err != nil {
		return err
	}
	defer s.hub.roll.detach(p)
	if s.hub.cfg.Calls != nil {
		defer s.hub.cfg.Calls.Attach(name, func(id string) bool {
			if hello.GetCalls() {
				p.post(func(out *outbox) { out.calls = append(out.calls, &linkpb.Call{Id: id}) })
			}
			return hello.GetCalls()
		})()
	}
	p.every = s.hub.roll.beat()
	if err := stream.Send(&linkpb.ToLauncher{Message: &linkpb.ToLauncher_Welcome{
		Welcome: &linkpb.Welcome{Epoch: p.epoch, LogFrom: from, NextNanos: int64(p.every)},
	}}); err != nil {
		return err
	}
	s.hub.cfg.Notify(parts.TaskID, name)
	who.readers.Go(func() { s.readFrom(p, stream) })
	who.readers.Go(func() { s.keepLogs(p) })
	return s.writeTo(p, stream)
}

// hello waits for the first message, a bounded time: a stranger who holds the token but says
// nothing must not stay.
func (s *linkServer) hello(stream linkpb.Link_AttachServer, who callerInfo) (*linkpb.Hello, error) {
	type answer struct {
		m   *linkpb.FromLauncher
		err error
	}
	first := make(chan answer, 1)
	who.readers.Go(func() {
		m, err := stream.Recv()
		first <- answer{m, err}
	})
	select {
	case a := <-first:
		if a.err != nil {
			return nil, a.err
		}
		return a.m.GetHello(), checkHello(a.m.GetHello(), who.name, who.parts)
	case <-s.hub.cfg.Clock.After(patience):
		return nil, errSilent
	case <-stream.Context().Done():
		return nil, errHungUp
	}
}

// welcome finds the epoch to answer with and the offset to go on from.
func (s *linkServer) welcome(ctx context.Context, p *peer, hello *linkpb.Hello) (int64, error) {
	p.epoch = s.hub.roll.newest()
	if p.epoch == 0 {
		return 0, errNotLeading
	}
	if hello.GetEpoch() > p.epoch {
		return 0, status.Error(codes.Unavailable, "the launcher has already heard a newer leader")
	}
	short, cancel := context.WithTimeout(ctx, knownIn)
	defer cancel()
	from, err := s.hub.cfg.Logs.Durable(short, p.parts.TaskID, p.parts.LogKey())
	switch {
	case err == nil:
		return from, nil
	case ctx.Err() == nil && (short.Err() != nil || fault.CodeOf(err).Retry()):
		s.hub.cfg.Log.Warn("how much of a log is stored can't be known now; its launcher sends all of it", "replica", p.name, "error", err)
		p.again = true
		return 0, nil // what is stored already is skipped
	}
	return 0, Status(err)
}

// knownIn is how long the store of logs is asked before a launcher is welcomed without: it must not wait for a bucket that is away, and looks for another
// server soon after.
const knownIn = time.Second

// writeTo is the only one who sends. It ends the stream by returning.
func (s *linkServer) writeTo(p *peer, stream linkpb.Link_AttachServer) error {
	every := p.every
	tick := s.hub.cfg.Clock.After(every)
	for {
		select {
		case <-p.ctx.Done():
			if cause := context.Cause(p.ctx); status.Code(cause) != codes.Unknown {
				return cause
			}
			return errHungUp
		case <-p.wake:
			if err := s.sendAll(stream, p.take()); err != nil {
				return err
			}
		case <-tick:
			now := s.hub.cfg.Clock.Now()
			switch quiet := s.hub.SinceWord(p.voice); {
			case quiet > s.hub.roll.silence(every, now):
				return errSilent
			case quiet > hearing.SilenceAfter(every): // to a new leader all are late; who waits for it shall know even so
				s.hub.cfg.Notify(p.parts.TaskID, p.name)
			}
			every = s.hub.roll.beat()
			if err := stream.Send(beatOf(now, 0, every)); err != nil {
				return err
			}
			tick = s.hub.cfg.Clock.After(every)
		}
	}
}

func (s *linkServer) sendAll(stream linkpb.Link_AttachServer, out outbox) error {
	var list []*linkpb.ToLauncher
	if out.epoch > 0 { // before any order of that leader
		list = append(list, beatOf(s.hub.cfg.Clock.Now(), out.epoch, 0))
	}
	if out.stop != nil { // first: what shall stop should not start
		list = append(list, &linkpb.ToLauncher{Message: &linkpb.ToLauncher_Stop{Stop: out.stop}})
	}
	if out.start != nil {
		list = append(list, &linkpb.ToLauncher{Message: &linkpb.ToLauncher_Go{Go: out.start}})
	}
	if out.watermark != nil {
		list = append(list, &linkpb.ToLauncher{Message: &linkpb.ToLauncher_Watermark{Watermark: out.watermark}})
	}
	if out.probe != nil {
		list = append(list, &linkpb.ToLauncher{Message: &linkpb.ToLauncher_Probe{Probe: out.probe}})
	}
	for _, call := range out.calls {
		list = append(list, &linkpb.ToLauncher{Message: &linkpb.ToLauncher_Call{Call: call}})
	}
	if out.ack != nil {
		list = append(list, &linkpb.ToLauncher{Message: &linkpb.ToLauncher_LogAck{LogAck: out.ack}})
	}
	for _, m := range list {
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	return nil
}

// readFrom takes what the launcher says until the stream ends.
func (s *linkServer) readFrom(p *peer, stream linkpb.Link_AttachServer) {
	for {
		m, err := stream.Recv()
		if err != nil {
			p.hangUp(errHungUp)
			return
		}
		s.hub.Hear(p.voice)
		if err := checkFromLauncher(m); err != nil {
			s.hub.cfg.Log.Warn("launcher broke the protocol", "replica", p.name, "error", err)
			p.hangUp(err)
			return
		}
		s.take(p, m)
	}
}

func (s *linkServer) take(p *peer, m *linkpb.FromLauncher) {
	switch v := m.GetMessage().(type) {
	case *linkpb.FromLauncher_Started:
		s.reached(p, engine.StateRunning)
	case *linkpb.FromLauncher_Exited:
		s.reached(p, engine.StateExited)
	case *linkpb.FromLauncher_Done:
		s.reached(p, engine.StateDone)
	case *linkpb.FromLauncher_Usage:
		u := v.Usage
		s.hub.roll.tell(p, func(k *known) {
			k.usage = usageOf(u, s.hub.cfg.Clock.Now())
		})
	case *linkpb.FromLauncher_Ranks:
		changed := false
		s.hub.roll.tell(p, func(k *known) { changed = k.noteRanks(v.Ranks) })
		s.hub.tellRanks(p.parts.TaskID, p.name, changed, len(v.Ranks.GetHeld()) > 0 || v.Ranks.GetKeeping() != nil || v.Ranks.GetOffer() > 0)
	case *linkpb.FromLauncher_Probed:
		s.hub.roll.tell(p, func(k *known) {
			k.probed = v.Probed
			s.hub.roll.probes.answered(v.Probed)
		})
	case *linkpb.FromLauncher_Log:
		select {
		case p.logs <- v.Log:
		case <-p.ctx.Done():
		}
	}
}

func (s *linkServer) reached(p *peer, state engine.State) {
	s.hub.roll.tell(p, func(k *known) { k.advance(state) })
	s.hub.cfg.Notify(p.parts.TaskID, p.name)
}

// keepLogs appends log data in order and acknowledges. A refusal that a retry can mend is retried
// here with the data in hand; anything else ends the stream, and the launcher begins again from
// what is durable.
func (s *linkServer) keepLogs(p *peer) {
	for {
		select {
		case <-p.ctx.Done():
			return
		case d := <-p.logs:
			if err := s.keepLog(p, d); err != nil {
				if p.ctx.Err() == nil {
					s.hub.cfg.Log.Warn("log data refused", "replica", p.name, "offset", d.GetOffset(), "error", err)
				}
				p.hangUp(Status(err))
				return
			}
		}
	}
}

func (s *linkServer) keepLog(p *peer, d *linkpb.LogData) error {
	task, key := p.parts.TaskID, p.parts.LogKey()
	var durable int64
	if len(d.GetData()) > 0 {
		if err := s.persist(p, func() error {
			fresh, err := s.fresh(p, d)
			if err != nil {
				return err
			}
			return s.hub.cfg.keep(p.ctx, task, KeptLogs, fresh, func() (err error) {
				durable, err = s.hub.cfg.Logs.Append(p.ctx, task, key, d.GetOffset(), d.GetData())
				return err
			})
		}); err != nil {
			return err
		}
	}
	received := d.GetOffset() + int64(len(d.GetData()))
	if d.GetLast() {
		if err := s.persist(p, func() (err error) {
			durable, err = s.hub.cfg.Logs.Finish(p.ctx, task, key)
			return err
		}); err != nil {
			return err
		}
	}
	p.post(func(out *outbox) { out.ack = &linkpb.LogAck{Durable: durable, Received: received} })
	return nil
}

// fresh is how many bytes of it are not stored yet: what is stored was charged then.
func (s *linkServer) fresh(p *peer, d *linkpb.LogData) (int64, error) {
	all := int64(len(d.GetData()))
	if !p.again {
		return all, nil
	}
	durable, err := s.hub.cfg.Logs.Durable(p.ctx, p.parts.TaskID, p.parts.LogKey())
	if err != nil {
		return 0, err
	}
	p.again = durable > d.GetOffset()
	return min(max(d.GetOffset()+all-durable, 0), all), nil
}

// persist tries until it works, the stream ends, or a retry is pointless.
func (s *linkServer) persist(p *peer, try func() error) error {
	pause := 100 * time.Millisecond
	for {
		err := try()
		if err == nil || p.ctx.Err() != nil {
			return err
		}
		if code := fault.CodeOf(err); !code.Retry() && code != fault.Full {
			return err
		}
		s.hub.cfg.Log.Warn("log not stored yet", "replica", p.name, "error", err)
		select {
		case <-p.ctx.Done():
			return p.ctx.Err()
		case <-s.hub.cfg.Clock.After(pause):
		}
		pause = min(2*pause, 5*time.Second)
	}
}
