package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/cores"
	"github.com/fermi-cluster/fermi/internal/slot"
	"github.com/fermi-cluster/fermi/test/harness"
)

// benchCheckpoint measures what keeping a state costs: a save to the local disk beside the bare disk, a
// save of the SDK beside a copy of memory and torch.save, and what coding against the last state would spare.
func benchCheckpoint(ctx context.Context, r *report) error {
	mib, rounds := harness.EnvInt("FERMI_BENCH_MIB", 1024), max(harness.EnvInt("FERMI_BENCH_ROUNDS", 10), 10)
	if err := benchEngine(ctx, r, mib, rounds); err != nil {
		return err
	}
	if err := benchStall(ctx, r, mib, rounds); err != nil {
		return err
	}
	return benchDelta(ctx)
}

// benchEngine: a save with all its hashes, and the same writer without them, in turn, each as often first.
func benchEngine(ctx context.Context, r *report, mib, rounds int) error {
	b, err := newCheckpointBench(mib << 20)
	if err != nil {
		return err
	}
	defer b.close()
	seen := map[string][]float64{}
	for i := range rounds + 1 {
		kinds := []struct {
			name string
			work func() error
		}{
			{"bare writer", func() error { return b.writeBare(ctx, i) }},
			{"save", func() error { return b.save(ctx, i) }},
			{"restore", func() error { return b.restore(ctx) }},
			{"memcpy", b.memcpy},
		}
		if i%2 == 1 {
			kinds[0], kinds[1] = kinds[1], kinds[0]
		}
		for _, k := range kinds {
			cpu := cpuSeconds()
			took, err := timed(k.work)
			if err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
			if i > 0 { // the first warms up
				seen[k.name] = append(seen[k.name], took)
				seen[k.name+", CPU"] = append(seen[k.name+", CPU"], cpuSeconds()-cpu)
			}
		}
		if err := b.tidy(i); err != nil {
			return err
		}
	}
	for i, saved := range seen["save"] {
		seen["save / bare"] = append(seen["save / bare"], saved/seen["bare writer"][i])
	}
	fmt.Printf("%d MiB of noise to the local disk, %d rounds, seconds\n", mib, rounds)
	printSpreads(seen)
	r.atLeast("rate of a save, of the bare writer's", median(seen["bare writer"])/median(seen["save"]), 0.85)
	r.atMost("wall of a save, of the bare writer's", median(seen["save / bare"]), 1.10).Among(seen["save / bare"])
	small, err := b.saveChanged(ctx)
	if err != nil {
		return err
	}
	r.atMost("bytes of a save after 5 % changed", small, 0.10)
	return nil
}

func printSpreads(seen map[string][]float64) {
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		fmt.Printf("  %-22s %s\n", name, spread(seen[name]))
	}
}

func timed(f func() error) (float64, error) {
	begin := time.Now()
	err := f()
	return time.Since(begin).Seconds(), err
}

// checkpointBench is a state in shared memory, and a disk.
type checkpointBench struct {
	dir, shm string
	slot     string
	data     int
	disk     *folder.Store
	repo     *ckpt.Repo
	copy     []byte
}

func newCheckpointBench(data int) (*checkpointBench, error) {
	b := &checkpointBench{data: data, copy: make([]byte, data)}
	var err error
	if b.dir, err = scratch(); err != nil {
		return nil, err
	}
	if b.shm, err = os.MkdirTemp("/dev/shm", "fermi-bench-"); err != nil {
		return nil, err
	}
	b.slot = filepath.Join(b.shm, "slot")
	if b.disk, err = folder.Open(b.dir); err != nil {
		return nil, err
	}
	return b, b.fill(1, 1, 100)
}

// scratch is a folder on the disk of the working tree, which git does not look into. What a run that was killed left there
// an hour ago goes first.
func scratch() (string, error) {
	const under = ".cache/bench"
	if err := os.MkdirAll(under, 0o755); err != nil {
		return "", err
	}
	left, err := os.ReadDir(under)
	if err != nil {
		return "", err
	}
	for _, e := range left {
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), "checkpoint-") && time.Since(info.ModTime()) > time.Hour {
			os.RemoveAll(filepath.Join(under, e.Name()))
		}
	}
	return os.MkdirTemp(under, "checkpoint-")
}

func (b *checkpointBench) close() {
	b.disk.Close()
	os.RemoveAll(b.dir)
	os.RemoveAll(b.shm)
}

// fill writes the slot as a rank would: twenty tensors, of which those below percent have other bytes by seed.
func (b *checkpointBench) fill(step, seed uint64, percent int) error {
	const tensors = 20
	each := b.data / tensors &^ 63
	data := make([]byte, 0, tensors*each)
	var tree bytes.Buffer
	tree.WriteString(`{"d":[`)
	for i := range tensors {
		if i > 0 {
			tree.WriteByte(',')
		}
		fmt.Fprintf(&tree, `["w%d",{"x":["uint8",[%d],[1],%d,%d]}]`, i, each, i*each, each)
		rng := rand.NewPCG(uint64(i), 1)
		if i*100/tensors < percent {
			rng = rand.NewPCG(uint64(i), seed)
		}
		for range each / 8 {
			data = binary.LittleEndian.AppendUint64(data, rng.Uint64())
		}
	}
	tree.WriteString("]}")
	return os.WriteFile(b.slot, packSlot(step, data, tree.Bytes()), 0o600)
}

