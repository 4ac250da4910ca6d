package link

import (
	"context"
	"errors"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link/endpoint"
	"github.com/fermi-cluster/fermi/internal/link/hearing"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
	"github.com/fermi-cluster/fermi/internal/link/message"
)

// Spool is the log the client ships: whole lines, only ever growing until it is closed.
type Spool interface {
	io.ReaderAt
	// Size is how many bytes there are; whole lines. closed: no more will come.
	Size() (n int64, closed bool)
	// Changed has a value after the size grew or the spool was closed.
	Changed() <-chan struct{}
}

// Orders is what a server may say to a launcher. Calls come from one goroutine and must be quick.
type Orders interface {
	// Go: this generation may start, by the word of this epoch, which is the highest seen so far.
	Go(epoch int64, g message.Generation)
	// Watermark: every rank of the generation holds the step; those in keep stay besides.
	Watermark(w message.Watermark)
	// Stop: end the tree.
	Stop(grace time.Duration)
	// Probe: do something to a rank, or look at it, and answer with Client.Probed.
	Probe(p message.Probe)
}

// ClientConfig is what a Client needs; all but Dial and Beside must be given.
type ClientConfig struct {
	Name      engine.Name
	Token     string
	Endpoints string // path of a file with one gRPC target a line, read before every dial
	Epoch     int64  // highest ever recorded
	State     engine.State
	Spool     Spool
	Orders    Orders
	Log       *slog.Logger
	Clock     clock.Clock
	// Calls is told of calls by their id, and answers with Talk, each in a goroutine of its own; nil: it answers none.
	Calls func(id string)
	// Dial makes the connection to a server, for who has his own way; nil: unix sockets are dialled plainly, all else over TLS.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Beside, where it is given, may use the connection of a stream that was welcomed, until its ctx ends.
	Beside func(ctx context.Context, conn grpc.ClientConnInterface)
}

// Client is a launcher's end. Facts given to it are repeated on every connection until the
// launcher ends. Safe for concurrent use.
type Client struct {
	cfg   ClientConfig
	parts Parts
	boot  string

	mu     sync.Mutex
	epoch  int64
	state  engine.State
	facts  facts
	target string // of the last stream that was welcomed
	log    shipment
	// sessions counts streams, so that a server can tell the newer of two.
	sessions int64
	world    int // ranks of its task, as last heard

	wake   chan struct{} // a fact changed
	doneCh chan struct{} // closed when done was sent and taken

	road endpoint.Road
	second
}

// shipment is how far the log has come.
type shipment struct {
	durable int64         // at a server
	all     bool          // the spool was closed, and all of it is durable
	ended   chan struct{} // closed with all
}

// facts are the newest of each thing to say; a session remembers which it has said.
type facts struct {
	started *linkpb.Started
	exited  *linkpb.Exited
	usage   *linkpb.Usage
	ranks   *linkpb.Ranks
	probed  *linkpb.Probed
	done    *linkpb.Done
}

const (
	minPause = 50 * time.Millisecond
	maxPause = 2 * time.Second
	// greetFor is how long a server may take for its welcome while there are others to try; it grows
	// with every round that found nobody, so that a storm of launchers finds patience.
	greetFor = 1500 * time.Millisecond
	// patience is with a server when there is no other to try, and a server's with whoever connects. Who gives
	// up earlier in a storm has its handshake made for nothing, and the storm never ends.
	patience = 30 * time.Second
	// spreadEach, for each rank of its task, is the time within which a launcher that lost its server comes
	// back: with all of a large task at once none would be greeted in time.
	spreadEach = time.Millisecond
	// small is below what a batch of log lines is not worth a message of its own while a process
	// prints line by line: the next one then waits for gather.
	small  = 64 << 10
	gather = 3 * time.Millisecond
)

// NewClient checks the name; it dials nothing yet.
func NewClient(cfg ClientConfig) (*Client, error) {
	parts, err := ParseName(cfg.Name)
	if err != nil {
		return nil, err
	}
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	c := &Client{
		cfg: cfg, parts: parts, boot: strings.TrimSpace(string(boot)), epoch: cfg.Epoch, state: cfg.State,
		wake: make(chan struct{}, 1), doneCh: make(chan struct{}), log: shipment{ended: make(chan struct{})},
	}
	c.second.endpoints, c.second.dial, c.second.welcomed = c.endpoints, c.dial, c.caller
	return c, nil
}

// caller is the server that took our last stream.
func (c *Client) caller() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.target
}

// Epoch is the highest seen so far.
func (c *Client) Epoch() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.epoch
}

