package ckpt

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// asSent is the file of a slot in the order of an upload.
func asSent(t *testing.T, file []byte) []byte {
	t.Helper()
	data := open(t, file).Header.Data
	out := bytes.Clone(file[:slotData])
	out = append(out, file[slotData+data:]...)
	return append(out, file[slotData:slotData+data]...)
}

// TestReceive: what is uploaded of all ranks is restored to the bit; committing it again changes nothing, another one is refused.
func TestReceive(t *testing.T) {
	w := newWorld(t, 21)
	ctx := context.Background()
	slots := w.state(7, 30, 3) // of another task's seventh generation
	var parts []PartRef
	for rank, raw := range slots {
		for range 2 { // the first answer was lost
			ref := must[PartRef](t)(w.repo.Receive(ctx, iotest.OneByteReader(bytes.NewReader(asSent(t, raw))), 30, uint32(rank)))
			parts = append(parts[:rank], ref)
		}
	}
	if all, _, err := w.repo.List(ctx); err != nil || len(all) != 0 {
		t.Fatal("it is there before it is committed", all, err)
	}
	if _, err := w.repo.Import(ctx, 30, parts[:2]); err == nil {
		t.Error("a rank is missing")
	}
	m := must[*Manifest](t)(w.repo.Import(ctx, 30, parts))
	if again := must[*Manifest](t)(w.repo.Import(ctx, 30, parts)); again.Name() != m.Name() || m.Generation != 0 {
		t.Error(again.Name(), m.Name())
	}
	_, got, err := w.restored(3)
	if err != nil {
		t.Fatal(err)
	}
	w.same(got, slots)
	other := must[PartRef](t)(w.repo.Receive(ctx, bytes.NewReader(asSent(t, w.state(1, 31, 1)[0])), 31, 0))
	if _, err := w.repo.Import(ctx, 31, []PartRef{other}); fault.ReasonOf(err) != "AlreadyImported" {
		t.Error("a second one:", err)
	}
	// What ranks save later is newer.
	if later := must[*Manifest](t)(save(ctx, w.repo, w.state(1, 5, 1), nil)); later.Name() < m.Name() {
		t.Error("older than what was imported:", later.Name())
	}
}

// TestReceiveRefuses: every flipped bit, every end but the right one, and what is of something else. Nothing names what was
// written, and nobody waits for ever.
func TestReceiveRefuses(t *testing.T) {
	w := newWorld(t, 22)
	ctx := context.Background()
	sent := asSent(t, w.state(0, 3, 2)[1])
	refuse := func(what string, in io.Reader, step uint64, rank uint32) {
		t.Helper()
		if _, err := w.repo.Receive(ctx, in, step, rank); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	rng := rand.New(rand.NewPCG(3, 3))
	for range 200 {
		bad := bytes.Clone(sent)
		at := rng.IntN(len(bad) - slotData + slotHeader)
		if at >= slotHeader {
			at += slotData - slotHeader
		}
		bad[at] ^= 1 << rng.IntN(8)
		refuse("a flipped bit", bytes.NewReader(bad), 3, 1)
		refuse("cut", bytes.NewReader(sent[:rng.IntN(len(sent))]), 3, 1)
	}
	refuse("something behind it", bytes.NewReader(append(bytes.Clone(sent), 0)), 3, 1)
	refuse("another step", bytes.NewReader(sent), 4, 1)
	refuse("another rank", bytes.NewReader(sent), 3, 0)
	refuse("a line that breaks", io.MultiReader(bytes.NewReader(sent[:len(sent)-100]), iotest.ErrReader(errors.New("reset"))), 3, 1)
	for _, dir := range []string{partsDir, leasesDir, manifestsDir} {
		left := must[[]object](t)(w.repo.list(ctx, dir))
		if dir == partsDir { // of the one with something behind it: nobody names it, and Collect takes it
			left = left[min(1, len(left)):]
		}
		if len(left) != 0 {
			t.Errorf("%s: %v", dir, left)
		}
	}
}

// TestReceiveMuch: several chunks are hashed at once, each in its turn.
func TestReceiveMuch(t *testing.T) {
	w := newWorld(t, 23)
	ctx := context.Background()
	repo := must[*Repo](t)(New(Config{Store: w.repo.cfg.Store, Prefix: "tasks/t3", Clock: w.clock}))
	slot := slotOf(Header{World: 1, Step: 9}, []blobOf{{name: "w", raw: noise(w.rng, 40<<20)}, {name: "v", raw: noise(w.rng, 3<<20)}})
	ref := must[PartRef](t)(repo.Receive(ctx, bytes.NewReader(asSent(t, slot)), 9, 0))
	m := must[*Manifest](t)(repo.Import(ctx, 9, []PartRef{ref}))
	if left := must[[]object](t)(repo.list(ctx, leasesDir)); len(left) != 0 {
		t.Error("leases are left:", left)
	}
	var out bytes.Buffer
	if err := must[*Image](t)(repo.Image(ctx, m, 0)).Send(ctx, &out); err != nil || !bytes.Equal(fileOf(t, out.Bytes()), slot) {
		t.Error("another file came back", err)
	}
	bad := asSent(t, slot)
	bad[len(bad)/2] ^= 4
	if _, err := repo.Receive(ctx, bytes.NewReader(bad), 9, 0); fault.ReasonOf(err) != "BadSlot" {
		t.Error(err)
	}
}
