package logbook

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// maxAppend bounds one Append.
const maxAppend = 4 << 20

// idleAfter is how long a stream without bytes in memory is remembered.
const idleAfter = 10 * time.Minute

// committers is how many aged chunks are written at once.
const committers = 4

// Config says where chunks go and when.
type Config struct {
	Blob        blob.Store
	Log         *slog.Logger
	Clock       clock.Clock
	ChunkBytes  int           // commit at this size; 1 MiB
	ChunkAge    time.Duration // commit when the oldest byte is this old; 60 s
	MemoryBytes int64         // all streams together; 64 MiB
	// Others brings what other servers hold of a task's log until ctx ends: take gets data at an offset
	// or, with none, the news that the store has more. synced is called once, when all have shown what
	// there was. nil: there are no others.
	Others func(ctx context.Context, taskID string, take func(replica string, offset int64, data []byte), synced func())
}

// Book keeps logs. Safe for concurrent use.
type Book struct {
	cfg Config
	enc *zstd.Encoder
	dec *zstd.Decoder

	memory
}

// New makes a book; Run keeps its chunks from growing old.
func New(cfg Config) *Book {
	if cfg.ChunkBytes <= 0 {
		cfg.ChunkBytes = 1 << 20
	}
	if cfg.ChunkAge <= 0 {
		cfg.ChunkAge = time.Minute
	}
	if cfg.MemoryBytes <= 0 {
		cfg.MemoryBytes = 64 << 20
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.Real
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	enc, dec := newCodec()
	return &Book{cfg: cfg, enc: enc, dec: dec, memory: memory{tasks: map[string]*task{}}}
}

// Run commits chunks that have aged, until ctx ends. At its end it commits nothing: launchers
// send again what is not durable.
func (b *Book) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-b.cfg.Clock.After(b.cfg.ChunkAge / 4):
		}
		b.commitAged(ctx)
	}
}

func (b *Book) commitAged(ctx context.Context) {
	slots := make(chan struct{}, committers)
	var wg sync.WaitGroup
	for _, s := range b.aged() {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { b.release(s); <-slots }()
			if err := b.commit(ctx, s); err != nil && ctx.Err() == nil {
				b.cfg.Log.Warn("log chunk not committed; it stays in memory and with the launcher",
					slog.String("task", s.task.id), slog.String("replica", s.replica), slog.Any("error", err))
			}
		})
	}
	wg.Wait()
}

// aged picks, and holds, streams to commit; streams long idle are dropped.
func (b *Book) aged() []*stream {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.cfg.Clock.Now()
	var out []*stream
	for _, t := range b.tasks {
		for _, s := range t.streams {
			if len(s.blocks) == 0 {
				s.finished = s.finished || now.Sub(s.used) > idleAfter
				b.drop(s)
			} else if !s.foreign && now.Sub(s.since) >= b.cfg.ChunkAge {
				s.users++
				out = append(out, s)
			}
		}
	}
	return out
}