// Started says that the user's process runs.
func (c *Client) Started(at time.Time, pid int) {
	c.tell(func() {
		c.facts.started = &linkpb.Started{AtUnixNano: at.UnixNano(), Pid: int32(pid)}
		c.state = engine.StateRunning
	})
}

// Exited says how it ended.
func (c *Client) Exited(e engine.Exit) {
	c.tell(func() {
		c.facts.exited = &linkpb.Exited{
			Code: int32(e.Code), Signal: e.Signal, Reason: e.Reason, Message: message.CutText(e.Message, message.MaxText),
			AtUnixNano: e.At.UnixNano(), CpuNanos: int64(e.CPUTime), PeakBytes: e.PeakBytes,
		}
		c.state = engine.StateExited
	})
}

// Usage says what the tree uses now; only the newest is sent.
func (c *Client) Usage(u Usage) {
	c.tell(func() {
		c.facts.usage = &linkpb.Usage{CpuNanos: int64(u.CPU), RssBytes: u.RSS, PeakBytes: u.Peak, Processes: int32(u.Processes)}
	})
}

// Ranks says how the ranks stand; only the newest is sent. r.Held must not be changed afterwards.
func (c *Client) Ranks(r message.Ranks) {
	m := r.Message()
	c.tell(func() { m.Epoch, c.facts.ranks = c.epoch, m })
}

// marked notes the watermark before anybody acts on it: the next leader is told of it, whatever else there is to say.
func (c *Client) marked(w message.Watermark) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.facts.ranks; r != nil && r.GetGeneration() == w.Generation && w.Step > r.GetMark() {
		next := proto.Clone(r).(*linkpb.Ranks) // the old one may be on its way
		next.Mark = w.Step
		c.facts.ranks = next
	}
}

// Done says that everything was handed over; Told is closed when a server has heard it.
func (c *Client) Done(logBytes int64, files int, bytes int64) {
	c.tell(func() {
		c.facts.done = &linkpb.Done{LogBytes: logBytes, OutputFiles: int32(files), OutputBytes: bytes}
		c.state = engine.StateDone
	})
}

// Shipped is closed when the spool was closed and all of it is durable at a server.
func (c *Client) Shipped() <-chan struct{} { return c.log.ended }

// Durable is how much of the log is safe at a server.
func (c *Client) Durable() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.durable
}

// Told is closed when Done was heard.
func (c *Client) Told() <-chan struct{} { return c.doneCh }

func (c *Client) tell(change func()) {
	c.mu.Lock()
	change()
	c.mu.Unlock()
	poke(c.wake)
}

// Run keeps one stream to a server, for ever: it dials the endpoints in turn, each launcher from
// another one on, so that they spread; when its server is lost it tries the next at once, and after
// each round that found nobody comes a growing, jittered pause. It returns when ctx ended or Done
// was heard.
func (c *Client) Run(ctx context.Context) error {
	defer c.second.close()
	h := fnv.New32a()
	h.Write([]byte(c.cfg.Name))
	pause, turn, greet := minPause, int(h.Sum32()>>1), greetFor
	for {
		welcomed := false
		list := c.endpoints()
		for range list {
			target := list[turn%len(list)]
			ok, err := c.session(ctx, target, greet)
			if c.finished() || ctx.Err() != nil {
				return ctx.Err()
			}
			c.cfg.Log.Debug("link ended", "target", target, "welcomed", ok, "error", err)
			turn = (turn + 1) % len(list)
			if ok {
				welcomed = true
				break // after the shortest pause
			}
		}
		if welcomed {
			pause, greet = minPause+c.spread(), greetFor
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.cfg.Clock.After(jitter(pause)):
		}
		if !welcomed {
			pause, greet = min(2*pause, max(maxPause, c.spread()/4)), min(2*greet, hearing.SilenceLimit)
		} else {
			pause = minPause
		}
	}
}

// spread is the time that its task's launchers share to come back in.
func (c *Client) spread() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return rand.N(time.Duration(c.world)*spreadEach + 1)
}

func (c *Client) finished() bool {
	select {
	case <-c.doneCh:
		return true
	default:
		return false
	}
}

// jitter is between half of d and d, so that a thousand launchers don't come back in step.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// endpoints reads the file; a server that comes or goes rewrites it.
func (c *Client) endpoints() []string {
	list, err := endpoint.Read(c.cfg.Endpoints)
	if err != nil {
		c.cfg.Log.Debug("no endpoints", "error", err)
	}
	return list
}

var errSuperseded = errors.New("this server's epoch is lower than one already seen")
