package ckpt

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/fermi-cluster/fermi/internal/ckpt/tensor"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// alignment of a blob in a slot's data.
const blobAlign = 64

// layout is the state that a rank of the new world gets: its tree, and where its bytes come from.
type layout struct {
	tree   []byte
	data   uint64
	pieces []piece
	gaps   []gap
}

// gap is a stretch between two blobs; the slot may have held another state before.
type gap struct{ at, length uint64 }

// layoutOf is the rank's own state where the world is the same. Otherwise it is that of the rank with
// its number, modulo the old world, in which every part of a larger tensor is cut anew.
func (s *source) layoutOf(ctx context.Context, rank, world uint32) (*layout, error) {
	base := rank % s.m.World
	part, err := s.part(ctx, base)
	if err != nil {
		return nil, err
	}
	tree := make(memory, part.Tree)
	if err := s.fetch(ctx, []piece{{base, part.Data, 0, part.Tree}}, tree); err != nil {
		return nil, err
	}
	same := &layout{tree: tree, data: part.Data, pieces: []piece{{base, 0, 0, part.Data}}}
	if world == s.m.World {
		return same, nil
	}
	root, leaves, err := tensor.Parse(tree, part.Data)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(leaves, func(t *tensor.Tensor) bool { return t.Split != nil }) {
		return same, nil
	}
	return s.recut(ctx, base, rank, world, root, leaves)
}

func (s *source) recut(ctx context.Context, base, rank, world uint32, root *tensor.Node, leaves []*tensor.Tensor) (*layout, error) {
	shards, err := s.shards(ctx)
	if err != nil {
		return nil, err
	}
	l := &layout{}
	placed := map[*tensor.Tensor]*tensor.Tensor{}
	for _, old := range leaves {
		t := *old
		t.At = l.data
		if old.Split == nil {
			l.pieces = append(l.pieces, piece{base, old.At, int64(t.At), t.Bytes})
		} else if err := l.gather(&t, shards[t.Name], rank, world); err != nil {
			return nil, err
		}
		end := t.At + t.Bytes
		l.data = (end + blobAlign - 1) / blobAlign * blobAlign
		l.gaps = append(l.gaps, gap{end, l.data - end})
		placed[old] = &t
	}
	var b bytes.Buffer
	root.Write(&b, func(t *tensor.Tensor) *tensor.Tensor { return placed[t] })
	l.tree = b.Bytes()
	return l, nil
}

// shard is a part of a larger tensor and the rank that has it.
type shard struct {
	tensor.Tensor
	rank uint32
}

// shards lists the parts of larger tensors over all ranks, by name.
func (s *source) shards(ctx context.Context) (map[string][]shard, error) {
	out := map[string][]shard{}
	for rank := range s.m.World {
		p, err := s.part(ctx, rank)
		if err != nil {
			return nil, err
		}
		for _, t := range p.Tensors {
			if t.Split == nil {
				continue
			}
			if have := out[t.Name]; len(have) > 0 && have[len(have)-1].rank == rank {
				return nil, tensor.BadTree(t.Name, "two tensors of one rank have this name", "同一进程有两个同名张量")
			}
			out[t.Name] = append(out[t.Name], shard{t, rank})
		}
	}
	return out, nil
}

// gather cuts t for a rank of the new world as torch.chunk does, and finds its bytes by intersection.
func (l *layout) gather(t *tensor.Tensor, from []shard, rank, world uint32) error {
	dim := *t.Split
	each := (t.Global[dim] + uint64(world) - 1) / uint64(world)
	t.Shape, t.Offset = slices.Clone(t.Global), make([]uint64, len(t.Global))
	t.Offset[dim] = min(uint64(rank)*each, t.Global[dim])
	t.Shape[dim] = min(each, t.Global[dim]-t.Offset[dim])
	size := tensor.ElementBytes[t.DType]
	t.Bytes = size * volume(t.Shape)
	var got uint64
	seen := map[string]bool{}
	for i := range from {
		f := &from[i]
		if f.DType != t.DType || !slices.Equal(f.Global, t.Global) || *f.Split != dim {
			return tensor.BadTree(t.Name, "its ranks disagree about its type, shape or split", "各进程对其类型、形状或切分方式不一致")
		}
		box := fmt.Sprint(f.Offset, f.Shape)
		if f.Bytes > 0 && seen[box] {
			return fault.New(fault.Invalid, "GroupedShards", fault.T(
				"%.200s: several ranks hold the same part; for another number of ranks it can't be told how to share it.",
				"%.200s：多个进程持有同一分片，无法确定在其他进程数下如何切分。", t.Name))
		}
		seen[box] = true
		got += l.intersect(t, f, size)
	}
	if got != t.Bytes {
		return damaged("parts of a tensor are missing or overlap", "张量的分片缺失或重叠")
	}
	return nil
}

func volume(shape []uint64) uint64 {
	v := uint64(1)
	for _, n := range shape {
		v *= n
	}
	return v
}

// intersect adds the runs of bytes that both boxes have, and says how many bytes they are.
func (l *layout) intersect(to *tensor.Tensor, from *shard, size uint64) uint64 {
	dims := len(to.Global)
	low, span := make([]uint64, dims), make([]uint64, dims)
	for d := range dims {
		low[d] = max(to.Offset[d], from.Offset[d])
		high := min(to.Offset[d]+to.Shape[d], from.Offset[d]+from.Shape[d])
		if high <= low[d] {
			return 0
		}
		span[d] = high - low[d]
	}
	// Dimensions that both have whole are one run with the one before them.
	inner := dims - 1
	run := span[inner] * size
	for inner > 0 && span[inner] == to.Shape[inner] && span[inner] == from.Shape[inner] {
		inner--
		run *= span[inner]
	}
	at := slices.Clone(low)
	for {
		l.pieces = append(l.pieces, piece{
			from.rank, from.At + size*flat(at, from.Offset, from.Shape), int64(to.At + size*flat(at, to.Offset, to.Shape)), run,
		})
		d := inner - 1
		for ; d >= 0; d-- {
			if at[d]++; at[d] < low[d]+span[d] {
				break
			}
			at[d] = low[d]
		}
		if d < 0 {
			return size * volume(span)
		}
	}
}

// flat is the index, in a box stored row by row, of the element at a global place.
func flat(at, offset, shape []uint64) uint64 {
	i := uint64(0)
	for d := range at {
		i = i*shape[d] + at[d] - offset[d]
	}
	return i
}
