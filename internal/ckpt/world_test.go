package ckpt

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/blob/folder/faultfs"
	"github.com/fermi-cluster/fermi/internal/ckpt/tensor"
	"github.com/fermi-cluster/fermi/internal/clock"
)

// blobOf is one value of a state that tests make.
type blobOf struct {
	name  string
	raw   []byte
	shard *tensor.Tensor // of a larger tensor; its place is not set
}

// slotOf packs a state as the SDK does.
func slotOf(h Header, blobs []blobOf) []byte {
	var data []byte
	pairs := []string{`["step",` + strconv.FormatUint(h.Step, 10) + `]`, `["lr",0.10]`, `["note","\ud83d \u003c大>"]`}
	for _, b := range blobs {
		at := len(data)
		leaf := fmt.Sprintf(`{"x":["uint8",[%d],[1],%d,%d]}`, len(b.raw), at, len(b.raw))
		if t := b.shard; t != nil {
			leaf = fmt.Sprintf(`{"h":[%q,%s,%s,%s,%d,%d,%d]}`, t.DType, list(t.Shape), list(t.Global), list(t.Offset), *t.Split, at, len(b.raw))
		}
		pairs = append(pairs, fmt.Sprintf(`[%q,%s]`, b.name, leaf))
		data = append(data, b.raw...)
		data = append(data, make([]byte, -len(data)&(blobAlign-1))...)
	}
	tree := []byte(`{"d":[` + string(bytes.Join(asBytes(pairs), []byte(","))) + `]}`)
	var table []byte
	for at := 0; at < len(data); at += slotSum {
		table = binary.LittleEndian.AppendUint32(table, crc32.ChecksumIEEE(data[at:min(at+slotSum, len(data))]))
	}
	h.Data, h.Tree, h.Table = uint64(len(data)), uint64(len(tree)), uint64(len(table))
	h.treeCRC, h.tableCRC = crc32.ChecksumIEEE(tree), crc32.ChecksumIEEE(table)
	raw := append(h.pack(), make([]byte, slotData-slotHeader)...)
	return append(append(append(raw, data...), tree...), table...)
}

func asBytes(list []string) [][]byte {
	out := make([][]byte, len(list))
	for i, s := range list {
		out[i] = []byte(s)
	}
	return out
}

func noise(rng *rand.Rand, n int) []byte {
	b := make([]byte, n+8)
	for i := 0; i < n; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], rng.Uint64())
	}
	return b[:n]
}

func open(t testing.TB, raw []byte) *Slot {
	t.Helper()
	s, err := readSlot(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// world is a repository on something that can fail, and the time it lives in.
type world struct {
	t     testing.TB
	fs    medium
	clock *clock.Fake
	rng   *rand.Rand
	repo  *Repo
	dir   string // for restored slots
}

func newWorld(t testing.TB, seed uint64) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), clock: clock.NewFake(time.Unix(1_800_000_000, 0)), dir: t.TempDir()}
	if b := newBucket(t, w.clock); b != nil {
		w.fs = b
	} else {
		w.fs = faultfs.New(rand.New(rand.NewPCG(seed, 2)), w.clock.Now)
	}
	w.reopen()
	return w
}

// reopen is what a process does that starts after a crash.
func (w *world) reopen() {
	w.t.Helper()
	if b, ok := w.fs.(*bucket); ok {
		w.repo = w.on(b)
		return
	}
	st, err := folder.OpenFiles(w.fs.(*faultfs.FS), "memory")
	if err != nil {
		w.t.Fatal(err)
	}
	w.repo = w.on(st)
}

func (w *world) on(st Store) *Repo {
	w.t.Helper()
	r, err := New(Config{Store: st, Prefix: "tasks/t1", Clock: w.clock, Grace: time.Hour, PackBytes: 512, ChunkBytes: 256})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// save writes the slots and commits them.
func save(ctx context.Context, r *Repo, slots [][]byte, metrics map[string]float64) (*Manifest, error) {
	return saveAs(ctx, r, slots, metrics, false)
}

func saveAs(ctx context.Context, r *Repo, slots [][]byte, metrics map[string]float64, full bool) (*Manifest, error) {
	first, err := readSlot(bytes.NewReader(slots[0]))
	if err != nil {
		return nil, err
	}
	h := first.Header
	s, err := r.Begin(ctx, h.Generation, h.Step, h.World, full)
	if err != nil {
		return nil, err
	}
	p := Proposal{Generation: h.Generation, Step: h.Step, World: h.World, Metrics: metrics}
	for _, raw := range slots {
		slot, err := readSlot(bytes.NewReader(raw))
		if err != nil {
			return nil, err
		}
		ref, err := s.Rank(ctx, slot)
		if err != nil {
			return nil, err
		}
		p.Parts = append(p.Parts, ref)
	}
	m, err := r.Commit(ctx, p)
	if err != nil {
		return nil, err
	}
	return m, s.End(ctx)
}

// state gives the slots of all ranks at a step: weights that all have, one that changes at every step, one of each rank.
func (w *world) state(generation, step uint64, ranks int) [][]byte {
	shared, changed := noise(rand.New(rand.NewPCG(7, 7)), 700), noise(w.rng, 300)
	var out [][]byte
	for rank := range ranks {
		h := Header{Rank: uint32(rank), World: uint32(ranks), Generation: generation, Step: step}
		out = append(out, slotOf(h, []blobOf{
			{name: "frozen", raw: shared}, {name: "moved", raw: changed}, {name: "empty"}, {name: "rng", raw: noise(w.rng, 40)},
		}))
	}
	return out
}

// restored gives the data and tree that targets of a world of this size get from the newest checkpoint.
func (w *world) restored(ranks int) (*Restored, []*Slot, error) {
	var targets []Target
	for rank := range ranks {
		targets = append(targets, Target{Rank: uint32(rank), World: uint32(ranks), Generation: 99, Path: filepath.Join(w.dir, strconv.Itoa(rank))})
	}
	got, err := RestoreNewest(context.Background(), []*Repo{w.repo}, targets)
	if err != nil {
		return nil, nil, err
	}
	var slots []*Slot
	for _, target := range targets {
		raw, err := os.ReadFile(target.Path)
		if err != nil {
			return nil, nil, err
		}
		slot, err := readSlot(bytes.NewReader(raw))
		if err != nil {
			return nil, nil, err
		}
		slots = append(slots, slot)
	}
	return got, slots, nil
}

// data reads all of a slot's data, checked.
func data(t testing.TB, s *Slot) []byte {
	t.Helper()
	b := make([]byte, s.Header.Data)
	in := stream{s: s}
	if err := in.next(b); err != nil {
		t.Fatal(err)
	}
	return b
}

// same fails unless the slots hold the states that were saved.
func (w *world) same(got []*Slot, saved [][]byte) {
	w.t.Helper()
	if len(got) != len(saved) {
		w.t.Fatalf("%d slots, want %d", len(got), len(saved))
	}
	for i := range got {
		want := open(w.t, saved[i])
		if !bytes.Equal(data(w.t, got[i]), data(w.t, want)) || !bytes.Equal(got[i].Tree, want.Tree) || got[i].Header.Step != want.Header.Step {
			w.t.Fatalf("rank %d: another state came back", i)
		}
	}
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func list(numbers []uint64) []byte {
	raw, err := json.Marshal(numbers)
	if err != nil {
		panic(err)
	}
	return raw
}
