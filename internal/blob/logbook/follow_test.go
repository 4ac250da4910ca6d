package logbook

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fermi-cluster/fermi/internal/fault"
)

func TestFollow(t *testing.T) {
	st, _ := newFolder(t)
	b := New(Config{Blob: st, ChunkBytes: 200})
	appendOK(t, b, 0, 0, lines(0, 0, 3))
	done := make(chan struct{})
	got := make(chan string)
	ended := make(chan error, 1)
	go func() {
		defer close(got)
		ended <- b.Read(context.Background(), "task-1", ReadOptions{Follow: true, Done: done, Tail: 2}, func(_ string, l Line) error {
			got <- string(l.Text) // blocks: Append must not care
			return nil
		})
	}()
	offset := int64(len(lines(0, 0, 3)))
	var rest []string
	rest = append(rest, <-got)
	for i := 3; i < 60; i++ {
		appendOK(t, b, 0, offset, text(0, i))
		offset += int64(len(text(0, i)))
	}
	for len(rest) < 59 {
		rest = append(rest, <-got)
	}
	same(t, numbered(0, 1, 60), rest)
	appendOK(t, b, 7, 0, lines(7, 0, 2)) // a replica nobody knew
	same(t, numbered(7, 0, 2), []string{<-got, <-got})
	appendOK(t, b, 0, offset, text(0, 60))
	if _, err := b.Finish(context.Background(), "task-1", "r0"); err != nil {
		t.Fatal(err)
	}
	close(done)
	same(t, numbered(0, 60, 61), []string{<-got})
	if _, more := <-got; more {
		t.Fatal("more than was written")
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func TestFollowEndsWithContextAndEmit(t *testing.T) {
	st, _ := newFolder(t)
	b := New(Config{Blob: st})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := b.Read(ctx, "task-1", ReadOptions{Follow: true}, nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("err = %v", err)
	}
	appendOK(t, b, 0, 0, lines(0, 0, 3))
	broken := errors.New("the client went away")
	err := b.Read(context.Background(), "task-1", ReadOptions{Follow: true}, func(string, Line) error { return broken })
	if !errors.Is(err, broken) {
		t.Fatalf("err = %v", err)
	}
}

// TestManyFollowers: writers append, commit, finish and resend at random while the chunks roll
// over; every reader sees every line of every replica once and in order.
func TestManyFollowers(t *testing.T) {
	const replicas, readers, count = 6, 5, 1500
	st, _ := newFolder(t)
	b := New(Config{Blob: st, ChunkBytes: 3000, MemoryBytes: 30_000})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	done := make(chan struct{})
	var writers, all sync.WaitGroup
	var emitted atomic.Int64
	for r := range readers {
		all.Go(func() {
			next := map[string]int{}
			err := b.Read(ctx, "task-1", ReadOptions{Follow: true, Done: done}, func(replica string, l Line) error {
				if want := fmt.Sprintf("%s %d", replica, next[replica]); string(l.Text) != want {
					return fmt.Errorf("reader %d got %q, want %q", r, l.Text, want)
				}
				next[replica]++
				emitted.Add(1)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for rep := range replicas {
		writers.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(rep), 1))
			write(t, ctx, b, rep, count, rnd)
		})
	}
	writers.Wait()
	close(done)
	all.Wait()
	if got := emitted.Load(); got != replicas*readers*count {
		t.Fatalf("%d lines were emitted, want %d", got, replicas*readers*count)
	}
}

func write(t *testing.T, ctx context.Context, b *Book, rep, count int, rnd *rand.Rand) {
	var spool []byte
	ends := []int64{0}
	for i := range count {
		spool = append(spool, text(rep, i)...)
		ends = append(ends, int64(len(spool)))
	}
	for i := 0; i < count; {
		n := min(count, i+1+rnd.IntN(20))
		from := max(0, i-rnd.IntN(10)) // a part is sent again
		if _, err := b.Append(ctx, "task-1", name(rep), ends[from], spool[ends[from]:ends[n]]); err != nil {
			t.Error(err)
			return
		}
		i = n
		if rnd.IntN(20) == 0 || i == count {
			if d, err := b.Finish(ctx, "task-1", name(rep)); err != nil || d != ends[i] {
				t.Errorf("Finish = %d, %v; want %d", d, err, ends[i])
				return
			}
		}
	}
}

// TestModel runs random histories of appends, finishes, crashes and reads on two servers.
func TestModel(t *testing.T) {
	st, _ := newFolder(t)
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		task := fmt.Sprintf("task-%d", round)
		ctx := context.Background()
		cfg := Config{Blob: st, ChunkBytes: rapid.SampledFrom([]int{1, 200, 100_000}).Draw(rt, "chunk")}
		books := []*Book{New(cfg), New(cfg)}
		at := 0 // which server the launcher talks to
		spool, sent := lines(0, 0, 60), 0
		off := func(i int) int64 { return int64(len(lines(0, 0, i))) }
		durableAll := map[string]bool{}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			switch op := rapid.SampledFrom([]string{"append", "append", "append", "finish", "crash", "move", "read"}).Draw(rt, "op"); op {
			case "append":
				to := min(60, sent+rapid.IntRange(0, 12).Draw(rt, "n"))
				from := sent - rapid.IntRange(0, min(sent, 5)).Draw(rt, "again")
				if _, err := books[at].Append(ctx, task, "r0", off(from), spool[off(from):off(to)]); err != nil {
					rt.Fatalf("append: %v", err)
				}
				sent = to
			case "finish":
				d, err := books[at].Finish(ctx, task, "r0")
				if err != nil || d < off(sent) || d != off(sent) && !durableAll["move"] {
					rt.Fatalf("finish: %d, %v; want %d", d, err, off(sent))
				}
				for off(sent) < d { // a server that was left and found again knew more
					sent++
				}
			case "crash", "move":
				if op == "crash" {
					books[at] = New(cfg)
				} else {
					at = 1 - at
				}
				d, err := books[at].Durable(ctx, task, "r0")
				if err != nil {
					rt.Fatal(err)
				}
				// The launcher goes on from what is durable.
				for sent = 0; off(sent) < d; sent++ {
				}
				if off(sent) != d {
					rt.Fatalf("durable %d is inside a line", d)
				}
				// A server that was left may know more than is durable; what it knows is the same.
				durableAll[op] = true
			case "read":
				tail := rapid.IntRange(0, 70).Draw(rt, "tail")
				var got []string
				err := books[at].Read(ctx, task, ReadOptions{Tail: tail}, func(_ string, l Line) error {
					got = append(got, string(l.Text))
					return nil
				})
				if err != nil {
					rt.Fatal(err)
				}
				checkSuffix(rt, got, sent, tail, durableAll["move"])
			}
		}
	})
}

