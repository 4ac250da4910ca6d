package agentengine

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// HandConfig is what a Hand needs.
type HandConfig struct {
	// Open makes the machine's engine for the leader of an epoch; one at a time is run.
	Open func(epoch int64) (engine.Adapter, error)
	// Last is the highest epoch that the machine obeyed.
	Last func() (int64, error)
	// Hello is what the agent says of itself now.
	Hello func(ctx context.Context) (Hello, error)
	// Admit looks at what is to be started, changes it to what this machine can do, and keeps the token of its launcher, durably.
	Admit func(r *engine.Replica, token string) error
	// Forget is told of a replica that was removed.
	Forget func(name engine.Name)
	// Learn is told by a server that does not lead where the servers are; nil: nobody asks.
	Learn func(targets []string) error
	// Settle takes what servers say beside orders.
	Settle func(Settings) error
	// Erase deletes what the machine's disk has of a task's checkpoints.
	Erase func(taskID string) error
	// Upgrade begins to replace the agent's program; nil: it can't.
	Upgrade func(Program) error
	// Measure is how long connections to other machines take; nil: it measures none.
	Measure func(ctx context.Context, to []Reach) []Trip
	// Rehearse is told that a server took us and that the machine's engine knows what is there; then the stream ends and no order was obeyed.
	// nil: this is no rehearsal.
	Rehearse func()
	Log      *slog.Logger
	Clock    clock.Clock
}

// Hand is the agent's end: it has one engine, of the highest epoch that was heard of, and only Run touches it. Safe for concurrent use.
type Hand struct {
	cfg  HandConfig
	asks chan ask      // to Run
	over chan struct{} // closed when Run has ended
}

// ask wants the engine of an epoch.
type ask struct {
	epoch  int64
	answer chan answer // room for one
}

type answer struct {
	reign *reign
	err   error
}

// reign is the machine's engine under one epoch.
type reign struct {
	epoch   int64
	adapter engine.Adapter
	end     context.CancelFunc
	over    chan struct{} // closed when its Run has returned
}

