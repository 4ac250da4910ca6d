package disk

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

// world is a server whose folder lies on a disk of its own.
type world struct {
	*harness.Cluster
	t   *testing.T
	api *client.Client
}

func newWorld(t *testing.T, mount func(dir string)) *world {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting a disk needs root")
	}
	bin, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	c, err := harness.New(bin, "up")
	if err != nil {
		t.Fatal(err)
	}
	disk := c.Dir // what the server prints goes beside it
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.LogTail())
		}
		c.Kill()
		c.Cleanup()
		_ = syscall.Unmount(disk, syscall.MNT_DETACH)
		_ = os.RemoveAll(filepath.Dir(disk))
	})
	if mount != nil {
		mount(disk)
	}
	return &world{Cluster: c, t: t}
}

// memory mounts a file system in memory.
func memory(t *testing.T, options string) func(string) {
	return func(dir string) {
		t.Helper()
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
			t.Skip("can't mount a small disk here:", err)
		}
	}
}

func (w *world) up() {
	w.t.Helper()
	harness.Ready(w.t, w.Cluster)
	var err error
	if w.api, err = w.Client(); err != nil {
		w.t.Fatal(err)
	}
}

func shell(name, script string) *api.TrainingTask {
	return &api.TrainingTask{Meta: api.Meta{Name: name}, Spec: api.TrainingTaskSpec{Roles: []api.Role{{
		Name: "worker", Replicas: 1, Command: []string{"/bin/sh", "-c", script}, Resources: api.Resources{CPU: 100, Memory: 2 << 30},
	}}}}
}

func (w *world) submit(task *api.TrainingTask) {
	w.t.Helper()
	if _, err := w.api.Submit(w.t.Context(), task, false); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) phase(name string, want api.Phase) *api.TrainingTask {
	w.t.Helper()
	var task *api.TrainingTask
	harness.Eventually(w.t, fmt.Sprintf("%s is %s", name, want), func() bool {
		o, err := w.api.Get(w.t.Context(), api.KindTrainingTask, "default", name)
		if err != nil {
			return false
		}
		task = o.(*api.TrainingTask)
		return task.Status.Phase == want
	})
	return task
}

func (w *world) gone(name string) {
	w.t.Helper()
	harness.Eventually(w.t, name+" is deleted", func() bool {
		_, err := w.api.Get(w.t.Context(), api.KindTrainingTask, "default", name)
		return err != nil && strings.Contains(err.Error(), "NotFound") || fmt.Sprint(err) != "<nil>" && strings.Contains(fmt.Sprint(err), "does not exist")
	})
}

// ready is what /readyz answers; "" where nobody does.
func (w *world) ready() string {
	resp, err := http.Get("http://" + w.Addr + "/readyz")
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return string(body)
}

// fermi runs a command.
func (w *world) fermi(args ...string) (string, error) {
	cmd := exec.Command(w.Bin, args...)
	cmd.Env = append(os.Environ(), "FERMI_SERVER=http://"+w.Addr, "FERMI_TOKEN="+w.token(), "LANG=en_US.UTF-8")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (w *world) token() string { return w.tokenIn(w.Dir) }

func (*world) tokenIn(dir string) string {
	raw, _ := os.ReadFile(filepath.Join(dir, "admin.token"))
	return strings.TrimSpace(string(raw))
}

// output reads a file that a task left.
func (w *world) output(ctx context.Context, task, path string) ([]byte, error) {
	r, _, err := w.api.OpenOutput(ctx, "default", task, path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// fill writes a file until there is no room.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := bytes.Repeat([]byte{1}, 1<<20); len(block) >= 4096; {
		if _, err := f.Write(block); err != nil {
			block = block[:len(block)/16]
		}
	}
}