// checkSuffix: got is the log from some line on, in order, to at least line number sent.
func checkSuffix(rt *rapid.T, got []string, sent, tail int, moved bool) {
	if len(got) == 0 {
		if sent != 0 {
			rt.Fatalf("nothing was read of %d lines", sent)
		}
		return
	}
	var last int
	fmt.Sscanf(got[len(got)-1], "r0 %d", &last)
	if last+1 < sent || !moved && last+1 != sent {
		rt.Fatalf("the last line read is %d of %d", last, sent)
	}
	want := last + 1
	if tail > 0 {
		want = min(tail, want)
	}
	if len(got) != want {
		rt.Fatalf("%d lines, want %d", len(got), want)
	}
	for i, l := range got {
		if l != fmt.Sprintf("r0 %d", last+1-len(got)+i) {
			rt.Fatalf("line %d is %q of %q", i, l, got)
		}
	}
}

func TestNamesAreChecked(t *testing.T) {
	st, _ := newFolder(t)
	b := New(Config{Blob: st})
	ctx := context.Background()
	if err := b.Delete(ctx, "a/b"); !fault.Is(err, fault.Invalid) {
		t.Fatalf("err = %v", err)
	}
	if err := b.Read(ctx, "../x", ReadOptions{}, nil); !fault.Is(err, fault.Invalid) {
		t.Fatalf("err = %v", err)
	}
}
