package ckpt

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/fermi-cluster/fermi/internal/ckpt/tensor"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// cutOf is the part of a whole tensor of 2-byte elements that a rank has, found the slow obvious way.
func cutOf(whole []byte, global []uint64, split int, rank, ranks uint64) blobOf {
	each := (global[split] + ranks - 1) / ranks
	low := min(rank*each, global[split])
	t := &tensor.Tensor{DType: "bfloat16", Global: global, Offset: make([]uint64, len(global)), Shape: append([]uint64(nil), global...), Split: &split}
	t.Offset[split], t.Shape[split] = low, min(each, global[split]-low)
	stride := uint64(1)
	for _, n := range global[split+1:] {
		stride *= n
	}
	var raw []byte
	for i := uint64(0); i < uint64(len(whole))/2; i++ {
		if at := i / stride % global[split]; at >= low && at < low+t.Shape[split] {
			raw = append(raw, whole[2*i:2*i+2]...)
		}
	}
	return blobOf{raw: raw, shard: t}
}

type sharded struct {
	global []uint64
	split  int
	whole  []byte
}

func shardedState(tensors []sharded, rank, ranks int) []blobOf {
	blobs := []blobOf{{name: "common", raw: []byte("the same on all ranks")}}
	for i, s := range tensors {
		b := cutOf(s.whole, s.global, s.split, uint64(rank), uint64(ranks))
		b.name = fmt.Sprintf("w%d", i)
		blobs = append(blobs, b)
	}
	return append(blobs, blobOf{name: "own", raw: fmt.Appendf(nil, "rank %d", rank)})
}

// TestOtherWorldSizes: a state of 4 ranks comes back on 2, 3, 6 and others as if they had saved it.
func TestOtherWorldSizes(t *testing.T) {
	w := newWorld(t, 1)
	tensors := []sharded{
		{[]uint64{16, 5}, 0, nil}, {[]uint64{7, 10}, 1, nil}, {[]uint64{3, 6, 4}, 1, nil}, {[]uint64{13}, 0, nil},
		{[]uint64{2, 3, 2, 5}, 3, nil}, {[]uint64{3}, 0, nil}, {[]uint64{0, 4}, 1, nil},
	}
	for i := range tensors {
		tensors[i].whole = noise(w.rng, int(2*volume(tensors[i].global)))
	}
	slots := func(generation uint64, ranks int) [][]byte {
		var out [][]byte
		for rank := range ranks {
			h := Header{Rank: uint32(rank), World: uint32(ranks), Generation: generation, Step: 8}
			out = append(out, slotOf(h, shardedState(tensors, rank, ranks)))
		}
		return out
	}
	generation := uint64(0)
	for _, from := range []int{4, 1, 6, 3} {
		generation++
		must[*Manifest](t)(save(context.Background(), w.repo, slots(generation, from), nil))
		for _, to := range []int{1, 2, 3, 4, 5, 6, 9} {
			_, back, err := w.restored(to)
			if err != nil {
				t.Fatalf("%d → %d: %v", from, to, err)
			}
			for rank, got := range back {
				// What each rank has for itself is that of the rank with its number.
				blobs := shardedState(tensors, rank, to)
				blobs[len(blobs)-1].raw = fmt.Appendf(nil, "rank %d", rank%from)
				want := open(t, slotOf(got.Header, blobs))
				if !bytes.Equal(data(t, got), data(t, want)) || !bytes.Equal(got.Tree, want.Tree) {
					t.Fatalf("%d → %d, rank %d: another state:\n%s\n%s", from, to, rank, got.Tree, want.Tree)
				}
			}
		}
	}
}

// TestGroupsAreNotGuessed: two pairs of ranks hold the same halves; for three ranks nobody can say who gets what.
func TestGroupsAreNotGuessed(t *testing.T) {
	w := newWorld(t, 2)
	whole := noise(w.rng, 2*8)
	var slots [][]byte
	for rank := range 4 {
		b := cutOf(whole, []uint64{8}, 0, uint64(rank%2), 2)
		b.name = "w"
		slots = append(slots, slotOf(Header{Rank: uint32(rank), World: 4, Generation: 1, Step: 1}, []blobOf{b}))
	}
	must[*Manifest](t)(save(context.Background(), w.repo, slots, nil))
	_, back, err := w.restored(4)
	if err != nil {
		t.Fatal(err)
	}
	w.same(back, slots)
	if _, _, err := w.restored(3); !fault.Is(err, fault.NotFound) {
		t.Fatalf("err = %v", err)
	}
}
