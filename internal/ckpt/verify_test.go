package ckpt

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// TestVerdicts: a fresh checkpoint has none; what was read back says when, and what is damaged in which object. A later
// look that finds all well takes that back.
func TestVerdicts(t *testing.T) {
	w := newWorld(t, 5)
	ctx := context.Background()
	slots := w.state(1, 1, 2)
	name := must[*Manifest](t)(save(ctx, w.repo, slots, nil)).Name()
	if got := w.listed()[0].Verdict; !got.At.IsZero() || got.Bad() {
		t.Errorf("%+v", got)
	}
	for _, damage := range []func(key string){w.flip, w.remove} {
		w.clock.Advance(time.Minute)
		if v := must[Verdict](t)(w.repo.Check(ctx, name)); v.Bad() || !v.At.Equal(w.clock.Now()) || w.listed()[0].Verdict != v {
			t.Fatalf("%+v", v)
		}
		for _, dir := range []string{packsDir, partsDir} {
			key := must[[]object](t)(w.repo.list(ctx, dir))[0].name
			before := w.raw(key)
			damage(key)
			if v := must[Verdict](t)(w.repo.Check(ctx, name)); !strings.Contains(v.Damage.EN, key) || !strings.Contains(v.Damage.ZH, key) || w.listed()[0].Verdict != v {
				t.Errorf("%s: %+v", key, v)
			}
			must[blob.Info](t)(w.repo.put(ctx, key, before))
		}
	}
	if _, err := w.repo.put(ctx, verdictsDir+name, []byte("{")); err != nil || w.listed()[0].Verdict.Bad() {
		t.Error("a torn verdict counts", err)
	}
	if _, err := w.repo.Check(ctx, manifestName(1, 9)); !fault.Is(err, fault.NotFound) || len(must[[]object](t)(w.repo.list(ctx, verdictsDir))) != 1 {
		t.Error("one that is not there", err)
	}
	if err := w.repo.Drop(ctx, name); err != nil || len(must[[]object](t)(w.repo.list(ctx, verdictsDir))) != 0 {
		t.Error("its verdict did not go with it", err)
	}
}

// TestWhatIsDamagedHoldsNothingUp: no save relies on it, nothing good goes for it, and it goes unless it is pinned.
func TestWhatIsDamagedHoldsNothingUp(t *testing.T) {
	w := newWorld(t, 6)
	ctx := context.Background()
	for step := uint64(1); step <= 3; step++ {
		must[*Manifest](t)(saveAs(ctx, w.repo, w.state(1, step, 1), nil, true))
	}
	bad := Verdict{At: w.clock.Now(), Damage: fault.Text{EN: "a chunk", ZH: "数据块"}}
	for _, step := range []uint64{2, 3} {
		if err := w.repo.Judge(ctx, manifestName(1, step), bad); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.repo.Pin(ctx, manifestName(1, 2)); err != nil {
		t.Fatal(err)
	}
	m := must[*Manifest](t)(save(ctx, w.repo, w.state(1, 4, 1), nil))
	if p := m.Parts[0]; p.New != p.Size {
		t.Errorf("%d of %d are new", p.New, p.Size)
	}
	must[*Collected](t)(w.repo.Collect(ctx, Retention{Last: 2}))
	var left []uint64
	for _, c := range w.listed() {
		left = append(left, c.Step)
	}
	if len(left) != 3 || left[0] != 1 || left[1] != 2 || left[2] != 4 {
		t.Errorf("left: %v", left)
	}
}

// TestARestoreVouches: for what all who wrote it have read, and for no more, and never against a later verdict.
func TestARestoreVouches(t *testing.T) {
	w := newWorld(t, 7)
	ctx := context.Background()
	name := must[*Manifest](t)(save(ctx, w.repo, w.state(1, 1, 2), nil)).Name()
	vouched := func(world uint32, at time.Time) time.Time {
		t.Helper()
		if err := w.repo.Vouch(ctx, name, world, at); err != nil {
			t.Fatal(err)
		}
		return w.listed()[0].Verdict.At
	}
	now := w.clock.Now().UTC()
	if at := vouched(3, now); !at.IsZero() {
		t.Error("three need not read all that two wrote", at)
	}
	if at := vouched(2, now); !at.Equal(now) {
		t.Error(at)
	}
	if at := vouched(2, now.Add(-time.Hour)); !at.Equal(now) {
		t.Error("an older one counts", at)
	}
	if err := w.repo.Judge(ctx, name, Verdict{now.Add(time.Hour), fault.Text{EN: "a chunk"}}); err != nil {
		t.Fatal(err)
	}
	if vouched(2, now.Add(time.Minute)); !w.listed()[0].Verdict.Bad() {
		t.Error("later damage was taken back")
	}
	if err := w.repo.Vouch(ctx, manifestName(1, 9), 2, now); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
}

func (w *world) listed() []Checkpoint {
	w.t.Helper()
	all, damaged, err := w.repo.List(context.Background())
	if err != nil || len(damaged) > 0 {
		w.t.Fatal(damaged, err)
	}
	return all
}

func (w *world) raw(key string) []byte {
	w.t.Helper()
	raw, err := w.repo.read(context.Background(), key, 1<<20)
	if err != nil {
		w.t.Fatal(err)
	}
	return raw
}

func (w *world) flip(key string) {
	w.t.Helper()
	raw := w.raw(key)
	raw[len(raw)/2] ^= 1
	if _, err := w.repo.put(context.Background(), key, raw); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(key string) {
	w.t.Helper()
	if err := w.repo.delete(context.Background(), key); err != nil {
		w.t.Fatal(err)
	}
}
