package crash

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/image"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/app/kinds"
	"github.com/fermi-cluster/fermi/test/harness"
)

// A construction is a build as the test knows it.
type construction struct {
	name, tag string
	end       string // true or false: what its last step comes to
	acked     bool   // the server said that it is there
	stop      bool   // somebody asked for its end, answered or not
}

// builders are what makes builds, and looks at what came of them.
type builders struct {
	t    *testing.T
	c    *harness.Cluster
	cl   *client.Client
	hub  *harness.Registry
	base string
	code string
	all  []*construction
}

// The label and the file say whose build it is: whatever is in the registry, it can be told apart.
const recipe = `ARG BASE
FROM $BASE
ARG N
ARG PAUSE
ARG END
RUN echo "$N" > /made && sleep "$PAUSE" && "$END"
LABEL n=$N
`

// TestCrashBuilds kills the server at random moments of builds that wait, run, push and are stopped. Whatever the moment: each build that was
// acknowledged is there once and ran once, it is finished, or has ended with a reason, the registry holds what its status says, and nothing of it is
// left but the project's cache, in which nothing half-made lies.
func TestCrashBuilds(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("images are built by root's walls")
	}
	if _, err := exec.LookPath("buildah"); err != nil {
		t.Fatal("no buildah: make e2e-crash installs it")
	}
	kinds.Ship()
	kinds.ShipImages()
	rnd := seeded(t)
	c, cl := launch(t, "up")
	b := &builders{t: t, c: c, cl: cl, hub: harness.NewRegistry(t)}
	b.base = b.hub.Push(t, "lab/base:v1", []string{"PATH=/bin"}, harness.Programs(t, "sh", "sleep", "true", "false"))
	b.prepare()
	for range envInt("FERMI_CRASH_ROUNDS", 3) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		own := rand.New(rand.NewPCG(rnd.Uint64(), 3)) // beside the test, which goes on with its own
		go func() {
			defer close(done)
			b.ask(ctx, own)
		}()
		pause(rnd, 5*time.Second)
		c.Kill()
		cancel()
		<-done
		start(t, c)
	}
	b.settle()
	last := b.create(t.Context(), "0", "true") // after all others: it clears away what stopped ones left in the cache
	if !last.acked {
		t.Fatal("the last build was not taken")
	}
	stays := b.settle()
	ends := map[string]int{}
	for _, one := range b.all {
		ends[b.check(one, stays)]++
	}
	b.nothingLeft(stays)
	t.Logf("%d builds asked for: %v", len(b.all), ends)
	if ends["Completed"] < 2 || len(b.all) < 3 {
		t.Error("hardly anything was built: the test proves nothing")
	}
}

// prepare waits for a node, and gives the project code and an account.
func (b *builders) prepare() {
	var body bytes.Buffer
	zip := gzip.NewWriter(&body)
	pack := tar.NewWriter(zip)
	err := pack.WriteHeader(&tar.Header{Name: "Dockerfile", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(recipe))})
	if err == nil {
		_, err = pack.Write([]byte(recipe))
	}
	if err = errors.Join(err, pack.Close(), zip.Close()); err != nil {
		b.t.Fatal(err)
	}
	archive, err := b.cl.PutArchive(b.t.Context(), bytes.NewReader(body.Bytes()), int64(body.Len()))
	if err != nil {
		b.t.Fatal(err)
	}
	b.code = archive.Digest
	if _, err := b.cl.Create(b.t.Context(), &api.Secret{Meta: api.Meta{Name: "hub", Project: api.DefaultProject}, Spec: api.SecretSpec{
		Type: api.SecretRegistry, Data: map[string]string{api.KeyServer: b.hub.Host, api.KeyUsername: b.hub.User, api.KeyPassword: b.hub.Password},
	}}, false); err != nil {
		b.t.Fatal(err)
	}
}

