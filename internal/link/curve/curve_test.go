package curve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/blob/logbook"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/history/historytest"
	"github.com/fermi-cluster/fermi/internal/history/sqlstore"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const replica = engine.Name("task-a-worker-0-1")

// world is a server on a folder, which comes and goes, and its history.
type world struct {
	t      *testing.T
	dir    string
	tokens *link.Tokens
	blob   *folder.Store
	past   history.Metrics
	may    func(context.Context, link.Parts) error
	epoch  int64
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "f") // short: it holds the socket
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	w := &world{t: t, dir: dir}
	past, err := sqlstore.Open(t.Context(), sqlstore.Config{Path: filepath.Join(dir, "h.db")})
	must(t, err)
	t.Cleanup(func() { past.Close() })
	w.past = past
	w.blob, err = folder.Open(filepath.Join(dir, "blob"))
	must(t, err)
	t.Cleanup(func() { w.blob.Close() })
	w.tokens = link.NewTokens([]byte("a key of thirty-two bytes, or so"))
	return w
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// serve runs a server until stop.
func (w *world) serve() (stop func()) {
	w.t.Helper()
	log := slog.New(slog.DiscardHandler)
	book := logbook.New(logbook.Config{Blob: w.blob, Log: log, Clock: clock.Real})
	hub := link.NewHub(link.HubConfig{
		Blob: w.blob, Logs: book, Tokens: w.tokens, Log: log, Clock: clock.Real,
		Fetched: link.Fetched{ArchiveOf: func(context.Context, string) (string, error) { return "", nil }},
	})
	w.epoch++
	hub.Lead(w.epoch)
	path := filepath.Join(w.dir, "s")
	_ = os.Remove(path)
	l, err := net.Listen("unix", path)
	must(w.t, err)
	must(w.t, os.WriteFile(filepath.Join(w.dir, "endpoints"), []byte("unix://"+path+"\n"), 0o600))
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = book.Run(ctx) })
	wg.Go(func() { _ = hub.Serve(ctx, l, NewDesk(w.past, w.may, log).Register) })
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	w.t.Cleanup(stop)
	return stop
}

type spool struct{}

func (spool) ReadAt([]byte, int64) (int, error) { return 0, errors.New("there is nothing") }
func (spool) Size() (int64, bool)               { return 0, false }
func (spool) Changed() <-chan struct{}          { return nil }

type orders struct{}

func (orders) Go(int64, link.Generation) {}
func (orders) Watermark(link.Watermark)  {}
func (orders) Stop(time.Duration)        {}
func (orders) Probe(link.Probe)          {}

// launcher is one whose points go to whatever server there is.
func (w *world) launcher() *Source {
	w.t.Helper()
	log := slog.New(slog.DiscardHandler)
	s := NewSource(clock.Real, log)
	c, err := link.NewClient(link.ClientConfig{
		Name: replica, Token: w.tokens.Mint(replica), Endpoints: filepath.Join(w.dir, "endpoints"), State: engine.StateRunning,
		Spool: spool{}, Orders: orders{}, Log: log, Clock: clock.Real, Beside: s.Ship,
	})
	must(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = c.Run(ctx) })
	w.t.Cleanup(func() { cancel(); wg.Wait() })
	return s
}

func (w *world) read(name string, rank int, generation int64) []history.Point {
	w.t.Helper()
	list, _ := historytest.PointsOf(w.t, w.past, "task-a", history.Series{Name: name, Replica: string(replica), Rank: rank, Generation: generation}, history.Span{})
	return list
}

func (w *world) drained(s *Source) {
	w.t.Helper()
	select {
	case <-s.Drained():
	case <-time.After(time.Minute):
		w.t.Fatal("never drained")
	}
}

var began = time.Unix(1_700_000_000, 0)

