package talk

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/talk/talkpb"
)

// The metadata of an answer; MetaReplica was checked with its token before we see it.
const (
	MetaCall    = "fermi-call"
	MetaReplica = "fermi-replica"
)

// answerFor is how long a launcher may take to answer.
const answerFor = 10 * time.Second

// Stream is a conversation, seen from the server. Send and Recv may run side by side; each is one goroutine's.
type Stream interface {
	Send(*talkpb.Frame) error
	Recv() (*talkpb.Frame, error)
}

// Calls are those that wait for an answer, and the launchers that can be rung. Safe for concurrent use.
type Calls struct {
	talkpb.UnimplementedTalkServer

	mu     sync.Mutex
	rings  map[engine.Name]*func(id string) bool // of launchers that are attached here; false: it answers no calls
	waits  map[string]*wait                      // by id
	closed chan struct{}
	once   sync.Once
}

// wait is a call that was not answered yet.
type wait struct {
	name     engine.Name
	answered chan answer
}

type answer struct {
	stream Stream
	end    func() // lets the launcher's call return
}

// NewCalls has none.
func NewCalls() *Calls {
	return &Calls{rings: map[engine.Name]*func(string) bool{}, waits: map[string]*wait{}, closed: make(chan struct{})}
}

// Close ends all conversations and takes no more.
func (c *Calls) Close() { c.once.Do(func() { close(c.closed) }) }

// Register adds the service to a server whose calls have been authenticated.
func (c *Calls) Register(srv grpc.ServiceRegistrar) { talkpb.RegisterTalkServer(srv, c) }

// Attach says how a launcher is rung; gone when it is not attached any more.
func (c *Calls) Attach(name engine.Name, ring func(id string) bool) (gone func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	bell := &ring
	c.rings[name] = bell
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.rings[name] == bell { // else a newer stream of it has come
			delete(c.rings, name)
		}
	}
}

// Open rings a launcher and gives the stream that it answers with. The caller ends it by end, once, when Send and Recv are not used any
// more. Fault Unavailable where the launcher is not attached or does not answer.
func (c *Calls) Open(ctx context.Context, name engine.Name) (s Stream, end func(), err error) {
	w := &wait{name: name, answered: make(chan answer, 1)}
	id := rand.Text()
	c.mu.Lock()
	ring := c.rings[name]
	if ring != nil {
		c.waits[id] = w
	}
	c.mu.Unlock()
	if ring == nil {
		return nil, nil, ErrNotAttached
	}
	defer c.forget(id)
	if !(*ring)(id) {
		return nil, nil, fault.New(fault.Conflict, "OldLauncher", fault.T(
			"It was started by an earlier version of Fermi, which has no shells; stop it and start it again.", "它由较早版本的 Fermi 启动，不支持终端；请停止后重新启动。"))
	}
	late := time.NewTimer(answerFor)
	defer late.Stop()
	select {
	case a := <-w.answered:
		return a.stream, a.end, nil
	case <-late.C:
		return nil, nil, fault.New(fault.Unavailable, "NoAnswer", fault.T("The replica's launcher did not answer.", "该副本的启动器没有应答。"))
	case <-c.closed:
		return nil, nil, ErrNotAttached
	case <-ctx.Done():
		return nil, nil, fault.From(ctx.Err())
	}
}

// ErrNotAttached says that nobody can be rung.
var ErrNotAttached = fault.New(fault.Unavailable, "NotAttached", fault.T("The replica's launcher is not connected; try again in a moment.", "该副本的启动器未连接，请稍后重试。"))

// forget takes a call back; an answer that came at the last moment is let go.
func (c *Calls) forget(id string) {
	c.mu.Lock()
	w := c.waits[id]
	delete(c.waits, id)
	c.mu.Unlock()
	if w == nil {
		return // it was answered
	}
	select {
	case a := <-w.answered:
		a.end()
	default:
	}
}

// Answer is a launcher's stream.
func (c *Calls) Answer(stream talkpb.Talk_AnswerServer) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	ids, names := md.Get(MetaCall), md.Get(MetaReplica)
	if len(ids) != 1 || len(names) != 1 {
		return status.Error(codes.InvalidArgument, "one call and one replica, please")
	}
	done := make(chan struct{})
	c.mu.Lock()
	w := c.waits[ids[0]]
	mine := w != nil && w.name == engine.Name(names[0])
	if mine {
		delete(c.waits, ids[0]) // one answer is enough
		w.answered <- answer{stream, sync.OnceFunc(func() { close(done) })}
	}
	c.mu.Unlock()
	if !mine {
		return status.Error(codes.NotFound, "nobody waits for this call")
	}
	select {
	case <-done:
	case <-stream.Context().Done():
	case <-c.closed:
	}
	return nil
}
