package launch

import (
	"archive/tar"
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/launch/rootfs"
)

// withImage makes a walled replica one that runs in an image, of which the node's folder is w.dir/images.
func (w *world) withImage(image string, change func(*engine.Replica), command ...string) *replica {
	w.t.Helper()
	r := w.walled(func(s *engine.Replica) {
		s.Image = image
		if change != nil {
			change(s)
		}
	}, command...)
	if err := record.Write(r.dir, record.FileEndpoint, record.Link{
		Endpoints: filepath.Join(w.dir, "endpoints"), Tenant: record.Tenant{UID: testUID, Hide: []string{w.dir}}, Images: filepath.Join(w.dir, "images"), ImageUID: testUID + 1, Folders: r.granted(),
	}); err != nil {
		w.t.Fatal(err)
	}
	return r
}

// shellImage pushes an image with this machine's shell and a few programs to a registry, and gives its name.
func shellImage(t *testing.T, more map[string]string) string {
	t.Helper()
	return shellImageThat(t, more, v1.Config{})
}

// shellImageThat says more of itself.
func shellImageThat(t *testing.T, more map[string]string, says v1.Config) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	files := map[string]string{}
	for _, program := range []string{"sh", "ls", "cat", "id", "touch", "grep", "tr", "wc", "df", "tail", "mkdir", "chown", "chmod", "mknod", "mount", "stat", "rm", "sleep"} {
		at, err := exec.LookPath(program)
		if err != nil {
			t.Fatal(err)
		}
		files["/bin/"+program] = at
		needs, err := exec.Command("ldd", at).Output()
		if err != nil {
			t.Fatal("whose libraries a program needs:", err)
		}
		for _, m := range regexp.MustCompile(`(?m)(/\S+) \(0x`).FindAllSubmatch(needs, -1) {
			files[string(m[1])] = string(m[1])
		}
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(h *tar.Header, data []byte) {
		h.Name, h.Size = strings.TrimPrefix(h.Name, "/"), int64(len(data))
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	for at, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		add(&tar.Header{Name: at, Mode: 0o755, Typeflag: tar.TypeReg}, data)
	}
	for at, text := range more {
		if target, link := strings.CutPrefix(text, "-> "); link {
			add(&tar.Header{Name: at, Mode: 0o777, Typeflag: tar.TypeSymlink, Linkname: target}, nil)
			continue
		}
		add(&tar.Header{Name: at, Mode: 0o666, Typeflag: tar.TypeReg}, []byte(text))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config = "linux", runtime.GOARCH, says
	config.Config.Env = []string{"PATH=/bin", "FROM=image", "FERMI_TASK=image", "BOTH=image"}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/team/shell:v1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, image); err != nil {
		t.Fatal(err)
	}
	return ref.Name()
}

