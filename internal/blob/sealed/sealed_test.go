package sealed

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func open1(t *testing.T) (*folder.Store, string) {
	t.Helper()
	dir := t.TempDir()
	s, err := folder.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, dir
}

func bytesOf(seed uint64, n int) []byte {
	out := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(out)
	return out
}

func put(t *testing.T, s blob.Store, key string, content []byte) {
	t.Helper()
	if err := Put(t.Context(), s, key, bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
}

func get(s blob.Store, key string) ([]byte, error) {
	r, _, err := Open(context.Background(), s, key)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

const key = "outputs/task-1/worker-0/model.bin"

func TestRoundTrip(t *testing.T) {
	s, _ := open1(t)
	for _, n := range []int{0, 1, block - 1, block, block + 1, 3*block + 5} {
		want := bytesOf(uint64(n), n)
		put(t, s, key, want)
		got, err := get(s, key)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	r, _, err := Open(t.Context(), s, key)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	want := bytesOf(uint64(3*block+5), 3*block+5)
	part := make([]byte, 100)
	if _, err := r.Seek(2*block-50, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(r, part); err != nil || !bytes.Equal(part, want[2*block-50:2*block+50]) {
		t.Errorf("a range over two blocks: %v", err)
	}
	put(t, s, "outputs/task-2/worker-0/x", []byte("other"))
	if err := Delete(t.Context(), s, "outputs/task-1/"); err != nil {
		t.Fatal(err)
	}
	left, err := s.List(t.Context(), "", "", 100)
	if err != nil || len(left) != 2 {
		t.Errorf("%v %v", left, err)
	}
	for _, o := range left {
		if !strings.Contains(o.Key, "task-2") {
			t.Errorf("%s was left", o.Key)
		}
	}
}

func TestWithoutSums(t *testing.T) {
	s, _ := open1(t)
	if _, err := s.Put(t.Context(), key, strings.NewReader("old")); err != nil {
		t.Fatal(err)
	}
	if got, err := get(s, key); err != nil || string(got) != "old" {
		t.Errorf("%q %v", got, err)
	}
	if _, err := get(s, "outputs/task-1/none"); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
}

// TestDamage: whatever is flipped or cut in either file, no wrong byte comes out.
func TestDamage(t *testing.T) {
	s, dir := open1(t)
	want := bytesOf(1, 2*block+block/2)
	put(t, s, key, want)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, path := range []string{filepath.Join(dir, "objects", key), filepath.Join(dir, "objects", sumsKey(key))} {
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 60 {
			bad := bytes.Clone(whole)
			if i%3 == 0 {
				bad = bad[:rng.IntN(len(bad))]
			} else {
				bad[rng.IntN(len(bad))] ^= byte(1 + rng.IntN(255))
			}
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := get(s, key)
			if fault.ReasonOf(err) != "Damaged" || !bytes.HasPrefix(want, got) {
				t.Fatalf("%s: %d bytes, %v", path, len(got), err)
			}
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// An upload mends both.
	if err := os.WriteFile(filepath.Join(dir, "objects", sumsKey(key)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	put(t, s, key, want)
	if got, err := get(s, key); err != nil || !bytes.Equal(got, want) {
		t.Error(err)
	}
}

// failing ends the n-th Put before or after it did its work.
type failing struct {
	blob.Store
	n     int
	after bool
}

var errEnd = errors.New("ended")

func (f *failing) Put(ctx context.Context, key string, r io.Reader) (blob.Info, error) {
	if f.n--; f.n != 0 {
		return f.Store.Put(ctx, key, r)
	}
	if f.after {
		_, err := f.Store.Put(ctx, key, r)
		return blob.Info{}, errors.Join(errEnd, err)
	}
	_, _ = io.Copy(io.Discard, r)
	return blob.Info{}, errEnd
}

// TestCrash: a replacement that ends anywhere leaves the old content or the new one, and both can be read.
func TestCrash(t *testing.T) {
	old, fresh := bytesOf(1, block+10), bytesOf(2, block+10)
	for n := 1; n <= 3; n++ {
		for _, after := range []bool{false, true} {
			s, _ := open1(t)
			put(t, s, key, old)
			for again := range 2 { // and once more on what that left
				if err := Put(t.Context(), &failing{Store: s, n: n, after: after}, key, bytes.NewReader(fresh)); err == nil && again == 0 {
					t.Fatal("it did not end")
				}
				got, err := get(s, key)
				if err != nil || !bytes.Equal(got, old) && !bytes.Equal(got, fresh) {
					t.Fatalf("step %d, after %v: %v", n, after, err)
				}
			}
			put(t, s, key, fresh)
			if got, err := get(s, key); err != nil || !bytes.Equal(got, fresh) {
				t.Fatal(err)
			}
		}
	}
}
