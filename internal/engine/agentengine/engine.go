package agentengine

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Config is what an Engine needs.
type Config struct {
	// Epoch is our leadership.
	Epoch int64
	// Mint makes the token of a replica's launcher.
	Mint func(engine.Name) string
	// Joined are the nodes whose machines joined, as they are stored.
	Joined func(ctx context.Context) ([]api.Node, error)
	// Expected are replicas that may be on machines that joined: they count as there until their agent has said what is.
	Expected func(ctx context.Context) ([]engine.Observation, error)
	// Homeless are those of these owners of homes that are not there any more; nil: nobody is asked.
	Homeless func(ctx context.Context, owners []string) ([]string, error)
	// Settings are what agents are told beside orders.
	Settings func() Settings
	// Upgraded is told how the last upgrade of an agent ended, whenever that attaches; nil: nobody is.
	Upgraded func(node string, u joined.Upgrade)
	// Measured is told how far zones are apart, as their agents found; nil: nobody measures.
	Measured func(from, to string, m api.MeasuredLatency)
	// Takes is nil for the version of an agent that can be served; nil: all are.
	Takes func(version string) error
	// Wait is how long everybody that joined may take to attach before the engine is ready without them; 3 s when 0.
	Wait  time.Duration
	Log   *slog.Logger
	Clock clock.Clock
}

const (
	defaultWait = 3 * time.Second
	lookEvery   = time.Second
	// answerIn is how long an agent may take to carry an order out; then it may or may not have.
	answerIn = 10 * time.Second
	// skewMost is how far a machine's clock may be off before new work is kept away.
	skewMost = 5 * time.Minute
)

// Engine is the engine of the machines that joined. Safe for concurrent use.
type Engine struct {
	cfg     Config
	ready   chan struct{}
	stopped chan struct{}

	*engine.Board

	mu     sync.Mutex
	joined map[string]api.Node // by name, as last read
	hosts  map[string]*host    // by node
	change chan struct{}       // has one when somebody attached
	starts starts
}

// host is a machine that joined.
type host struct {
	name string
	now  *visit   // nil: nobody is attached
	node api.Node // as its agent said last; without a name while it has not
	said Hello    // of now, or of the last one
	skew time.Duration
	// heard is when it was last heard, or when we began to wait for it.
	heard time.Time
	// rival says that another one of the same identity wanted in, and when.
	rival   string
	rivalAt time.Time
	refused *fault.Error // why it does not obey us; nil: it does
	// turned is why its agent was not taken, and when.
	turned   *fault.Error
	turnedAt time.Time
	// waiting are orders for when it attaches.
	starts map[engine.Name]engine.Replica
	stops  map[engine.Name]time.Duration
	erased map[string]bool
}

// visit is one stream of an agent.
type visit struct {
	out   *box
	end   context.CancelFunc
	whole chan struct{} // closed when it has said everything
	gone  chan struct{} // closed when it is not attached any more

	mu    sync.Mutex
	seq   uint64
	calls map[uint64]chan error
}