// ask asks for builds, and that some of them end, until the server is gone. A few wait at a time.
func (b *builders) ask(ctx context.Context, rnd *rand.Rand) {
	open := 0
	_ = b.cl.Walk(ctx, image.JobKind, client.ListOptions{Limit: 500}, func(o api.Object) bool { // killed meanwhile: as if none were open
		if !o.(*image.ImageJob).Status.Phase.Finished() {
			open++
		}
		return true
	})
	for range 3 - open {
		end := "true"
		if rnd.IntN(4) == 0 {
			end = "false"
		}
		b.create(ctx, strconv.FormatFloat(rnd.Float64()*2, 'f', 2, 64), end)
	}
	for ctx.Err() == nil {
		pause(rnd, 2*time.Second)
		if len(b.all) == 0 {
			continue
		}
		if one := b.all[len(b.all)-1-rnd.IntN(min(3, len(b.all)))]; rnd.IntN(3) == 0 && one.acked {
			one.stop = true
			_ = client.Verb(ctx, b.cl, image.JobKind, "", one.name, "stop", nil) // answered or not, it may end
		}
	}
}

func (b *builders) create(ctx context.Context, pause, end string) *construction {
	n := strconv.Itoa(len(b.all) + 1)
	one := &construction{name: "b" + n, tag: b.hub.Host + "/lab/b" + n + ":v1", end: end}
	b.all = append(b.all, one)
	j := &image.ImageJob{Meta: api.Meta{Name: one.name}, Spec: image.ImageJobSpec{
		Do: image.Build, Image: one.tag, Code: &api.Code{Archive: b.code}, Credentials: []api.CredentialRef{{Secret: "hub"}},
		Build: &image.ImageRecipe{Args: map[string]string{"BASE": b.base, "N": n, "PAUSE": pause, "END": end}},
	}}
	j.Spec.Resources.CPU, j.Spec.Resources.Memory = 500, 256<<20
	_, err := client.Create(ctx, b.cl, j)
	one.acked = err == nil
	return one
}

// settle waits until all have ended, and says how often each is there.
func (b *builders) settle() map[string][]*image.ImageJob {
	b.t.Helper()
	var found map[string][]*image.ImageJob
	harness.Eventually(b.t, "all builds have ended", func() bool {
		found = map[string][]*image.ImageJob{}
		open := 0
		err := b.cl.Walk(b.t.Context(), image.JobKind, client.ListOptions{Limit: 500}, func(o api.Object) bool {
			j := o.(*image.ImageJob)
			found[j.Meta.Name] = append(found[j.Meta.Name], j)
			if !j.Status.Phase.Finished() {
				open++
			}
			return true
		})
		return err == nil && open == 0
	})
	return found
}

// check holds one against what is known of it, and says how it ended.
func (b *builders) check(one *construction, found map[string][]*image.ImageJob) string {
	b.t.Helper()
	jobs := found[one.name]
	if len(jobs) == 0 && !one.acked {
		if got := b.pushed(one); got != "" {
			b.t.Errorf("%s was never there, and pushed %s", one.name, got)
		}
		return "not there"
	}
	if len(jobs) != 1 {
		b.t.Errorf("%s is there %d times", one.name, len(jobs))
		return "lost"
	}
	j := jobs[0]
	s := j.Status
	if s.Attempt > 1 {
		b.t.Errorf("%s began %d times, and nobody killed its launcher: %+v", one.name, s.Attempt, s)
	}
	got := b.pushed(one)
	switch {
	case s.Phase == api.PhaseCompleted:
		if s.Found == nil || s.Found.Digest == "" || s.Found.Digest != got {
			b.t.Errorf("%s has pushed %+v, and its registry has %q", one.name, s.Found, got)
		}
		if one.end != "true" {
			b.t.Errorf("%s is completed, and its last step fails", one.name)
		}
	case s.Phase == api.PhaseStopped && one.stop: // whether it was in time shows; whole it is in any case
	case s.Phase == api.PhaseFailed && one.end == "false":
		if s.Reason == "" || !strings.Contains(s.Message.EN, "A step of the Dockerfile failed") || got != "" {
			b.t.Errorf("%s: %q %q, and its registry has %q", one.name, s.Reason, s.Message.EN, got)
		}
	default:
		b.t.Errorf("%s, whose last step is %s, stop %v: %s %s %q", one.name, one.end, one.stop, s.Phase, s.Reason, s.Message.EN)
	}
	return string(s.Phase)
}

