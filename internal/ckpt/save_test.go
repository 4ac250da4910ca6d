package ckpt

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func TestSavedIsRestored(t *testing.T) {
	w := newWorld(t, 1)
	ctx := context.Background()
	if _, _, err := w.restored(2); !fault.Is(err, fault.NotFound) {
		t.Fatalf("of nothing: %v", err)
	}
	for step := uint64(10); step <= 30; step += 10 {
		slots := w.state(3, step, 2)
		m := must[*Manifest](t)(save(ctx, w.repo, slots, nil))
		got, back, err := w.restored(2)
		if err != nil || got.Step != step || got.Name != m.Name() || len(got.Refused) != 0 {
			t.Fatalf("%+v, %v", got, err)
		}
		w.same(back, slots)
		if h := back[1].Header; h.Rank != 1 || h.World != 2 || h.Generation != 99 {
			t.Fatalf("header %+v", h)
		}
		if err := w.repo.Verify(ctx, m.Name()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReplicasAreWrittenOnce: of what all ranks have, and what did not change, nothing is written again.
func TestReplicasAreWrittenOnce(t *testing.T) {
	w := newWorld(t, 2)
	ctx := context.Background()
	first := must[*Manifest](t)(save(ctx, w.repo, w.state(1, 1, 4), nil))
	if a, b := first.Parts[0], first.Parts[3]; a.New != a.Size || b.New >= b.Size/2 {
		t.Fatalf("rank 0 wrote %d of %d, rank 3 %d of %d", a.New, a.Size, b.New, b.Size)
	}
	second := must[*Manifest](t)(save(ctx, w.repo, w.state(1, 2, 4), nil))
	if a := second.Parts[0]; a.New >= a.Size-600 {
		t.Fatalf("rank 0 wrote %d of %d again", a.New, a.Size)
	}
	s := must[*Save](t)(w.repo.Begin(ctx, 1, 3, 1, true))
	ref := must[PartRef](t)(s.Rank(ctx, open(t, w.state(1, 3, 1)[0])))
	if ref.New != ref.Size {
		t.Fatalf("a full save wrote %d of %d", ref.New, ref.Size)
	}
	if err := s.End(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestFivePercent: a save after a change of one tensor in twenty writes at most a tenth of the bytes.
func TestFivePercent(t *testing.T) {
	w := newWorld(t, 3)
	ctx := context.Background()
	var blobs []blobOf
	for i := range 20 {
		blobs = append(blobs, blobOf{name: "w" + string(rune('a'+i)), raw: noise(w.rng, 20_000)})
	}
	h := Header{World: 1, Generation: 1, Step: 1}
	must[*Manifest](t)(save(ctx, w.repo, [][]byte{slotOf(h, blobs)}, nil))
	blobs[7].raw = noise(w.rng, 20_000)
	h.Step = 2
	m := must[*Manifest](t)(save(ctx, w.repo, [][]byte{slotOf(h, blobs)}, nil))
	if p := m.Parts[0]; p.New > p.Size/10 {
		t.Fatalf("wrote %d of %d", p.New, p.Size)
	}
	// A blob that grows in front of the others moves none of their chunks.
	blobs[0].raw = noise(w.rng, 20_100)
	h.Step = 3
	m = must[*Manifest](t)(save(ctx, w.repo, [][]byte{slotOf(h, blobs)}, nil))
	if p := m.Parts[0]; p.New > p.Size/10 {
		t.Fatalf("after one grew: wrote %d of %d", p.New, p.Size)
	}
}

func TestCommitRefuses(t *testing.T) {
	w := newWorld(t, 4)
	ctx := context.Background()
	slots := w.state(5, 1, 2)
	s := must[*Save](t)(w.repo.Begin(ctx, 5, 1, 2, false))
	a, b := must[PartRef](t)(s.Rank(ctx, open(t, slots[0]))), must[PartRef](t)(s.Rank(ctx, open(t, slots[1])))
	lost := must[*Part](t)(w.repo.part(ctx, &Manifest{Generation: 5, Step: 1, World: 2, Parts: []PartRef{a, b}}, 1))
	for i := range lost.Chunks {
		lost.Chunks[i].Pack = nil
	}
	raw := mustJSON(lost)
	nowhere := b
	nowhere.Key, nowhere.Bytes, nowhere.Hash = b.Key+"-lost", int64(len(raw)), sum(raw)
	must[blob.Info](t)(w.repo.put(ctx, nowhere.Key, raw))
	propose := func(parts ...PartRef) Proposal { return Proposal{Generation: 5, Step: 1, World: 2, Parts: parts} }

	for name, c := range map[string]struct {
		p      Proposal
		reason string
	}{
		"a rank is missing":  {propose(a), "Incomplete"},
		"a rank comes twice": {propose(a, a), "Incomplete"},
		"not finite":         {Proposal{Generation: 5, Step: 1, World: 2, Parts: []PartRef{a, b}, Metrics: map[string]float64{"x": nan()}}, "BadMetric"},
		"another step":       {Proposal{Generation: 5, Step: 2, World: 2, Parts: []PartRef{a, b}}, "Damaged"},
		"only one is here":   {Proposal{Generation: 5, Step: 1, World: 2, Parts: []PartRef{a, nowhere}, Here: []uint32{1}}, "Damaged"}, // its chunks are with rank 0
	} {
		if _, err := w.repo.Commit(ctx, c.p); fault.ReasonOf(err) != c.reason {
			t.Errorf("%s: %v", name, err)
		}
	}
	m := must[*Manifest](t)(w.repo.Commit(ctx, propose(b, a)))
	again := must[*Manifest](t)(w.repo.Commit(ctx, propose(a, b)))
	if m.Name() != again.Name() {
		t.Fatal("the same said again is another")
	}
	if err := w.repo.Fence(ctx, 6); err != nil {
		t.Fatal(err)
	}
	if _, err := save(ctx, w.repo, w.state(5, 2, 1), nil); fault.ReasonOf(err) != "StaleGeneration" {
		t.Fatalf("an old generation: %v", err)
	}
	if err := w.repo.Fence(ctx, 5); fault.ReasonOf(err) != "StaleGeneration" {
		t.Fatalf("back to an old generation: %v", err)
	}
	must[*Manifest](t)(save(ctx, w.repo, w.state(6, 1, 1), nil))
	if _, err := save(ctx, w.repo, w.state(6, 1, 1), nil); !fault.Is(err, fault.Conflict) {
		t.Fatalf("another state of the same step: %v", err)
	}
}

func nan() float64 { z := 0.0; return z / z }

// TestSilentSaveDoesNotCommit: what a save relies on is only protected for so long.
func TestSilentSaveDoesNotCommit(t *testing.T) {
	w := newWorld(t, 5)
	ctx := context.Background()
	s := must[*Save](t)(w.repo.Begin(ctx, 1, 1, 1, false))
	ref := must[PartRef](t)(s.Rank(ctx, open(t, w.state(1, 1, 1)[0])))
	w.clock.Advance(31 * time.Minute)
	if _, err := w.repo.Commit(ctx, Proposal{Generation: 1, Step: 1, World: 1, Parts: []PartRef{ref}}); fault.ReasonOf(err) != "SaveTooSlow" {
		t.Fatalf("err = %v", err)
	}
	if _, err := s.Rank(ctx, open(t, w.state(1, 1, 1)[0])); fault.ReasonOf(err) != "SaveTooSlow" {
		t.Fatalf("err = %v", err)
	}
}

func TestBadSlots(t *testing.T) {
	w := newWorld(t, 6)
	ctx := context.Background()
	good := w.state(1, 1, 1)[0]
	s := must[*Save](t)(w.repo.Begin(ctx, 1, 1, 1, false))
	for at := 0; at < len(good); at += 1 + at/slotHeader*3 {
		raw := bytes.Clone(good)
		raw[at] ^= 1 << (at % 8)
		slot, err := readSlot(bytes.NewReader(raw))
		if err == nil {
			_, err = s.Rank(ctx, slot)
		}
		inHeader := at >= slotHeader && at < slotData // unused bytes
		if (err == nil) != inHeader {
			t.Fatalf("byte %d flipped: %v", at, err)
		}
	}
	for _, n := range []int{0, slotHeader - 1, slotHeader, slotData, slotData + 100, len(good) - 1} {
		slot, err := readSlot(bytes.NewReader(good[:n]))
		if err == nil {
			_, err = s.Rank(ctx, slot)
		}
		if err == nil {
			t.Fatalf("cut off at %d", n)
		}
	}
	if _, err := s.Rank(ctx, open(t, w.state(1, 2, 1)[0])); fault.ReasonOf(err) != "BadSlot" {
		t.Fatalf("another step: %v", err)
	}
	if _, err := OpenSlot(filepath.Join(t.TempDir(), "none")); !fault.Is(err, fault.NotFound) {
		t.Fatalf("err = %v", err)
	}
	if _, err := OpenSlot(t.TempDir()); fault.ReasonOf(err) != "BadSlot" {
		t.Fatalf("a folder: %v", err)
	}
}

// TestRequests: with packs of 64 MiB ten GiB are 160 packs; here the same at a scale of 1:2^17.
func TestRequests(t *testing.T) {
	w := newWorld(t, 8)
	ctx := context.Background()
	counted := &counting{Store: w.repo.cfg.Store}
	repo := w.on(counted)
	repo.cfg.ChunkBytes = 32
	var blobs []blobOf
	for i := range 16 {
		blobs = append(blobs, blobOf{name: strings.Repeat("w", i+1), raw: noise(w.rng, 5<<10)})
	}
	must[*Manifest](t)(save(ctx, repo, [][]byte{slotOf(Header{World: 1, Generation: 1, Step: 1}, blobs)}, nil))
	if counted.n > 200 {
		t.Fatalf("%d requests", counted.n)
	}
	t.Logf("%d requests", counted.n)
}