// New makes an engine; it starts nothing.
func New(cfg Config) *Engine {
	if cfg.Clock == nil {
		cfg.Clock = clock.Real
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Wait = cmp.Or(cfg.Wait, defaultWait)
	if cfg.Settings == nil {
		cfg.Settings = func() Settings { return Settings{} }
	}
	board := engine.NewBoard()
	return &Engine{
		cfg: cfg, ready: make(chan struct{}), stopped: make(chan struct{}), Board: board, starts: starts{board, cfg.Mint, cfg.Clock},
		joined: map[string]api.Node{}, hosts: map[string]*host{}, change: make(chan struct{}, 1),
	}

}

var (
	_ engine.Adapter  = (*Engine)(nil)
	_ engine.Prompted = (*Engine)(nil)
)

// Run waits for those that joined, then watches over who is attached, until ctx ends. Agents attach while it runs.
func (e *Engine) Run(ctx context.Context) error {
	defer func() {
		e.mu.Lock()
		close(e.stopped)
		for _, h := range e.hosts {
			if h.now != nil {
				h.now.end()
			}
		}
		e.mu.Unlock()
	}()
	if err := e.begin(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	late := e.cfg.Clock.After(e.cfg.Wait)
	for waiting := true; waiting; {
		if waiting = !e.allThere(); !waiting {
			break
		}
		select {
		case <-ctx.Done():
			return nil
		case <-e.change:
		case <-late:
			waiting = false
		}
	}
	e.report()
	close(e.ready)
	told, measure := e.cfg.Settings(), &trips{asked: map[pair]time.Time{}}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.change:
		case <-e.cfg.Clock.After(lookEvery):
		}
		if err := e.look(ctx); err != nil && ctx.Err() == nil {
			e.cfg.Log.Warn("the machines that joined could not be read; trying again", "error", err)
		}
		if now := e.cfg.Settings(); !reflect.DeepEqual(now, told) {
			told = now
			e.tellAll(frame(0, kindSettings, now))
		}
		if now := e.cfg.Clock.Now(); e.cfg.Measured != nil && measure.time(now) {
			e.mu.Lock()
			for name, to := range measure.due(now, stations(e.hosts, e.joined)) {
				e.hosts[name].now.out.put(frame(0, kindProbe, []Reach{to}))
			}
			e.mu.Unlock()
		}
		e.report()
	}
}

// begin reads who joined, and what may be there.
func (e *Engine) begin(ctx context.Context) error {
	if err := e.look(ctx); err != nil {
		return err
	}
	if e.cfg.Expected == nil {
		return nil
	}
	list, err := e.cfg.Expected(ctx)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, o := range list {
		if h := e.hosts[o.Node]; h != nil && (h.now == nil || !h.now.isWhole()) {
			e.Put(o)
		}
	}
	return nil
}

// look reads who joined; who was removed is turned out.
func (e *Engine) look(ctx context.Context) error {
	list, err := e.cfg.Joined(ctx)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.joined = make(map[string]api.Node, len(list))
	for _, n := range list {
		e.joined[n.Meta.Name] = n
		if e.hosts[n.Meta.Name] == nil {
			e.hosts[n.Meta.Name] = newHost(n.Meta.Name, e.cfg.Clock.Now())
		}
	}
	for name, h := range e.hosts {
		if _, ok := e.joined[name]; ok {
			if h.now != nil && e.cfg.Clock.Now().Sub(h.heard) >= Silent {
				h.now.end() // when it is back it attaches again, and hears what it missed
			}
			continue
		}
		if h.now != nil {
			h.now.end()
		}
		delete(e.hosts, name)
		for _, r := range e.On(name) {
			e.Drop(r)
		}
	}
	return nil
}

func newHost(name string, now time.Time) *host {
	return &host{name: name, heard: now, starts: map[engine.Name]engine.Replica{}, stops: map[engine.Name]time.Duration{}, erased: map[string]bool{}}
}

func (e *Engine) allThere() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, h := range e.hosts {
		if h.refused == nil && (h.now == nil || !h.now.isWhole()) {
			return false
		}
	}
	return true
}

// Ready is closed when everybody has said what is there, or was waited for.
func (e *Engine) Ready() <-chan struct{} { return e.ready }

// report says how the nodes are.
func (e *Engine) report() {
	e.mu.Lock()
	var list []api.Node
	now := e.cfg.Clock.Now()
	for name, h := range e.hosts {
		if n, ok := h.status(e.joined[name], now); ok {
			list = append(list, n)
		}
	}
	e.mu.Unlock()
	e.Report(list)
}

// Attend serves an agent that was let in as this node, until its stream, ctx or our leadership ends. The stream ends with it.
func (e *Engine) Attend(ctx context.Context, node string, hello Hello, s Stream) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	v := &visit{out: newBox(), end: end, whole: make(chan struct{}), gone: make(chan struct{}), calls: map[uint64]chan error{}}
	h, err := e.enter(node, hello, v)
	if err != nil {
		_ = s.Send(Refuse(err))
		return err
	}
	e.cfg.Log.Info("an agent is attached", "node", node, "version", hello.Version, "address", hello.Address)
	v.out.put(frame(0, kindLead, lead{e.cfg.Epoch, e.cfg.Settings()}))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer e.leave(h, v)
	defer end()
	wg.Go(func() {
		defer end()
		_ = v.out.send(s, ctx.Done(), e.cfg.Clock)
	})
	wg.Go(func() { e.sweepHomes(ctx, v, hello.Homes) })
	if u := hello.Upgrade; u != nil && u.Over() && e.cfg.Upgraded != nil {
		e.cfg.Upgraded(node, *u)
	}
	got := make(chan error, 1)
	go func() { got <- e.listen(h, v, s) }() // ends with the stream, which the caller ends
	select {
	case err := <-got:
		return err
	case <-ctx.Done():
		return nil
	case <-e.stopped:
		return nil
	}
}

