package disk

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

// TestDamage flips bytes of, and cuts, files of a data folder at rest and of a backup, one at a time. Each is named, by whoever
// refuses to start or by the answer that it spoils, or it is harmless: then every answer is the one of before, what waited runs,
// and tasks can be deleted. All damages have numbers: FERMI_DAMAGES of them from FERMI_DAMAGES_FROM (0) on, of the folder and
// of the backup, so that a long run can be cut into parts.
func TestDamage(t *testing.T) {
	w := newWorld(t, nil)
	w.Args = []string{"--archive-after", "1s"}
	w.up()
	before := w.live()
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
	w.Token = w.tokenIn(whole) // whoever has it goes on with it, whatever becomes of the file
	n, first, seed := harness.EnvInt("FERMI_DAMAGES", 12), harness.EnvInt("FERMI_DAMAGES_FROM", 0), harness.EnvInt("FERMI_DISK_SEED", 1)
	t.Run("undamaged", func(t *testing.T) { // or nothing that is found below means anything
		copyFolder(t, whole, w.Dir)
		w.survives(t, "", before)
	})
	for i := first; i < first+n; i++ {
		t.Run(fmt.Sprintf("folder-%d", i), func(t *testing.T) { w.damaged(t, whole, seed, i, before) })
	}
	raw, err := os.ReadFile(backup)
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(whole, "secret.key")
	for i := first; i < first+n; i++ {
		t.Run(fmt.Sprintf("backup-%d", i), func(t *testing.T) { w.restores(t, backup, raw, key, seed, i, before) })
	}
}

// damaged is one damage of the folder: all files have their turn before one has its second.
func (w *world) damaged(t *testing.T, whole string, seed, i int, before picture) {
	files := candidates(t, whole)
	order := rand.New(rand.NewPCG(uint64(seed), uint64(i/len(files)))).Perm(len(files))
	name := files[order[i%len(files)]]
	copyFolder(t, whole, w.Dir)
	what := damage(t, filepath.Join(w.Dir, name), rand.New(rand.NewPCG(uint64(seed), uint64(i))))
	t.Logf("%s of %s", what, name)
	w.survives(t, name, before)
}

