package ckpt

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime"
	"sync"

	"github.com/zeebo/blake3"
	"golang.org/x/sync/errgroup"

	"github.com/fermi-cluster/fermi/internal/cores"
)

// writers is how many packs are put at once: one's bytes are on their way while another is made durable,
// or waits for a processor that hashes. hashers bounds who hashes: no more keep up with who reads.
const (
	writers = 2
	hashers = 4
)

// rankWriter turns a slot into packs. Chunks are read and hashed side by side, each in a buffer
// of its own; in their order they go into packs, which are written as they grow. The buffers are few, so that what
// is read, hashed and written stays in the processor's cache.
type rankWriter struct {
	save  *Save
	slot  *Slot
	part  Part
	packs map[string]int // index in part.Packs
	fresh uint64
	made  int
	free  chan []byte
	cur   *pack // the one that grows
	own   *pack // likewise, in a save that is shared: of what is likely the rank's own, so that it spoils no other pack

	mu    sync.Mutex
	ceded map[string]string // packs that others write: our key → theirs
	spare uint64            // the bytes of those
}

func (w *rankWriter) write(ctx context.Context, chunks []stretch) error {
	group, ctx := errgroup.WithContext(ctx)
	hashing := min(hashers, runtime.NumCPU(), cores.Own())
	// A write holds its thread for milliseconds, and what runs Go there until the runtime notices: without these, a hasher's.
	defer cores.Borrow(writers)()
	w.free = make(chan []byte, hashing+2*writers)
	for range cap(w.free) {
		w.free <- nil
	}
	in := &chunkReader{w: w, chunks: chunks, read: make(chan *moving, cap(w.free))}
	var left sync.WaitGroup
	for range hashing {
		left.Add(1)
		group.Go(func() error {
			defer left.Done()
			return in.hash(ctx)
		})
	}
	group.Go(func() error { left.Wait(); close(in.read); return nil })
	full := make(chan *pack, 1)
	if w.save.shared {
		full = make(chan *pack) // each is held whole
	}
	group.Go(func() error {
		defer close(full)
		return w.fill(ctx, in.read, full)
	})
	for range writers {
		group.Go(func() error {
			for p := range full {
				if err := w.put(ctx, p); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// moving is one chunk on its way: it lies in buf from at on.
type moving struct {
	from       uint64 // in the data, or behind it in the tree
	buf        []byte
	at, length int
	little     bool
	hash       Hash
	sums       []uint32 // of the data, as a stream counts it: one ends wherever a stretch does
	err        error
	done       chan struct{}
}

// chunkReader hands out the data, then the tree, chunk by chunk.
type chunkReader struct {
	w    *rankWriter
	read chan *moving // in their order; as many fit as there are buffers

	mu     sync.Mutex
	at     uint64
	chunks []stretch
	size   int // of the pack, if all of them go into packs
}

// hash reads and hashes until nothing is left.
func (r *chunkReader) hash(ctx context.Context) error {
	for {
		j, err := r.next(ctx)
		if j == nil {
			return err
		}
		if j.err = j.take(r.w.slot); j.err != nil {
			r.stop()
		}
		close(j.done)
	}
}

// next is the next chunk; it comes to where it is written from if all before it are new.
func (r *chunkReader) next(ctx context.Context) (*moving, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.chunks) == 0 {
		return nil, nil
	}
	j := &moving{from: r.at, at: r.size % packAlign, length: r.chunks[0].length, little: r.chunks[0].little, done: make(chan struct{})}
	select {
	case j.buf = <-r.w.free:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r.chunks = r.chunks[1:]
	r.at += uint64(j.length)
	if r.size += j.length; r.size >= r.w.save.repo.cfg.PackBytes {
		r.size = 0
	}
	if j.buf == nil {
		j.buf = make([]byte, packAlign+r.w.save.repo.cfg.ChunkBytes)
	}
	r.read <- j
	return j, nil
}

func (r *chunkReader) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.chunks = nil
}

// hashPiece is how much of a chunk is read, summed and hashed before the next: it stays in the cache of one processor.
const hashPiece = 128 << 10

// take reads the chunk and hashes it. Between pieces it gives way: who writes is not kept waiting by who hashes, nor,
// on few cores, is anything else in this process.
func (j *moving) take(s *Slot) error {
	hash, at, crc := blake3.New(), j.from, uint32(0)
	for left := j.buf[j.at : j.at+j.length]; len(left) > 0; runtime.Gosched() {
		p := left[:min(len(left), hashPiece)]
		if data := s.Header.Data; at < data {
			p = p[:min(uint64(len(p)), slotSum-at%slotSum)]
			if err := s.readAt(p, at); err != nil {
				return err
			}
			if crc = crc32.Update(crc, crc32.IEEETable, p); (at+uint64(len(p)))%slotSum == 0 {
				j.sums, crc = append(j.sums, crc), 0
			}
		} else {
			copy(p, s.Tree[at-data:])
		}
		_, _ = hash.Write(p) // never fails
		at, left = at+uint64(len(p)), left[len(p):]
	}
	j.sums = append(j.sums, crc)
	hash.Sum(j.hash[:0])
	return nil
}

// fill keeps, in their order, the chunks that nobody has in one pack after the other.
func (w *rankWriter) fill(ctx context.Context, read <-chan *moving, full chan<- *pack) (err error) {
	defer func() {
		if w.cur != nil {
			w.cur.end(err)
		}
	}()
	sums := stream{s: w.slot}
	for j := range read {
		select {
		case <-j.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if j.err == nil {
			j.err = sums.pass(j.length, j.sums)
		}
		if j.err != nil {
			return j.err
		}
		if err := w.keep(ctx, j, full); err != nil {
			return err
		}
	}
	if w.save.shared && ctx.Err() == nil {
		return errors.Join(w.end(ctx, &w.cur, full), w.end(ctx, &w.own, full))
	}
	return ctx.Err()
}

// keep notes a chunk and, if it belongs there, adds it to a pack. That is given away with its first one; in a save that
// is shared with its last, for only then it can be claimed.
func (w *rankWriter) keep(ctx context.Context, j *moving, full chan<- *pack) error {
	to := &w.cur
	if w.save.shared && j.little {
		to = &w.own
	}
	key, size := w.nextKey(), 0
	if p := *to; p != nil {
		key, size = p.key, p.size
	}
	if !w.chunk(j.hash, j.length, key, uint64(size)) {
		w.free <- j.buf
		return nil
	}
	if *to == nil {
		w.made++
		*to = newPack(key, w.free)
		if w.save.shared {
			(*to).hold(w.room(to == &w.cur))
		} else if err := give(ctx, *to, full); err != nil {
			return err
		}
	}
	(*to).add(j)
	if w.enough(*to, j.hash) {
		return w.end(ctx, to, full)
	}
	return nil
}

// enough says that a pack is full. In a save that is shared it then still waits, up to double the size, for a
// chunk that says so itself: machines of which one has a chunk more come to the same packs again.
func (w *rankWriter) enough(p *pack, last Hash) bool {
	most := w.save.repo.cfg.PackBytes
	return p.size >= most && (!w.save.shared || last[0]%32 == 0 || p.size >= 2*most)
}

// room is memory for a pack that is held. That of large ones is used again.
func (w *rankWriter) room(large bool) []byte {
	if !large {
		return nil
	}
	select {
	case room := <-w.save.rooms:
		return room
	default:
		return make([]byte, 0, min(uint64(w.save.roomBytes()), w.part.Data))
	}
}

// end lets a pack grow no more.
func (w *rankWriter) end(ctx context.Context, at **pack, full chan<- *pack) error {
	p := *at
	if *at = nil; p == nil {
		return nil
	}
	p.end(nil)
	if w.save.shared {
		return give(ctx, p, full)
	}
	return nil
}

func give(ctx context.Context, p *pack, to chan<- *pack) error {
	select {
	case to <- p:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *rankWriter) nextKey() string {
	return spread(packsDir, fmt.Sprintf("%s-%d-%d", w.save.id, w.part.Rank, w.made))
}

func (w *rankWriter) put(ctx context.Context, p *pack) error {
	if err := w.save.keepLease(ctx); err != nil {
		return err
	}
	if w.save.shared {
		if other := w.save.claimPack(ctx, p); other != "" {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ceded[p.key] = other
			w.spare += uint64(p.size)
			w.save.vacate(p)
			return nil
		}
	}
	_, err := w.save.repo.cfg.Store.Put(ctx, w.save.repo.key(p.key), p)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return p.err // the store failed only for that
	}
	if err == nil && w.save.shared {
		w.save.vacate(p)
	}
	return err
}

// chunk notes the next chunk and says whether it belongs into the pack.
func (w *rankWriter) chunk(h Hash, length int, key string, at uint64) bool {
	c := Chunk{Hash: h, Bytes: uint32(length)}
	if have, ok := w.save.known[c.Hash]; ok {
		c.Pack, c.At = w.index(have.pack), have.at
		w.part.Chunks = append(w.part.Chunks, c)
		return false
	}
	where, mine := w.save.claim(c.Hash)
	if mine {
		where = place{key, at}
		w.fresh += uint64(length)
	}
	if where.pack != "" {
		c.Pack, c.At = w.index(where.pack), where.at
	}
	w.part.Chunks = append(w.part.Chunks, c)
	return mine
}

func (w *rankWriter) index(key string) *int {
	i, ok := w.packs[key]
	if !ok {
		i = len(w.part.Packs)
		w.packs[key] = i
		w.part.Packs = append(w.part.Packs, key)
	}
	return &i
}

// settle names what others write in the part, and tells the ranks after this one where its chunks lie.
func (w *rankWriter) settle() {
	w.fresh -= w.spare
	for i, key := range w.part.Packs {
		if other, ok := w.ceded[key]; ok {
			w.part.Packs[i] = other
		}
	}
	w.save.mu.Lock()
	defer w.save.mu.Unlock()
	for _, c := range w.part.Chunks {
		if at, ok := w.save.claimed[c.Hash]; ok && at.pack == "" && c.Pack != nil {
			w.save.claimed[c.Hash] = place{w.part.Packs[*c.Pack], c.At}
		}
	}
}
