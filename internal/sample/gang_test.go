package sample

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	layout "github.com/fermi-cluster/fermi/internal/slot"
)

// freeAddress is one where nobody listens, kept for the test as a launcher keeps it.
func freeAddress(t testing.TB) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := errors.Join(syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1), syscall.Bind(fd, &syscall.SockaddrInet4{})); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port)
}

// gang trains with several ranks and gives rank 0's model.
func gang(t *testing.T, world int, seed uint64) (string, Result) {
	t.Helper()
	o := DefaultOptions()
	o.Steps, o.Hidden, o.LogEvery, o.Seed, o.Output = 10, 8, 5, seed, t.TempDir()
	o.Place = Place{World: world, Generation: 1, Master: freeAddress(t)}
	errs, ends := make([]error, world), make([]Result, world)
	var wg sync.WaitGroup
	for rank := range world {
		own := o
		own.Place.Rank = rank
		wg.Go(func() { ends[rank], errs[rank] = Train(t.Context(), own, &bytes.Buffer{}) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for rank, end := range ends {
		if end != ends[0] {
			t.Errorf("rank %d ended with %+v, rank 0 with %+v", rank, end, ends[0])
		}
	}
	raw, err := os.ReadFile(filepath.Join(o.Output, "model.json"))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw), ends[0]
}

// TestGangSameBits: the same world gives the same bits, and about the same model as a rank alone.
func TestGangSameBits(t *testing.T) {
	_, alone := gang(t, 1, 1)
	for _, world := range []int{2, 3} {
		a, end := gang(t, world, 1)
		if b, _ := gang(t, world, 1); a != b {
			t.Errorf("%d ranks gave two models", world)
		}
		if math.Abs(end.Loss-alone.Loss) > 1e-9 { // sums in another order differ in their last bits
			t.Errorf("%d ranks came to %v, one alone to %v", world, end.Loss, alone.Loss)
		}
		if other, _ := gang(t, world, 2); other == a {
			t.Error("another seed gave the same model")
		}
	}
}

// TestRingSum: against the plain sum, for lengths that don't divide.
func TestRingSum(t *testing.T) {
	for _, c := range []struct{ world, length int }{{2, 1}, {3, 7}, {4, 64}, {5, 3}} {
		master := freeAddress(t)
		got := make([][]float64, c.world)
		errs := make([]error, c.world)
		var wg sync.WaitGroup
		for rank := range c.world {
			wg.Go(func() {
				r, err := joinRing(t.Context(), Place{Rank: rank, World: c.world, Master: master})
				if err != nil {
					errs[rank] = err
					return
				}
				defer r.close()
				v := make([]float64, c.length)
				for i := range v {
					v[i] = float64(rank*100 + i)
				}
				errs[rank] = r.sum(v)
				got[rank] = v
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		want := make([]float64, c.length)
		for i := range want {
			for rank := range c.world {
				want[i] += float64(rank*100 + i)
			}
		}
		for rank := range got {
			if d := cmp.Diff(want, got[rank]); d != "" {
				t.Errorf("%+v rank %d: %s", c, rank, d)
			}
		}
	}
}

// TestLostPeer: a rank whose neighbour is gone does not hang.
func TestLostPeer(t *testing.T) {
	master := freeAddress(t)
	ctx, leave := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		r, err := joinRing(ctx, Place{Rank: 1, World: 2, Master: master})
		if err != nil {
			t.Error(err)
			return
		}
		r.close()
	})
	r, err := joinRing(t.Context(), Place{Rank: 0, World: 2, Master: master})
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	wg.Wait()
	leave()
	for range 3 { // a first write may still find room
		err = r.sum(make([]float64, 1000))
	}
	if err == nil {
		t.Error("summed with nobody")
	}
}

// TestStateComesBack: a trainer that is given another's state goes on as that one does.
func TestStateComesBack(t *testing.T) {
	o := DefaultOptions()
	a, b := newTrainer(o), newTrainer(o)
	turn := func(tr *trainer, n int) {
		for range n {
			if _, err := tr.step(nil, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	turn(a, 7)
	turn(b, 3)
	if err := b.restore(a.state()); err != nil {
		t.Fatal(err)
	}
	turn(a, 5)
	turn(b, 5)
	if !bytes.Equal(a.state(), b.state()) {
		t.Error("they went apart")
	}
	o.Hidden++
	if newTrainer(o).restore(a.state()) == nil {
		t.Error("the state of another model was taken")
	}
}

// TestSlots: found again by the next process; never overwritten while anybody may need it; a bit
// flipped or an end cut off is no state.
func TestSlots(t *testing.T) {
	p := Place{Rank: 3, World: 4, Local: 1, Generation: 2, Memory: t.TempDir()}
	open := func() *slots {
		t.Helper()
		s, err := openSlots(p)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	for step := int64(1); step <= 3; step++ {
		if ok, err := s.save(step, marks{}, fmt.Appendf(nil, "state %d", step)); !ok || err != nil {
			t.Fatal(step, ok, err)
		}
	}
	if ok, err := s.save(4, marks{watermark: 3, pinned: []int64{1, 2}}, nil); ok || err != nil {
		t.Error("a state that is to be kept was overwritten: ", err)
	}
	if ok, err := s.save(4, marks{watermark: 1}, nil); ok || err != nil {
		t.Error("a step that may be needed was overwritten")
	}
	if ok, err := s.save(4, marks{watermark: 2, keep: 1}, nil); ok || err != nil {
		t.Error("a step that the launcher reads was overwritten")
	}
	if ok, err := s.save(4, marks{watermark: 2}, []byte("state 4")); !ok || err != nil {
		t.Error(ok, err)
	}
	s = open()
	if d := cmp.Diff([]int64{2, 3, 4}, s.held()); d != "" {
		t.Fatal(d)
	}
	data, err := s.restore(3)
	if err != nil || string(data) != "state 3" {
		t.Fatalf("%q %v", data, err)
	}
	if d := cmp.Diff([]int64{2, 3}, open().held()); d != "" {
		t.Error("what came after the restored step: ", d)
	}
	if _, err := s.restore(9); err == nil {
		t.Error("restored what is not there")
	}
	raw, err := os.ReadFile(filepath.Join(p.Memory, "rank-1.0"))
	if err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(p.Memory, "*"))
	for _, file := range files {
		if b, _ := os.ReadFile(file); len(b) >= layout.Data && b[0] != 0 {
			raw = b
		}
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		bad := bytes.Clone(raw)
		at := rnd.IntN(slotFields + 4)
		if rnd.IntN(2) == 0 {
			at = layout.Data + rnd.IntN(len(raw)-layout.Data)
		}
		bad[at] ^= 1 << rnd.IntN(8)
		if _, _, err := parseSlot(bad); err == nil {
			t.Fatalf("a flipped bit of byte %d went unseen", at)
		}
		if _, _, err := parseSlot(raw[:rnd.IntN(len(raw))]); err == nil {
			t.Fatal("a torn slot was taken")
		}
	}
	if _, _, err := parseSlot(raw); err != nil {
		t.Error("the whole one was not:", err)
	}
}

func FuzzSlot(f *testing.F) {
	f.Add([]byte("FERMIL0\x01"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if step, data, err := parseSlot(raw); err == nil && (step <= 0 || len(data) > len(raw)) {
			t.Fatal(step, len(data))
		}
	})
}
