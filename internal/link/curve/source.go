package curve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
)

// The bounds of a launcher.
const (
	maxQueue  = 1 << 16 // points that wait
	dropAtOne = maxQueue / 16
	maxSeries = 4096 // names of ranks, in one generation
	batchMost = 4096 // points of a batch: packed they take at most 31 bytes each
	behind    = 2 * batchMost
	firstWait = time.Second
	mostWait  = time.Minute

	leastPause = 100 * time.Millisecond // before a batch that was not taken is sent again
)

// Source gathers points of one launcher. Safe for concurrent use; Add never waits for anybody but Add.
type Source struct {
	clock clock.Clock
	log   *slog.Logger
	wake  chan struct{}

	mu       sync.Mutex
	keys     map[key]*key
	queue    []sample
	dropped  int64
	seq      int64
	flying   *linkpb.PointBatch // was sent and not answered, or is to be sent again
	finished bool
	drained  chan struct{}
	empty    bool // drained is closed
}

// key is a series of this launcher.
type key struct {
	name       string
	rank       int
	generation int64
}

type sample struct {
	series *key
	time   int64
	step   int64
	value  float64
}

// NewSource starts nothing.
func NewSource(c clock.Clock, log *slog.Logger) *Source {
	return &Source{clock: c, log: log, wake: make(chan struct{}, 1), keys: map[key]*key{}, drained: make(chan struct{})}
}

// Add takes a value that a rank, or with history.OfReplica as its rank a replica, had at a step. A name that is none, or is one
// too many, is dropped.
func (s *Source) Add(generation int64, rank int, name string, at time.Time, step int64, value float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.find(key{name, rank, generation})
	if k == nil || s.finished || at.Year() < 1970 || at.Year() > 2200 {
		s.dropped++
		return
	}
	if len(s.queue) >= maxQueue {
		s.queue = append(s.queue[:0], s.queue[dropAtOne:]...)
		s.dropped += dropAtOne
	}
	s.queue = append(s.queue, sample{k, at.UnixNano(), max(step, 0), value})
	if len(s.queue) == 1 || len(s.queue) == behind {
		poke(s.wake)
	}
}

// find is the one copy of a series, mu held; nil: it has no name, or is one too many.
func (s *Source) find(k key) *key {
	if known := s.keys[k]; known != nil {
		return known
	}
	if k.name = history.SeriesName(k.name); k.name == "" {
		return nil
	}
	if known := s.keys[k]; known != nil {
		return known
	}
	if len(s.keys) >= maxSeries { // those of earlier generations come no more
		for old := range s.keys {
			if old.generation < k.generation {
				delete(s.keys, old)
			}
		}
		if len(s.keys) >= maxSeries {
			return nil
		}
	}
	s.keys[k] = &k
	return &k
}

// Finish says that no more will come: what waits goes at once.
func (s *Source) Finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished = true
	s.settle()
	poke(s.wake)
}

// Drained is closed when, after Finish, nothing waits any more.
func (s *Source) Drained() <-chan struct{} { return s.drained }

// Dropped is how many points went for want of room or of a name.
func (s *Source) Dropped() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropped
}

// settle closes drained where that is due, mu held.
func (s *Source) settle() {
	if s.finished && s.flying == nil && len(s.queue) == 0 && !s.empty {
		s.empty = true
		close(s.drained)
	}
}

// Ship hands batches over on a connection to a server until ctx ends. Where the server can't take them they are sent again, after
// a pause that grows.
func (s *Source) Ship(ctx context.Context, conn grpc.ClientConnInterface) {
	pause := leastPause
	for ctx.Err() == nil {
		took, err := s.stream(ctx, conn)
		if ctx.Err() != nil {
			return
		}
		s.log.Debug("points were not taken; they are sent again", "error", err)
		if took {
			pause = leastPause
		}
		select {
		case <-ctx.Done():
		case <-s.clock.After(pause/2 + rand.N(pause/2)):
		}
		pause = min(2*pause, mostWait)
	}
}

// stream is one of Ship's; took: a batch was answered.
func (s *Source) stream(ctx context.Context, conn grpc.ClientConnInterface) (took bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var stream linkpb.Curves_PutClient
	wait := time.Duration(0)
	for {
		b := s.take(ctx, wait)
		if b == nil {
			return took, ctx.Err()
		}
		if stream == nil { // only who has something to say needs one
			if stream, err = linkpb.NewCurvesClient(conn).Put(ctx); err != nil {
				return took, err
			}
		}
		if err := stream.Send(b); err != nil && !errors.Is(err, io.EOF) {
			return took, err
		}
		ack, err := stream.Recv() // after a failed Send this has the reason
		if err != nil {
			return took, err
		}
		if ack.GetSeq() != b.GetSeq() {
			return took, fmt.Errorf("batch %d was answered for %d", ack.GetSeq(), b.GetSeq())
		}
		if why := ack.GetRefused(); why != "" {
			s.log.Warn("points were refused", "batch", b.GetSeq(), "reason", why)
		}
		s.taken()
		took = true
		wait = min(max(time.Duration(ack.GetNextNanos()), firstWait/10), mostWait)
	}
}

// taken is the answer to the batch that was sent.
func (s *Source) taken() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flying = nil
	s.settle()
}

// take gives the next batch, after the wait unless many points wait or no more will come; nil: ctx ended. One that was not
// answered is given again.
func (s *Source) take(ctx context.Context, wait time.Duration) *linkpb.PointBatch {
	due := s.clock.After(wait)
	early := s.clock.After(wait / 4)
	ready, soon := wait == 0, wait == 0
	for {
		s.mu.Lock()
		n := len(s.queue)
		if s.flying != nil || n > 0 && (ready || s.finished || soon && n >= behind) {
			b := s.pack()
			s.mu.Unlock()
			return b
		}
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		case <-due:
			ready = true
		case <-early:
			soon = true
		}
	}
}

// pack makes a batch of the oldest points, mu held.
func (s *Source) pack() *linkpb.PointBatch {
	if s.flying != nil {
		return s.flying
	}
	n := min(len(s.queue), batchMost)
	at := map[*key]int{}
	var lines []history.Line
	for _, p := range s.queue[:n] {
		i, there := at[p.series]
		if !there || len(lines[i].Points) == history.MaxBlock {
			k := p.series
			i, at[p.series] = len(lines), len(lines)
			lines = append(lines, history.Line{Name: k.name, Rank: k.rank, Generation: k.generation})
		}
		lines[i].Points = append(lines[i].Points, history.Point{Time: time.Unix(0, p.time), Step: p.step, Value: p.value})
	}
	data := history.EncodeLines(lines)
	for len(data) > history.MaxBatch && len(lines) > 1 { // long names, each with one point
		lines = lines[:len(lines)/2]
		data = history.EncodeLines(lines)
	}
	s.queue = s.remove(n, lines)
	s.seq++
	s.flying = &linkpb.PointBatch{Seq: s.seq, Dropped: s.dropped, Lines: data}
	return s.flying
}

// remove gives the queue without what lines took of its first n, mu held.
func (s *Source) remove(n int, lines []history.Line) []sample {
	left := map[key]int{}
	for _, l := range lines {
		left[key{l.Name, l.Rank, l.Generation}] += len(l.Points)
	}
	rest := s.queue[:0]
	for i, p := range s.queue {
		if k := p.series; i < n && left[*k] > 0 {
			left[*k]--
			continue
		}
		rest = append(rest, p)
	}
	return rest
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
