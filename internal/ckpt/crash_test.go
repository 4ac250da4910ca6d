package ckpt

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// seeds is how many seeds a test walks: few by default, FERMI_CKPT_KILLS or FERMI_CKPT_DAMAGES for the whole.
func seeds(t *testing.T, env string, few int) int {
	text := os.Getenv(env)
	if text == "" {
		return few
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is no number", env, text)
	}
	return n
}

// TestKills: killed, or cut off from power, at any change of the disk, or with a disk that is full or
// fails: what was committed is there, and what is there was committed or was about to be.
func TestKills(t *testing.T) {
	all := seeds(t, "FERMI_CKPT_KILLS", 40)
	for seed := range all {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { kills(t, uint64(seed)) }) {
			return
		}
	}
	t.Logf("%d kills", all)
}

func kills(t *testing.T, seed uint64) {
	w := newWorld(t, seed)
	ctx := context.Background()
	ranks := 1 + w.rng.IntN(3)
	save := func(slots [][]byte) (*Manifest, error) {
		if seed%2 == 1 { // each rank on a machine of its own
			return saveOn(ctx, w.repo, slots, 1, false)
		}
		return save(ctx, w.repo, slots, nil)
	}
	saved := map[uint64][][]byte{} // by step: what a save was asked to keep
	var step, committed uint64
	for range 1 + w.rng.IntN(2) {
		step++
		saved[step] = w.state(1, step, ranks)
		if _, err := save(saved[step]); err != nil {
			t.Fatal(err)
		}
		committed = step
	}
	// One save without a fault says how many changes the next ones take, more or less.
	before := w.fs.Ops()
	step++
	saved[step] = w.state(1, step, ranks)
	must[*Manifest](t)(save(saved[step]))
	committed = step
	span := w.fs.Ops() - before
	at := w.fs.Ops() + 1 + w.rng.IntN(span)
	w.injure(at)
	for range 3 {
		step++
		saved[step] = w.state(1, step, ranks)
		if _, err := save(saved[step]); err == nil {
			committed = step
		}
		if w.rng.IntN(2) == 0 {
			w.clock.Advance(40 * time.Minute)
			_, _ = w.repo.Collect(ctx, Retention{Last: 2}) // killed too, maybe
		}
	}
	w.heal()
	got, back, err := w.restored(ranks)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if got.Step < committed || len(got.Refused) > 0 {
		t.Fatalf("seed %d: step %d came back, %d was committed; refused %v", seed, got.Step, committed, got.Refused)
	}
	w.same(back, saved[got.Step])
	// And life goes on.
	step++
	saved[step] = w.state(2, step, ranks)
	must[*Manifest](t)(save(saved[step]))
	if _, back, err = w.restored(ranks); err != nil {
		t.Fatal(err)
	}
	w.same(back, saved[step])
}

// injure chooses what goes wrong at a change of the disk.
func (w *world) injure(op int) {
	switch w.rng.IntN(4) {
	case 0, 1:
		w.fs.DieAt(op)
	case 2:
		w.fs.FailAt(op, syscall.EIO)
	case 3:
		w.fs.Room(w.rng.IntN(4000))
	}
}

// heal is a new process, on a machine that kept running or did not.
func (w *world) heal() {
	w.fs.Room(-1)
	if w.rng.IntN(3) == 0 {
		w.fs.Restart()
	} else {
		w.fs.PowerOff()
	}
	w.reopen()
}

func TestFullDiskSaysSo(t *testing.T) {
	w := newWorld(t, 1)
	ctx := context.Background()
	slots := w.state(1, 1, 2)
	must[*Manifest](t)(save(ctx, w.repo, slots, nil))
	w.fs.Room(700)
	if _, err := save(ctx, w.repo, w.state(1, 2, 2), nil); !fault.Is(err, fault.Full) {
		t.Fatalf("err = %v", err)
	}
	_, back, err := w.restored(2)
	if err != nil {
		t.Fatal(err)
	}
	w.same(back, slots)
}

// TestDamages: bits flipped, files cut, gone, swapped or torn: the damage is found, and the newest
// checkpoint that it did not touch comes back.
func TestDamages(t *testing.T) {
	all := seeds(t, "FERMI_CKPT_DAMAGES", 100)
	perWorld, refused := 50, 0
	for seed := 0; seed < all; seed += perWorld {
		w := newWorld(t, uint64(seed))
		saved := map[uint64][][]byte{}
		for step := uint64(1); step <= 4; step++ {
			saved[step] = w.state(1, step, 2)
			// Every second relies on nothing older: damage to what two share leaves others.
			must[*Manifest](t)(saveAs(context.Background(), w.repo, saved[step], nil, step%2 == 1))
		}
		for i := seed; i < min(seed+perWorld, all); i++ {
			refused += w.damage(i, saved)
		}
	}
	t.Logf("%d damages; %d times the newest checkpoint was refused", all, refused)
	if refused < all/4 {
		t.Fatalf("only %d of %d damages were felt", refused, all)
	}
}

