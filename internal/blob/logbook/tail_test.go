package logbook

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/clock"
)

// pair is two servers' books on one store; the second is shown what the first holds.
func pair(t *testing.T, memory int64) (a, b *Book) {
	t.Helper()
	store, err := folder.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	a = New(Config{Blob: store, Clock: clock.Real})
	b = New(Config{Blob: store, Clock: clock.Real, MemoryBytes: memory,
		Others: func(ctx context.Context, task string, take func(string, int64, []byte), synced func()) {
			_ = a.Tail(ctx, task, func(replica string, offset int64, data []byte, _ int64) error {
				take(replica, offset, append([]byte(nil), data...))
				return nil
			}, func() error { synced(); return nil })
		}})
	return a, b
}

func lineAt(i int) []byte {
	return AppendLine(nil, Line{Time: time.Unix(0, int64(i)), Stream: 'O', Text: fmt.Appendf(nil, "line %d", i)})
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func (b *Book) inMemory() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

// TestForeign: what another book holds is shown, not committed, and forgotten with the last reader;
// once a launcher sends it here it is ours.
func TestForeign(t *testing.T) {
	a, b := pair(t, 0)
	ctx, cancel := context.WithCancel(t.Context())
	var end int64
	add := func(to *Book, i int) {
		t.Helper()
		line := lineAt(i)
		if _, err := to.Append(t.Context(), "task", "r", end, line); err != nil {
			t.Fatal(err)
		}
		end += int64(len(line))
	}
	for i := range 10 {
		add(a, i)
	}
	var mu sync.Mutex
	var got []string
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = b.Read(ctx, "task", ReadOptions{Follow: true}, func(_ string, l Line) error {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, string(l.Text))
			return nil
		})
	})
	lines := func(n int) func() bool {
		return func() bool { mu.Lock(); defer mu.Unlock(); return len(got) == n }
	}
	eventually(t, "ten lines", lines(10))
	b.cfg.ChunkAge = 0
	b.commitAged(t.Context())
	if n, err := b.Durable(t.Context(), "task", "r"); err != nil || n != 0 {
		t.Fatalf("another's bytes were committed: %d %v", n, err)
	}
	if _, err := a.Finish(t.Context(), "task", "r"); err != nil { // a chunk
		t.Fatal(err)
	}
	eventually(t, "what is in the store is held no more", func() bool { return b.inMemory() == 0 })
	for i := 10; i < 20; i++ {
		add(a, i)
	}
	eventually(t, "twenty lines", lines(20))
	// The launcher comes to us: from what is durable on, over what we were shown.
	durable, err := b.Durable(t.Context(), "task", "r")
	if err != nil {
		t.Fatal(err)
	}
	end = durable
	for i := 10; i < 30; i++ {
		add(b, i)
	}
	eventually(t, "thirty lines", lines(30))
	if n, err := b.Finish(t.Context(), "task", "r"); err != nil || n != end {
		t.Fatalf("finished at %d of %d: %v", n, end, err)
	}
	cancel()
	wg.Wait()
	for i, text := range got {
		if text != fmt.Sprintf("line %d", i) {
			t.Fatalf("line %d is %q", i, text)
		}
	}
	if held := b.inMemory(); held != 0 {
		t.Errorf("%d bytes are held for nobody", held)
	}
}

// TestForeignTooMuch: what doesn't fit comes with the chunk.
func TestForeignTooMuch(t *testing.T) {
	a, b := pair(t, 8<<10)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	count := 0
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = b.Read(ctx, "task", ReadOptions{Follow: true}, func(string, Line) error { mu.Lock(); count++; mu.Unlock(); return nil })
	})
	var end int64
	const n = 2000
	for i := range n {
		line := lineAt(i)
		if _, err := a.Append(t.Context(), "task", "r", end, line); err != nil {
			t.Fatal(err)
		}
		end += int64(len(line))
	}
	if held := b.inMemory(); held > 16<<10 {
		t.Errorf("%d bytes are held", held)
	}
	if _, err := a.Finish(t.Context(), "task", "r"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all lines", func() bool { mu.Lock(); defer mu.Unlock(); return count == n })
	cancel()
	wg.Wait()
}
