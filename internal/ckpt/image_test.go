package ckpt

import (
	"bytes"
	"context"
	"crypto/sha256"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// fileOf turns what was sent into the file that it stands for.
func fileOf(t *testing.T, sent []byte) []byte {
	t.Helper()
	body, want := sent[:len(sent)-sha256.Size], sent[len(sent)-sha256.Size:]
	if got := sha256.Sum256(body); !bytes.Equal(got[:], want) {
		t.Fatal("the sum is of other bytes")
	}
	return append(bytes.Clone(body[len(body)-slotData:]), body[:len(body)-slotData]...)
}

// TestImages: what is sent of a rank is, to the bit, the file of the slot that it saved; from packs of several saves, and with
// chunks that another rank has written.
func TestImages(t *testing.T) {
	w := newWorld(t, 11)
	ctx := context.Background()
	var m *Manifest
	var slots [][]byte
	for step := uint64(1); step <= 6; step++ {
		slots = w.state(1, step, 3)
		m = must[*Manifest](t)(save(ctx, w.repo, slots, nil))
	}
	for rank, want := range slots {
		image := must[*Image](t)(w.repo.Image(ctx, m, uint32(rank)))
		var sent bytes.Buffer
		if err := image.Send(ctx, &sent); err != nil || int64(sent.Len()) != image.Size() {
			t.Fatal(rank, err, sent.Len(), image.Size())
		}
		if !bytes.Equal(fileOf(t, sent.Bytes()), want) {
			t.Errorf("rank %d: another file than it saved", rank)
		}
	}
	if _, err := w.repo.Image(ctx, m, 3); fault.ReasonOf(err) != "NoSuchRank" {
		t.Error("a rank that is not there:", err)
	}
}

// TestImagesOfManyStretches: one sum for every 8 MiB, and one for the rest.
func TestImagesOfManyStretches(t *testing.T) {
	w := newWorld(t, 12)
	ctx := context.Background()
	repo := must[*Repo](t)(New(Config{Store: w.repo.cfg.Store, Prefix: "tasks/t2", Clock: w.clock}))
	for _, size := range []int{0, 64, slotSum, slotSum + 64, 2*slotSum + 4096} {
		slot := slotOf(Header{World: 1, Generation: 1, Step: uint64(size) + 1}, []blobOf{{name: "w", raw: noise(rand.New(rand.NewPCG(1, 1)), size)}})
		m := must[*Manifest](t)(save(ctx, repo, [][]byte{slot}, nil))
		var sent bytes.Buffer
		if err := must[*Image](t)(repo.Image(ctx, m, 0)).Send(ctx, &sent); err != nil || !bytes.Equal(fileOf(t, sent.Bytes()), slot) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// TestImagesOfWhatIsDamaged: not one byte is sent of a chunk that is not what was written, and no image is whole.
func TestImagesOfWhatIsDamaged(t *testing.T) {
	w := newWorld(t, 13)
	ctx := context.Background()
	slots := w.state(1, 1, 2)
	m := must[*Manifest](t)(save(ctx, w.repo, slots, nil))
	for _, damage := range []func(key string){w.flip, w.remove} {
		for _, o := range must[[]object](t)(w.repo.list(ctx, packsDir)) {
			before := w.raw(o.name)
			damage(o.name)
			var failed bool
			for rank := range slots {
				var sent bytes.Buffer
				err := must[*Image](t)(w.repo.Image(ctx, m, uint32(rank))).Send(ctx, &sent)
				if failed = failed || Lost(err); err != nil && !Lost(err) {
					t.Error(err)
				}
				if err == nil {
					fileOf(t, sent.Bytes())
				} else if !bytes.HasPrefix(slots[rank][slotData:], sent.Bytes()) {
					t.Error("damaged bytes were sent")
				}
				if fault.ReasonOf(err) == "Damaged" && !strings.Contains(err.Error(), o.name) {
					t.Error("it does not name the object:", err)
				}
			}
			if !failed {
				t.Error("nobody missed", o.name)
			}
			if _, err := w.repo.put(ctx, o.name, before); err != nil {
				t.Fatal(err)
			}
		}
	}
	part := m.Parts[1].Key
	w.flip(part)
	if _, err := w.repo.Image(ctx, m, 1); !Lost(err) {
		t.Error("a damaged record:", err)
	}
}
