package rootfs

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// hall is a registry and a node.
type hall struct {
	*testing.T
	host  string
	dir   string
	gets  atomic.Int64                                  // of blobs
	guard func(http.ResponseWriter, *http.Request) bool // false: it has answered itself
}

func newHall(t *testing.T) *hall {
	t.Helper()
	h := &hall{T: t, dir: filepath.Join(t.TempDir(), "images")}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
			h.gets.Add(1)
		}
		if h.guard == nil || h.guard(w, r) {
			inner.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	h.host = strings.TrimPrefix(server.URL, "http://")
	return h
}

// entry is one of a layer: a file with its text, a folder ("/" at its end), or a link ("-> target").
type entry struct {
	name, text string
	change     func(*tar.Header)
}

func layerOf(t *testing.T, entries ...entry) v1.Layer {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: 0o600, Size: int64(len(e.text)), Typeflag: tar.TypeReg, Uid: 1234}
		switch target, link := strings.CutPrefix(e.text, "-> "); {
		case strings.HasSuffix(e.name, "/"):
			h.Typeflag, h.Mode = tar.TypeDir, 0o700
		case link:
			h.Typeflag, h.Linkname, h.Size, e.text = tar.TypeSymlink, target, 0, ""
		}
		if e.change != nil {
			e.change(h)
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write([]byte(e.text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	return layer
}

func (h *hall) push(ref string, change func(*v1.ConfigFile), layers ...v1.Layer) string {
	h.Helper()
	image, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		h.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		h.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config.Env = platform.OS, platform.Architecture, []string{"PATH=/opt/bin", "A=b"}
	if change != nil {
		change(config)
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		h.Fatal(err)
	}
	at, err := name.ParseReference(h.host + "/" + ref)
	if err != nil {
		h.Fatal(err)
	}
	if err := remote.Write(at, image); err != nil {
		h.Fatal(err)
	}
	return h.host + "/" + ref
}

func (h *hall) bring(ref string) (*Image, error) {
	return Bring(h.Context(), h.dir, Want{Reference: ref, Owner: 7})
}

func (h *hall) must(ref string) *Image {
	h.Helper()
	i, err := h.bring(ref)
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { i.Close() })
	return i
}

func (h *hall) text(i *Image, file string) string {
	data, err := os.ReadFile(filepath.Join(i.Root, file))
	if err != nil {
		return "none"
	}
	return string(data)
}

// TestBring lays layers over each other: what a later one changes, removes or hides, and who may read it.
func TestBring(t *testing.T) {
	h := newHall(t)
	ref := h.push("a/b:1", nil,
		layerOf(t, entry{name: "etc/"}, entry{name: "etc/old", text: "1"}, entry{name: "etc/gone", text: "1"}, entry{name: "usr/lib/x", text: "1"},
			entry{name: "lib", text: "-> usr/lib"}, entry{name: "hid/a", text: "1"}, entry{name: "hid/b", text: "1"}),
		layerOf(t, entry{name: "etc/old", text: "2"}, entry{name: "etc/.wh.gone"}, entry{name: "lib/y", text: "2"}, entry{name: "hid/.wh..wh..opq"}, entry{name: "hid/c", text: "2"},
			entry{name: "bin/su", text: "s", change: func(h *tar.Header) { h.Mode = 0o4711 }},
			entry{name: "dev/sda", change: func(h *tar.Header) { h.Typeflag, h.Devmajor = tar.TypeBlock, 8 }}),
	)
	i := h.must(ref)
	for file, want := range map[string]string{
		"etc/old": "2", "etc/gone": "none", "usr/lib/x": "1", "usr/lib/y": "2", "hid/a": "none", "hid/b": "none", "hid/c": "2", "dev/sda": "none",
	} {
		if got := h.text(i, file); got != want {
			t.Errorf("%s: %q, not %q", file, got, want)
		}
	}
	for file, want := range map[string]os.FileMode{"etc": os.ModeDir | 0o755, "etc/old": 0o644, "bin/su": 0o755, "usr": os.ModeDir | 0o755} {
		info, err := os.Stat(filepath.Join(i.Root, file))
		if err != nil || info.Mode()&^0o200 != want&^0o200 {
			t.Errorf("%s: %v %v", file, info, err)
		}
		if os.Geteuid() == 0 && err == nil && info.Sys().(*syscall.Stat_t).Uid != 0 {
			t.Errorf("%s is not root's", file)
		}
	}
	if len(i.Env) != 2 || i.Env[0] != "PATH=/opt/bin" {
		t.Errorf("%q", i.Env)
	}
	if list, err := os.ReadDir(filepath.Join(h.dir, dirBlobs)); err != nil || len(list) != 0 {
		t.Errorf("layers are left: %v %v", list, err)
	}
}

// TestBringOnce: replicas that start together fetch once, later ones not at all.
func TestBringOnce(t *testing.T) {
	h := newHall(t)
	ref := h.push("team/a:1", nil, layerOf(t, entry{name: "f", text: "1"}))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			i, err := h.bring(ref)
			if err != nil {
				t.Error(err)
				return
			}
			defer i.Close()
			if h.text(i, "f") != "1" {
				t.Error("no f")
			}
		})
	}
	wg.Wait()
	blobs := h.gets.Load()
	if i := h.must(ref); h.text(i, "f") != "1" {
		t.Error("no f")
	}
	// The configuration is asked for by each, the layer by one.
	if want := int64(8 + 1); blobs != want {
		t.Errorf("%d blobs were fetched, not %d", blobs, want)
	}
}