// packSlot is docs/reference/rank-protocol.md.
func packSlot(step uint64, data, tree []byte) []byte {
	var table []byte
	for at := 0; at < len(data); at += slot.Sum {
		table = binary.LittleEndian.AppendUint32(table, crc32.ChecksumIEEE(data[at:min(at+slot.Sum, len(data))]))
	}
	h := []byte(slot.Magic)
	for _, v := range []uint32{slot.Whole, 0, 1, 0} {
		h = binary.LittleEndian.AppendUint32(h, v)
	}
	for _, v := range []uint64{1, step, uint64(len(data)), uint64(len(tree)), uint64(len(table))} {
		h = binary.LittleEndian.AppendUint64(h, v)
	}
	h = binary.LittleEndian.AppendUint32(h, crc32.ChecksumIEEE(tree))
	h = binary.LittleEndian.AppendUint32(h, crc32.ChecksumIEEE(table))
	h = binary.LittleEndian.AppendUint32(h, crc32.ChecksumIEEE(h))
	return bytes.Join([][]byte{h, make([]byte, slot.Data-len(h)), data, tree, table}, nil)
}

// save keeps the slot's state, all of it anew, in a repository of the round's own.
func (b *checkpointBench) save(ctx context.Context, round int) error {
	var err error
	if b.repo, err = ckpt.New(ckpt.Config{Store: b.disk, Prefix: taskOf(round)}); err != nil {
		return err
	}
	_, err = b.saveAs(ctx, 1, true)
	return err
}

func (b *checkpointBench) saveAs(ctx context.Context, step uint64, full bool) (ckpt.PartRef, error) {
	slot, err := ckpt.OpenSlot(b.slot)
	if err != nil {
		return ckpt.PartRef{}, err
	}
	defer slot.Close()
	slot.Header.Step = step
	s, err := b.repo.Begin(ctx, 1, step, 1, full)
	if err != nil {
		return ckpt.PartRef{}, err
	}
	ref, err := s.Rank(ctx, slot)
	if err != nil {
		return ref, err
	}
	if _, err = b.repo.Commit(ctx, ckpt.Proposal{Generation: 1, Step: step, World: 1, Parts: []ckpt.PartRef{ref}}); err != nil {
		return ref, err
	}
	return ref, s.End(ctx)
}

// What the engine has on two cores (internal/ckpt/write.go): objects and pieces as large, as many buffers, and as many
// objects written at once, each with a core more.
const (
	bareObject  = 64 << 20
	barePiece   = 4 << 20
	bareBuffers = 6
	bareWriters = 2
)

// writeBare is the same writer without hashing, and a fair one: the same store (O_DIRECT, fsync, rename and the folder's
// fsync for each object), the same bytes, read from the same shared memory into buffers of the same size and number,
// written as they come, and as many objects at once. It checks no sums, hashes nothing, keeps no records.
func (b *checkpointBench) writeBare(ctx context.Context, round int) error {
	f, err := os.Open(b.slot)
	if err != nil {
		return err
	}
	defer f.Close()
	defer cores.Borrow(bareWriters)()
	group, ctx := errgroup.WithContext(ctx)
	free, objects := make(chan []byte, bareBuffers), make(chan *bare, 1)
	for range bareBuffers {
		free <- make([]byte, barePiece)
	}
	group.Go(func() error {
		defer close(objects)
		for at := 0; at < b.data; at += bareObject {
			o := &bare{key: fmt.Sprintf("bare/%d-%d", round, at), pieces: make(chan []byte, bareBuffers), free: free}
			select {
			case objects <- o:
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := o.read(ctx, f, at, min(at+bareObject, b.data)); err != nil {
				return err
			}
		}
		return nil
	})
	for range bareWriters {
		group.Go(func() error {
			for o := range objects {
				if _, err := b.disk.Put(ctx, o.key, o); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// bare is an object that is written as it is read.
type bare struct {
	io.Reader // the store asks for WriteTo
	key       string
	pieces    chan []byte
	free      chan []byte
}

func (o *bare) read(ctx context.Context, f *os.File, at, end int) error {
	defer close(o.pieces)
	for ; at < end; at += barePiece {
		select {
		case p := <-o.free:
			p = p[:min(barePiece, end-at)]
			if _, err := f.ReadAt(p, 4096+int64(at)); err != nil {
				return err
			}
			o.pieces <- p
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// WriteTo gives the pieces as they come.
func (o *bare) WriteTo(w io.Writer) (all int64, err error) {
	for p := range o.pieces {
		n, err := w.Write(p)
		all += int64(n)
		o.free <- p[:cap(p)]
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// tidy frees the disk of what a round wrote, but for its checkpoint.
func (b *checkpointBench) tidy(round int) error {
	objects := filepath.Join(b.dir, "objects")
	return errors.Join(os.RemoveAll(filepath.Join(objects, "bare")), os.RemoveAll(filepath.Join(objects, taskOf(round-1))))
}

// taskOf is the folder of a round's checkpoint.
func taskOf(round int) string { return fmt.Sprintf("round-%d", round) }

// restore brings the newest back into shared memory, every byte verified.
func (b *checkpointBench) restore(ctx context.Context) error {
	_, err := ckpt.RestoreNewest(ctx, []*ckpt.Repo{b.repo}, []ckpt.Target{{World: 1, Generation: 2, Path: filepath.Join(b.shm, "restored")}})
	return err
}

// memcpy copies the restored state out of shared memory, once.
func (b *checkpointBench) memcpy() error {
	f, err := os.Open(filepath.Join(b.shm, "restored"))
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.ReadAt(b.copy, 4096)
	return err
}

// saveChanged changes one tensor of twenty and says which share of the bytes its save wrote.
func (b *checkpointBench) saveChanged(ctx context.Context) (float64, error) {
	if err := b.fill(1, 2, 5); err != nil {
		return 0, err
	}
	ref, err := b.saveAs(ctx, 2, false)
	return float64(ref.New) / float64(ref.Size), err
}