// enter makes v the host's stream, in the place of an older one of the same process, or one that says nothing any more.
func (e *Engine) enter(node string, hello Hello, v *visit) (*host, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-e.stopped:
		return nil, errStopped
	default:
	}
	h := e.hosts[node]
	if h == nil {
		h = newHost(node, e.cfg.Clock.Now())
		e.hosts[node] = h
	}
	now := e.cfg.Clock.Now()
	if h.now != nil && h.said.Instance != hello.Instance && now.Sub(h.heard) < Silent {
		h.rival, h.rivalAt = cmp.Or(hello.Address, "?"), now
		return nil, fault.New(fault.Conflict, "AlreadyAttached", fault.T(
			"Another agent is attached as node %s. Was the disk or the data folder of this machine cloned?", "已有另一个代理以节点 %s 的身份连接。本机的磁盘或数据目录是否为克隆？", node)).
			WithHint(fault.T("Delete the data folder of the copy, make a new token with `fermi node add`, and join again under another name.", "请删除副本的数据目录，用 `fermi node add` 生成新令牌，并以其他名称重新加入。"))
	}
	if e.cfg.Takes != nil {
		if err := e.cfg.Takes(hello.Version); err != nil {
			h.turned, h.turnedAt = fault.From(err), now
			return nil, err
		}
	}
	if h.now != nil {
		h.now.end()
	}
	h.now, h.said, h.heard, h.refused, h.turned = v, hello, now, nil, nil
	h.skew = hello.Now.Sub(now)
	h.node = hello.Node
	return h, nil
}

// leave is the end of a stream: all calls on it fail.
func (e *Engine) leave(h *host, v *visit) {
	e.mu.Lock()
	if h.now == v {
		h.now = nil
	}
	e.mu.Unlock()
	v.mu.Lock()
	close(v.gone)
	for _, c := range v.calls {
		c <- errAway(h.name)
	}
	v.calls = nil
	v.mu.Unlock()
	e.cfg.Log.Info("an agent is not attached any more", "node", h.name)
	ring(e.change)
}

