package ckpt

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/ckpt/tensor"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func TestManifestText(t *testing.T) {
	m := &Manifest{
		Version: 1, Generation: 3, Step: 500, World: 1, Metrics: map[string]float64{"loss": 0.5},
		Parts: []PartRef{{Key: "parts/ab/x-0", Bytes: 9, Hash: sum([]byte("part")), Lease: "x", Size: 100, New: 60}},
	}
	raw := encodeManifest(m)
	const want = `{"version":1,"generation":3,"step":500,"world":1,"metrics":{"loss":0.5},"parts":[{"rank":0,"key":"parts/ab/x-0","bytes":9,` +
		`"hash":"1dcf4a7ecb156103e0f496b20dcb54fa656fdafd60e490707caf1267ad97c339","lease":"x","size":100,"new":60}]}` + "\n"
	if body, _, _ := bytes.Cut(raw, []byte("\n")); string(body)+"\n" != want {
		t.Fatalf("%s", raw)
	}
	back, err := DecodeManifest(raw)
	if diff := cmp.Diff(m, back); err != nil || diff != "" {
		t.Fatalf("%v %s", err, diff)
	}
	// The hash is the published one.
	if got := sum(nil).String(); got != "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262" {
		t.Fatal(got)
	}
	if m.Name() != "0000000000000000003-0000000000000000500" {
		t.Fatal(m.Name())
	}
}

func signed(text string) []byte { return []byte(text + "\n" + sum([]byte(text)).String() + "\n") }

