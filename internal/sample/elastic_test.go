package sample

import (
	"bytes"
	"errors"
	"strconv"
	"sync"
	"testing"
)

// gangOf runs one function a rank, in a ring.
func gangOf(t testing.TB, world int, do func(r *ring, rank int) error) {
	t.Helper()
	master := freeAddress(t)
	errs := make([]error, world)
	var wg sync.WaitGroup
	for rank := range world {
		wg.Go(func() {
			r, err := joinRing(t.Context(), Place{Rank: rank, World: world, Master: master})
			if err == nil {
				err = do(r, rank)
				r.close()
			}
			errs[rank] = err
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestShardsSameBits: with fixed shards the run has the same bits, whatever the number of ranks was at
// each step; and it is the mode that makes it so.
func TestShardsSameBits(t *testing.T) {
	o := DefaultOptions()
	o.Hidden, o.Shards = 8, 4
	states := map[string]bool{}
	for _, worlds := range [][]int{{4, 4, 4, 4}, {4, 2, 3, 4}, {1, 1, 1, 1}, {3, 1, 4, 2}} {
		state := newTrainer(o).state()
		for _, world := range worlds {
			ends := make([][]byte, world)
			gangOf(t, world, func(r *ring, rank int) error {
				own := o
				own.Place = Place{Rank: rank, World: world}
				tr := newTrainer(own)
				if err := tr.restore(state); err != nil {
					return err
				}
				for range 5 {
					if _, err := tr.step(r, false); err != nil {
						return err
					}
				}
				ends[rank] = tr.state()
				return nil
			})
			for _, end := range ends {
				if !bytes.Equal(end, ends[0]) {
					t.Fatal("ranks went apart")
				}
			}
			state = ends[0]
		}
		states[string(state)] = true
	}
	if len(states) != 1 {
		t.Errorf("%d different ends", len(states))
	}
	o.Shards, o.Place.World = 3, 4
	if o.Validate() == nil {
		t.Error("fewer shards than ranks were taken")
	}
}

// TestShare: whoever lacks the state gets it; who has one keeps it; without any there is none.
func TestShare(t *testing.T) {
	want := bytes.Repeat([]byte("state "), 40_000) // more than a socket takes at once
	for _, have := range [][]bool{{true, true, true}, {true, false, false}, {false, false, true, false}, {false, true}} {
		gangOf(t, len(have), func(r *ring, rank int) error {
			var own []byte
			missing := errors.New("not here")
			if have[rank] {
				own, missing = want, nil
			}
			got, err := r.share(own, missing)
			if err == nil && !bytes.Equal(got, want) {
				err = errors.New("another state")
			}
			return err
		})
	}
	gangOf(t, 2, func(r *ring, _ int) error {
		if _, err := r.share(nil, errNoSlot); !errors.Is(err, errNoSlot) {
			return errors.New("shared what nobody has")
		}
		return nil
	})
}

// BenchmarkShards is what the same bits with any number of ranks cost: a step of four ranks, as fast as can be
// and with fixed shards.
func BenchmarkShards(b *testing.B) {
	for _, shards := range []int{0, 4, 8} {
		b.Run("shards="+strconv.Itoa(shards), func(b *testing.B) {
			gangOf(b, 4, func(r *ring, rank int) error {
				o := DefaultOptions()
				o.Shards, o.Place = shards, Place{Rank: rank, World: 4}
				tr := newTrainer(o)
				for range b.N {
					if _, err := tr.step(r, false); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}
