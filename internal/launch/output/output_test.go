package output

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/launch/steward"
)

// fakeServer takes uploads, or fails.
type fakeServer struct {
	mu   sync.Mutex
	got  map[string]string
	fail func(path string) error
}

func (f *fakeServer) PutOutput(_ context.Context, path string, size int64, _ time.Time, r io.Reader) error {
	data := make([]byte, size)
	if _, err := io.ReadFull(r, data); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		if err := f.fail(path); err != nil {
			return err
		}
	}
	f.got[path] = string(data)
	return nil
}

func (f *fakeServer) has(path string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.got[path]
}

// TestUploadsDuringTheRun: a file goes up once it stood still from one scan to the next.
func TestUploadsDuringTheRun(t *testing.T) {
	dir := t.TempDir()
	fake := clock.NewFake(time.Unix(0, 0))
	srv := &fakeServer{got: map[string]string{}}
	o := New([]Source{{Folder: steward.New(nil).In(dir)}}, srv, fake, quiet, nil)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { o.During(ctx) })
	write := func(s string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "f"), []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	up := func(want string) {
		t.Helper()
		eventually(t, want, func() bool { fake.Advance(scanEvery); return srv.has("f") == want })
	}
	write("one")
	up("one")
	write("second")
	up("second")
	cancel()
	wg.Wait()
	write("the third")
	found := o.Scan()
	if err := o.Finish(context.Background(), found); err != nil || srv.has("f") != "the third" {
		t.Error(err, srv.has("f"))
	}
	if n, bytes, inc := o.Total(found); n != 1 || bytes != 9 || inc != "" {
		t.Error(n, bytes, inc)
	}
}

func TestRefusedUploads(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"good", "big", "bad\nname", "shy"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	shy := 2
	srv := &fakeServer{got: map[string]string{}, fail: func(path string) error {
		switch {
		case path == "big":
			return status.Error(codes.ResourceExhausted, "too big")
		case path == "shy" && shy > 0:
			shy--
			return status.Error(codes.Unavailable, "away")
		}
		return nil
	}}
	o := New([]Source{{Folder: steward.New(nil).In(dir)}}, srv, clock.Real, quiet, nil)
	found := o.Scan()
	if err := o.Finish(context.Background(), found); err != nil {
		t.Fatal(err)
	}
	n, _, inc := o.Total(found)
	if n != 2 || !strings.HasPrefix(inc, "2 output files") || !strings.Contains(inc, "too big") {
		t.Error(n, inc)
	}
	if srv.has("good") == "" || srv.has("shy") == "" {
		t.Error(srv.got)
	}
}

var quiet = slog.New(slog.DiscardHandler)

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}