// damage hurts one file or a pair, restores, and makes all good again.
func (w *world) damage(seed int, saved map[uint64][][]byte) int {
	rng := rand.New(rand.NewPCG(uint64(seed), 3))
	files := slices.DeleteFunc(w.fs.Files("objects"), func(name string) bool {
		return !strings.Contains(name, packsDir) && !strings.Contains(name, partsDir) && !strings.Contains(name, manifestsDir)
	})
	name := files[rng.IntN(len(files))]
	if rng.IntN(2) == 0 { // of the newest: its manifest is the last of them by name
		manifests := slices.DeleteFunc(slices.Clone(files), func(n string) bool { return !strings.Contains(n, manifestsDir) })
		name = manifests[len(manifests)-1]
	}
	names := w.named()
	before := map[string][]byte{}
	change := func(name string, f func([]byte) []byte) {
		w.fs.Content(name, func(raw []byte) []byte { before[name] = slices.Clone(raw); return f(raw) })
	}
	what := ""
	if kind := rng.IntN(8); kind < 2 {
		what = w.exchange(rng, kind == 0, &name, files, names, change)
	} else {
		what = hurt(rng, name, files, change)
	}
	got, back, err := w.restored(2)
	if err != nil {
		w.t.Fatalf("damage %d, %s of %s: %v", seed, what, name, err)
	}
	gone := 0 // a manifest that is not there at all was never committed, as far as anybody can see
	if what == "missing" && strings.Contains(name, manifestsDir) {
		gone = 1
	}
	if int(got.Step)+len(got.Refused) != 4 && int(got.Step)+len(got.Refused)+gone != 4 {
		w.t.Fatalf("damage %d, %s of %s: step %d, refused %v", seed, what, name, got.Step, got.Refused)
	}
	for _, r := range got.Refused {
		hurt := func(file string) bool {
			return (file == name || what == "two objects exchanged") && names[r.Name][strings.TrimPrefix(file, "objects/tasks/t1/")]
		}
		if !slices.ContainsFunc(slices.Collect(maps.Keys(before)), hurt) {
			w.t.Fatalf("damage %d, %s of %s: %s was whole and refused: %v", seed, what, name, r.Name, r.Why)
		}
	}
	w.same(back, saved[got.Step])
	for name, raw := range before {
		w.fs.Restore(name, raw)
	}
	return min(len(got.Refused)+gone, 1)
}

// named says of each checkpoint which objects it needs.
func (w *world) named() map[string]map[string]bool {
	ctx := context.Background()
	out := map[string]map[string]bool{}
	for _, name := range must[[]string](w.t)(w.repo.names(ctx)) {
		out[name] = map[string]bool{manifestsDir + name: true}
		must[bool](w.t)(w.repo.addNamed(ctx, must[*Manifest](w.t)(w.repo.Manifest(ctx, name)), out[name]))
	}
	return out
}

// exchange puts two chunks of a pack, or two whole objects, each in the other's place. Some checkpoint needs neither.
func (w *world) exchange(rng *rand.Rand, chunks bool, name *string, files []string, names map[string]map[string]bool, change func(string, func([]byte) []byte)) string {
	if chunks {
		packs := w.chunks()
		*name = slices.Sorted(maps.Keys(packs))[rng.IntN(len(packs))]
		list := packs[*name]
		i := rng.IntN(len(list) - 1)
		a, b := list[i], list[i+1+rng.IntN(len(list)-1-i)]
		change(*name, func(raw []byte) []byte {
			return slices.Concat(raw[:a.at], raw[b.at:b.end], raw[a.end:b.at], raw[a.at:a.end], raw[b.end:])
		})
		return "two chunks exchanged"
	}
	within := func(file string) string { return strings.TrimPrefix(file, "objects/tasks/t1/") }
	others := slices.DeleteFunc(slices.Clone(files), func(file string) bool {
		spares := func(named map[string]bool) bool { return !named[within(*name)] && !named[within(file)] }
		return file == *name || !slices.ContainsFunc(slices.Collect(maps.Values(names)), spares)
	})
	other := others[rng.IntN(len(others))]
	var first, second []byte
	change(*name, func(raw []byte) []byte { first = slices.Clone(raw); return raw })
	change(other, func(raw []byte) []byte { second = slices.Clone(raw); return first })
	w.fs.Content(*name, func([]byte) []byte { return second })
	return "two objects exchanged"
}

type extent struct{ at, end uint64 }

// chunks says where in each pack that has several the chunks lie, by the pack's file.
func (w *world) chunks() map[string][]extent {
	ctx := context.Background()
	out := map[string][]extent{}
	for _, name := range must[[]string](w.t)(w.repo.names(ctx)) {
		m := must[*Manifest](w.t)(w.repo.Manifest(ctx, name))
		for rank := range m.World {
			p := must[*Part](w.t)(w.repo.part(ctx, m, rank))
			for _, c := range p.Chunks {
				if c.Pack != nil {
					file := "objects/tasks/t1/" + p.Packs[*c.Pack]
					out[file] = append(out[file], extent{c.At, c.At + uint64(c.Bytes)})
				}
			}
		}
	}
	for file, list := range out {
		slices.SortFunc(list, func(a, b extent) int { return cmp.Compare(a.at, b.at) })
		if out[file] = slices.Compact(list); len(out[file]) < 2 {
			delete(out, file)
		}
	}
	return out
}

func hurt(rng *rand.Rand, name string, files []string, change func(string, func([]byte) []byte)) string {
	switch rng.IntN(6) {
	case 0, 1:
		change(name, func(raw []byte) []byte { raw[rng.IntN(len(raw))] ^= 1 << rng.IntN(8); return raw })
		return "a flipped bit"
	case 2:
		change(name, func(raw []byte) []byte { return raw[:rng.IntN(len(raw))] })
		return "a cut"
	case 3:
		change(name, func([]byte) []byte { return nil })
		return "missing"
	case 4:
		var other []byte
		second := files[rng.IntN(len(files))]
		change(second, func(raw []byte) []byte { other = slices.Clone(raw); return raw })
		change(name, func([]byte) []byte { return other })
		return "another's bytes"
	}
	change(name, func(raw []byte) []byte {
		at := rng.IntN(len(raw))
		clear(raw[at : at+1+rng.IntN(len(raw)-at)])
		return raw
	})
	return "zeros"
}
