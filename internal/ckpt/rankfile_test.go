package ckpt

import (
	"bytes"
	"context"
	"io"
	"maps"
	"slices"
	"testing"

	"github.com/fermi-cluster/fermi/api/v1/asset"
)

// whole reads a file in pieces, backwards, and then at once: both are the same.
func whole(t *testing.T, f asset.File, open asset.Opener) []byte {
	t.Helper()
	in := must[io.ReadCloser](t)(open(f.Path)).(io.ReadSeekCloser)
	defer in.Close()
	out := make([]byte, f.Size)
	const piece = 50_000
	for at := (f.Size - 1) / piece * piece; at >= 0 && f.Size > 0; at -= piece {
		if _, err := in.Seek(at, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(in, out[at:min(at+piece, f.Size)]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if again, err := io.ReadAll(in); err != nil || !bytes.Equal(again, out) {
		t.Fatalf("%s: %d bytes, %v", f.Path, len(again), err)
	}
	return out
}

// TestRankFiles: of a script that saves files these are there, byte for byte; of a rank that saves through the SDK the file of its slot.
func TestRankFiles(t *testing.T) {
	w := newWorld(t, 21)
	ctx := context.Background()
	dir := t.TempDir()
	files := map[string][]byte{"step-5/model.bin": noise(w.rng, 900_000), "step-5/a/empty": {}, "step-5/b/字.json": []byte("{}"), "step-5/z": noise(w.rng, 64)}
	writeAll(t, dir, files)
	slot := must[*Slot](t)(FilesSlot(rootAt(t, dir), slices.Collect(maps.Keys(files)), Header{World: 1, Generation: 1, Step: 5}))
	defer slot.Close()
	s := must[*Save](t)(w.repo.Begin(ctx, 1, 5, 1, false))
	ref := must[PartRef](t)(s.Rank(ctx, slot))
	m := must[*Manifest](t)(w.repo.Commit(ctx, Proposal{Generation: 1, Step: 5, World: 1, Parts: []PartRef{ref}}))
	found, open, err := must[*Image](t)(w.repo.Image(ctx, m, 0)).Files(ctx)
	if err != nil || len(found) != len(files) {
		t.Fatal(found, err)
	}
	if _, err := open("step-5/other"); err == nil {
		t.Error("a file that is not there is opened")
	}
	for _, f := range found {
		if !bytes.Equal(whole(t, f, open), files[f.Path]) {
			t.Errorf("%s is another", f.Path)
		}
	}
	slots := w.state(2, 6, 2)
	m = must[*Manifest](t)(save(ctx, w.repo, slots, nil))
	for rank, name := range []string{"rank-0.slot", "rank-1.slot"} {
		found, open, err := must[*Image](t)(w.repo.Image(ctx, m, uint32(rank))).Files(ctx)
		if err != nil || len(found) != 1 || found[0].Path != name || !bytes.Equal(whole(t, found[0], open), slots[rank]) {
			t.Errorf("%s: %+v %v", name, found, err)
		}
	}
	for _, o := range must[[]object](t)(w.repo.list(ctx, packsDir)) {
		w.flip(o.name)
	}
	if _, _, err := must[*Image](t)(w.repo.Image(ctx, m, 0)).Files(ctx); !Lost(err) {
		t.Error("damaged bytes are read:", err)
	}
}