// NewHand makes one; it starts nothing.
func NewHand(cfg HandConfig) *Hand {
	if cfg.Clock == nil {
		cfg.Clock = clock.Real
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Hand{cfg: cfg, asks: make(chan ask), over: make(chan struct{})}
}

var errOver = fault.New(fault.Unavailable, "AgentStopped", fault.T("The agent is shutting down.", "代理正在关闭。"))

// Run keeps what runs on this machine, also while no server is there, until ctx ends. Call it once. begun is called when streams can be attended.
func (h *Hand) Run(ctx context.Context, begun func()) error {
	defer close(h.over)
	epoch, err := h.cfg.Last()
	if err != nil {
		return err
	}
	now, err := h.raise(ctx, nil, epoch)
	if err != nil {
		return err
	}
	begun()
	for {
		select {
		case <-ctx.Done():
			if now != nil {
				<-now.over
			}
			return nil
		case a := <-h.asks:
			now, err = h.follow(ctx, now, a.epoch)
			if err != nil {
				a.answer <- answer{nil, err}
			} else {
				a.answer <- answer{now, nil}
			}
		}
	}
}

// follow is the engine of an epoch, opened where there is none yet; an error when a later leader has been here. now is the engine there is
// afterwards, nil where none could be opened.
func (h *Hand) follow(ctx context.Context, was *reign, epoch int64) (now *reign, err error) {
	ended := false
	if was != nil {
		select {
		case <-was.over:
			ended = true
		default:
		}
	}
	switch {
	case was != nil && epoch < was.epoch:
		return was, fault.New(fault.Conflict, "NewerLeader", fault.T(
			"A leader of epoch %d has given orders here; this server's is %d.", "此处已服从纪元 %d 的主节点，该服务器的纪元为 %d。", was.epoch, epoch))
	case was == nil || epoch > was.epoch || ended:
		return h.raise(ctx, was, epoch)
	}
	return was, nil
}

// raise opens the engine of an epoch in the place of that of a lower one.
func (h *Hand) raise(ctx context.Context, was *reign, epoch int64) (*reign, error) {
	if ctx.Err() != nil {
		return was, errOver
	}
	if was != nil {
		was.end()
		<-was.over
	}
	adapter, err := h.cfg.Open(epoch)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(ctx)
	r := &reign{epoch, adapter, end, make(chan struct{})}
	go func() {
		defer close(r.over)
		defer end()
		if err := adapter.Run(ctx); err != nil && ctx.Err() == nil {
			h.cfg.Log.Error("the engine of this machine has ended", "epoch", epoch, "error", err)
		}
	}()
	return r, nil
}

// under asks for the engine of an epoch.
func (h *Hand) under(ctx context.Context, epoch int64) (*reign, error) {
	a := ask{epoch, make(chan answer, 1)}
	select {
	case h.asks <- a:
		got := <-a.answer
		return got.reign, got.err
	case <-h.over:
		return nil, errOver
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Attend serves one server until the stream, ctx or the server's time ends. greeted is called when the server has taken us.
func (h *Hand) Attend(ctx context.Context, s Stream, greeted func()) error {
	hello, err := h.cfg.Hello(ctx)
	if err != nil {
		return err
	}
	if err := s.Send(frame(0, kindHello, hello)); err != nil {
		return err
	}
	first, err := s.Recv()
	if err != nil {
		return err
	}
	var l lead
	switch first.Kind {
	case kindRefuse:
		var r refusal
		if err := read(first, &r); err != nil {
			return err
		}
		if len(r.Targets) > 0 && h.cfg.Learn != nil {
			if err := h.cfg.Learn(r.Targets); err != nil {
				h.cfg.Log.Warn("where the servers are could not be kept", "error", err)
			}
		}
		return r.err()
	case kindLead:
		if err := read(first, &l); err != nil {
			return err
		}
	default:
		return errors.New("the server begins with " + first.Kind)
	}
	if err := h.cfg.Settle(l.Settings); err != nil {
		return err
	}
	under, err := h.under(ctx, l.Epoch)
	if err != nil {
		h.refuse(ctx, s, err)
		return err
	}
	greeted()
	if h.cfg.Rehearse != nil {
		return h.rehearse(ctx, under)
	}
	return h.serve(ctx, s, under)
}

// rehearse waits until the engine would serve.
func (h *Hand) rehearse(ctx context.Context, under *reign) error {
	select {
	case <-under.adapter.Ready():
		h.cfg.Rehearse()
		return nil
	case <-under.over:
		return errOver
	case <-ctx.Done():
		return ctx.Err()
	}
}

// refuse tells a server why its orders are not obeyed, and gives it the time to hear it: the caller ends the stream, and with that all
// that is still on its way. A server that has heard a refusal ends the stream itself.
func (h *Hand) refuse(ctx context.Context, s Stream, why error) {
	if s.Send(frame(0, kindRefuse, refusedBy(why))) != nil {
		return
	}
	ended := make(chan struct{})
	go func() { // ends with the stream, which the caller ends
		defer close(ended)
		for {
			if _, err := s.Recv(); err != nil {
				return
			}
		}
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	case <-h.cfg.Clock.After(Silent):
	}
}

// serve says what the engine knows and does what it is told.
func (h *Hand) serve(ctx context.Context, s Stream, under *reign) error {
	ctx, end := context.WithCancel(ctx)
	select {
	case <-under.adapter.Ready():
	case <-under.over:
		end()
		return errOver
	case <-ctx.Done():
		end()
		return ctx.Err()
	}
	feed := engine.NewFeed()
	under.adapter.Watch(feed)
	a := &attendance{h: h, adapter: under.adapter, feed: feed, out: newBox()}
	a.tell()
	a.out.put(Frame{Kind: kindWhole})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer feed.Close()
	defer end()
	sent := make(chan error, 1)
	wg.Go(func() {
		defer end()
		sent <- a.out.send(s, ctx.Done(), h.cfg.Clock)
	})
	wg.Go(func() { // a leader's time is over when the engine of its epoch is
		select {
		case <-under.over:
			end()
		case <-ctx.Done():
		}
	})
	wg.Go(func() { a.follow(ctx) })
	heard := make(chan struct{}, 1)
	got := make(chan error, 1)
	go func() { got <- a.listen(ctx, s, heard) }() // ends with the stream, which the caller ends
	for {
		select {
		case err := <-got:
			return err
		case err := <-sent:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-heard:
		case <-h.cfg.Clock.After(Silent):
			return fault.New(fault.Unavailable, "ServerSilent", fault.T("The server has said nothing for %s.", "服务器已有 %s 没有消息。", Silent))
		}
	}
}

// attendance is one stream while it is served.
type attendance struct {
	h       *Hand
	adapter engine.Adapter
	out     *box

	mu   sync.Mutex // orders what is told
	feed *engine.Feed
}

// tell puts all changes into the box, and then more: the other end hears of changes before it hears of what followed them.
func (a *attendance) tell(more ...Frame) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var frames []Frame
	for _, ch := range a.feed.Take() {
		switch {
		case ch.Node != nil && !ch.Gone:
			frames = append(frames, frame(0, kindNode, ch.Node))
		case ch.Node != nil:
		case ch.Gone:
			frames = append(frames, frame(0, kindGone, ch.Replica.Name))
		default:
			frames = append(frames, frame(0, kindSeen, ch.Replica))
		}
	}
	a.out.put(append(frames, more...)...)
}

// follow tells every change until ctx ends.
func (a *attendance) follow(ctx context.Context) {
	for a.feed.Wait(ctx) == nil {
		a.tell()
	}
}

// listen does what it hears.
func (a *attendance) listen(ctx context.Context, s Stream, heard chan<- struct{}) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		f, err := s.Recv()
		if err != nil {
			return err
		}
		select {
		case heard <- struct{}{}:
		default:
		}
		switch f.Kind {
		case kindBeat:
		case kindPoke:
			var name engine.Name
			if p, ok := a.adapter.(engine.Prompted); ok && json.Unmarshal(f.Body, &name) == nil {
				p.Poke(name)
			}
		case kindProbe:
			var to []Reach
			if a.h.cfg.Measure != nil && json.Unmarshal(f.Body, &to) == nil {
				wg.Go(func() { a.tell(frame(0, kindTrips, a.h.cfg.Measure(ctx, to))) })
			}
		case kindSettings:
			var set Settings
			err := read(f, &set)
			if err == nil {
				err = a.h.cfg.Settle(set)
			}
			if err != nil {
				a.h.cfg.Log.Warn("what a server said could not be kept", "error", err)
			}
		default:
			wg.Go(func() { a.tell(frame(f.Seq, kindDone, refusedBy(a.obey(ctx, f)))) })
		}
	}
}