func ring(bell chan<- struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// listen takes what an agent says.
func (e *Engine) listen(h *host, v *visit, s Stream) error {
	named := map[engine.Name]bool{} // until it has said everything
	for {
		f, err := s.Recv()
		if err != nil {
			return err
		}
		e.mu.Lock()
		mine := h.now == v
		if mine {
			h.heard = e.cfg.Clock.Now()
		}
		e.mu.Unlock()
		if !mine {
			return nil
		}
		switch f.Kind {
		case kindBeat:
			var at time.Time
			if read(f, &at) == nil {
				e.mu.Lock()
				h.skew = at.Sub(e.cfg.Clock.Now())
				e.mu.Unlock()
			}
		case kindNode:
			var n api.Node
			if err := read(f, &n); err != nil {
				return err
			}
			e.mu.Lock()
			h.node = n
			e.mu.Unlock()
			ring(e.change)
		case kindSeen:
			var o engine.Observation
			if err := read(f, &o); err != nil {
				return err
			}
			if named != nil {
				named[o.Name] = true
			}
			o.Node = h.name // whatever it says
			e.Put(o)
		case kindGone:
			var name engine.Name
			if err := read(f, &name); err != nil {
				return err
			}
			drop(e.Board, h, name)
		case kindWhole:
			e.settle(h, v, named)
			named = nil
		case kindDone:
			var r refusal
			if err := read(f, &r); err != nil {
				return err
			}
			v.answer(f.Seq, r.err())
		case kindTrips: // asked for by who wants to know
			e.mu.Lock()
			all := readTrips(f.Body, e.joined, h.name, e.cfg.Clock.Now())
			e.mu.Unlock()
			for _, t := range all {
				e.cfg.Measured(t.from, t.to, t.MeasuredLatency)
			}
		case kindRefuse:
			var r refusal
			if err := read(f, &r); err != nil {
				return err
			}
			e.mu.Lock()
			h.refused = fault.From(r.err())
			e.mu.Unlock()
			ring(e.change)
			return r.err()
		}
	}
}

// drop forgets a replica of this host, and of no other.
func drop(b *engine.Board, h *host, name engine.Name) {
	if o, ok := b.Replica(name); ok && o.Node == h.name {
		b.Drop(name)
	}
}

// settle is what follows when an agent has said everything: what it did not name is not there, and what waited for it is told.
func (e *Engine) settle(h *host, v *visit, named map[engine.Name]bool) {
	for _, name := range e.On(h.name) {
		if !named[name] {
			e.Drop(name)
		}
	}
	e.mu.Lock()
	starts, stops, erased := h.starts, h.stops, h.erased
	h.starts, h.stops, h.erased = map[engine.Name]engine.Replica{}, map[engine.Name]time.Duration{}, map[string]bool{}
	e.mu.Unlock()
	for name, r := range starts {
		if named[name] {
			continue
		}
		e.Put(engine.Observation{Name: name, TaskID: r.TaskID, State: engine.StateCreated, Node: h.name})
		e.starts.late(v, r)
	}
	for name, grace := range stops {
		v.order(kindStop, stop{name, grace}, nil)
	}
	for id := range erased {
		v.order(kindErase, id, nil)
	}
	close(v.whole)
	ring(e.change)
}

func (v *visit) isWhole() bool {
	select {
	case <-v.whole:
		return true
	default:
		return false
	}
}

// order sends one; its answer goes to c, unless that is nil.
func (v *visit) order(kind string, body any, c chan error) (seq uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seq++
	if c != nil {
		if v.calls == nil {
			c <- errAway("")
			return 0
		}
		v.calls[v.seq] = c
	}
	v.out.put(frame(v.seq, kind, body))
	return v.seq
}

func (v *visit) answer(seq uint64, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if c := v.calls[seq]; c != nil {
		delete(v.calls, seq)
		c <- err
	}
}

func (e *Engine) tellAll(f Frame) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, h := range e.hosts {
		if h.now != nil {
			h.now.out.put(f)
		}
	}
}

// Refusal is why the agent of a node does not obey; nil: it does, or was not heard.
func (e *Engine) Refusal(node string) *fault.Error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if h := e.hosts[node]; h != nil {
		return h.refused
	}
	return nil
}

// Attached says which nodes have their agent here now.
func (e *Engine) Attached() (out []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, h := range e.hosts {
		if h.now != nil {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// ReadHello is the first frame of an agent.
func ReadHello(f Frame) (h Hello, err error) {
	if f.Kind != kindHello {
		return h, fault.New(fault.Invalid, "NoHello", fault.T("An agent begins with hello, not with %q.", "代理应首先发送 hello，而非 %q。", f.Kind))
	}
	if err := json.Unmarshal(f.Body, &h); err != nil {
		return h, fault.New(fault.Invalid, "BadHello", fault.T("What the agent says of itself can't be read: it speaks another protocol than this server.", "无法读取代理的自述：其协议与该服务器不同。")).
			WithHint(fault.T("Install the server's version on this machine.", "请在本机安装与服务器相同的版本。")).Because(err)
	}
	return h, nil
}

var errStopped = fault.New(fault.Unavailable, "EngineStopped", fault.T("This server does not lead any more.", "该服务器已不再是主节点。"))

// reasonAway is of orders whose agent went away: they were carried out, or were not.
const reasonAway = "AgentAway"

func errAway(node string) error {
	return fault.New(fault.Unavailable, reasonAway, fault.T("The agent of node %s does not answer.", "节点 %s 的代理没有应答。", node))
}
