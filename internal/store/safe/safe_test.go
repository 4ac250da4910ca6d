package safe_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store/embedded"
	"github.com/fermi-cluster/fermi/internal/store/safe"
)

func open(t *testing.T) *safe.Safe {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "f") // short: sockets lie in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	e, err := embedded.Start(t.Context(), embedded.Config{Dir: filepath.Join(dir, "e"), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return safe.New(e.Client(), "/fermi/v1/")
}

// TestWrite: a value is replaced only by who read it as it is.
func TestWrite(t *testing.T) {
	s, ctx := open(t), t.Context()
	if v, revision, err := s.Read(ctx, "a"); v != nil || revision != 0 || err != nil {
		t.Error(v, revision, err)
	}
	first, err := s.Write(ctx, "a", []byte("1"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(ctx, "a", []byte("2"), 0); !fault.Is(err, fault.Conflict) {
		t.Error(err)
	}
	if _, err := s.Write(ctx, "a", []byte("2"), first); err != nil {
		t.Error(err)
	}
	if _, err := s.Write(ctx, "a", []byte("3"), first); !fault.Is(err, fault.Conflict) {
		t.Error(err)
	}
	if v, _, err := s.Read(ctx, "a"); string(v) != "2" || err != nil {
		t.Errorf("%q %v", v, err)
	}
	if _, err := s.Write(ctx, "b", make([]byte, 1<<20), 0); !fault.Is(err, fault.Invalid) {
		t.Error("a value that is too large:", err)
	}
}

// TestNext: a number is given once, whoever asks, and is beyond those in use.
func TestNext(t *testing.T) {
	s, ctx := open(t), t.Context()
	var mu sync.Mutex
	got := map[int]bool{}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5 {
				n, err := s.Next(ctx, "n", 100, 10, nil)
				mu.Lock()
				if err != nil || got[n] || n < 100 || n%10 != 0 {
					t.Error(n, err)
				}
				got[n] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if n, err := s.Next(ctx, "n", 100, 10, []int{500, 300}); n != 510 || err != nil {
		t.Error(n, err)
	}
	if n, err := s.Next(ctx, "n", 100, 10, nil); n != 520 || err != nil {
		t.Error(n, err)
	}
}
