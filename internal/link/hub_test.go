package link

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/blob/logbook"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/hearing"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
	"github.com/fermi-cluster/fermi/internal/link/message"
	"github.com/fermi-cluster/fermi/internal/link/talk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testName = engine.Name("task-a-worker-0-1")

// world is one data folder and whatever server runs on it.
type world struct {
	t      *testing.T
	dir    string
	store  *folder.Store
	tokens *Tokens
	clock  clock.Clock
	max    int64

	mu       sync.Mutex
	notified map[engine.Name]int
	archive  string
	config   func(*HubConfig) // nil: as serve makes it
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "f")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	store, err := folder.Open(filepath.Join(dir, "blob"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return &world{
		t: t, dir: dir, store: store, tokens: NewTokens([]byte("a key of the test")), clock: clock.Real,
		notified: map[engine.Name]int{},
	}
}

func (w *world) quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// server is one running hub.
type server struct {
	w      *world
	hub    *Hub
	book   *logbook.Book
	target string
	stop   func()
}

// serve starts a hub on its own socket; logs nil is a book of its own, as after a restart.
func (w *world) serve(name string, epoch int64, logs Logs) *server {
	w.t.Helper()
	s := &server{w: w, target: "unix://" + filepath.Join(w.dir, name)}
	s.book = logbook.New(logbook.Config{Blob: w.store, Log: w.quiet(), Clock: clock.Real})
	if logs == nil {
		logs = s.book
	}
	cfg := HubConfig{
		Blob: w.store, Logs: logs, Tokens: w.tokens, Log: w.quiet(), Clock: w.clock, MaxOutputBytes: w.max,
		Notify: func(_ string, n engine.Name) {
			w.mu.Lock()
			w.notified[n]++
			w.mu.Unlock()
		},
		Fetched: Fetched{ArchiveOf: func(context.Context, string) (string, error) { return w.archive, nil }, Calls: talk.NewCalls()},
	}
	if w.config != nil {
		w.config(&cfg)
	}
	s.hub = NewHub(cfg)
	s.hub.Lead(epoch)
	l, err := net.Listen("unix", filepath.Join(w.dir, name))
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.book.Run(ctx) })
	wg.Go(func() {
		if err := s.hub.Serve(ctx, l); err != nil {
			w.t.Error(err)
		}
	})
	s.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	w.t.Cleanup(s.stop)
	return s
}

func (w *world) endpoints(targets ...string) string {
	w.t.Helper()
	file := filepath.Join(w.dir, "endpoints")
	if err := os.WriteFile(file+".new", []byte(strings.Join(targets, "\n")+"\n"), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		w.t.Fatal(err)
	}
	return file
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// memSpool is a spool in memory.
type memSpool struct {
	mu      sync.Mutex
	data    []byte
	closed  bool
	changed chan struct{}
}

func newMemSpool() *memSpool { return &memSpool{changed: make(chan struct{}, 1)} }

func (s *memSpool) Size() (int64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.data)), s.closed
}
func (s *memSpool) Changed() <-chan struct{} { return s.changed }
func (s *memSpool) ReadAt(p []byte, off int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.NewReader(s.data).ReadAt(p, off)
}

func (s *memSpool) add(i int, text string) {
	s.mu.Lock()
	s.data = logbook.AppendLine(s.data, logbook.Line{Time: time.Unix(0, int64(i)*1000), Stream: 'O', Text: []byte(text)})
	s.mu.Unlock()
	s.poke()
}

func (s *memSpool) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.poke()
}

func (s *memSpool) poke() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// orders remembers what it was told.
type orders struct {
	mu    sync.Mutex
	goes  []int64
	last  message.Generation
	marks []int64
	stops []time.Duration
	probe message.Probe
}

func (o *orders) Probe(p message.Probe) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.probe = p
}

func (o *orders) Watermark(w message.Watermark) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.marks = append(o.marks, w.Step)
}

func (o *orders) Go(e int64, g message.Generation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.goes, o.last = append(o.goes, e), g
}

func (o *orders) Stop(g time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stops = append(o.stops, g)
}

func (o *orders) heard() (int, int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.goes), len(o.stops)
}

