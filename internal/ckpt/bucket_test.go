package ckpt

import (
	"bytes"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/blob/folder/faultfs"
	"github.com/fermi-cluster/fermi/internal/blob/s3"
	"github.com/fermi-cluster/fermi/internal/blob/s3/s3test"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// medium is what a world's checkpoints lie on, and what can go wrong with it: a file system in memory, or a bucket of the
// S3 server that FERMI_S3_SERVER names.
type medium interface {
	Ops() int
	DieAt(op int)
	FailAt(op int, err error)
	Room(bytes int)
	Restart()
	PowerOff()
	Files(dir string) []string
	Content(name string, change func([]byte) []byte)
	Restore(name string, raw []byte)
}

var _, _ medium = (*faultfs.FS)(nil), (*bucket)(nil)

// bucket is on a real server; the times of its objects are the world's. Who uses it dies between requests, or before the
// answer to one. The server has no power cuts.
type bucket struct {
	Store
	t     testing.TB
	clock clock.Clock

	mu    sync.Mutex
	times map[string]time.Time
	ops   int
	dead  int
	fails map[int]error
	room  int // bytes that still fit; below 0: without end
}

// newBucket is nil where no server is named.
func newBucket(t testing.TB, c clock.Clock) *bucket {
	test, ok := t.(*testing.T)
	if !ok || os.Getenv("FERMI_S3_SERVER") == "" {
		return nil
	}
	st, err := s3.Open(s3test.Server(test))
	if err != nil {
		t.Fatal(err)
	}
	return &bucket{Store: st, t: t, clock: c, times: map[string]time.Time{}, fails: map[int]error{}, room: -1}
}

func (b *bucket) Ops() int                 { b.mu.Lock(); defer b.mu.Unlock(); return b.ops }
func (b *bucket) DieAt(op int)             { b.mu.Lock(); b.dead = op; b.mu.Unlock() }
func (b *bucket) FailAt(op int, err error) { b.mu.Lock(); b.fails[op] = err; b.mu.Unlock() }
func (b *bucket) Room(bytes int)           { b.mu.Lock(); b.room = bytes; b.mu.Unlock() }
func (b *bucket) Restart()                 { b.DieAt(0) }
func (b *bucket) PowerOff()                { b.DieAt(0) }

// change counts a change. Late: it is made, and nobody hears of it.
func (b *bucket) change(size int) (late bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ops++
	if b.dead > 0 && b.ops >= b.dead {
		return b.ops == b.dead && b.ops%2 == 0, fault.From(syscall.EIO)
	}
	if b.room >= 0 {
		if b.room -= size; b.room < 0 {
			b.room = 0
			return false, fault.New(fault.Full, "StoreFull", fault.T("full", "已满"))
		}
	}
	err = b.fails[b.ops]
	delete(b.fails, b.ops)
	if err != nil {
		err = fault.From(err)
	}
	return false, err
}

func (b *bucket) write(ctx context.Context, key string, r io.Reader, put func(context.Context, string, io.Reader) (blob.Info, error)) (blob.Info, error) {
	raw, err := io.ReadAll(r)
	if err != nil {
		return blob.Info{}, err
	}
	late, dead := b.change(len(raw))
	if dead != nil && !late {
		return blob.Info{}, dead
	}
	now := b.clock.Now()
	info, err := put(ctx, key, bytes.NewReader(raw))
	if err == nil {
		b.mu.Lock()
		b.times[key] = now
		b.mu.Unlock()
	}
	if dead != nil {
		return blob.Info{}, dead
	}
	info.Modified = now
	return info, err
}

func (b *bucket) Put(ctx context.Context, key string, r io.Reader) (blob.Info, error) {
	return b.write(ctx, key, r, b.Store.Put)
}

func (b *bucket) Create(ctx context.Context, key string, r io.Reader) (blob.Info, error) {
	return b.write(ctx, key, r, b.Store.Create)
}

func (b *bucket) Delete(ctx context.Context, key string) error {
	late, dead := b.change(0)
	if dead != nil && !late {
		return dead
	}
	if err := b.Store.Delete(ctx, key); err != nil {
		return err
	}
	return dead
}

// look is for what changes nothing.
func (b *bucket) look() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dead > 0 && b.ops >= b.dead {
		return fault.From(syscall.EIO)
	}
	return nil
}

func (b *bucket) Open(ctx context.Context, key string) (io.ReadSeekCloser, blob.Info, error) {
	if err := b.look(); err != nil {
		return nil, blob.Info{}, err
	}
	return b.Store.Open(ctx, key)
}

func (b *bucket) List(ctx context.Context, prefix, after string, limit int) ([]blob.Info, error) {
	if err := b.look(); err != nil {
		return nil, err
	}
	page, err := b.Store.List(ctx, prefix, after, limit)
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range page {
		page[i].Modified = b.times[page[i].Key]
	}
	return page, err
}

const objectsDir = "objects/"

func (b *bucket) Files(dir string) (out []string) {
	page, err := b.Store.List(context.Background(), "", "", 10_000)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, info := range page {
		if name := objectsDir + info.Key; strings.HasPrefix(name, dir+"/") {
			out = append(out, name)
		}
	}
	return out
}

func (b *bucket) Content(name string, change func([]byte) []byte) {
	in, _, err := b.Store.Open(context.Background(), strings.TrimPrefix(name, objectsDir))
	if fault.Is(err, fault.NotFound) {
		return
	}
	if err != nil {
		b.t.Fatal(err)
	}
	raw, err := io.ReadAll(in)
	in.Close()
	if err != nil {
		b.t.Fatal(err)
	}
	b.Restore(name, change(slices.Clone(raw)))
}

func (b *bucket) Restore(name string, raw []byte) {
	ctx, key := context.Background(), strings.TrimPrefix(name, objectsDir)
	var err error
	if raw == nil {
		err = b.Store.Delete(ctx, key)
	} else {
		_, err = b.Store.Put(ctx, key, bytes.NewReader(raw))
	}
	if err != nil {
		b.t.Fatal(err)
	}
}
