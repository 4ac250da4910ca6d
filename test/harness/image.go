package harness

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/crypto/bcrypt"
)

// Registry is a registry of images behind an account. Where FERMI_REGISTRY names the program of docker's
// (make e2e-images installs it) it is that one, otherwise go-containerregistry's, which keeps all in memory.
type Registry struct {
	Host, User, Password string
	// Stop ends it.
	Stop func()
}

// NewRegistry starts one.
func NewRegistry(t testing.TB) *Registry {
	t.Helper()
	r := &Registry{User: "li", Password: "image-pass-word"}
	program := os.Getenv("FERMI_REGISTRY")
	if program == "" {
		images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
		server := ServeOutside(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if user, password, _ := q.BasicAuth(); user != r.User || password != r.Password {
				w.Header().Set("WWW-Authenticate", `Basic realm="images"`)
				http.Error(w, "no", http.StatusUnauthorized)
				return
			}
			images.ServeHTTP(w, q)
		}))
		r.Host, r.Stop = strings.TrimPrefix(server.URL, "http://"), server.Close
		return r
	}
	dir := t.TempDir()
	hash, err := bcrypt.GenerateFromPassword([]byte(r.Password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = OutsideAddress(t)
	config := fmt.Sprintf(`version: 0.1
log: {level: warn}
storage: {filesystem: {rootdirectory: %q}}
http: {addr: %q}
auth: {htpasswd: {realm: images, path: %q}}
`, filepath.Join(dir, "data"), r.Host, filepath.Join(dir, "accounts"))
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "accounts"), fmt.Appendf(nil, "%s:%s\n", r.User, hash), 0o600),
		os.WriteFile(filepath.Join(dir, "config.yml"), []byte(config), 0o600)); err != nil {
		t.Fatal(err)
	}
	var words bytes.Buffer
	cmd := exec.Command(program, "serve", filepath.Join(dir, "config.yml"))
	cmd.Stdout, cmd.Stderr = &words, &words
	DoOutside(t, func(string) error { return cmd.Start() })
	r.Stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(func() {
		r.Stop()
		if t.Failed() {
			t.Logf("registry: %s", words.String())
		}
	})
	Eventually(t, "the registry answers", func() bool {
		conn, err := net.Dial("tcp", r.Host)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return r
}

// Push makes an image of layers and gives its whole name.
func (r *Registry) Push(t testing.TB, ref string, env []string, layers ...map[string]string) string {
	t.Helper()
	image := empty.Image
	for _, files := range layers {
		data := layerOf(t, files)
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }, tarball.WithCompressionLevel(gzip.BestSpeed))
		if err != nil {
			t.Fatal(err)
		}
		if image, err = mutate.AppendLayers(image, layer); err != nil {
			t.Fatal(err)
		}
	}
	return r.push(t, ref, image, v1.Config{Env: env})
}

// PushArchive makes an image of one layer, an archive in a file.
func (r *Registry) PushArchive(t testing.TB, ref, file string, config v1.Config) string {
	t.Helper()
	layer, err := tarball.LayerFromFile(file, tarball.WithCompressionLevel(gzip.BestSpeed))
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	return r.push(t, ref, image, config)
}

func (r *Registry) push(t testing.TB, ref string, image v1.Image, what v1.Config) string {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config = "linux", runtime.GOARCH, what
	if image, err = mutate.ConfigFile(image, config); err != nil {
		t.Fatal(err)
	}
	at, err := name.ParseReference(r.Host + "/" + ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(at, image, remote.WithAuth(&authn.Basic{Username: r.User, Password: r.Password})); err != nil {
		t.Fatal(err)
	}
	return at.Name()
}

// layerOf is an archive: place → file of this machine, or "=" and its text.
func layerOf(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for at, file := range files {
		text, plain := strings.CutPrefix(file, "=")
		data := []byte(text)
		if !plain {
			var err error
			if data, err = os.ReadFile(file); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(at, "/"), Mode: 0o755, Size: int64(len(data)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var library = regexp.MustCompile(`(?m)(/\S+) \(0x`)

// Python is a layer with this machine's interpreter, its own library, and what they are linked to; and where
// it is there.
func Python(t testing.TB) (files map[string]string, program string) {
	t.Helper()
	out, err := exec.Command("python3", "-c", "import os,sys,sysconfig; print(os.path.realpath(sys.executable)); print(sysconfig.get_path('stdlib'))").Output()
	if err != nil {
		t.Fatal("python3:", err)
	}
	lines := strings.Fields(string(out))
	program, folder := lines[0], lines[1]
	files = map[string]string{program: program}
	linked := []string{program}
	err = filepath.WalkDir(folder, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && slices.Contains([]string{"__pycache__", "site-packages", "dist-packages", "test", "idlelib", "tkinter", "ensurepip", "config-3.11-x86_64-linux-gnu"}, d.Name()) {
			return fs.SkipDir
		}
		if err == nil && d.Type().IsRegular() {
			files[p] = p
			if filepath.Base(filepath.Dir(p)) == "lib-dynload" {
				linked = append(linked, p)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	needs, err := exec.Command("ldd", linked...).Output()
	if err != nil && len(needs) == 0 {
		t.Fatal("ldd:", err)
	}
	for _, m := range library.FindAllSubmatch(needs, -1) {
		files[string(m[1])] = string(m[1])
		if filepath.Base(string(m[1])) != "libc.so.6" {
			continue
		}
		for _, part := range []string{"libdl.so.2", "libpthread.so.0", "librt.so.1"} { // that older programs are linked to
			if file := filepath.Join(filepath.Dir(string(m[1])), part); exists(file) {
				files[file] = file
			}
		}
	}
	return files, program
}

// Programs is a layer that makes a small system: programs of this machine in /bin, and the libraries that they are linked to.
func Programs(t testing.TB, names ...string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, name := range names {
		at, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		files["/bin/"+name] = at
		needs, err := exec.Command("ldd", at).Output()
		if err != nil {
			t.Fatal("programs are not linked to libraries here:", err)
		}
		for _, m := range library.FindAllSubmatch(needs, -1) {
			files[string(m[1])] = string(m[1])
		}
	}
	return files
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