// client starts a launcher's end; stop ends it.
func (w *world) client(name engine.Name, endpoints string, epoch int64) (*Client, *memSpool, *orders, func()) {
	w.t.Helper()
	spool, ord := newMemSpool(), &orders{}
	c, err := NewClient(ClientConfig{
		Name: name, Token: w.tokens.Mint(name), Endpoints: endpoints, Epoch: epoch, State: engine.StateCreated,
		Spool: spool, Orders: ord, Log: w.quiet(), Clock: clock.Real,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = c.Run(ctx) })
	stop := sync.OnceFunc(func() { cancel(); wg.Wait() })
	w.t.Cleanup(stop)
	return c, spool, ord, stop
}

func (w *world) lines(s *server) []string {
	w.t.Helper()
	var got []string
	if err := s.book.Read(context.Background(), "task-a", logbook.ReadOptions{}, func(_ string, l logbook.Line) error {
		got = append(got, string(l.Text))
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	return got
}

func TestLife(t *testing.T) {
	w := newWorld(t)
	s := w.serve("s", 7, nil)
	if err := s.hub.Go(testName, 1, first); fault.CodeOf(err) != fault.Unavailable {
		t.Fatalf("go to nobody: %v", err)
	}
	c, spool, ord, _ := w.client(testName, w.endpoints(s.target), 0)
	state := func(want engine.State) {
		t.Helper()
		eventually(t, string(want), func() bool { got, _ := s.hub.State(testName); return got == want })
	}
	eventually(t, "attached", func() bool { return s.hub.Attached(testName) })
	state(engine.StateCreated)
	if err := s.hub.Go(testName, 2, first); fault.CodeOf(err) != fault.Conflict {
		t.Fatalf("go for another attempt: %v", err)
	}
	for range 2 {
		if err := s.hub.Go(testName, 1, first); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "go", func() bool { n, _ := ord.heard(); return n > 0 })
	if ord.goes[0] != 7 || c.Epoch() != 7 {
		t.Fatalf("go of epoch %v, client at %d", ord.goes, c.Epoch())
	}
	c.Started(time.Now(), 42)
	state(engine.StateRunning)
	c.Usage(Usage{CPU: time.Second, RSS: 10, Peak: 20, Processes: 3})
	eventually(t, "usage", func() bool { u, ok := s.hub.Usage(testName); return ok && u.RSS == 10 && u.Processes == 3 })
	if err := s.hub.Stop(testName, 3*time.Second); err != nil {
		t.Fatal(err)
	}
	eventually(t, "stop", func() bool { _, n := ord.heard(); return n == 1 && ord.stops[0] == 3*time.Second })
	spool.add(0, "hello")
	spool.close()
	c.Exited(engine.Exit{Code: 1, Reason: engine.ReasonNonZero, At: time.Now(), Message: strings.Repeat("长", message.MaxText)})
	state(engine.StateExited)
	<-c.Shipped()
	if size, _ := spool.Size(); c.Durable() != size {
		t.Fatalf("durable %d of %d", c.Durable(), size)
	}
	c.Done(1, 2, 3)
	<-c.Told()
	state(engine.StateDone)
	eventually(t, "detached", func() bool { return !s.hub.Attached(testName) })
	if d := cmp.Diff([]string{"hello"}, w.lines(s)); d != "" {
		t.Fatal(d)
	}
	eventually(t, "told of attached, started, exited, done, detached", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.notified[testName] >= 5
	})
}

// TestReplay: servers come and go while lines are written; in the end each line is there once, in order.
func TestReplay(t *testing.T) {
	w := newWorld(t)
	s := w.serve("s0", 1, nil)
	c, spool, _, _ := w.client(testName, w.endpoints(s.target), 0)
	c.Started(time.Now(), 42)
	const rounds, perRound = 5, 2000
	var want []string
	line := 0
	pad := strings.Repeat("x", 200)
	for round := range rounds {
		for range perRound {
			text := fmt.Sprintf("line %d %s", line, pad)
			want = append(want, text)
			spool.add(line, text)
			line++
			if line%perRound == perRound/2 {
				eventually(t, "attached", func() bool { return s.hub.Attached(testName) })
				s.stop() // whatever is on its way is lost, and so is what the book held in memory
				s = w.serve(fmt.Sprintf("s%d", round+1), int64(round+2), nil)
				w.endpoints("unix:///nowhere/at/all", s.target)
			}
		}
	}
	spool.close()
	<-c.Shipped()
	eventually(t, "state replayed", func() bool { got, _ := s.hub.State(testName); return got == engine.StateRunning })
	got := w.lines(s)
	for i := range min(len(want), len(got)) {
		if got[i] != want[i] {
			t.Fatalf("line %d is %.20q, not %.20q", i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d lines, not %d", len(got), len(want))
	}
}

func TestLowerEpochIsRefused(t *testing.T) {
	w := newWorld(t)
	old, now := w.serve("old", 3, nil), w.serve("new", 5, nil)
	c, _, _, stop := w.client(testName, w.endpoints(old.target, now.target), 4)
	eventually(t, "attached to the new", func() bool { return now.hub.Attached(testName) })
	eventually(t, "epoch 5 heard", func() bool { return c.Epoch() == 5 })
	now.hub.Lead(0)
	eventually(t, "hung up on", func() bool { return !now.hub.Attached(testName) })
	now.hub.Lead(6)
	eventually(t, "back", func() bool { return now.hub.Attached(testName) })
	stop()
	if _, ok := old.hub.State(testName); ok {
		t.Fatal("it attached to the old leader")
	}
	// A server that would welcome everybody: its word alone must not be enough.
	c2 := &Client{epoch: 9}
	if err := c2.raise(8); err == nil || c2.epoch != 9 {
		t.Fatal("a lower epoch was taken")
	}
}

func dialRaw(t *testing.T, w *world, s *server, name engine.Name, token string) linkpb.LinkClient {
	t.Helper()
	c := &Client{cfg: ClientConfig{Name: name, Token: token}}
	conn, err := c.dial(s.target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return linkpb.NewLinkClient(conn)
}

func helloOf(name engine.Name) *linkpb.FromLauncher {
	p, _ := ParseName(name)
	return &linkpb.FromLauncher{Message: &linkpb.FromLauncher_Hello{Hello: &linkpb.Hello{
		Replica: string(name), Attempt: int32(p.Attempt), TaskId: p.TaskID, State: string(engine.StateCreated), Calls: true,
	}}}
}

// attachRaw opens a stream, says these, and returns it after the welcome.
func attachRaw(t *testing.T, c linkpb.LinkClient, say ...*linkpb.FromLauncher) (linkpb.Link_AttachClient, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	stream, err := c.Attach(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range say {
		_ = stream.Send(m)
	}
	if _, err := stream.Recv(); err != nil {
		return nil, err
	}
	return stream, nil
}

func untilEnd(stream linkpb.Link_AttachClient) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
}

func TestDoor(t *testing.T) {
	w := newWorld(t)
	s := w.serve("s", 1, nil)
	other := engine.Name("task-b-worker-0-1")
	token := w.tokens.Mint(testName)
	edit := func(change func(*linkpb.Hello)) *linkpb.FromLauncher {
		m := helloOf(testName)
		change(m.GetHello())
		return m
	}
	for name, c := range map[string]struct {
		as    engine.Name
		token string
		first *linkpb.FromLauncher
		want  codes.Code
	}{
		"no token":       {testName, "", helloOf(testName), codes.Unauthenticated},
		"bad token":      {testName, token + "x", helloOf(testName), codes.Unauthenticated},
		"other's token":  {other, token, helloOf(other), codes.Unauthenticated},
		"other's name":   {testName, token, helloOf(other), codes.InvalidArgument},
		"other's task":   {testName, token, edit(func(h *linkpb.Hello) { h.TaskId = "task-b" }), codes.InvalidArgument},
		"other attempt":  {testName, token, edit(func(h *linkpb.Hello) { h.Attempt = 2 }), codes.InvalidArgument},
		"unknown state":  {testName, token, edit(func(h *linkpb.Hello) { h.State = "Odd" }), codes.InvalidArgument},
		"no hello":       {testName, token, &linkpb.FromLauncher{Message: &linkpb.FromLauncher_Beat{}}, codes.InvalidArgument},
		"newer leader":   {testName, token, edit(func(h *linkpb.Hello) { h.Epoch = 2 }), codes.Unavailable},
		"not a name":     {"../../etc", w.tokens.Mint("../../etc"), helloOf(testName), codes.Unauthenticated},
		"over a message": {testName, token, edit(func(h *linkpb.Hello) { h.BootId = strings.Repeat("a", maxMessage) }), codes.ResourceExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := attachRaw(t, dialRaw(t, w, s, c.as, c.token), c.first); status.Code(err) != c.want {
				t.Fatal(err)
			}
		})
	}
	s.hub.Lead(0)
	if _, err := attachRaw(t, dialRaw(t, w, s, testName, token), helloOf(testName)); status.Code(err) != codes.Unavailable {
		t.Fatal(err)
	}
}

func TestBadMessagesEndTheStream(t *testing.T) {
	w := newWorld(t)
	s := w.serve("s", 1, nil)
	log := func(off int64, data string) *linkpb.FromLauncher {
		return &linkpb.FromLauncher{Message: &linkpb.FromLauncher_Log{Log: &linkpb.LogData{Offset: off, Data: []byte(data)}}}
	}
	for name, c := range map[string]struct {
		m    *linkpb.FromLauncher
		want codes.Code
	}{
		"hello again": {helloOf(testName), codes.InvalidArgument},
		"torn line":   {log(0, "abc"), codes.InvalidArgument},
		"long data":   {log(0, strings.Repeat("a\n", maxLogData)), codes.InvalidArgument},
		"a gap":       {log(1000, "abc\n"), codes.Aborted},
	} {
		t.Run(name, func(t *testing.T) {
			stream, err := attachRaw(t, dialRaw(t, w, s, testName, w.tokens.Mint(testName)), helloOf(testName), c.m)
			if err == nil {
				err = untilEnd(stream)
			}
			if status.Code(err) != c.want {
				t.Fatal(err)
			}
		})
	}
}

func TestNewerStreamReplaces(t *testing.T) {
	w := newWorld(t)
	s := w.serve("s", 1, nil)
	c := dialRaw(t, w, s, testName, w.tokens.Mint(testName))
	first, err := attachRaw(t, c, helloOf(testName))
	if err != nil {
		t.Fatal(err)
	}
	second, err := attachRaw(t, c, helloOf(testName))
	if err != nil {
		t.Fatal(err)
	}
	if err := untilEnd(first); status.Code(err) != codes.Aborted {
		t.Fatal(err)
	}
	if err := s.hub.Go(testName, 1, message.Generation{Number: 1, Membership: message.Membership{World: 1, Lead: "127.0.0.1:1"}}); err != nil {
		t.Fatal(err)
	}
	for {
		m, err := second.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if m.GetGo() != nil {
			break
		}
	}
	if !s.hub.Attached(testName) {
		t.Fatal("the end of the first took the second away")
	}
}

// TestSilence: a launcher that says nothing is hung up on; on a fake clock, so that nothing is timed.
func TestSilence(t *testing.T) {
	w := newWorld(t)
	fake := clock.NewFake(time.Unix(1000, 0))
	w.clock = fake
	s := w.serve("s", 1, nil)
	stream, err := attachRaw(t, dialRaw(t, w, s, testName, w.tokens.Mint(testName)), helloOf(testName))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- untilEnd(stream) }()
	eventually(t, "hung up on", func() bool {
		fake.Advance(hearing.BeatEvery)
		return !s.hub.Attached(testName)
	})
	if err := <-ended; status.Code(err) != codes.Unavailable {
		t.Fatal(err)
	}
}

// TestSilentServer: a server that stands still (its clock never moves, so it never beats) is left
// for the next one.
func TestSilentServer(t *testing.T) {
	w := newWorld(t)
	w.clock = clock.NewFake(time.Unix(1000, 0))
	still := w.serve("still", 1, nil)
	w.clock = clock.Real
	good := w.serve("good", 1, nil)
	fake := clock.NewFake(time.Unix(1000, 0))
	c, err := NewClient(ClientConfig{
		Name: testName, Token: w.tokens.Mint(testName), Endpoints: w.endpoints(still.target), State: engine.StateCreated,
		Spool: newMemSpool(), Orders: &orders{}, Log: w.quiet(), Clock: fake,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = c.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	eventually(t, "attached", func() bool { return still.hub.Attached(testName) })
	w.endpoints(good.target)
	eventually(t, "left for the other", func() bool {
		if good.hub.Attached(testName) {
			return true
		}
		if fake.Advance(100 * time.Millisecond); still.hub.Attached(testName) {
			fake.Advance(hearing.SilenceLimit)
		}
		return false
	})
}

// stuckLogs is a book whose Append waits.
type stuckLogs struct {
	Logs
	release chan struct{}
}

func (l *stuckLogs) Append(ctx context.Context, task, rep string, off int64, data []byte) (int64, error) {
	select {
	case <-l.release:
		return l.Logs.Append(ctx, task, rep, off, data)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// TestSlowStoreHoldsUpOnlyTheLog: with more log than the window waiting, facts still get through.
func TestSlowStoreHoldsUpOnlyTheLog(t *testing.T) {
	w := newWorld(t)
	logs := &stuckLogs{release: make(chan struct{})}
	logs.Logs = logbook.New(logbook.Config{Blob: w.store, Log: w.quiet(), Clock: clock.Real})
	s := w.serve("s", 1, logs)
	c, spool, _, _ := w.client(testName, w.endpoints(s.target), 0)
	for i := range 400 {
		spool.add(i, strings.Repeat("y", 10_000))
	}
	spool.close()
	for i := range 5 {
		c.Usage(Usage{RSS: int64(i + 1)})
		eventually(t, "usage", func() bool { u, ok := s.hub.Usage(testName); return ok && u.RSS == int64(i+1) })
	}
	c.Exited(engine.Exit{Reason: engine.ReasonSucceeded})
	eventually(t, "exited", func() bool { got, _ := s.hub.State(testName); return got == engine.StateExited })
	select {
	case <-c.Shipped():
		t.Fatal("shipped although nothing could be stored")
	default:
	}
	close(logs.release)
	<-c.Shipped()
}

// awayLogs are those of a store that answers nobody until it is back.
type awayLogs struct {
	Logs
	back chan struct{}
}

func (l *awayLogs) wait(ctx context.Context) error {
	select {
	case <-l.back:
		return nil
	case <-ctx.Done():
		return fault.From(ctx.Err())
	}
}

func (l *awayLogs) Durable(ctx context.Context, taskID, replica string) (int64, error) {
	if err := l.wait(ctx); err != nil {
		return 0, err
	}
	return l.Logs.Durable(ctx, taskID, replica)
}

func (l *awayLogs) Append(ctx context.Context, taskID, replica string, offset int64, data []byte) (int64, error) {
	if err := l.wait(ctx); err != nil {
		return 0, err
	}
	return l.Logs.Append(ctx, taskID, replica, offset, data)
}

// TestAttachesWithoutStore: a launcher attaches while the store of logs is away, is told to start and says how that went; when the store is back its log is there whole and
// once, also what a server before had stored of it.
func TestAttachesWithoutStore(t *testing.T) {
	w := newWorld(t)
	spooled := newMemSpool()
	for i := range 100 {
		spooled.add(i, fmt.Sprint("line ", i))
	}
	parts, err := ParseName(testName)
	if err != nil {
		t.Fatal(err)
	}
	before := logbook.New(logbook.Config{Blob: w.store, Log: w.quiet(), Clock: clock.Real})
	if _, err := before.Append(t.Context(), parts.TaskID, parts.LogKey(), 0, spooled.data); err != nil {
		t.Fatal(err)
	}
	if n, err := before.Finish(t.Context(), parts.TaskID, parts.LogKey()); err != nil || n != int64(len(spooled.data)) {
		t.Fatal(n, err)
	}
	logs := &awayLogs{back: make(chan struct{})}
	logs.Logs = logbook.New(logbook.Config{Blob: w.store, Log: w.quiet(), Clock: clock.Real})
	var charged atomic.Int64
	w.config = func(cfg *HubConfig) {
		cfg.Keep = func(_ context.Context, _ string, what Kept, bytes int64) error {
			charged.Add(bytes)
			return nil
		}
	}
	next := w.serve("next", 2, logs)
	c, spool, o, _ := w.client(testName, w.endpoints(next.target), 0)
	for i := range 100 {
		spool.add(i, fmt.Sprint("line ", i))
	}
	eventually(t, "it is attached", func() bool { return next.hub.Attached(testName) })
	if err := next.hub.Go(testName, 1, first); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is told to start", func() bool { n, _ := o.heard(); return n > 0 })
	c.Exited(engine.Exit{Reason: engine.ReasonSucceeded})
	eventually(t, "exited", func() bool { got, _ := next.hub.State(testName); return got == engine.StateExited })
	spool.add(100, "line 100")
	spool.close()
	close(logs.back)
	<-c.Shipped()
	var got []string
	if err := logbook.New(logbook.Config{Blob: w.store, Log: w.quiet(), Clock: clock.Real}).Read(t.Context(), "task-a", logbook.ReadOptions{}, func(_ string, l logbook.Line) error {
		got = append(got, string(l.Text))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(got) != 101 || got[0] != "line 0" || got[100] != "line 100" {
		t.Errorf("%d lines", len(got))
	}
	if last := int64(len(spool.data) - len(spooled.data)); charged.Load() != last {
		t.Errorf("%d bytes are charged, and %d are new", charged.Load(), last)
	}
}