// TestPointsArrive: of two ranks and of the replica, in their order, with values that are none.
func TestPointsArrive(t *testing.T) {
	w := newWorld(t)
	w.serve()
	s := w.launcher()
	values := []float64{1, math.NaN(), math.Inf(-1), 2}
	for step := range int64(3000) {
		for rank := range 2 {
			s.Add(1, rank, "loss\n", began, step, values[step%4])
		}
	}
	s.Add(1, history.OfReplica, "system/cpu", began, 5, 1.5)
	s.Add(1, 0, "", began, 5, 1)
	s.Finish()
	s.Add(1, 0, "loss", began, 9999, 1)
	w.drained(s)
	for rank := range 2 {
		got := w.read("loss", rank, 1)
		if len(got) != 3000 {
			t.Fatalf("rank %d has %d points", rank, len(got))
		}
		for i, p := range got {
			if v := values[i%4]; p.Step != int64(i) || p.Value != v && !(math.IsNaN(v) && math.IsNaN(p.Value)) || !p.Time.Equal(began) {
				t.Fatalf("point %d is %+v", i, p)
			}
		}
	}
	if got := w.read("system/cpu", history.OfReplica, 1); len(got) != 1 || got[0].Value != 1.5 {
		t.Fatalf("%+v", got)
	}
	if s.Dropped() != 2 {
		t.Fatalf("%d dropped", s.Dropped())
	}
}

// cutting is a history that commits and then loses the answer, at random.
type cutting struct {
	history.Metrics
	mu     sync.Mutex
	random *rand.Rand
	cut    int
}

func (c *cutting) AddPoints(ctx context.Context, b history.Batch) error {
	c.mu.Lock()
	before, after := c.random.IntN(4) == 0, c.random.IntN(4) == 0
	if before || after {
		c.cut++
	}
	c.mu.Unlock()
	away := fault.New(fault.Unavailable, "Away", fault.T("Away.", "不在。"))
	if before {
		return away
	}
	if err := c.Metrics.AddPoints(ctx, b); err != nil || !after {
		return err
	}
	return away
}

// TestPointsOnce: servers end and answers are lost after the commit; each point is there once.
func TestPointsOnce(t *testing.T) {
	w := newWorld(t)
	cut := &cutting{Metrics: w.past, random: rand.New(rand.NewPCG(3, 4))}
	w.past = cut
	s := w.launcher()
	var step int64
	for range 5 {
		stop := w.serve()
		for range 2 * batchMost {
			s.Add(1, 0, "loss", began, step, float64(step))
			step++
		}
		eventually(t, "some arrived", func() bool { return len(w.read("loss", 0, 1)) >= int(step)/2 })
		stop()
	}
	w.serve()
	s.Finish()
	w.drained(s)
	got := w.read("loss", 0, 1)
	if int64(len(got)) != step || s.Dropped() != 0 {
		t.Fatalf("%d of %d points, %d dropped", len(got), step, s.Dropped())
	}
	for i, p := range got {
		if p.Step != int64(i) {
			t.Fatalf("point %d is step %d", i, p.Step)
		}
	}
	if cut.cut == 0 {
		t.Fatal("nothing was cut")
	}
}

// TestNoServer: whoever adds never waits, memory is bounded, the oldest go and are counted, and the count is told.
func TestNoServer(t *testing.T) {
	w := newWorld(t)
	s := w.launcher()
	const all = 3*maxQueue + 17
	for step := range int64(all) {
		s.Add(1, 0, "loss", began, step, 0)
	}
	if len(s.queue) > maxQueue {
		t.Fatalf("%d wait", len(s.queue))
	}
	s.Finish()
	w.serve()
	w.drained(s)
	got := w.read("loss", 0, 1)
	_, dropped, err := w.past.Series(t.Context(), "task-a")
	must(t, err)
	if int64(len(got))+s.Dropped() != all || dropped != s.Dropped() || got[len(got)-1].Step != all-1 {
		t.Fatalf("%d points and %d (told %d) dropped of %d; the last is %+v", len(got), s.Dropped(), dropped, all, got[len(got)-1])
	}
}