// TestInAnImage looks from inside: the image's files and environment, the replica's own folders, and nothing of the machine.
func TestInAnImage(t *testing.T) {
	w := newWorld(t)
	folder := t.TempDir() // below /tmp, which is private there
	if err := os.Chmod(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	for dir := filepath.Dir(folder); dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	image := shellImage(t, map[string]string{
		"/etc/whose": "the image's", "/open/file": "x", "/etc/hosts": "-> /etc/whose", "/var/tmp": "-> /etc", "/etc/os-release": "ID=mine\n",
		filepath.Dir(w.dir): "-> /etc", // on the way to what is bound
	})
	r := w.withImage(image, func(s *engine.Replica) {
		s.Preflight = true
		s.Env = []api.EnvVar{{Name: "BOTH", Value: "user"}}
		s.Code = &api.Code{Folder: folder}
		s.Resources = api.Resources{SharedMemory: 8 << 20}
	}, "sh", "-c", `
		cat /etc/whose; echo
		echo "env $FROM $BOTH $FERMI_TASK $PATH"
		echo "id $(id -u):$(id -g):$(id -G)"
		grep -E '^(NoNewPrivs|CapEff)' /proc/self/status | tr -d '\t'
		echo "pids $(ls -d /proc/[0-9]* | wc -l)"
		echo "root $(ls / | tr '\n' ' ')"
		echo "etc $(ls /etc | tr '\n' ' ')"
		touch $HOME/x /tmp/y /var/tmp/z "$TMPDIR/w" /dev/shm/s here && echo kept > $FERMI_OUTPUT/f && echo written
		touch /etc/x 2>&1; (echo y > /open/file) 2>&1; cat /open/file; echo
		echo "shm $(df --output=size -B1 /dev/shm | tail -1 | tr -d ' ')"
		cat $FERMI_HP_FILE
		exit 3`)
	if exit := r.run(); exit.Code != 3 || exit.Reason != engine.ReasonNonZero {
		t.Errorf("exit: %+v", exit)
	}
	got := strings.Join(r.lines(), "\n")
	for _, want := range []string{
		"the image's", "env image user " + r.spec.Task + " /bin", "id 64991:64991:64991", "NoNewPrivs:1", "CapEff:0000000000000000", "O:written", "Read-only file system",
		"shm 8388608", "image " + image + " is sha256:",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if !strings.Contains(got, "\nO:x\n") || strings.Contains(got, "\nO:y\n") {
		t.Errorf("the image was written to:\n%s", got)
	}
	_, etc, _ := strings.Cut(got, "O:etc ")
	etc, _, _ = strings.Cut(etc, "\n")
	for _, name := range strings.Fields(etc) {
		if !slices.Contains([]string{"hosts", "hostname", "resolv.conf", "whose", "os-release"}, name) {
			t.Errorf("/etc/%s is the machine's", name)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "here")); err != nil {
		t.Error("the code folder is another:", err)
	}
}

// TestNoImage: what can't be had is said, and nothing is started.
func TestNoImage(t *testing.T) {
	w := newWorld(t)
	r := w.withImage(strings.Replace(shellImage(t, nil), ":v1", ":v2", 1), nil, "sh", "-c", "echo started")
	exit := r.run()
	if exit.Reason != engine.ReasonStartFailed || !strings.Contains(exit.Message, "There is no image") || !strings.Contains(exit.Message, "镜像") {
		t.Errorf("%+v", exit)
	}
	if got := strings.Join(r.lines(), "\n"); strings.Contains(got, "started") {
		t.Error(got)
	}
}

// TestImageBeyondTheLimit: a project that may not have an image so large on this node is told the rule, and nothing is started; with
// a higher limit the image is charged to it.
func TestImageBeyondTheLimit(t *testing.T) {
	w := newWorld(t)
	image := shellImage(t, nil)
	images := filepath.Join(w.dir, "images")
	run := func(most int64) (*replica, engine.Exit) {
		r := w.withImage(image, nil, "sh", "-c", "echo started")
		var ends record.Link
		if _, err := record.Read(r.dir, record.FileEndpoint, &ends); err != nil {
			t.Fatal(err)
		}
		ends.ImageMost = most
		if err := record.Write(r.dir, record.FileEndpoint, ends); err != nil {
			t.Fatal(err)
		}
		return r, r.run()
	}
	r, exit := run(64 << 10)
	if exit.Reason != engine.ReasonStartFailed || !strings.Contains(exit.Message, "may have at most 64Ki of images on a node") || !strings.Contains(exit.Message, "--max-images") || !strings.Contains(exit.Message, "镜像上限") {
		t.Errorf("%+v", exit)
	}
	if got := strings.Join(r.lines(), "\n"); strings.Contains(got, "started") {
		t.Error(got)
	}
	if n := rootfs.Charged(images, testUID); n != 0 {
		t.Errorf("%d bytes are charged", n)
	}
	r, exit = run(1 << 30)
	if got := strings.Join(r.lines(), "\n"); !strings.Contains(got, "started") {
		t.Errorf("%+v: %s", exit, got)
	}
	if n := rootfs.Charged(images, testUID); n < 1<<20 {
		t.Errorf("%d bytes are charged", n)
	}
}

// TestImageWithoutWalls: an ordinary user can't build what an image needs, and says so.
func TestImageWithoutWalls(t *testing.T) {
	w := newWorld(t)
	r := w.replica(func(s *engine.Replica) { s.Image = "team/x:v1" }, "sh", "-c", "echo started")
	if exit := r.run(); exit.Reason != engine.ReasonStartFailed || !strings.Contains(exit.Message, "run Fermi as root") {
		t.Errorf("%+v", exit)
	}
}