func TestManifestRefusals(t *testing.T) {
	good := string(encodeManifest(&Manifest{Version: 1, Step: 1, World: 1, Parts: []PartRef{{Key: "parts/a"}}}))
	body, _, _ := strings.Cut(good, "\n")
	for name, c := range map[string]struct {
		raw    []byte
		reason string
	}{
		"newer":             {signed(strings.Replace(body, `"version":1`, `"version":2,"more":[]`, 1)), "NewerFormat"},
		"empty":             {nil, "Damaged"},
		"no sum":            {[]byte(body), "Damaged"},
		"another sum":       {[]byte(strings.Replace(good, `"step":1`, `"step":2`, 1)), "Damaged"},
		"an unknown field":  {signed(strings.Replace(body, `"step":1`, `"step":1,"x":1`, 1)), "Damaged"},
		"something behind":  {signed(body + "{}"), "Damaged"},
		"no version":        {signed(strings.Replace(body, `"version":1,`, ``, 1)), "Damaged"},
		"a key outside":     {signed(strings.Replace(body, `parts/a`, `parts/../../x`, 1)), "Damaged"},
		"a key of another":  {signed(strings.Replace(body, `parts/a`, `packs/a`, 1)), "Damaged"},
		"too few parts":     {signed(strings.Replace(body, `"world":1`, `"world":2`, 1)), "Damaged"},
		"step nought":       {signed(strings.Replace(body, `"step":1`, `"step":0`, 1)), "Damaged"},
		"a negative length": {signed(strings.Replace(body, `"bytes":0`, `"bytes":-1`, 1)), "Damaged"},
	} {
		if _, err := DecodeManifest(c.raw); fault.ReasonOf(err) != c.reason {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := DecodeManifest(signed(`{"version":7}`))
	if text := fault.From(err).Message; !strings.Contains(text.EN, "format 7") || !strings.Contains(text.ZH, "7") {
		t.Errorf("%+v", text)
	}
}

// TestNewerIsNotPassedOver: a checkpoint of a newer version is refused by name, an older one restored.
func TestNewerIsNotPassedOver(t *testing.T) {
	w := newWorld(t, 1)
	ctx := context.Background()
	slots := w.state(1, 1, 1)
	must[*Manifest](t)(save(ctx, w.repo, slots, nil))
	must[*Manifest](t)(save(ctx, w.repo, w.state(1, 2, 1), nil))
	w.fs.Content("objects/tasks/t1/manifests/"+manifestName(1, 2), func(raw []byte) []byte {
		body, _, _ := strings.Cut(string(raw), "\n")
		return signed(strings.Replace(body, `"version":1`, `"version":9`, 1))
	})
	got, back, err := w.restored(1)
	if err != nil || got.Step != 1 || len(got.Refused) != 1 || fault.ReasonOf(got.Refused[0].Why) != "NewerFormat" {
		t.Fatalf("%+v, %v", got, err)
	}
	w.same(back, slots)
}

func FuzzManifest(f *testing.F) {
	f.Add(encodeManifest(&Manifest{Version: 1, Step: 1, World: 1, Parts: []PartRef{{Key: "parts/a"}}}))
	f.Add(signed(`{"version":2}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, in := range [][]byte{raw, signed(string(raw))} {
			m, err := DecodeManifest(in)
			if err != nil {
				continue
			}
			back, err := DecodeManifest(encodeManifest(m))
			if diff := cmp.Diff(m, back); err != nil || diff != "" {
				t.Fatalf("%v %s", err, diff)
			}
		}
	})
}

func FuzzPart(f *testing.F) {
	zero := 0
	f.Add(mustJSON(&Part{Version: 1, World: 1, Step: 1, Data: 3, Tree: 1, Packs: []string{"packs/a"}, Chunks: []Chunk{{Bytes: 4, Pack: &zero}},
		Tensors: []tensor.Tensor{{Name: "w", DType: "int8", Shape: []uint64{3}, Global: []uint64{6}, Offset: []uint64{3}, Split: &zero, Bytes: 3}}}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := decodePart(raw)
		if err != nil {
			return
		}
		if _, err := decodePart(mustJSON(p)); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzSlot: whatever a rank writes, reading it ends well, and what is accepted can be saved and restored.
func FuzzSlot(f *testing.F) {
	zero := 0
	f.Add(slotOf(Header{World: 1, Step: 1}, []blobOf{{name: "a", raw: []byte("abc")}}))
	f.Add(slotOf(Header{World: 1, Step: 1}, []blobOf{{name: "a", raw: []byte("abc"), shard: &tensor.Tensor{
		DType: "int8", Shape: []uint64{3}, Global: []uint64{3}, Offset: []uint64{0}, Split: &zero,
	}}}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		slot, err := readSlot(bytes.NewReader(raw))
		if err != nil || slot.Header.World != 1 {
			return
		}
		w := newWorld(t, 1)
		if _, err := save(context.Background(), w.repo, [][]byte{raw}, nil); err != nil {
			return
		}
		for _, ranks := range []int{1, 3} {
			_, back, err := w.restored(ranks)
			if err != nil {
				t.Fatal(err)
			}
			if ranks == 1 {
				w.same(back, [][]byte{raw})
			}
		}
	})
}

// TestSlotsOfTheSDK: what Python saved comes back to Python, over a real disk.
func TestSlotsOfTheSDK(t *testing.T) {
	python := must[string](t)(exec.LookPath("python3"))
	dir := t.TempDir()
	run := func(script string) {
		t.Helper()
		cmd := exec.Command(python, "-c", script, dir)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+must[string](t)(filepath.Abs("../../sdk/python/src")), "PYTHONDONTWRITEBYTECODE=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	const state = `
import os, random, sys
from fermi import _slots, _tree
random.seed(1)
state = {"a": bytearray(random.randbytes(9 << 20)), "b": (1, -0.5, float("nan"), None, "\ud800 <大>"), 3: {b"x"}, "e": b""}
plan = _tree.Plan(state)
`
	run(state + `
slot = _slots.Slot(sys.argv[1] + "/saved")
slot.reserve(plan.length, len(plan.encoded()))
slot.put(plan)
slot.commit(0, 1, 5, 70, plan.length, plan.encoded())
`)
	disk := must[*folder.Store](t)(folder.Open(filepath.Join(dir, "l1")))
	defer disk.Close()
	repo := must[*Repo](t)(New(Config{Store: disk, Prefix: "t"}))
	slot := must[*Slot](t)(OpenSlot(filepath.Join(dir, "saved")))
	defer slot.Close()
	ctx := context.Background()
	s := must[*Save](t)(repo.Begin(ctx, 5, 70, 1, false))
	ref := must[PartRef](t)(s.Rank(ctx, slot))
	must[*Manifest](t)(repo.Commit(ctx, Proposal{Generation: 5, Step: 70, World: 1, Parts: []PartRef{ref}}))
	got := must[*Restored](t)(RestoreNewest(ctx, []*Repo{repo}, []Target{{World: 1, Generation: 6, Path: filepath.Join(dir, "restored")}}))
	if got.Step != 70 {
		t.Fatalf("%+v", got)
	}
	run(state + `
slot = _slots.Slot(sys.argv[1] + "/restored")
header = slot.verify()
assert header is not None and (header.generation, header.step) == (6, 70), header
tree, data = slot.read()
with data:
    back = _tree.decode(tree, data)
assert repr(back) == repr(state)
`)
}

// TestListsShowWhatCantBeRead: with its step, as damaged, and why.
func TestListsShowWhatCantBeRead(t *testing.T) {
	w := newWorld(t, 1)
	ctx := context.Background()
	for step := uint64(1); step <= 3; step++ {
		must[*Manifest](t)(save(ctx, w.repo, w.state(1, step, 1), nil))
	}
	newer := []byte(`{"version":9,"shape":"unknown"}`)
	newer = append(newer, "\n"+sum(newer).String()+"\n"...)
	w.fs.Content("objects/tasks/t1/manifests/"+manifestName(1, 2), func(raw []byte) []byte { return raw[:len(raw)-5] })
	w.fs.Content("objects/tasks/t1/manifests/"+manifestName(1, 3), func([]byte) []byte { return newer })
	got := map[uint64]Checkpoint{}
	err := EachIn(ctx, []string{"shared"}, func(string) (*Repo, error) { return w.repo, nil }, func(_ string, c Checkpoint) { got[c.Step] = c })
	if err != nil || len(got) != 3 {
		t.Fatal(got, err)
	}
	if c := got[1]; c.Unread != nil || c.Newer() || c.Verdict.Bad() {
		t.Errorf("%+v", c)
	}
	if c := got[2]; c.Unread == nil || c.Newer() || !strings.Contains(c.Verdict.Damage.EN, "torn") {
		t.Errorf("%+v", c)
	}
	if c := got[3]; !c.Newer() || c.Name != manifestName(1, 3) || c.Verdict.Damage.EN != "Its format 9 is newer than this Fermi reads (up to 1)." {
		t.Errorf("%+v", c)
	}
	did := must[*Collected](t)(w.repo.Collect(ctx, Retention{Last: 1}))
	if len(did.Damaged) != 2 || len(did.Dropped) != 0 {
		t.Errorf("%+v", did)
	}
}