// obey carries an order out.
func (a *attendance) obey(ctx context.Context, f Frame) error {
	switch f.Kind {
	case kindStart:
		var o start
		if err := read(f, &o); err != nil {
			return err
		}
		if err := a.h.cfg.Admit(&o.Replica, o.Token); err != nil {
			return err
		}
		return a.adapter.Start(ctx, o.Replica)
	case kindStop:
		var o stop
		if err := read(f, &o); err != nil {
			return err
		}
		return a.adapter.Stop(ctx, o.Name, o.Grace)
	case kindRemove:
		var name engine.Name
		if err := read(f, &name); err != nil {
			return err
		}
		if err := a.adapter.Remove(ctx, name); err != nil {
			return err
		}
		a.h.cfg.Forget(name)
		return nil
	case kindErase:
		var id string
		if err := read(f, &id); err != nil {
			return err
		}
		return a.h.cfg.Erase(id)
	case kindUpgrade:
		var p Program
		if err := read(f, &p); err != nil {
			return err
		}
		if a.h.cfg.Upgrade != nil {
			return a.h.cfg.Upgrade(p)
		}
	}
	return fault.New(fault.Invalid, reasonUnknown, fault.T("This agent does not know the order %q; it is of an earlier version.", "该代理不认识指令 %q，其版本较早。", f.Kind))
}
