package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/test/harness"
)

// owners is who owns what of the platform's files that stay, and its mode.
func owners(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range []string{"", "admin.token", "secret.key", "link.key", "engine", "engine/replicas", "blobs", "etcd"} {
		var st syscall.Stat_t
		if err := syscall.Lstat(filepath.Join(dir, name), &st); err == nil {
			out[name] = fmt.Sprintf("%o %d:%d", st.Mode, st.Uid, st.Gid)
		}
	}
	if len(out) < 4 {
		t.Fatalf("only %v in %s", out, dir)
	}
	return out
}

// TestFolderAttacks: a member names the folder around the platform's own, in every way, to have it given away or read. Nothing of it changes hands, and its secrets appear nowhere.
func TestFolderAttacks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root has anything to give away")
	}
	shared := harness.Folder(t)
	w := up(t, "--demo", "--checkpoints-store", t.TempDir())
	if err := harness.Share(t.Context(), w.api); err != nil {
		t.Fatal(err)
	}
	before := owners(t, w.Dir)
	around, data := filepath.Dir(w.Dir), filepath.Base(w.Dir)
	attack := func(name, folder, checkpoints, script string) *api.TrainingTask {
		task := shell(name, 1, script)
		task.Spec.Code = &api.Code{Folder: folder}
		if checkpoints != "" {
			task.Spec.Checkpoint = &api.Checkpoints{Folder: checkpoints}
		}
		return task
	}
	for _, folder := range []string{around, w.Dir, "/", filepath.Join(w.Dir, "engine")} {
		if _, err := w.api.Submit(t.Context(), attack("direct", folder, data, "true"), false); fault.ReasonOf(err) != api.ReasonFolderNotAllowed {
			t.Errorf("%s: %v", folder, err)
		}
	}
	spy := fmt.Sprintf("mkdir -p ckpt; ls -laR . %[1]s; cat %[1]s/%[2]s/admin.token %[2]s/admin.token ckpt/admin.token d/admin.token; cp -r %[2]s ckpt $FERMI_OUTPUT/; ln -s %[1]s/%[2]s/admin.token $FERMI_OUTPUT/token; sleep 1; true", around, data)
	for name, link := range map[string]string{"out": around, "in": w.Dir, "up": "../../.." + around} {
		if err := os.Symlink(link, filepath.Join(shared, name)); err != nil {
			t.Fatal(err)
		}
		own := filepath.Join(shared, "own-"+name) // a folder of the tenant's whose folder of checkpoints is a link
		if err := os.Mkdir(own, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(link, filepath.Join(own, "ckpt")); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(own, 0o777); err != nil {
			t.Fatal(err)
		}
		for _, task := range []*api.TrainingTask{attack("a-"+name, filepath.Join(shared, name), data, spy), attack("b-"+name, own, "ckpt", spy), attack("c-"+name, own, "ckpt/"+data, spy)} {
			w.submit(task)
			w.until(task.Meta.Name, "over", func(t *api.TrainingTask) bool { return t.Status.Phase.Finished() })
			if logs := w.must("logs", task.Meta.Name); strings.Contains(logs, secretOf(t, w.Dir)) {
				t.Errorf("%s: the token is in the log", task.Meta.Name)
			}
		}
	}
	after := owners(t, w.Dir)
	for name, was := range before {
		if after[name] != was {
			t.Errorf("%q was %s and is %s", name, was, after[name])
		}
	}
	canary := secretOf(t, w.Dir)
	for _, dir := range []string{filepath.Join(w.Dir, "blobs"), filepath.Join(w.Dir, "checkpoints"), shared} {
		err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // nothing was stored there
			}
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			if raw, err := os.ReadFile(p); err == nil && strings.Contains(string(raw), canary) {
				t.Errorf("the token is in %s", p)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// secretOf is what must appear nowhere.
func secretOf(t *testing.T, dir string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(raw))
}
