package ckpt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// machines begins a save of as many machines.
func machines(ctx context.Context, r *Repo, h Header, n int, full bool) ([]*Save, error) {
	var out []*Save
	for range n {
		s, err := r.Begin(ctx, h.Generation, h.Step, h.World, full)
		if err != nil {
			return nil, err
		}
		s.Share()
		out = append(out, s)
	}
	return out, nil
}

// saveOn saves as machines do that have some ranks each: side by side, and then one commit. With again the first one
// dies when it has written all, and comes back.
func saveOn(ctx context.Context, r *Repo, slots [][]byte, each int, again bool) (*Manifest, error) {
	first, err := readSlot(bytes.NewReader(slots[0]))
	if err != nil {
		return nil, err
	}
	h := first.Header
	all, err := machines(ctx, r, h, len(slots)/each, false)
	if err != nil {
		return nil, err
	}
	p := Proposal{Generation: h.Generation, Step: h.Step, World: h.World, Parts: make([]PartRef, len(slots))}
	var group errgroup.Group
	write := func(s *Save, first int) error {
		for rank := first; rank < first+each; rank++ {
			slot, err := readSlot(bytes.NewReader(slots[rank]))
			if err != nil {
				return err
			}
			if p.Parts[rank], err = s.Rank(ctx, slot); err != nil {
				return err
			}
		}
		return nil
	}
	for i, s := range all {
		group.Go(func() error {
			if i == 0 && again {
				dead, err := machines(ctx, r, h, 1, false)
				if err == nil {
					err = write(dead[0], 0)
				}
				if err != nil {
					return err
				}
			}
			return write(s, i*each)
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	m, err := r.Commit(ctx, p)
	for _, s := range all {
		err = errors.Join(err, s.End(ctx))
	}
	return m, err
}

// replicas are slots of ranks that have the same weights, and each the state of a random generator of its own.
func (w *world) replicas(step uint64, ranks, size int) [][]byte {
	weights := noise(w.rng, size)
	var out [][]byte
	for rank := range ranks {
		out = append(out, slotOf(Header{Rank: uint32(rank), World: uint32(ranks), Generation: 1, Step: step},
			[]blobOf{{name: "a", raw: weights[:size/3]}, {name: "rng", raw: noise(w.rng, 40)}, {name: "b", raw: weights[size/3:]}}))
	}
	return out
}

// packed is what all packs hold.
func (w *world) packed() (all int64) {
	w.t.Helper()
	for _, o := range must[[]blob.Info](w.t)(w.repo.cfg.Store.List(context.Background(), w.repo.key(packsDir), "", 100_000)) {
		all += o.Size
	}
	return all
}

// TestMachinesWriteReplicasOnce: what the ranks of several machines have is in the store once, and every part says itself where.
func TestMachinesWriteReplicasOnce(t *testing.T) {
	const size = 30_000
	for _, on := range []struct{ ranks, each int }{{4, 2}, {4, 1}, {8, 4}} {
		w := newWorld(t, 1)
		w.repo.cfg.PackBytes, w.repo.cfg.ChunkBytes = 2048, 512
		ctx := context.Background()
		var before int64
		for step := uint64(1); step <= 2; step++ {
			slots := w.replicas(step, on.ranks, size)
			m := must[*Manifest](t)(saveOn(ctx, w.repo, slots, on.each, false))
			var fresh, all uint64
			for rank, p := range m.Parts {
				fresh, all = fresh+p.New, all+p.Size
				for _, c := range must[*Part](t)(w.repo.part(ctx, m, uint32(rank))).Chunks {
					if c.Pack == nil {
						t.Fatalf("rank %d does not say where its chunks lie", rank)
					}
				}
			}
			wrote := w.packed() - before
			before += wrote
			t.Logf("%d ranks of %d machines: %d bytes of state, %d written", on.ranks, on.ranks/on.each, all, wrote)
			if uint64(wrote) != fresh || wrote > size+int64(on.ranks)*400 {
				t.Fatalf("%d bytes were written, the parts say %d, one rank has %d", wrote, fresh, size)
			}
			for _, ranks := range []int{on.ranks, 3} {
				_, back, err := w.restored(ranks)
				if err != nil {
					t.Fatal(err)
				}
				w.same(back, slots[:min(ranks, len(slots))])
			}
		}
		must[*Collected](t)(w.repo.Collect(ctx, Retention{Last: 1}))
		if left := must[[]object](t)(w.repo.list(ctx, claimsDir)); len(left) > 0 {
			t.Fatalf("%d claims of what is committed are left", len(left))
		}
	}
}

// TestMachinesComeTogetherAgain: one has a blob more than the other, and before all they both have.
func TestMachinesComeTogetherAgain(t *testing.T) {
	const size = 400_000
	w := newWorld(t, 3)
	w.repo.cfg.PackBytes = 16 * w.repo.cfg.ChunkBytes
	slots := w.replicas(1, 2, size)
	weights := noise(w.rng, size)
	slots[0] = slotOf(Header{World: 2, Generation: 1, Step: 1}, []blobOf{{name: "more", raw: noise(w.rng, 1000)}, {name: "w", raw: weights}})
	slots[1] = slotOf(Header{Rank: 1, World: 2, Generation: 1, Step: 1}, []blobOf{{name: "w", raw: weights}})
	must[*Manifest](t)(saveOn(context.Background(), w.repo, slots, 1, false))
	if wrote := w.packed(); wrote > size+size/4 {
		t.Fatalf("%d bytes were written of %d", wrote, size)
	}
}

// TestClaimsOnlySaveBytes: claims that go, say nonsense or can't be made cost bytes and nothing else.
func TestClaimsOnlySaveBytes(t *testing.T) {
	const size = 5000
	for name, spoil := range map[string]func(w *world, name string) error{
		"gone": func(w *world, name string) error { return w.repo.delete(context.Background(), name) },
		"nonsense": func(w *world, name string) error {
			_, err := w.repo.put(context.Background(), name, []byte("../x"))
			return err
		},
		"torn": func(w *world, name string) error { _, err := w.repo.put(context.Background(), name, nil); return err },
	} {
		w := newWorld(t, 4)
		ctx := context.Background()
		slots := w.replicas(1, 2, size)
		all := must[[]*Save](t)(machines(ctx, w.repo, open(t, slots[0]).Header, 2, false))
		p := Proposal{Generation: 1, Step: 1, World: 2}
		for i, s := range all {
			p.Parts = append(p.Parts, must[PartRef](t)(s.Rank(ctx, open(t, slots[i]))))
			for _, o := range must[[]object](t)(w.repo.list(ctx, claimsDir)) {
				if err := spoil(w, o.name); err != nil {
					t.Fatal(err)
				}
			}
		}
		m := must[*Manifest](t)(w.repo.Commit(ctx, p))
		if err := w.repo.Verify(ctx, m.Name()); err != nil || p.Parts[1].New < size {
			t.Fatalf("%s: %v, %d bytes", name, err, p.Parts[1].New)
		}
	}
}

// TestAClaimOfTheDeadCommitsNothing: who claimed a pack ended, and came back as another save of the same step. Nobody can
// say that the pack was written; the next step is another matter.
func TestAClaimOfTheDeadCommitsNothing(t *testing.T) {
	w := newWorld(t, 5)
	w.repo.cfg.ChunkBytes = 512
	ctx := context.Background()
	slots := w.replicas(1, 2, 5000)
	all := must[[]*Save](t)(machines(ctx, w.repo, open(t, slots[0]).Header, 3, false))
	must[PartRef](t)(all[0].Rank(ctx, open(t, slots[0])))
	p := Proposal{Generation: 1, Step: 1, World: 2, Parts: []PartRef{
		must[PartRef](t)(all[1].Rank(ctx, open(t, slots[0]))), must[PartRef](t)(all[2].Rank(ctx, open(t, slots[1]))),
	}}
	if p.Parts[1].New > 1000 {
		t.Fatalf("%d bytes were written: the test shows nothing", p.Parts[1].New)
	}
	if _, err := w.repo.Commit(ctx, p); fault.ReasonOf(err) != "Damaged" {
		t.Fatalf("err = %v", err)
	}
	must[*Manifest](t)(saveOn(ctx, w.repo, w.replicas(2, 2, 5000), 1, false))
}

// TestClaimsGrowOld: where no checkpoint follows, claims go with the leases.
func TestClaimsGrowOld(t *testing.T) {
	w := newWorld(t, 6)
	ctx := context.Background()
	slot := open(t, w.replicas(1, 2, 5000)[0])
	s := must[[]*Save](t)(machines(ctx, w.repo, slot.Header, 1, false))[0]
	must[PartRef](t)(s.Rank(ctx, slot))
	for _, left := range []bool{true, false} {
		must[*Collected](t)(w.repo.Collect(ctx, Retention{}))
		if got := must[[]object](t)(w.repo.list(ctx, claimsDir)); (len(got) > 0) != left {
			t.Fatalf("%d claims", len(got))
		}
		w.clock.Advance(61 * time.Minute)
	}
}

// TestSharedRequests is TestRequests for a save that nobody shares in the end.
func TestSharedRequests(t *testing.T) {
	w := newWorld(t, 8)
	counted := &counting{Store: w.repo.cfg.Store}
	repo := w.on(counted)
	repo.cfg.ChunkBytes = 32
	var blobs []blobOf
	for i := range 16 {
		blobs = append(blobs, blobOf{name: fmt.Sprint(i), raw: noise(w.rng, 5<<10)})
	}
	must[*Manifest](t)(saveOn(context.Background(), repo, [][]byte{slotOf(Header{World: 1, Generation: 1, Step: 1}, blobs)}, 1, false))
	if counted.n > 200 {
		t.Fatalf("%d requests", counted.n)
	}
	t.Logf("%d requests", counted.n)
}

// alike are states of machines that differ in little, of values that come again and again.
func alike(rng *rand.Rand, step uint64, machines int) (out [][]byte) {
	blobs := fewBlobs(rng)
	for rank := range machines {
		own := append(blobs[:6:6], blobOf{name: "rng", raw: []byte{byte(rank), byte(rng.IntN(3))}})
		out = append(out, slotOf(Header{Rank: uint32(rank), World: uint32(machines), Generation: 1, Step: step}, own))
	}
	return out
}

// crossed says that a rank names a pack that the save of another one wrote.
func (w *world) crossed(m *Manifest) bool {
	for rank, ref := range m.Parts {
		p, err := w.repo.part(context.Background(), m, uint32(rank))
		if err == nil && slices.ContainsFunc(p.Packs, func(key string) bool {
			return slices.ContainsFunc(m.Parts, func(o PartRef) bool { return o.Lease != ref.Lease && o.Lease == saveOf(key) })
		}) {
			return true
		}
	}
	return false
}
