package link

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link/hearing"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
	"github.com/fermi-cluster/fermi/internal/link/message"
)

// maxForwarded bounds the launchers one follower may speak for.
const maxForwarded = 200_000

// follower is, at the leader, another server that speaks for its launchers.
type follower struct {
	name   string
	cancel context.CancelCauseFunc
	names  map[engine.Name]struct{} // of the peers that came through it; guarded by roll.mu
	wake   chan struct{}

	mu   sync.Mutex
	out  map[engine.Name]outbox // never more than names: the newest of each thing to say
	seen time.Time
}

func (f *follower) post(name engine.Name, change func(*outbox)) {
	f.mu.Lock()
	o := f.out[name]
	change(&o)
	f.out[name] = o
	f.mu.Unlock()
	poke(f.wake)
}

func poke(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

func (f *follower) take() map[engine.Name]outbox {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.out
	f.out = map[engine.Name]outbox{}
	return out
}

func (f *follower) heard(now time.Time) {
	f.mu.Lock()
	f.seen = now
	f.mu.Unlock()
}

func (f *follower) silentFor(now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return now.Sub(f.seen)
}

// Forward is a follower's stream.
func (p *peerServer) Forward(stream linkpb.Peer_ForwardServer) error {
	h := p.hub
	m, err := stream.Recv()
	if err != nil {
		return err
	}
	hello := m.GetHello()
	if hello == nil || len(hello.GetName()) > message.MaxName || hello.GetEpoch() <= 0 {
		return message.Refuse("the first message must be hello")
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	f := &follower{
		name: hello.GetName(), cancel: cancel, names: map[engine.Name]struct{}{}, wake: make(chan struct{}, 1),
		out: map[engine.Name]outbox{}, seen: h.cfg.Clock.Now(),
	}
	if err := h.roll.addFollower(f, hello.GetEpoch()); err != nil {
		return err
	}
	defer h.roll.removeFollower(f)
	welcome := &linkpb.ToFollower{Message: &linkpb.ToFollower_Welcome{Welcome: &linkpb.LeaderWelcome{Epoch: hello.GetEpoch()}}}
	if err := stream.Send(welcome); err != nil {
		return err
	}
	h.cfg.Log.Info("a follower forwards", "server", f.name)
	p.readers.Go(func() { cancel(p.hearFollower(f, stream)) })
	return p.tellFollower(ctx, f, stream)
}

// hearFollower takes facts until the stream ends.
func (p *peerServer) hearFollower(f *follower, stream linkpb.Peer_ForwardServer) error {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return errHungUp
		}
		if err != nil {
			return err
		}
		f.heard(p.hub.cfg.Clock.Now())
		switch v := m.GetMessage().(type) {
		case *linkpb.FromFollower_Beat:
		case *linkpb.FromFollower_Facts:
			if err := p.takeFacts(f, v.Facts); err != nil {
				p.hub.cfg.Log.Warn("follower broke the protocol", "server", f.name, "error", err)
				return err
			}
		default:
			return message.Refuse("unknown message")
		}
	}
}

// takeFacts notes the newest about one launcher of a follower.
func (p *peerServer) takeFacts(f *follower, m *linkpb.Facts) error {
	name := engine.Name(m.GetReplica())
	parts, err := ParseName(name)
	if err != nil {
		return message.Refuse("facts of no replica")
	}
	if _, ok := stateRank[engine.State(m.GetState())]; !ok || m.GetSession() < 0 || checkUsage(m.GetUsage()) != nil || message.CheckRanks(m.GetRanks()) != nil || message.CheckProbed(m.GetProbed()) != nil {
		return message.Refuse("facts that can't be")
	}
	p.hub.tellRanks(parts.TaskID, name, p.hub.roll.noteFacts(f, name, parts, m), len(m.GetRanks().GetHeld()) > 0)
	return nil
}

// tellFollower is the only one who sends: orders and beats.
func (p *peerServer) tellFollower(ctx context.Context, f *follower, stream linkpb.Peer_ForwardServer) error {
	tick := p.hub.cfg.Clock.After(hearing.BeatEvery)
	for {
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); status.Code(cause) != codes.Unknown {
				return cause
			}
			return errHungUp
		case <-f.wake:
			for name, out := range f.take() {
				if out.start == nil && out.stop == nil && out.watermark == nil && out.probe == nil {
					continue
				}
				order := &linkpb.Order{Replica: string(name), Go: out.start, Stop: out.stop, Watermark: out.watermark, Probe: out.probe}
				if err := stream.Send(&linkpb.ToFollower{Message: &linkpb.ToFollower_Order{Order: order}}); err != nil {
					return err
				}
			}
		case <-tick:
			now := p.hub.cfg.Clock.Now()
			if f.silentFor(now) > hearing.SilenceLimit {
				return errSilent
			}
			if err := stream.Send(&linkpb.ToFollower{Message: &linkpb.ToFollower_Beat{Beat: &linkpb.Beat{SentUnixNano: now.UnixNano()}}}); err != nil {
				return err
			}
			tick = p.hub.cfg.Clock.After(hearing.BeatEvery)
		}
	}
}

func usageOf(u *linkpb.Usage, at time.Time) Usage {
	return Usage{
		CPU: time.Duration(u.GetCpuNanos()), RSS: u.GetRssBytes(), Peak: u.GetPeakBytes(), Processes: int(u.GetProcesses()), At: at,
	}
}