// pushed is the digest under which its registry has it, whole and its own; "": it has nothing.
func (b *builders) pushed(one *construction) string {
	b.t.Helper()
	tag, err := name.NewTag(one.tag)
	if err != nil {
		b.t.Fatal(err)
	}
	var made v1.Image
	made, err = remote.Image(tag, remote.WithAuth(&authn.Basic{Username: b.hub.User, Password: b.hub.Password}))
	var told *transport.Error
	if errors.As(err, &told) && told.StatusCode == http.StatusNotFound {
		return ""
	}
	if err != nil {
		b.t.Fatal(err)
	}
	config, err := made.ConfigFile()
	if err == nil {
		err = validate.Image(made)
	}
	if err != nil {
		b.t.Errorf("%s is not whole: %v", one.tag, err)
	} else if n := config.Config.Labels["n"]; "b"+n != one.name {
		b.t.Errorf("%s is the image of build %q", one.tag, n)
	}
	digest, err := made.Digest()
	if err != nil {
		b.t.Fatal(err)
	}
	return digest.String()
}

// nothingLeft: no process, mount or folder of a build, and in the cache of the project no container and no layer that nobody knows.
func (b *builders) nothingLeft(found map[string][]*image.ImageJob) {
	b.t.Helper()
	var ids []string
	for _, jobs := range found {
		for _, j := range jobs {
			ids = append(ids, j.Meta.ID)
		}
	}
	harness.Eventually(b.t, "no folder of a build is left", func() bool {
		dirs, err := filepath.Glob(filepath.Join(b.c.Dir, "engine", "replicas", "imgjob-*"))
		return err == nil && len(dirs) == 0
	})
	harness.Eventually(b.t, "no process of a build is left", func() bool { return len(processesOf(ids)) == 0 })
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		b.t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, b.c.Dir) && strings.Contains(line, "imgjob-") {
			b.t.Errorf("a mount is left: %s", line)
		}
	}
	stores, err := filepath.Glob(filepath.Join(b.c.Dir, "engine", "homes", "*", "storage"))
	if err != nil || len(stores) == 0 {
		b.t.Fatalf("no cache of builds: %v %v", stores, err)
	}
	for _, store := range stores {
		out, err := exec.Command("buildah", "--root", store, "--runroot", b.t.TempDir(), "--storage-driver", "vfs", "containers", "--all", "--quiet").CombinedOutput()
		if err != nil || len(bytes.TrimSpace(out)) > 0 {
			b.t.Errorf("containers are left in the cache: %v %s", err, out)
		}
		known, err := os.ReadFile(filepath.Join(store, "vfs-layers", "layers.json"))
		if err != nil {
			b.t.Fatal(err)
		}
		layers, err := os.ReadDir(filepath.Join(store, "vfs", "dir"))
		if err != nil {
			b.t.Fatal(err)
		}
		for _, layer := range layers {
			if !bytes.Contains(known, []byte(layer.Name())) {
				b.t.Errorf("the layer %s is left in the cache, and nothing knows it", layer.Name())
			}
		}
	}
}

// processesOf are processes of builds, by their marks, and their launchers, by what they were started with.
func processesOf(ids []string) (left []string) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		environ, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err != nil {
			continue
		}
		line, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		for _, id := range ids {
			if bytes.Contains(environ, []byte("FERMI_REPLICA="+id)) || bytes.Contains(line, []byte(id)) {
				left = append(left, fmt.Sprintf("%s %s", e.Name(), line))
			}
		}
	}
	return left
}
