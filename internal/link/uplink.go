package link

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/grpc"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link/hearing"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
)

// uplink is, at a follower, the one stream to the leader.
type uplink struct {
	epoch int64
	wake  chan struct{}

	mu    sync.Mutex
	dirty map[engine.Name]struct{} // launchers the leader must hear of; never more than are known
}

func (u *uplink) mark(name engine.Name) {
	u.mu.Lock()
	u.dirty[name] = struct{}{}
	u.mu.Unlock()
	poke(u.wake)
}

func (u *uplink) take() map[engine.Name]struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := u.dirty
	u.dirty = map[engine.Name]struct{}{}
	return out
}

// forwarding speaks for the launchers of a hub to the leader.
type forwarding struct{ hub *Hub }

// follow speaks for our launchers to the leader of this epoch until the stream breaks. connected: it
// took us.
func (f *forwarding) follow(ctx context.Context, conn *grpc.ClientConn, name string, epoch int64) (connected bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stream, err := linkpb.NewPeerClient(conn).Forward(ctx)
	if err != nil {
		return false, err
	}
	watched, stop := f.watchSilence(ctx, cancel)
	defer stop()
	hello := &linkpb.FollowerHello{Name: name, Epoch: epoch}
	_ = stream.Send(&linkpb.FromFollower{Message: &linkpb.FromFollower_Hello{Hello: hello}}) // Recv has the reason
	m, err := stream.Recv()
	if err != nil {
		return false, errors.Join(err, context.Cause(ctx))
	}
	if m.GetWelcome().GetEpoch() != epoch {
		return false, errors.New("the leader's first word is no welcome")
	}
	u := &uplink{epoch: epoch, wake: make(chan struct{}, 1), dirty: map[engine.Name]struct{}{}}
	if !f.hub.roll.connect(u) {
		return false, errNotLeading // we lead ourselves, or know a newer one
	}
	defer f.hub.roll.disconnect(u)
	f.hub.cfg.Log.Info("launchers are forwarded to the leader", "epoch", epoch)
	heard := make(chan error, 1)
	go func() {
		err := f.hearLeader(u, stream, watched)
		cancel(err)
		heard <- err
	}()
	err = f.tellLeader(ctx, u, stream)
	cancel(err)
	return true, errors.Join(err, <-heard)
}

// watchSilence ends the session when the leader says nothing for too long.
func (f *forwarding) watchSilence(ctx context.Context, cancel context.CancelCauseFunc) (heard chan struct{}, stop func()) {
	heard = make(chan struct{}, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ctx.Done():
				return
			case <-heard:
			case <-f.hub.cfg.Clock.After(hearing.SilenceLimit):
				cancel(errSilent)
				return
			}
		}
	}()
	return heard, func() { cancel(nil); <-ended }
}

// hearLeader passes orders on to the launchers attached here.
func (f *forwarding) hearLeader(u *uplink, stream linkpb.Peer_ForwardClient, heard chan struct{}) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		poke(heard)
		switch v := m.GetMessage().(type) {
		case *linkpb.ToFollower_Beat:
		case *linkpb.ToFollower_Order:
			if err := f.passOn(u, v.Order); err != nil {
				return err
			}
		default:
			return errors.New("unknown message")
		}
	}
}

func (f *forwarding) passOn(u *uplink, o *linkpb.Order) error {
	for _, m := range []*linkpb.ToLauncher{
		{Message: &linkpb.ToLauncher_Go{Go: o.GetGo()}}, {Message: &linkpb.ToLauncher_Stop{Stop: o.GetStop()}},
		{Message: &linkpb.ToLauncher_Watermark{Watermark: o.GetWatermark()}}, {Message: &linkpb.ToLauncher_Probe{Probe: o.GetProbe()}},
	} {
		if m.GetGo() == nil && m.GetStop() == nil && m.GetWatermark() == nil && m.GetProbe() == nil {
			continue
		}
		if err := checkToLauncher(m); err != nil {
			return err
		}
	}
	if o.GetGo() != nil && o.GetGo().GetEpoch() != u.epoch {
		return fmt.Errorf("go of epoch %d from the leader of %d", o.GetGo().GetEpoch(), u.epoch)
	}
	f.hub.roll.pass(u, engine.Name(o.GetReplica()), func(out *outbox) {
		if o.GetGo() != nil {
			out.start = o.GetGo()
		}
		if o.GetStop() != nil {
			out.stop = o.GetStop()
		}
		if o.GetWatermark() != nil {
			out.watermark = o.GetWatermark()
		}
		if o.GetProbe() != nil {
			out.probe = o.GetProbe()
		}
	})
	return nil
}

// tellLeader is the only one who sends: facts and beats.
func (f *forwarding) tellLeader(ctx context.Context, u *uplink, stream linkpb.Peer_ForwardClient) error {
	tick := f.hub.cfg.Clock.After(hearing.BeatEvery)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-u.wake:
			for name := range u.take() {
				facts := f.hub.roll.factsOf(name)
				if facts == nil {
					continue
				}
				if err := stream.Send(&linkpb.FromFollower{Message: &linkpb.FromFollower_Facts{Facts: facts}}); err != nil {
					return err
				}
			}
		case <-tick:
			beat := &linkpb.Beat{SentUnixNano: f.hub.cfg.Clock.Now().UnixNano()}
			if err := stream.Send(&linkpb.FromFollower{Message: &linkpb.FromFollower_Beat{Beat: beat}}); err != nil {
				return err
			}
			tick = f.hub.cfg.Clock.After(hearing.BeatEvery)
		}
	}
}
