package ckpt

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/zeebo/blake3"
	"golang.org/x/sync/errgroup"
)

// writers is how many packs are put at once: one's bytes are on their way while another is made durable,
// or waits for a processor that hashes. hashers bounds who hashes: no more keep up with who reads.
const (
	writers = 2
	hashers = 4
)

// rankWriter turns a slot into packs. Chunks are read one after the other and hashed side by side, each in a buffer
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
}

func (w *rankWriter) write(ctx context.Context, lengths []int) error {
	group, ctx := errgroup.WithContext(ctx)
	hashing := min(hashers, runtime.GOMAXPROCS(0))
	w.free = make(chan []byte, hashing+2*writers)
	for range cap(w.free) {
		w.free <- nil
	}
	in := &chunkReader{w: w, in: stream{s: w.slot}, tree: w.slot.Tree, lengths: lengths, read: make(chan *moving, cap(w.free))}
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
	buf        []byte
	at, length int
	hash       Hash
	err        error
	done       chan struct{}
}

// chunkReader reads the data, then the tree, chunk by chunk.
type chunkReader struct {
	w    *rankWriter
	read chan *moving // in their order; as many fit as there are buffers

	mu      sync.Mutex
	in      stream
	tree    []byte
	lengths []int
	size    int // of the pack, if all of them go into packs
}

// hash reads and hashes until nothing is left.
func (r *chunkReader) hash(ctx context.Context) error {
	for {
		j, err := r.next(ctx)
		if j == nil {
			return err
		}
		if j.err == nil {
			j.hash = patientSum(j.buf[j.at : j.at+j.length])
		}
		close(j.done)
	}
}

// next reads the next chunk to where it is written from if all before it are new.
func (r *chunkReader) next(ctx context.Context) (*moving, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lengths) == 0 {
		return nil, nil
	}
	j := &moving{at: r.size % packAlign, length: r.lengths[0], done: make(chan struct{})}
	select {
	case j.buf = <-r.w.free:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if j.buf == nil {
		j.buf = make([]byte, packAlign+r.w.save.repo.cfg.ChunkBytes)
	}
	b := j.buf[j.at : j.at+j.length]
	if r.in.at < r.in.s.Header.Data {
		j.err = r.in.next(b)
	} else {
		r.tree = r.tree[copy(b, r.tree):]
	}
	r.lengths = r.lengths[1:]
	if r.size += j.length; r.size >= r.w.save.repo.cfg.PackBytes {
		r.size = 0
	}
	if j.err != nil {
		r.lengths = nil
	}
	r.read <- j
	return j, nil
}

// patientSum is sum, but gives way now and then: who writes is not kept waiting by who hashes, nor, on
// few cores, is anything else in this process.
func patientSum(b []byte) (h Hash) {
	const piece = 256 << 10
	hash := blake3.New()
	for len(b) > 0 {
		n, _ := hash.Write(b[:min(len(b), piece)])
		b = b[n:]
		runtime.Gosched()
	}
	hash.Sum(h[:0])
	return h
}

// fill keeps, in their order, the chunks that nobody has in one pack after the other.
func (w *rankWriter) fill(ctx context.Context, read <-chan *moving, full chan<- *pack) (err error) {
	defer func() {
		if w.cur != nil {
			w.cur.end(err)
		}
	}()
	for j := range read {
		select {
		case <-j.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if j.err != nil {
			return j.err
		}
		if err := w.keep(ctx, j, full); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// keep notes a chunk and, if it belongs there, adds it to the pack, which is given away with its first.
func (w *rankWriter) keep(ctx context.Context, j *moving, full chan<- *pack) error {
	key, size := w.nextKey(), 0
	if w.cur != nil {
		key, size = w.cur.key, w.cur.size
	}
	if !w.chunk(j.hash, j.length, key, uint64(size)) {
		w.free <- j.buf
		return nil
	}
	if w.cur == nil {
		w.made++
		w.cur = newPack(key, w.free)
		select {
		case full <- w.cur:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	w.cur.add(j)
	if w.cur.size >= w.save.repo.cfg.PackBytes {
		w.cur.end(nil)
		w.cur = nil
	}
	return nil
}

func (w *rankWriter) nextKey() string {
	return spread(packsDir, fmt.Sprintf("%s-%d-%d", w.save.id, w.part.Rank, w.made))
}

func (w *rankWriter) put(ctx context.Context, p *pack) error {
	if err := w.save.keepLease(ctx); err != nil {
		return err
	}
	_, err := w.save.repo.cfg.Store.Put(ctx, w.save.repo.key(p.key), p)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return p.err // the store failed only for that
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
	mine := w.save.claim(c.Hash)
	if mine {
		c.Pack, c.At = w.index(key), at
		w.fresh += uint64(length)
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