// TestHostileLayers: nothing is written outside, whatever a layer says.
func TestHostileLayers(t *testing.T) {
	outside := t.TempDir()
	for name, entries := range map[string][]entry{
		"up":       {{name: "../../../../../../../../.." + outside + "/x", text: "evil"}},
		"absolute": {{name: outside + "/x", text: "evil"}},
		"link":     {{name: "l", text: "-> " + outside}, {name: "l/x", text: "evil"}},
		"up link":  {{name: "l", text: "-> ../../../../../../../../../.." + outside}, {name: "l/x", text: "evil"}},
		"hard":     {{name: "h", change: func(h *tar.Header) { h.Typeflag, h.Linkname = tar.TypeLink, outside+"/secret" }}},
		"whiteout": {{name: "l", text: "-> " + outside}, {name: "l/.wh.secret"}},
		"opaque":   {{name: "l", text: "-> " + outside}, {name: "l/.wh..wh..opq"}},
		"dots":     {{name: ".wh..."}, {name: ".wh.."}, {name: "a/.wh..."}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHall(t)
			secret := filepath.Join(outside, "secret")
			if err := os.WriteFile(secret, []byte("s"), 0o600); err != nil {
				t.Fatal(err)
			}
			i, err := h.bring(h.push("evil:1", nil, layerOf(t, entries...)))
			if err == nil {
				defer i.Close()
				if h.text(i, "h") == "s" {
					t.Error("it has the secret")
				}
			} else if !fault.Is(err, fault.Invalid) {
				t.Error(err)
			}
			list, err := os.ReadDir(outside)
			if err != nil || len(list) != 1 || list[0].Name() != "secret" {
				t.Errorf("outside: %v %v", list, err)
			}
		})
	}
}

