package launch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	words "github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/internal/asset"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

// shelves are the versions that a server has, and counts what is read of them.
type shelves struct {
	*asset.Repo
	gone   atomic.Bool
	read   atomic.Int64
	stuck  chan struct{} // closed when a chunk is asked for and gate is not nil
	gate   chan struct{}
	asking atomic.Int64
}

// ReadChunk waits at the gate, if there is one, from the third chunk on.
func (s *shelves) ReadChunk(ctx context.Context, project string, c words.Chunk, buf []byte) ([]byte, error) {
	s.read.Add(1)
	if s.gate != nil && s.asking.Add(1) == 3 {
		close(s.stuck)
		select {
		case <-s.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return s.Repo.ReadChunk(ctx, project, c, buf)
}

func (s *shelves) names(context.Context, link.Parts, string) (string, error) {
	if s.gone.Load() {
		return "", fault.New(fault.Forbidden, "NotItsVersion", fault.T("Not its.", "不属于。"))
	}
	return "project", nil
}

// put keeps a version, and says how work names it.
func (w *world) put(name, at string, files map[string]string) mount.AssetRef {
	w.t.Helper()
	var list []words.File
	for path, text := range files {
		list = append(list, words.File{Path: path, Size: int64(len(text))})
	}
	slices.SortFunc(list, func(a, b words.File) int { return words.Compare(a.Path, b.Path) })
	open := func(path string) (io.ReadCloser, error) {
		return struct {
			io.ReadSeeker
			io.Closer
		}{strings.NewReader(files[path]), io.NopCloser(nil)}, nil
	}
	ctx := w.t.Context()
	m, err := words.Build(ctx, list, open, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	raw, sum := m.Encode()
	buf := make([]byte, words.ChunkMax)
	for i, cut := range words.Cut(list) {
		p, err := cut.Read(list, open, buf)
		if err == nil {
			err = w.data.PutChunk(ctx, "project", m.Chunks[i].Hash, bytes.Clone(p))
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	if err := w.data.PutManifest(ctx, "project", raw); err != nil {
		w.t.Fatal(err)
	}
	return mount.AssetRef{Name: name, Version: "1", Path: at, Settled: mount.Settled{Digest: sum.String(), Size: m.Size()}}
}

// reading is a walled replica that reads versions; change may be nil.
func (w *world) reading(datasets, models []mount.AssetRef, change func(*engine.Replica), script string) *replica {
	w.t.Helper()
	return w.withAssets(w.walled(func(s *engine.Replica) {
		s.Mounts = mount.Lists{Datasets: datasets, Models: models}
		if change != nil {
			change(s)
		}
	}, "sh", "-c", script))
}

// withAssets has a replica find versions in the node's folder.
func (w *world) withAssets(r *replica) *replica {
	w.t.Helper()
	var ends record.Link
	if _, err := record.Read(r.dir, record.FileEndpoint, &ends); err != nil {
		w.t.Fatal(err)
	}
	ends.Assets = filepath.Join(w.dir, "assets")
	if err := record.Write(r.dir, record.FileEndpoint, ends); err != nil {
		w.t.Fatal(err)
	}
	return r
}

const looks = `
	cat /data/digits/a.txt /data/digits/deep/b.txt /models/base/w; echo
	echo "env $FERMI_DATASET $FERMI_DATASET_DIGITS $FERMI_MODEL $FERMI_MODEL_BASE"
	(touch /data/digits/x || rm /data/digits/a.txt || touch /data/x || chmod 777 /data/digits/a.txt) 2>&1
	echo "beside $(ls /data | tr '\n' ' ') $(ls /models | tr '\n' ' ')"
	echo "sys $(test -d /usr/bin && test -e /etc/passwd && test -e /dev/null && ls -d /proc/self | wc -l)"
	touch $HOME/x /tmp/y here && echo written`

// sees compares what such a replica printed.
func (r *replica) sees(want ...string) {
	r.w.t.Helper()
	got := strings.Join(r.lines(), "\n")
	for _, text := range want {
		if !strings.Contains(got, text) {
			r.w.t.Errorf("no %q in\n%s", text, got)
		}
	}
}

// TestData: versions are folders at their paths, read-only, with nothing beside them; what is on the node is not asked for again.
func TestData(t *testing.T) {
	w := newWorld(t)
	digits := w.put("digits", "/data/digits", map[string]string{"a.txt": "one ", "deep/b.txt": "two "})
	base := w.put("base", "/models/base", map[string]string{"w": "weights"})
	_, was := os.Lstat("/models")
	for range 2 {
		before := w.data.read.Load()
		r := w.reading([]mount.AssetRef{digits}, []mount.AssetRef{base}, nil, looks)
		if exit := r.run(); exit.Code != 0 {
			t.Fatalf("%+v\n%s", exit, strings.Join(r.lines(), "\n"))
		}
		r.sees("O:one two weights", "O:env /data/digits /data/digits /models/base /models/base", "Read-only file system", "O:beside digits  base", "O:sys 1", "O:written", "digits@1")
		if n := w.data.read.Load() - before; before > 0 && n > 0 {
			t.Errorf("%d chunks were asked for again", n)
		}
	}
	if _, err := os.Lstat("/models"); was != nil && err == nil {
		t.Error("a folder was made on the machine")
	}
}

// TestDataInAnImage: likewise, also where the image has something there.
func TestDataInAnImage(t *testing.T) {
	w := newWorld(t)
	digits := w.put("digits", "/data/digits", map[string]string{"a.txt": "one ", "deep/b.txt": "two "})
	base := w.put("base", "/models/base", map[string]string{"w": "weights"})
	image := shellImage(t, map[string]string{"/data/digits/a.txt": "the image's", "/usr/bin/x": "", "/etc/passwd": "", "/models": "-> /etc"})
	r := w.withAssets(w.withImage(image, func(s *engine.Replica) {
		s.Mounts = mount.Lists{Datasets: []mount.AssetRef{digits}, Models: []mount.AssetRef{base}}
	}, "sh", "-c", looks))
	if exit := r.run(); exit.Code != 0 {
		t.Fatalf("%+v\n%s", exit, strings.Join(r.lines(), "\n"))
	}
	r.sees("O:one two weights", "O:env /data/digits", "Read-only file system", "O:written")
}

// TestDataWithoutWalls: where nobody is kept apart nothing is mounted, and the variables say where it is.
func TestDataWithoutWalls(t *testing.T) {
	w := newWorld(t)
	digits := w.put("digits", "/data/digits", map[string]string{"a.txt": "one"})
	r := w.withAssets(w.replica(func(s *engine.Replica) { s.Mounts.Datasets = []mount.AssetRef{digits} }, "sh", "-c", `cat $FERMI_DATASET_DIGITS/a.txt`))
	if exit := r.run(); exit.Code != 0 {
		t.Fatalf("%+v", exit)
	}
	r.sees("O:one", w.dir+"/assets/")
}

// TestDataGone: what the server does not give says so, and starts nothing.
func TestDataGone(t *testing.T) {
	w := newWorld(t)
	digits := w.put("digits", "/data/digits", map[string]string{"a.txt": "one"})
	w.data.gone.Store(true)
	r := w.reading([]mount.AssetRef{digits}, nil, nil, "echo started")
	if exit := r.run(); exit.Reason != engine.ReasonStartFailed || !strings.Contains(exit.Message, "digits@1") || !strings.Contains(exit.Message, "deleted") {
		t.Errorf("%+v", exit)
	}
}

// TestDataInTheWay: nothing is mounted over, or in, a folder that the replica has of the machine.
func TestDataInTheWay(t *testing.T) {
	w := newWorld(t)
	home, err := os.MkdirTemp("/mnt", "shared")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(home)
	if err := os.Chmod(home, 0o777); err != nil {
		t.Fatal(err)
	}
	w.folders = nil
	digits := w.put("digits", home+"/in", map[string]string{"a.txt": "one"})
	r := w.reading([]mount.AssetRef{digits}, nil, func(s *engine.Replica) { s.Code = codeIn(home) }, "echo started")
	if exit := r.run(); exit.Code == 0 || !strings.Contains(exit.Message, "mounted") {
		t.Errorf("%+v", exit)
	}
	if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
		t.Error("something was made in it:", left, err)
	}
}

// TestDataKilled: a launcher that is killed while a version is on its way leaves nothing in its place; the next one goes on.
func TestDataKilled(t *testing.T) {
	w := newWorld(t)
	files := map[string]string{}
	for i := range 8 {
		files["f"+strconv.Itoa(i)] = strings.Repeat(strconv.Itoa(i), 3<<20)
	}
	w.data.stuck, w.data.gate = make(chan struct{}), make(chan struct{})
	digits := w.put("digits", "/data/digits", files)
	r := w.reading([]mount.AssetRef{digits}, nil, nil, "cat /data/digits/* | wc -c; cut -c1 /data/digits/f7")
	first := r.launch()
	<-w.data.stuck
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if first.wait() == nil {
		t.Fatal("it was killed")
	}
	eventually(t, "its end is heard of", func() bool { return !w.server.hub.Attached(r.spec.Name) }) // an order would go to the dead one
	if _, err := os.Lstat(filepath.Join(w.dir, "assets", strconv.Itoa(testUID), digits.Digest)); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("half of it is in its place:", err)
	}
	read := w.data.read.Load()
	close(w.data.gate)
	if exit := r.run(); exit.Code != 0 {
		t.Fatalf("%+v", exit)
	}
	r.sees("O:"+strconv.Itoa(8*3<<20), "O:7")
	t.Logf("%d chunks were asked for before, %d after", read, w.data.read.Load()-read)
}

func codeIn(folder string) *api.Code { return &api.Code{Folder: folder} }