// TestManyNames: a script that makes up names without end gets as many as there is room for, again in the next generation.
func TestManyNames(t *testing.T) {
	s := NewSource(clock.Real, slog.New(slog.DiscardHandler))
	for generation := int64(1); generation <= 3; generation++ {
		for i := range 2 * maxSeries {
			s.Add(generation, 0, fmt.Sprintf("%0120d", i), began, 1, 0)
		}
	}
	if len(s.keys) > maxSeries || s.Dropped() != 3*maxSeries {
		t.Fatalf("%d names, %d dropped", len(s.keys), s.Dropped())
	}
	n := len(s.queue)
	for len(s.queue) > 0 {
		b := s.pack()
		lines, err := history.DecodeLines(b.GetLines())
		if err != nil || len(b.GetLines()) > history.MaxBatch || len(lines) == 0 {
			t.Fatal(err, len(b.GetLines()))
		}
		for _, l := range lines {
			n -= len(l.Points)
		}
		s.flying = nil
	}
	if n != 0 {
		t.Fatalf("%d points were lost", n)
	}
}

// TestTaskIsGone: points of a task that is no more are refused for good, and the launcher goes on.
func TestTaskIsGone(t *testing.T) {
	w := newWorld(t)
	var gone atomic.Bool
	w.may = func(context.Context, link.Parts) error {
		if gone.Load() {
			return fault.New(fault.NotFound, "NotFound", fault.T("Gone.", "不存在。"))
		}
		return nil
	}
	w.serve()
	s := w.launcher()
	s.Add(1, 0, "loss", began, 1, 0)
	eventually(t, "the first arrived", func() bool { return len(w.read("loss", 0, 1)) == 1 })
	gone.Store(true)
	s.Add(1, 0, "loss", began, 2, 0)
	s.Finish()
	w.drained(s)
	if got := w.read("loss", 0, 1); len(got) != 1 {
		t.Fatalf("%d points", len(got))
	}
}

// TestDeskRefuses what is no batch, without a commit.
func TestDeskRefuses(t *testing.T) {
	w := newWorld(t)
	d := NewDesk(w.past, nil, slog.New(slog.DiscardHandler))
	parts, err := link.ParseName(replica)
	must(t, err)
	good := history.EncodeLines([]history.Line{{Name: "loss", Points: []history.Point{{Time: began}}}})
	for name, m := range map[string]*linkpb.PointBatch{
		"no number": {Lines: good}, "negative": {Seq: 1, Dropped: -1, Lines: good}, "damaged": {Seq: 1, Lines: good[:len(good)-1]}, "too large": {Seq: 1, Lines: make([]byte, history.MaxBatch+1)},
	} {
		if err := d.take(t.Context(), parts, m); !final(fault.From(err)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := w.read("loss", 0, 0); len(got) != 0 {
		t.Errorf("%d points", len(got))
	}
}

// TestPace: a server with many launchers hears each less often.
func TestPace(t *testing.T) {
	d := NewDesk(nil, nil, nil)
	for launchers, want := range map[int64]time.Duration{1: time.Second, 100: time.Second, 1000: 10 * time.Second, 16384: time.Minute} {
		if d.open.Store(launchers); d.pace() != want {
			t.Errorf("%d launchers: every %v", launchers, d.pace())
		}
	}
}

// TestGivenUp: points of a replica that was given up are refused for good, and the launcher goes on.
func TestGivenUp(t *testing.T) {
	w := newWorld(t)
	var given atomic.Bool
	w.may = func(_ context.Context, of link.Parts) error {
		if given.Load() && of.LogKey() == string(replica) {
			return fault.New(fault.Forbidden, "GivenUp", fault.T("Given up.", "已放弃。"))
		}
		return nil
	}
	w.serve()
	s := w.launcher()
	s.Add(1, 0, "loss", began, 1, 0)
	eventually(t, "the first arrived", func() bool { return len(w.read("loss", 0, 1)) == 1 })
	given.Store(true)
	s.Add(1, 0, "loss", began, 2, 0)
	s.Finish()
	w.drained(s)
	if got := w.read("loss", 0, 1); len(got) != 1 {
		t.Fatalf("%d points", len(got))
	}
}