// TestRefusals: each in words that say what to do, and nothing is left that looks like an image.
func TestRefusals(t *testing.T) {
	h := newHall(t)
	good := layerOf(t, entry{name: "f", text: "1"})
	other := h.push("other:1", func(c *v1.ConfigFile) { c.Architecture = "s390x" }, good)
	h.push("private:1", nil, good)
	h.guard = func(w http.ResponseWriter, r *http.Request) bool {
		if user, pass, _ := r.BasicAuth(); strings.Contains(r.URL.Path, "/private/") && (user != "li" || pass != "pass") {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return false
		}
		return true
	}
	for ref, want := range map[string]string{
		"Not An Image": "BadImage", h.host + "/none:1": "NoSuchImage", other: "OtherPlatform", h.host + "/private:1": "ImageDenied",
	} {
		i, err := h.bring(ref)
		if err == nil {
			i.Close()
		}
		var f *fault.Error
		if !errors.As(err, &f) || f.Reason != want || f.Message.ZH == "" || f.Message.EN == "" {
			t.Errorf("%s: %v, not %s", ref, err, want)
		}
	}
	for _, server := range []string{h.host, "https://" + h.host + "/v1/"} {
		i, err := Bring(t.Context(), h.dir, Want{Reference: h.host + "/private:1", Owner: 8, Accounts: []api.RegistryCredential{
			{Server: "elsewhere.example", Username: "x", Password: "y"}, {Server: server, Username: "li", Password: "pass"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		i.Close()
	}
	// It is on the node now, and still nobody's who may not read it.
	if _, err := h.bring(h.host + "/private:1"); !fault.Is(err, fault.Forbidden) {
		t.Error(err)
	}
}

// TestDamaged: a layer that is not what its digest says is never laid out; the next try mends it.
func TestDamaged(t *testing.T) {
	h := newHall(t)
	ref := h.push("team/a:1", nil, layerOf(t, entry{name: "f", text: strings.Repeat("x", 100_000)}), layerOf(t, entry{name: "g", text: "1"}))
	for name, spoil := range map[string]func([]byte) []byte{
		"flipped": func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"short":   func(b []byte) []byte { return b[:len(b)/2] },
	} {
		bad := true
		h.guard = func(w http.ResponseWriter, r *http.Request) bool {
			if !bad || r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") || r.URL.RawQuery == "plain" {
				return true
			}
			back, err := http.Get("http://" + h.host + r.URL.Path + "?plain")
			if err != nil {
				t.Error(err)
				return true
			}
			defer back.Body.Close()
			body, err := io.ReadAll(back.Body)
			if err != nil {
				t.Error(err)
			}
			if !bytes.HasPrefix(body, []byte{'{'}) { // not the configuration
				body = spoil(body)
			}
			_, _ = w.Write(body)
			return false
		}
		if i, err := h.bring(ref); err == nil {
			i.Close()
			t.Errorf("%s: it was brought", name)
		}
		list, err := os.ReadDir(filepath.Join(h.dir, dirRoots))
		if err != nil || len(list) != 0 {
			t.Errorf("%s: %v %v", name, list, err)
		}
		bad = false
	}
	if i := h.must(ref); len(h.text(i, "f")) != 100_000 || h.text(i, "g") != "1" {
		t.Error("not mended")
	}
}

// TestRegistryAway: what a project had stays usable for it, and for nobody else.
func TestRegistryAway(t *testing.T) {
	h := newHall(t)
	ref := h.push("team/a:1", nil, layerOf(t, entry{name: "f", text: "1"}))
	first := h.must(ref)
	h.guard = func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return false
	}
	i, err := Bring(quick(t), h.dir, Want{Reference: ref, Owner: 7})
	if err != nil || i.Digest != first.Digest || i.Remembered == nil {
		t.Fatalf("%+v %v", i, err)
	}
	i.Close()
	if i, err = Bring(quick(t), h.dir, Want{Reference: ref, Owner: 8}); err == nil {
		i.Close()
		t.Error("another project got it")
	}
	if i, err = Bring(t.Context(), h.dir, Want{Reference: ref, Owner: 7, Known: true}); err != nil || i.Remembered != nil {
		t.Fatalf("%+v %v", i, err)
	}
	i.Close()
}

func quick(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// TestSilent: a registry that falls silent in the middle of a layer is an error that may pass, not a wait for ever.
func TestSilent(t *testing.T) {
	h := newHall(t)
	ref := h.push("team/a:1", nil, layerOf(t, entry{name: "f", text: "1"}))
	was := silence
	silence = 50 * time.Millisecond
	defer func() { silence = was }()
	release := make(chan struct{})
	h.guard = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") {
			return true
		}
		if h.gets.Load() == 1 { // the configuration
			return true
		}
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write(make([]byte, 10))
		w.(http.Flusher).Flush()
		<-release
		return false
	}
	i, err := h.bring(ref)
	if err == nil {
		i.Close()
		t.Error("it was brought")
	}
	var f *fault.Error
	if errors.As(err, &f) {
		t.Errorf("final: %v", err)
	}
	close(release)
	h.guard = nil
	silence = was
	if i := h.must(ref); h.text(i, "f") != "1" {
		t.Error("no f")
	}
}

// TestFullDisk: what would leave too little on the disk is refused before it is written.
func TestFullDisk(t *testing.T) {
	var kept bytes.Buffer
	room := &roomy{w: &kept, dir: t.TempDir()}
	if err := room.need(1 << 60); !fault.Is(err, fault.Full) {
		t.Error(err)
	}
	if _, err := room.Write([]byte("small")); err != nil || kept.String() != "small" {
		t.Errorf("%q %v", kept.String(), err)
	}
}

// TestMovedTag: a tag that stands for another image brings that one; the old one goes when nobody used it for long.
func TestMovedTag(t *testing.T) {
	h := newHall(t)
	ref := h.push("team/a:1", nil, layerOf(t, entry{name: "f", text: "1"}))
	old := h.must(ref)
	h.push("team/a:1", nil, layerOf(t, entry{name: "f", text: "2"}))
	i := h.must(ref)
	if h.text(i, "f") != "2" || h.text(old, "f") != "1" {
		t.Error("the wrong image")
	}
	later := time.Now().Add(keepUnused + time.Hour)
	collect(h.dir, later)
	if h.text(i, "f") != "2" || h.text(old, "f") != "1" {
		t.Error("one in use was removed")
	}
	old.Close()
	collect(h.dir, later)
	if h.text(i, "f") != "2" || h.text(old, "f") != "none" {
		t.Error("it was kept, or the wrong one went")
	}
	if h.must(fmt.Sprintf("%s/team/a@%s", h.host, old.Digest)); h.text(old, "f") != "1" {
		t.Error("it does not come back")
	}
}

// TestLeftovers: what a killed launcher left half-made is no image and does not disturb.
func TestLeftovers(t *testing.T) {
	h := newHall(t)
	ref := h.push("team/a:1", nil, layerOf(t, entry{name: "f", text: "1"}))
	i, err := h.bring(ref)
	if err != nil {
		t.Fatal(err)
	}
	i.Close()
	place := filepath.Dir(i.Root)
	half := filepath.Join(filepath.Dir(place), ".new-"+filepath.Base(place))
	if err := errors.Join(os.Rename(place, half), os.Remove(filepath.Join(half, dirRoot, "f")), os.WriteFile(filepath.Join(half, dirRoot, "junk"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if i := h.must(ref); h.text(i, "f") != "1" || h.text(i, "junk") != "none" {
		t.Error("half of one was used")
	}
}

// FuzzLayer: no layer makes us write outside, whatever its bytes are.
func FuzzLayer(f *testing.F) {
	f.Add([]byte("f\x00-> ../x\x00.wh.y"))
	f.Fuzz(func(t *testing.T, names []byte) {
		dir := t.TempDir()
		root, blob := filepath.Join(dir, "a", "b", "root"), filepath.Join(dir, "a", "blob")
		if err := os.MkdirAll(root, 0o755); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		parts := strings.Split(string(names), "\x00")
		for i, part := range parts {
			h := &tar.Header{Name: part, Mode: 0o644, Typeflag: tar.TypeReg}
			if target, ok := strings.CutPrefix(part, "-> "); ok {
				h.Name, h.Linkname, h.Typeflag = fmt.Sprint("l", i), target, tar.TypeSymlink
			} else if target, ok := strings.CutPrefix(part, "=> "); ok {
				h.Name, h.Linkname, h.Typeflag = fmt.Sprint("h", i), target, tar.TypeLink
			}
			if w.WriteHeader(h) != nil {
				return
			}
		}
		_ = w.Close()
		if err := os.WriteFile(blob, append(b.Bytes(), names...), 0o600); err != nil {
			t.Fatal(err)
		}
		_ = layOne(t.Context(), blob, root, func(h *tar.Header) (bool, error) { return tame(h), nil })
		for at, want := range map[string]int{dir: 1, filepath.Join(dir, "a"): 2, filepath.Join(dir, "a", "b"): 1} {
			if list, err := os.ReadDir(at); err != nil || len(list) != want {
				t.Fatalf("%s: %v %v", at, list, err)
			}
		}
	})
}