// restores is one damage of the backup: it is refused by name, or what is made of it is as it was.
func (w *world) restores(t *testing.T, backup string, raw []byte, key string, seed, i int, before picture) {
	if err := os.WriteFile(backup, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	what := damage(t, backup, rand.New(rand.NewPCG(uint64(seed), uint64(1_000_000+i))))
	t.Log(what)
	said, bad := w.fermi("backup", "verify", backup)
	if err := os.RemoveAll(w.Dir); err != nil {
		t.Fatal(err)
	}
	out, err := w.fermi("restore", backup, "--data", w.Dir, "--unfinished", "go-on", "--secret-key", key)
	if (bad == nil) != (err == nil) {
		t.Fatalf("verify says %v %s, and restore %v %s", bad, said, err, out)
	}
	if err != nil {
		for _, text := range []string{said, out} {
			if !strings.Contains(text, "error: ") || !strings.Contains(text, "backup") || strings.Contains(text, "panic") {
				t.Errorf("it is not named: %s", text)
			}
		}
		if _, err := os.Lstat(w.Dir); err == nil {
			t.Error("a folder was left")
		}
		return
	}
	w.survives(t, "backup.tar", before)
}

// survives starts a server on the folder, of which a file may be damaged, and judges.
func (w *world) survives(t *testing.T, file string, before picture) {
	t.Helper()
	begin := logSize(w)
	if err := w.Spawn(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(harness.Patience)
	for !strings.Contains(w.ready(), `"code":200`) {
		select {
		case <-w.Ended():
			if said := logFrom(w, begin); !names(said, file) || strings.Contains(said, "panic:") || strings.Contains(said, "goroutine ") {
				t.Errorf("it ended, and named nothing: %s", said)
			}
			return
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("neither ready nor ended: %s", logFrom(w, begin))
		}
	}
	defer func() {
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	}()
	var err error
	if w.api, err = w.Client(); err != nil {
		t.Fatal(err)
	}
	after := w.look(t.Context(), before.until)
	for _, question := range before.questions() {
		was, is := before.answers[question], after.answers[question]
		if was == is || spoiled(is, question, file) {
			continue
		}
		t.Errorf("%s\nwas %s\nis  %s\nserver: %s", question, short(was), short(is), logFrom(w, begin))
	}
	w.worksOn(t, file, begin)
}

// worksOn: what waited runs and leaves what it should, and tasks can be deleted.
func (w *world) worksOn(t *testing.T, file string, begin int64) {
	t.Helper()
	for _, o := range w.nodes(t) {
		if _, err := w.api.NodeVerb(t.Context(), "uncordon", o.GetMeta().Name, -1); err != nil {
			t.Errorf("uncordon: %v", err)
		}
	}
	var task *api.TrainingTask
	harness.Eventually(t, "what waited has ended", func() bool {
		o, err := w.api.Get(t.Context(), api.KindTrainingTask, "default", "waits")
		if err != nil {
			return false
		}
		task = o.(*api.TrainingTask)
		return task.Status.Phase.Finished()
	})
	if got, err := w.output(t.Context(), "waits", "worker-0/f"); task.Status.Phase != api.PhaseCompleted || err != nil || string(got) != "it ran\n" {
		if said := logFrom(w, begin); file == "" || !names(said, file) && !names(task.Status.Message.EN, file) {
			t.Errorf("what waited is %s, %q %v: %s; server: %s", task.Status.Phase, got, err, task.Status.Message.EN, said)
		}
	}
	for _, name := range []string{"one", "waits"} {
		if err := w.api.Delete(t.Context(), api.KindTrainingTask, "default", name); err != nil {
			t.Errorf("delete: %v", err)
		}
		w.gone(name)
	}
}

func (w *world) nodes(t *testing.T) []api.Object {
	t.Helper()
	list, err := w.api.List(t.Context(), api.KindNode, client.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// names says that somebody who reads this knows which file is meant: its name, or for what is inside the store the store's folder.
func names(text, file string) bool {
	if file == "" {
		return false
	}
	if strings.Contains(text, filepath.Base(file)) || strings.Contains(text, filepath.Dir(file)) && filepath.Dir(file) != "." {
		return true
	}
	return strings.HasPrefix(file, "etcd/") && strings.Contains(text, "/etcd")
}

// spoiled says that an answer names what it can't give, and that this is what lies in the damaged file: no answer about anything
// else may change.
func spoiled(answer, question, file string) bool {
	if !strings.HasPrefix(file, "blobs/") {
		return false
	}
	rest := strings.Split(strings.TrimPrefix(file, "blobs/objects/"), "/") // KIND/TASK/…, or sums/KIND/TASK/…
	about := func(kind string) bool { return slices.Contains(rest, kind) && strings.HasPrefix(question, kind+" ") }
	switch {
	case about("outputs") && !strings.Contains(question, ": "): // the list tells what lies there; who reads it is told
		return !strings.HasPrefix(answer, "error: ")
	case about("outputs"):
		return strings.HasPrefix(answer, "error: ") && strings.Contains(answer, "amaged")
	case about("logs"):
		return strings.Contains(answer, "[fermi] log chunk") && !strings.HasPrefix(answer, "error: ")
	case about("checkpoints"):
		return strings.Contains(answer, "amaged")
	}
	return false
}

func short(s string) string {
	if len(s) > 1500 {
		return s[:1500] + "…"
	}
	return s
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

// candidates are the files of a folder that hold something, in order.
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

// damage flips a byte, or cuts the file: mostly where something is written, for logs of databases are long and empty.
func damage(t *testing.T, path string, rng *rand.Rand) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	defer os.Chtimes(path, info.ModTime(), info.ModTime()) // a disk that turns bits tells nobody
	used := len(raw)
	for used > 1 && raw[used-1] == 0 {
		used--
	}
	if rng.IntN(4) == 0 {
		used = len(raw)
	}
	at := rng.IntN(used)
	if rng.IntN(3) == 0 {
		if err := os.Truncate(path, int64(at)); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("cut at %d of %d", at, len(raw))
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{raw[at] ^ byte(1+rng.IntN(255))}, int64(at)); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("flip at %d of %d", at, len(raw))
}
