package asset

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
)

const project = "proj-1"

// world is a repository in a folder, and a clock that tests move.
type world struct {
	*Repo
	t     *testing.T
	clock *clock.Fake
	dir   string
}

func newWorld(t *testing.T) *world {
	dir := t.TempDir()
	st, err := folder.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	c := clock.NewFake(time.Now())
	return &world{New(st, c, time.Hour), t, c, dir}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// upload sends what is missing of some files, and says how many chunks that were.
func (w *world) upload(files map[string]string) (m *asset.Manifest, digest string, sent int) {
	w.t.Helper()
	var list []asset.File
	for _, name := range []string{"a", "b", "c"} {
		if text, ok := files[name]; ok {
			list = append(list, asset.File{Path: name, Size: int64(len(text))})
		}
	}
	open := func(p string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader([]byte(files[p]))), nil }
	m, err := asset.Build(w.t.Context(), list, open, nil)
	w.must(err)
	raw, _ := m.Encode()
	_, digest, missing, err := w.Begin(w.t.Context(), project, raw)
	w.must(err)
	buf := make([]byte, asset.ChunkMax)
	for _, i := range missing {
		p, err := asset.Cut(list)[i].Read(list, open, buf)
		w.must(err)
		w.must(w.PutChunk(w.t.Context(), project, m.Chunks[i].Hash, p))
	}
	left, err := w.Complete(w.t.Context(), project, m, raw)
	w.must(err)
	if len(left) > 0 {
		w.t.Fatalf("%d chunks are missing after all were sent", len(left))
	}
	w.must(w.Forget(w.t.Context(), project, digest))
	return m, digest, len(missing)
}

// collect keeps these versions.
func (w *world) collect(versions ...string) int {
	w.t.Helper()
	n, err := w.Collect(w.t.Context(), project, func(context.Context) ([]string, error) { return versions, nil })
	w.must(err)
	return n
}

func (w *world) read(m *asset.Manifest, file int) (string, error) {
	raw, err := io.ReadAll(w.OpenFile(w.t.Context(), project, m, file))
	return string(raw), err
}

var large = string(bytes.Repeat([]byte("0123456789"), 900_000))

func TestNothingIsSentTwice(t *testing.T) {
	w := newWorld(t)
	m, _, sent := w.upload(map[string]string{"a": large, "b": "small"})
	if sent != 4 {
		t.Errorf("%d chunks were sent", sent)
	}
	if _, _, sent := w.upload(map[string]string{"a": large, "b": "small"}); sent != 0 {
		t.Errorf("%d chunks were sent again", sent)
	}
	if _, _, sent := w.upload(map[string]string{"a": large, "b": "changed"}); sent != 1 {
		t.Errorf("%d chunks for one small file", sent)
	}
	for i, want := range []string{large, "small"} {
		if got, err := w.read(m, i); err != nil || got != want {
			t.Errorf("file %d: %v", i, err)
		}
	}
}

func TestCollect(t *testing.T) {
	w := newWorld(t)
	_, first, _ := w.upload(map[string]string{"a": large})
	second, kept, _ := w.upload(map[string]string{"a": large, "b": "kept"})
	_, gone, _ := w.upload(map[string]string{"c": "gone"})
	w.collect(first, kept, gone)
	if n := w.collect(first, kept); n != 0 { // seen for the first time
		t.Fatalf("%d were deleted at once", n)
	}
	w.clock.Advance(2 * time.Hour)
	if n := w.collect(kept); n != 1 {
		t.Errorf("%d were deleted, not the one that nobody names", n)
	}
	if got, err := w.read(second, 1); err != nil || got != "kept" {
		t.Errorf("%q %v", got, err)
	}
}

// An upload relies on what was about to go: it stays.
func TestUploadSavesWhatIsCondemned(t *testing.T) {
	w := newWorld(t)
	w.upload(map[string]string{"a": large})
	w.collect() // nobody names it
	w.clock.Advance(2 * time.Hour)
	m, digest, sent := w.upload(map[string]string{"a": large})
	if sent != 0 {
		t.Fatalf("%d sent", sent)
	}
	if n := w.collect(digest); n != 0 {
		t.Fatalf("%d deleted", n)
	}
	if got, err := w.read(m, 0); err != nil || got != large {
		t.Error(err)
	}
}

func TestDamage(t *testing.T) {
	w := newWorld(t)
	m, _, _ := w.upload(map[string]string{"a": large, "b": "small"})
	path := filepath.Join(w.dir, "objects", chunkKey(project, m.Chunks[1].Hash))
	raw, err := os.ReadFile(path)
	w.must(err)
	raw[77] ^= 1
	w.must(os.WriteFile(path, raw, 0o600))
	if _, err := w.read(m, 0); fault.ReasonOf(err) != "AssetDamaged" {
		t.Errorf("a flipped bit: %v", err)
	}
	if got, err := w.read(m, 1); err != nil || got != "small" {
		t.Errorf("another file suffers: %q %v", got, err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a bad chunk stays, and would not be sent again")
	}
	if _, _, sent := w.upload(map[string]string{"a": large, "b": "small"}); sent != 1 {
		t.Errorf("%d sent to mend it", sent)
	}
	if err := w.PutChunk(t.Context(), project, m.Chunks[0].Hash, []byte("other")); fault.ReasonOf(err) != "BadChunk" {
		t.Errorf("other bytes under its name: %v", err)
	}
}

func TestFormats(t *testing.T) {
	tensors := func(header string, data int) string {
		n := len(header)
		return string([]byte{byte(n), byte(n >> 8), 0, 0, 0, 0, 0, 0}) + header + string(make([]byte, data))
	}
	good := tensors(`{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8)
	for _, c := range []struct{ name, bytes, want string }{
		{"model.safetensors", good, Safetensors},
		{"model.safetensors", good + "x", ""}, // it lies about its size
		{"model.safetensors", "\x80\x04\x95pickled, and called something else", ""},
		{"w.gguf", "GGUF\x03\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00", GGUF},
		{"w.gguf", "GGML", ""},
		{"m.onnx", "\x08\x08\x12\x07pytorch", ONNX},
		{"m.onnx", "not one", ""},
		{"m.pt", "PK\x03\x04" + string(make([]byte, 22)) + "\x10\x00\x00\x00archive/data.pkl", Torch},
		{"model.json", `{"layers":[]}`, JSON},
		{"weights.bin", "\x80\x04\x95pickle", Unknown},
	} {
		m := &asset.Manifest{Files: []asset.File{{Path: c.name, Size: int64(len(c.bytes))}}}
		got, err := FormatOf(m, func(int) ReadSeeker { return bytes.NewReader([]byte(c.bytes)) })
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s: %q %v", c.name, got, err)
		}
	}
}