// hold finds or makes a stream and keeps it from being dropped until release.
func (b *Book) hold(taskID, replica string) (*stream, error) {
	for _, name := range []string{taskID, replica} {
		if err := blob.CheckKey(name); err != nil || strings.Contains(name, "/") || len(name) > 200 {
			return nil, fault.New(fault.Invalid, "BadName", fault.T(
				"%.100q cannot name a log.", "%.100q 不能作为日志名称。", name))
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.taskOf(taskID)
	s := t.streams[replica]
	if s == nil {
		s = &stream{task: t, replica: replica, prefix: streamPrefix(taskID, replica), io: make(chan struct{}, 1)}
		t.streams[replica] = s
	}
	s.users++
	s.used = b.cfg.Clock.Now()
	return s, nil
}

// Durable is the end of the committed chunks: a launcher goes on from there.
func (b *Book) Durable(ctx context.Context, taskID, replica string) (int64, error) {
	s, err := b.hold(taskID, replica)
	if err != nil {
		return 0, err
	}
	defer b.release(s)
	if err := b.refresh(ctx, s, true); err != nil {
		return 0, err
	}
	return b.durableOf(s), nil
}

// Append takes whole lines at an offset of the log. What is known already is skipped; a gap is
// fault Conflict, reason LogGap: the caller asks Durable and goes on from there. It may write a
// chunk, so it takes as long as the store does; on an error the caller sends again.
func (b *Book) Append(ctx context.Context, taskID, replica string, offset int64, data []byte) (int64, error) {
	if err := checkData(offset, data); err != nil {
		return 0, err
	}
	s, err := b.hold(taskID, replica)
	if err != nil {
		return 0, err
	}
	defer b.release(s)
	if err := b.refresh(ctx, s, false); err != nil {
		return 0, err
	}
	if err := b.makeRoom(ctx, s, int64(len(data))); err != nil {
		return b.durableOf(s), err
	}
	full, err := b.take(s, offset, data, false)
	if fault.ReasonOf(err) == "LogGap" {
		// Perhaps another server has what is missing here.
		if err := b.refresh(ctx, s, true); err != nil {
			return 0, err
		}
		full, err = b.take(s, offset, data, false)
	}
	if err == nil && full {
		err = b.commit(ctx, s)
	}
	return b.durableOf(s), err
}

func checkData(offset int64, data []byte) error {
	bad := func(en, zh string) error {
		return fault.New(fault.Invalid, "BadLogData", fault.Text{
			EN: "Log data is refused: " + en + ".", ZH: "日志数据被拒绝：" + zh + "。"})
	}
	switch {
	case offset < 0 || offset > 1<<62:
		return bad("the offset is out of range", "偏移量超出范围")
	case len(data) > maxAppend:
		return fault.New(fault.TooLarge, "BadLogData", fault.T("More than 4 MiB of log at once.", "单次日志超过 4 MiB。"))
	case len(data) > 0 && data[len(data)-1] != '\n':
		return bad("it does not end with a whole line", "末尾不是完整的一行")
	}
	for rest := data; len(rest) > 0; {
		n := bytes.IndexByte(rest, '\n') + 1
		if n > maxBlock {
			return bad("a line is longer than 32 KiB", "有一行超过 32 KiB")
		}
		rest = rest[n:]
	}
	return nil
}

// take puts what is new of data into memory; full says that it is time to commit. foreign: another
// server has it from the launcher, and commits it.
func (b *Book) take(s *stream, offset int64, data []byte, foreign bool) (full bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.task.deleted {
		return false, deletedFault(s.task.id)
	}
	if offset > s.end {
		return false, fault.New(fault.Conflict, "LogGap", fault.T(
			"The log of %s ends at %d; data at %d would leave a gap.",
			"%s 的日志到 %d 为止；从 %d 开始的数据会留下空缺。", s.replica, s.end, offset))
	}
	if !foreign || offset+int64(len(data)) > s.end {
		s.setForeign(foreign, b.cfg.Clock.Now())
	}
	if known := s.end - offset; known >= int64(len(data)) {
		data = nil
	} else if known > 0 && data[known-1] != '\n' {
		return false, fault.New(fault.Conflict, "LogMismatch", fault.T(
			"The log of %s has other bytes before %d than what was sent.",
			"%s 的日志在 %d 之前与发送的内容不一致。", s.replica, s.end))
	} else {
		data = data[known:]
	}
	if len(data) > 0 {
		if len(s.blocks) == 0 {
			s.since = b.cfg.Clock.Now()
		}
		b.held += s.push(data)
		s.finished = false
		s.wake()
	}
	return s.pending() >= int64(b.cfg.ChunkBytes), nil
}

// makeRoom commits until n more bytes fit, beginning with the largest stream.
func (b *Book) makeRoom(ctx context.Context, s *stream, n int64) error {
	b.mu.Lock()
	tooBig := s.pending() >= int64(b.cfg.ChunkBytes)
	b.mu.Unlock()
	if tooBig { // its last commit failed
		if err := b.commit(ctx, s); err != nil {
			return err
		}
	}
	for {
		largest := b.holdLargest(n, b.cfg.MemoryBytes)
		if largest == nil {
			return nil
		}
		err := b.commit(ctx, largest)
		b.release(largest)
		if err != nil {
			return err
		}
	}
}

// Finish commits the rest of a replica's log and forgets what was in memory.
func (b *Book) Finish(ctx context.Context, taskID, replica string) (int64, error) {
	s, err := b.hold(taskID, replica)
	if err != nil {
		return 0, err
	}
	defer b.release(s)
	if err := b.refresh(ctx, s, false); err != nil {
		return 0, err
	}
	b.own(s, b.cfg.Clock.Now())
	if err := b.commit(ctx, s); err != nil {
		return b.durableOf(s), err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s.finished = len(s.blocks) == 0
	return s.durable, nil
}

// Delete removes a task's log. Readers of it end with fault NotFound.
func (b *Book) Delete(ctx context.Context, taskID string) error {
	if err := blob.CheckKey(taskID); err != nil || strings.Contains(taskID, "/") {
		return errors.Join(err, fault.New(fault.Invalid, "BadName", fault.T("%.100q cannot name a log.", "%.100q 不能作为日志名称。", taskID)))
	}
	b.mu.Lock()
	var streams []*stream
	if t := b.tasks[taskID]; t != nil {
		t.deleted = true
		delete(b.tasks, taskID)
		for _, s := range t.streams {
			for _, bl := range s.blocks {
				b.held -= int64(cap(bl.data))
			}
			s.blocks, s.sealed, s.durable = nil, 0, s.end
			streams = append(streams, s)
		}
		for r := range t.readers {
			select {
			case r.woken <- struct{}{}:
			default:
			}
		}
		for tl := range t.tails {
			tl.poke()
		}
	}
	b.mu.Unlock()
	for _, s := range streams { // commits under way end first
		if err := s.lock(ctx); err != nil {
			return err
		}
		defer s.unlock()
	}
	return b.cfg.Blob.Delete(ctx, "logs/"+taskID+"/")
}

func deletedFault(taskID string) error {
	return fault.New(fault.NotFound, "LogDeleted", fault.T("The log of %s was deleted.", "%s 的日志已被删除。", taskID))
}
