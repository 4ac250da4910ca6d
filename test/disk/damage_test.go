package disk

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

// TestDamage flips bytes of, and cuts, files of a data folder at rest and of a backup, one at a time: each is named at the
// start, or what was acknowledged is there as it was and tasks can be deleted.
func TestDamage(t *testing.T) {
	w := newWorld(t, nil)
	w.Args = []string{"--archive-after", "1s"}
	w.up()
	want := strings.Repeat("0123456789abcdef", 10_000)
	for _, name := range []string{"one", "two"} {
		w.submit(shell(name, `i=0; while [ $i -lt 10000 ]; do printf 0123456789abcdef; i=$((i+1)); done > $FERMI_OUTPUT/f; echo said by $FERMI_REPLICA`))
		w.phase(name, api.PhaseCompleted)
	}
	backup := filepath.Join(filepath.Dir(w.Dir), "backup.tar")
	if out, err := w.fermi("backup", backup); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}
	whole := w.Dir + ".whole"
	if err := os.Rename(w.Dir, whole); err != nil {
		t.Fatal(err)
	}
	n, seed := harness.EnvInt("FERMI_DAMAGES", 12), harness.EnvInt("FERMI_DISK_SEED", 1)
	files := candidates(t, whole)
	w.Token = w.tokenIn(whole) // whoever has it goes on with it, whatever becomes of the file
	for i := range n {
		rng := rand.New(rand.NewPCG(uint64(seed), uint64(i)))
		name := files[rng.IntN(len(files))]
		copyFolder(t, whole, w.Dir)
		what := damage(t, filepath.Join(w.Dir, name), rng)
		w.survives(fmt.Sprintf("seed %d, damage %d: %s of %s", seed, i, what, name), name, want)
	}
	raw, err := os.ReadFile(backup)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		rng := rand.New(rand.NewPCG(uint64(seed), uint64(1_000_000+i)))
		if err := os.WriteFile(backup, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		what := damage(t, backup, rng)
		out, err := w.fermi("backup", "verify", backup)
		if err != nil && !strings.Contains(out, "backup") {
			t.Errorf("damage %d, %s: not named: %s", i, what, out)
		}
		if err == nil && i%4 == 0 { // harmless by its word: then it is
			fresh := fmt.Sprint(w.Dir, ".fresh", i)
			if out, err := w.fermi("restore", backup, "--data", fresh); err != nil {
				t.Errorf("damage %d, %s: whole, and not restored: %s", i, what, out)
			}
		}
	}
}

// survives starts a server on a damaged folder.
func (w *world) survives(what, file, want string) {
	t := w.t
	t.Helper()
	begin := logSize(w)
	if err := w.Spawn(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(harness.Patience)
	for !strings.Contains(w.ready(), `"code":200`) {
		select {
		case <-w.Ended():
			if said := logFrom(w, begin); !strings.Contains(said, "error: ") {
				t.Errorf("%s: it ended without a word: %s", what, said)
			}
			return
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: neither ready nor ended", what)
		}
	}
	defer func() {
		if err := w.Stop(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}()
	var err error
	if w.api, err = w.Client(); err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	for _, name := range []string{"one", "two"} {
		o, err := w.api.Get(t.Context(), api.KindTrainingTask, "default", name)
		if err != nil {
			t.Errorf("%s: a task is lost: %v", what, err)
			continue
		}
		if p := o.(*api.TrainingTask).Status.Phase; p != api.PhaseCompleted {
			t.Errorf("%s: %s is %s", what, name, p)
		}
		if got, err := w.output(t.Context(), name, "worker-0/f"); err == nil && string(got) != want {
			t.Errorf("%s: a wrong output was delivered", what)
		} else if err != nil && !strings.Contains(file, "outputs/") && !strings.Contains(file, "sums/") {
			t.Errorf("%s: %v", what, err)
		}
		var log bytes.Buffer
		err = w.api.Logs(t.Context(), "default", name, client.LogOptions{}, func(l client.LogLine) error {
			_, err := fmt.Fprintln(&log, l.Text)
			return err
		})
		if err == nil && log.Len() > 0 && !strings.Contains(log.String(), "said by "+o.GetMeta().ID) && !strings.Contains(log.String(), "[fermi] log chunk") {
			t.Errorf("%s: a wrong log was delivered: %q", what, log.String())
		}
	}
	if err := w.api.Delete(t.Context(), api.KindTrainingTask, "default", "one"); err != nil {
		t.Errorf("%s: delete: %v", what, err)
	}
}

func logSize(w *world) int64 {
	info, err := os.Stat(filepath.Join(filepath.Dir(w.Dir), "log"))
	if err != nil {
		return 0
	}
	return info.Size()
}

func logFrom(w *world, at int64) string {
	raw, _ := os.ReadFile(filepath.Join(filepath.Dir(w.Dir), "log"))
	return string(raw[min(at, int64(len(raw))):])
}

// candidates are the files of a folder that hold something.
func candidates(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.Contains(path, "/ballast/") {
			return err
		}
		if info, err := d.Info(); err == nil && info.Size() > 0 {
			rel, _ := filepath.Rel(dir, path)
			out = append(out, rel)
		}
		return nil
	})
	if err != nil || len(out) == 0 {
		t.Fatal(err, len(out))
	}
	return out
}

func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-a", "--sparse=always", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
}

// damage flips a byte, or cuts the file.
func damage(t *testing.T, path string, rng *rand.Rand) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at, what := rng.IntN(len(raw)), "flip"
	if rng.IntN(3) == 0 {
		raw, what = raw[:at], "cut"
	} else {
		raw[at] ^= byte(1 + rng.IntN(255))
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s at %d", what, at)
}
