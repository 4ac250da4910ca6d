package watch

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// zipped is what torch.save writes, as far as its end goes.
func zipped(t *testing.T) string {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	f, err := w.Create("archive/data.pkl")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(bytes.Repeat([]byte("weights"), 100)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestAFormatSaysThatItIsWhole: at the first look, and never of one that is cut off.
func TestAFormatSaysThatItIsWhole(t *testing.T) {
	f := watched(t)
	whole := zipped(t)
	f.write("step-5.pt", whole[:len(whole)/2])
	f.write("checkpoint-6/model.bin", whole)
	f.write("checkpoint-6/trainer_state.json", `{"global_step": 6}`)
	f.write("checkpoint-7/trainer_state.json", `{"global_st`)
	f.sees("checkpoint-6")
	f.clock.Advance(10 * DefaultQuiet)
	f.sees("checkpoint-6") // quiet makes none whole that is not
	f.write("step-5.pt", whole)
	f.write("checkpoint-7/trainer_state.json", `{"global_step": 7}`)
	f.sees("checkpoint-6", "step-5.pt", "checkpoint-7")
	if e := f.look()[1]; !e.Whole || e.Form != "torch" || e.Step != 5 {
		t.Errorf("%+v", e)
	}
}

// TestOpenFilesAreNotComplete: what somebody writes to is not, whatever it looks like; a file that nobody has open is soon.
func TestOpenFilesAreNotComplete(t *testing.T) {
	f := watched(t)
	open := map[uint64]bool{}
	f.w.cfg.Writers = func() (map[uint64]bool, bool) { return open, true }
	f.write("step-5.pt", zipped(t))
	f.write("step-6.data", "of no known format")
	f.write("parts-7/a.data", "of no known format")
	f.look()
	inode := f.w.seen["step-5.pt"].entry.Files[0].inode
	other := f.w.seen["step-6.data"].entry.Files[0].inode
	open[inode], open[other] = true, true
	f.w.seen = map[string]*sighting{}
	f.sees()
	f.clock.Advance(closedFor)
	f.sees()
	if p := f.w.Pending(); len(p) != 1 || p[0].Name != "parts-7" || !f.w.Fresh() {
		t.Errorf("pending: %+v", p)
	}
	clear(open)
	f.sees("step-5.pt", "step-6.data")
	f.clock.Advance(DefaultQuiet)
	f.sees("step-5.pt", "step-6.data", "parts-7")
	if f.look(); f.w.Fresh() || len(f.w.Pending()) > 0 {
		t.Error("nothing is new")
	}
}

// TestFilesThatBelongTogether are one entry, and what names others is none.
func TestFilesThatBelongTogether(t *testing.T) {
	f := watched(t)
	f.write("ckpt-3.data-00000-of-00001", "data")
	f.write("checkpoint", `model_checkpoint_path: "ckpt-2"`)
	f.sees()
	f.clock.Advance(10 * DefaultQuiet)
	f.sees()
	f.write("ckpt-3.index", "index\x57\xfb\x80\x8b\x24\x75\x47\xdb")
	f.sees("ckpt-3")
	e := f.look()[0]
	if len(e.Files) != 2 || e.Step != 3 || e.Mark.Name != "checkpoint" || !e.Whole {
		t.Fatalf("%+v", e)
	}
	if same, err := f.w.Unchanged(e); err != nil || !same {
		t.Error(same, err)
	}
	if err := os.Remove(filepath.Join(f.dir, "ckpt-3.index")); err != nil {
		t.Fatal(err)
	}
	if same, err := f.w.Unchanged(e); err != nil || same {
		t.Error(same, err)
	}
}

// TestALatestFileNamesTheNewest: what it does not name yet is being written.
func TestALatestFileNamesTheNewest(t *testing.T) {
	f := watched(t)
	f.write("global_step10/mp_rank_00_model_states.pt", zipped(t))
	f.write("latest", "global_step10")
	f.write("global_step20/mp_rank_00_model_states.pt", zipped(t))
	f.sees("global_step10")
	f.write("latest", "global_step20")
	f.sees("global_step10", "global_step20")
	if e := f.look()[1]; e.Mark.Text != "global_step20" {
		t.Errorf("%+v", e)
	}
	left := f.look()[1]
	left.Files = left.Files[:0]
	if whole := f.look()[1]; !left.Within(&whole) || whole.Within(&left) || !whole.Alike(&whole) {
		t.Error("what is left of an entry is within it")
	}
}
