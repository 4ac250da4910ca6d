package e2e

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

// smallDisk is a server that has not started; mount puts its folder, or sub in it, on a disk of its own.
func smallDisk(t *testing.T, sub string) (w *world, mount func(size string)) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting a small disk needs root")
	}
	bin, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	c, err := harness.New(bin, "up", "--demo")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(c.Dir, sub)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.LogTail())
		}
		c.Kill()
		_ = syscall.Unmount(dir, syscall.MNT_DETACH)
		c.Cleanup()
	})
	return &world{Cluster: c, t: t}, func(size string) {
		t.Helper()
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size="+size); err != nil {
			t.Skip("can't mount a small disk here:", err)
		}
	}
}

// TestDiskFillsDuringUpload: a code archive that does not fit is refused in words of both languages, the
// outputs of a task wait for room, and in neither case anything half is seen or stays.
func TestDiskFillsDuringUpload(t *testing.T) {
	w, mount := smallDisk(t, "blobs")
	blobs := filepath.Join(w.Dir, "blobs")
	w.start() // makes the folder
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}
	mount("16m")
	w.start()
	for lang, sentence := range map[string]string{"en": "The disk of the object store is full.", "zh": "对象存储所在磁盘已满。"} {
		status, answer := w.upload(32<<20, lang)
		if status != http.StatusInsufficientStorage || !strings.Contains(answer, sentence) || !strings.Contains(answer, `"reason":"DiskFull"`) {
			t.Errorf("%s: %d %s", lang, status, answer)
		}
	}
	left := append(files(t, blobs, "objects"), files(t, blobs, "tmp")...)
	left = slices.DeleteFunc(left, func(f string) bool { // the server's own notes
		return strings.HasSuffix(f, "/granted/archives.complete") || strings.Contains(f, "/objects/usage/")
	})
	if len(left) > 0 {
		t.Errorf("left of refused uploads: %v", left)
	}
	if status, answer := w.upload(8<<20, "en"); status != http.StatusOK {
		t.Errorf("what fits is not taken: %d %s", status, answer)
	}

	const size = 20 << 20
	w.submit(shell("big", 1, "head -c 20971520 /dev/zero > $FERMI_OUTPUT/big"))
	harness.Eventually(t, "an upload of the output was refused", func() bool { return strings.Contains(launcherLogs(t, w.Dir), "DiskFull") })
	if seen := w.outputs("big"); len(seen) > 0 {
		t.Errorf("half an output is seen: %+v", seen)
	}
	if err := syscall.Mount("tmpfs", blobs, "tmpfs", syscall.MS_REMOUNT, "size=200m,mode=0700"); err != nil {
		t.Fatal(err)
	}
	w.phase("big", api.PhaseCompleted)
	harness.Eventually(t, "the output arrived", func() bool { return len(w.outputs("big")) > 0 })
	if got := w.outputs("big"); got[0].Size != size {
		t.Errorf("the output has %d bytes, not %d", got[0].Size, size)
	}
	harness.Eventually(t, "no temporary file stays", func() bool { return len(files(t, blobs, "tmp")) == 0 })
}

func (w *world) outputs(task string) []client.Output {
	w.t.Helper()
	found, err := w.api.Outputs(w.t.Context(), "default", task)
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

// upload sends an archive of random bytes, which nothing can make smaller.
func (w *world) upload(size int, lang string) (int, string) {
	w.t.Helper()
	data := make([]byte, size)
	chacha := rand.NewChaCha8([32]byte{byte(size >> 20)})
	_, _ = chacha.Read(data)
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, "http://"+w.Addr+"/api/v1/archives", bytes.NewReader(data))
	if err != nil {
		w.t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(w.Dir, "admin.token"))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	req.Header.Set("Accept-Language", lang)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

// files are the regular files under a folder of the store.
func files(t *testing.T, dir, under string) []string {
	t.Helper()
	var out []string
	_ = filepath.WalkDir(filepath.Join(dir, under), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			out = append(out, path)
		}
		return nil
	})
	return out
}

// launcherLogs are what the launchers of a data folder said.
func launcherLogs(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	for _, path := range files(t, dir, "engine") {
		if strings.Contains(filepath.Base(path), "log") {
			text, _ := os.ReadFile(path)
			all.Write(text)
		}
	}
	return all.String()
}
