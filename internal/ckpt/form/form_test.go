package form

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// kept are files in memory.
type kept map[string][]byte

func (k kept) ReadAt(name string, p []byte, at int64) (int, error) {
	raw, ok := k[name]
	if !ok {
		return 0, fs.ErrNotExist
	}
	if at >= int64(len(raw)) {
		return 0, io.EOF
	}
	n := copy(p, raw[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (k kept) files() (out []File) {
	for name, raw := range k {
		out = append(out, File{name, int64(len(raw))})
	}
	slices.SortFunc(out, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// recorded is what a library wrote (testdata/record.py).
func recorded(t testing.TB, dir, name string) kept {
	t.Helper()
	out, root := kept{}, filepath.Join("testdata", "recorded", dir)
	err := filepath.WalkDir(filepath.Join(root, name), func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(p)
		rel, rerr := filepath.Rel(root, p)
		out[rel] = raw
		return errors.Join(err, rerr)
	})
	if err != nil || len(out) == 0 {
		t.Fatal(dir, name, err)
	}
	return out
}

// both are the files of two.
func both(a, b kept) kept {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

func saved(t testing.TB) []byte { return recorded(t, "torch", "step-5.pt")["step-5.pt"] }

// table is the end of a TensorFlow index.
func table() []byte {
	return binary.LittleEndian.AppendUint64(bytes.Repeat([]byte("index"), 20), 0xdb4775248b80fb57)
}

func hdf5(version byte, size int) []byte {
	raw := make([]byte, size)
	copy(raw, "\x89HDF\r\n\x1a\n")
	raw[8] = version
	at := map[byte]int{0: 24 + 16, 1: 28 + 16, 2: 12 + 16, 3: 12 + 16}[version]
	if version < 2 {
		raw[13], raw[14] = 8, 8
	} else {
		raw[9], raw[10] = 8, 8
	}
	binary.LittleEndian.PutUint64(raw[at:], uint64(size))
	return raw
}

func kerasZip(t testing.TB) []byte {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, name := range []string{"metadata.json", "config.json", "model.weights.h5"} {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(bytes.Repeat([]byte(name), 50)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

type sample struct {
	name   string
	files  kept
	marks  Marks
	ranks  int
	folder bool
	form   string
	step   uint64
	mark   Mark
	cuts   []string // files of which every cut shows
	last   []string // without one of them it is not whole
}

// samples is a whole checkpoint of each format.
func samples(t testing.TB) map[string]sample {
	pt, sf := saved(t), recorded(t, "torch", "step-6.safetensors")["step-6.safetensors"]
	return map[string]sample{
		"transformers": {
			name: "checkpoint-2", folder: true, files: recorded(t, "transformers", "checkpoint-2"), form: transformers, step: 2, ranks: 1,
			cuts: []string{"checkpoint-2/model.safetensors", "checkpoint-2/optimizer.pt", "checkpoint-2/scheduler.pt", "checkpoint-2/rng_state.pth", "checkpoint-2/training_args.bin", "checkpoint-2/trainer_state.json", "checkpoint-2/config.json"},
			last: []string{"checkpoint-2/trainer_state.json", "checkpoint-2/rng_state.pth"},
		},
		"transformers, weights alone": {
			name: "checkpoint-9", folder: true, form: transformers, step: 9,
			files: kept{"checkpoint-9/model.safetensors": sf, "checkpoint-9/trainer_state.json": []byte(`{"global_step": 9}`)}, last: []string{"checkpoint-9/trainer_state.json"},
		},
		"transformers, in parts": {
			name: "checkpoint-9", folder: true, form: transformers, step: 9, files: kept{
				"checkpoint-9/model-00001-of-00002.safetensors": sf, "checkpoint-9/model-00002-of-00002.safetensors": sf, "checkpoint-9/trainer_state.json": []byte(`{"global_step": 9}`),
				"checkpoint-9/model.safetensors.index.json": []byte(`{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}`),
			},
			last: []string{"checkpoint-9/model-00001-of-00002.safetensors", "checkpoint-9/model-00002-of-00002.safetensors"},
		},
		"transformers, two ranks": {
			name: "checkpoint-9", folder: true, form: transformers, step: 9, ranks: 2, files: kept{
				"checkpoint-9/model.safetensors": sf, "checkpoint-9/optimizer.pt": pt, "checkpoint-9/rng_state_0.pth": pt, "checkpoint-9/rng_state_1.pth": pt, "checkpoint-9/trainer_state.json": []byte(`{"global_step": 9}`),
			},
		},
		"lightning": {
			name: "last.ckpt", files: recorded(t, "lightning", "last.ckpt"), form: lightning, step: 300, cuts: []string{"last.ckpt"},
		},
		"accelerate": {
			name: "checkpoint_3", folder: true, files: recorded(t, "accelerate", "checkpoint_3"), form: accelerate, ranks: 1,
			cuts: []string{"checkpoint_3/model.safetensors", "checkpoint_3/optimizer.bin", "checkpoint_3/random_states_0.pkl"}, last: []string{"checkpoint_3/random_states_0.pkl"},
		},
		"deepspeed": {
			name: "global_step100", folder: true, form: deepSpeed, mark: Mark{"latest", "global_step100"}, marks: Marks{"latest": "global_step100"},
			files: kept{"global_step100/mp_rank_00_model_states.pt": pt, "global_step100/zero_pp_rank_0_mp_rank_00_optim_states.pt": pt},
			cuts:  []string{"global_step100/mp_rank_00_model_states.pt"},
		},
		"deepspeed, an older one": {
			name: "global_step90", folder: true, form: deepSpeed, mark: Mark{"latest", "global_step90"}, marks: Marks{"latest": "global_step100"},
			files: kept{"global_step90/mp_rank_00_model_states.pt": pt},
		},
		"megatron": {
			name: "iter_0000100", folder: true, form: megatron, mark: Mark{"latest_checkpointed_iteration.txt", "100"}, marks: Marks{"latest_checkpointed_iteration.txt": "100"},
			files: kept{"iter_0000100/mp_rank_00/model_optim_rng.pt": pt},
		},
		"dcp": {
			name: "step-7", folder: true, files: recorded(t, "dcp", "step-7"), form: dcp, last: []string{"step-7/.metadata"}, cuts: nil,
		},
		"safetensors":     {name: "step-6.safetensors", files: kept{"step-6.safetensors": sf}, form: safetensors, cuts: []string{"step-6.safetensors"}},
		"torch":           {name: "step-5.pt", files: kept{"step-5.pt": pt}, form: torch, cuts: []string{"step-5.pt"}},
		"keras":           {name: "m-4.keras", files: recorded(t, "keras", "m-4.keras"), form: keras, cuts: []string{"m-4.keras"}},
		"keras, deflated": {name: "m-4.keras", files: kept{"m-4.keras": kerasZip(t)}, form: keras, cuts: []string{"m-4.keras"}},
		"keras 2":         {name: "m-4.h5", files: recorded(t, "keras", "m-4.h5"), form: keras, cuts: []string{"m-4.h5"}},
		"keras, weights":  {name: "m-4.weights.h5", files: recorded(t, "keras", "m-4.weights.h5"), form: keras, cuts: []string{"m-4.weights.h5"}},
		"hdf5 0":          {name: "m-4.h5", files: kept{"m-4.h5": hdf5(0, 400)}, form: keras, cuts: []string{"m-4.h5"}},
		"keras 3":         {name: "m-4.weights.h5", files: kept{"m-4.weights.h5": hdf5(3, 300)}, form: keras, cuts: []string{"m-4.weights.h5"}},
		"tensorflow": {
			name: "ckpt-3", files: both(recorded(t, "tensorflow", "ckpt-3.index"), recorded(t, "tensorflow", "ckpt-3.data-00000-of-00001")), form: tensorFlow,
			mark: Mark{"checkpoint", "model_checkpoint_path: \"ckpt-3\"\nall_model_checkpoint_paths: \"ckpt-3\"\n"},
			cuts: []string{"ckpt-3.index"}, last: []string{"ckpt-3.index", "ckpt-3.data-00000-of-00001"},
		},
		"tensorflow, a saved model": {
			name: "saved-5", folder: true, files: recorded(t, "tensorflow", "saved-5"), form: tensorFlow, last: []string{"saved-5/saved_model.pb", "saved-5/fingerprint.pb"},
		},
		"tensorflow, in parts": {
			name: "ckpt-3", files: kept{"ckpt-3.index": table(), "ckpt-3.data-00000-of-00002": []byte("a"), "ckpt-3.data-00001-of-00002": []byte("b")}, form: tensorFlow,
			mark: Mark{"checkpoint", "model_checkpoint_path: \"ckpt-3\"\nall_model_checkpoint_paths: \"ckpt-3\"\n"},
			cuts: []string{"ckpt-3.index"}, last: []string{"ckpt-3.index", "ckpt-3.data-00000-of-00002", "ckpt-3.data-00001-of-00002"},
		},
		"orbax": {
			name: "40", folder: true, form: orbax, files: recorded(t, "orbax", "40"), cuts: []string{"40/_CHECKPOINT_METADATA"},
		},
		"orbax, an older one": {
			name: "40", folder: true, form: orbax, files: kept{"40/_CHECKPOINT_METADATA": []byte("{}"), "40/default/manifest.ocdbt": []byte("x"), "40/default/d/1": []byte("y")},
		},
		"paddle": {
			name: "model_10", files: both(recorded(t, "paddle", "model_10.pdparams"), recorded(t, "paddle", "model_10.pdopt")), form: paddle,
			last: []string{"model_10.pdparams", "model_10.pdopt"},
		},
		"paddle's trainer": {
			name: "checkpoint-8", folder: true, form: transformers, step: 8,
			files: kept{"checkpoint-8/model_state.pdparams": []byte("\x80\x04 w ."), "checkpoint-8/optimizer.pdopt": []byte("\x80\x04 o ."), "checkpoint-8/trainer_state.json": []byte(`{"global_step": 8}`)},
			last:  []string{"checkpoint-8/trainer_state.json"}, cuts: []string{"checkpoint-8/trainer_state.json"},
		},
	}
}

func (s sample) judge(files kept) Judgement {
	return Judge(files, s.name, s.folder, files.files(), s.marks, s.ranks)
}

func without(k kept, name string) kept {
	out := kept{}
	for n, raw := range k {
		if n != name {
			out[n] = raw
		}
	}
	return out
}

func cutAt(k kept, name string, n int) kept {
	out := without(k, name)
	out[name] = k[name][:n]
	return out
}

// TestLayouts: a whole one is whole; without what is written last, and cut off anywhere, it is not.
func TestLayouts(t *testing.T) {
	for what, s := range samples(t) {
		t.Run(what, func(t *testing.T) {
			got := s.judge(s.files)
			if want := (Judgement{Whole, s.form, s.step, s.mark}); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
			for _, name := range s.last {
				if s.files[name] == nil {
					t.Fatal(name)
				}
				if got := s.judge(without(s.files, name)); got.Verdict == Whole {
					t.Errorf("without %s: %+v", name, got)
				}
			}
			for _, name := range s.cuts {
				for n, all := 0, len(s.files[name]); n < all; n++ {
					if n > 64 && n < all-128 && n%97 != 0 {
						continue
					}
					if strings.HasSuffix(name, ".json") && len(bytes.TrimSpace(s.files[name][:n])) == len(bytes.TrimSpace(s.files[name])) {
						continue // white space alone is missing
					}
					if got := s.judge(cutAt(s.files, name, n)); got.Verdict != Partial {
						t.Fatalf("%s cut to %d of %d bytes: %+v", name, n, len(s.files[name]), got)
					}
				}
			}
		})
	}
}

// TestUnfinished: what is under way is told by marks that don't name it, ranks that are missing, and names.
func TestUnfinished(t *testing.T) {
	all := samples(t)
	for name, c := range map[string]struct {
		of     string
		change func(*sample)
		want   Verdict
	}{
		"deepspeed names an older one": {"deepspeed", func(s *sample) { s.marks = Marks{"latest": "global_step90"} }, Unknown},
		"deepspeed names none":         {"deepspeed", func(s *sample) { s.marks = nil }, Unknown},
		"another's tag":                {"deepspeed", func(s *sample) { s.marks = Marks{"latest": "best200"} }, Unknown},
		"megatron names an older one":  {"megatron", func(s *sample) { s.marks = Marks{"latest_checkpointed_iteration.txt": "50"} }, Unknown},
		"a rank's random numbers":      {"transformers, two ranks", func(s *sample) { s.ranks = 3 }, Partial},
		"a rank of accelerate":         {"accelerate", func(s *sample) { s.ranks = 2 }, Partial},
		"orbax, not committed": {"orbax", func(s *sample) {
			s.files = both(s.files, kept{"40/_CHECKPOINT_METADATA": []byte(`{"init_timestamp_nsecs": 17, "commit_timestamp_nsecs": null}`)})
		}, Partial},
		"orbax, within": {"orbax", func(s *sample) {
			s.files = kept{"40/_CHECKPOINT_METADATA": []byte("{}"), "40/default.orbax-checkpoint-tmp-17/manifest.ocdbt": []byte("x")}
		}, Partial},
		"paddle's weights alone": {"paddle", func(s *sample) { s.files = without(s.files, "model_10.pdopt") }, Unknown},
	} {
		s := all[c.of]
		c.change(&s)
		if got := s.judge(s.files); got.Verdict != c.want || got.Mark != (Mark{}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for _, name := range []string{"a.tmp", ".hidden", "tmp-checkpoint-4", "40.orbax-checkpoint-tmp-1712", "x.part", "x~"} {
		if !Unfinished(name) {
			t.Error(name)
		}
	}
	for _, name := range []string{"checkpoint-4", "latest", "40", "step.pt"} {
		if Unfinished(name) {
			t.Error(name)
		}
	}
}

// TestLargeZip: with records for more than 4 GiB, needed or not.
func TestLargeZip(t *testing.T) {
	body := []byte("PK\x01\x02 directory")
	rec := make([]byte, end64Size)
	copy(rec, "PK\x06\x06")
	binary.LittleEndian.PutUint64(rec[40:], uint64(len(body)))
	binary.LittleEndian.PutUint64(rec[48:], 4)
	locator := make([]byte, locatorSize)
	copy(locator, "PK\x06\x07")
	binary.LittleEndian.PutUint64(locator[8:], uint64(4+len(body)))
	end := make([]byte, endSize)
	copy(end, "PK\x05\x06")
	for _, needed := range []bool{true, false} {
		binary.LittleEndian.PutUint32(end[12:], uint32(len(body)))
		binary.LittleEndian.PutUint32(end[16:], 4)
		if needed {
			binary.LittleEndian.PutUint32(end[12:], 0xffffffff)
			binary.LittleEndian.PutUint32(end[16:], 0xffffffff)
		}
		raw := slices.Concat([]byte("PK\x03\x04"), body, rec, locator, end)
		for n := range len(raw) + 1 {
			want := Partial
			if n == len(raw) {
				want = Whole
			}
			if got := Judge(kept{"a.pt": raw[:n]}, "a.pt", false, kept{"a.pt": raw[:n]}.files(), nil, 0); got.Verdict != want && n >= 4 {
				t.Fatalf("%v, %d of %d: %+v", needed, n, len(raw), got)
			}
		}
	}
}

func TestMainAndMarks(t *testing.T) {
	for want, names := range map[string][]string{
		"checkpoint-3": {"checkpoint-3"}, "global_step5": {"latest", "global_step5"}, "ckpt-3": {"checkpoint", "ckpt-3.index", "ckpt-3.data-00000-of-00001"},
		"iter_0000100": {"latest_checkpointed_iteration.txt", "iter_0000100"}, "m": {"m.pdparams", "m.pdopt"}, "latest": {"latest"}, "": {"a", "b"},
	} {
		if got := Main(names); got != want {
			t.Errorf("%v: %q", names, got)
		}
	}
	beside := func(name string) bool { return name == "step-5" }
	for _, c := range []struct {
		name, text string
		want       bool
	}{
		{"latest", "step-5", true}, {"latest", "global_step9", true}, {"latest", "my weights", false}, {"checkpoint", "model_checkpoint_path: \"x\"", true},
		{"checkpoint", "PK", false}, {"latest_checkpointed_iteration.txt", "5", true}, {"other", "step-5", false},
	} {
		if got := IsMark(c.name, c.text, beside); got != c.want {
			t.Errorf("%+v", c)
		}
	}
}

// FuzzJudge: no file makes it read without end, panic, or say whole of what lacks its end.
func FuzzJudge(f *testing.F) {
	for _, s := range samples(f) {
		for name, raw := range s.files {
			f.Add(filepath.Base(name), raw, s.folder)
		}
	}
	f.Add("a.h5", hdf5(2, 100), false)
	f.Fuzz(func(t *testing.T, name string, raw []byte, folder bool) {
		if !fs.ValidPath(name) || strings.Contains(name, "/") || name == "." {
			t.Skip()
		}
		k, entry := kept{name: raw}, name
		if folder {
			k, entry = kept{"e-1/" + name: raw}, "e-1"
		}
		got := Judge(k, entry, folder, k.files(), Marks{"latest": "e-1"}, 1)
		if got.Verdict < Unknown || got.Verdict > Whole {
			t.Fatal(got)
		}
		if got.Verdict == Whole && got.Form == safetensors && binary.LittleEndian.Uint64(raw) > uint64(len(raw)) {
			t.Fatal("it has no such header")
		}
		_ = fmt.Sprint(got)
	})
}
