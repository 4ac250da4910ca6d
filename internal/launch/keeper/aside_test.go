package keeper

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/launch/rankset"
	"github.com/fermi-cluster/fermi/internal/link"
)

// script is one that saves itself, and keeps its last so many.
type script struct {
	*testing.T
	dir   string
	saved []int
}

func (s *script) put(name string, raw []byte) {
	s.Helper()
	at := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(at, raw, 0o600); err != nil {
		s.Fatal(err)
	}
}

// large is a file of torch.save that is too long to be copied aside.
func large(step int) []byte {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	f, err := w.CreateHeader(&zip.FileHeader{Name: "archive/data/0", Method: zip.Store})
	if err == nil {
		_, err = f.Write(bytes.Repeat([]byte{byte(step)}, 100<<10))
	}
	if err != nil || w.Close() != nil {
		panic(err)
	}
	return out.Bytes()
}

// save writes as a Trainer does: the state last, then it removes the oldest.
func (s *script) save(step, keep int) {
	s.Helper()
	name := fmt.Sprintf("checkpoint-%d", step)
	s.put(name+"/optimizer.pt", large(step))
	s.put(name+"/rng_state.pth", large(step))
	s.put(name+"/trainer_state.json", fmt.Appendf(nil, `{"global_step": %d}`, step))
	s.saved = append(s.saved, step)
	for len(s.saved) > keep {
		if err := os.RemoveAll(filepath.Join(s.dir, fmt.Sprintf("checkpoint-%d", s.saved[0]))); err != nil {
			s.Fatal(err)
		}
		s.saved = s.saved[1:]
	}
}

// begun is a keeper whose first generation runs.
func begun(t *testing.T) (*Keeper, *script) {
	k, work := folderKeeper(t)
	dir := filepath.Join(work, "ckpt")
	if err := os.RemoveAll(filepath.Join(dir, "step-7")); err != nil {
		t.Fatal(err)
	}
	g := link.Generation{Number: 1, Membership: link.Membership{World: 1}}
	k.ranks.Begin(g)
	k.Folder.begin(g, 1, time.Now().Add(-time.Hour))
	return k, &script{T: t, dir: dir}
}

// looks has the folder looked at as often as needed.
func looks(t *testing.T, k *Keeper) func() {
	w, err := k.Folder.Watcher(0)
	if err != nil || w == nil {
		t.Fatal(w, err)
	}
	t.Cleanup(func() { w.Close() })
	return func() {
		t.Helper()
		if err := k.Folder.look(w); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRotationTakesNothingAway: what was complete at one look is persisted, though the script has removed it by then.
func TestRotationTakesNothingAway(t *testing.T) {
	k, s := begun(t)
	var filed int64
	k.Folder.told = func(step int64) { filed = step }
	look := looks(t, k)
	s.save(10, 1)
	look()
	if filed != 10 {
		t.Fatal(filed)
	}
	s.save(20, 1) // and 10 is gone
	save, refs, err := k.persister.write(t.Context(), link.TierShared, &rankset.Job{Generation: 1, Step: 10, World: 1})
	if err != nil {
		t.Fatal(err)
	}
	repo, err := k.tiers.repo(link.TierShared, "task-1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := repo.Commit(t.Context(), ckpt.Proposal{Generation: 1, Step: 10, World: 1, Parts: refs}); err != nil {
		t.Fatal(err)
	}
	if err := save.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	for step := 30; step <= 60; step += 10 {
		s.save(step, 1)
		look()
	}
	top := filepath.Dir(filepath.Dir(s.dir))
	if list, err := filepath.Glob(filepath.Join(top, asidePrefix+"task-1", "*")); err != nil || len(list) != asideNewest || filed != 60 {
		t.Errorf("%v %v, newest %d", list, err, filed)
	}
	if err := k.Folder.aside.clear(); err != nil {
		t.Fatal(err)
	}
	if list, err := filepath.Glob(filepath.Join(top, asidePrefix+"*")); err != nil || len(list) != 0 {
		t.Errorf("%v %v", list, err)
	}
}

// TestTheNewestWholeEntryCounts: a next generation begins from what lies in the folder, or was linked aside, though no
// tier has anything; half-written ones, and those of strangers, don't count.
func TestTheNewestWholeEntryCounts(t *testing.T) {
	k, s := begun(t)
	s.save(10, 5)
	s.save(20, 5) // nobody has looked yet
	s.put("checkpoint-30/optimizer.pt", large(30)[:100])
	s.put("checkpoint-30/trainer_state.json", []byte(`{"global_step": 30}`))
	next := link.Generation{Number: 2, Membership: link.Membership{World: 1}}
	resumes := func(want string) {
		t.Helper()
		if ok, err := k.Refill(t.Context(), next); err != nil || !ok {
			t.Fatal(ok, err)
		}
		if want != "" {
			want = filepath.Join(s.dir, want)
		}
		if k.ResumeFrom() != want {
			t.Fatalf("it goes on from %q, want %q", k.ResumeFrom(), want)
		}
	}
	resumes("checkpoint-20")
	if err := os.RemoveAll(s.dir); err != nil { // it is linked aside
		t.Fatal(err)
	}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	resumes("checkpoint-20")
	if raw, err := os.ReadFile(filepath.Join(s.dir, "checkpoint-20/optimizer.pt")); err != nil || !bytes.Equal(raw, large(20)) {
		t.Error(len(raw), err)
	}
	next.Restore, next.Origin = 20, &link.Origin{TaskID: "task-1", Name: "x"} // a tier has it by now
	s.save(21, 5)
	resumes("checkpoint-21")
	next.World, k.local = 4, 1 // others have no such folder
	if k.resumeOwn(next) {
		t.Error("all ranks begin from the same")
	}
}

// TestWhatAnEarlierLauncherLeft is found by the next one of the task, unless somebody chose another checkpoint.
func TestWhatAnEarlierLauncherLeft(t *testing.T) {
	for _, anew := range []bool{false, true} {
		k, s := begun(t)
		s.save(10, 5)
		looks(t, k)()
		s.save(20, 5) // after the launcher was gone: nobody knows whose it is
		was := k.Folder
		k.Folder = newFolder(Config{
			Ranks: k.ranks, Code: was.code, Steward: was.owner, Clock: was.clock, Log: was.log,
			Replica: engine.Replica{Name: "task-1-worker-0-2", TaskID: "task-1", WorkingDir: "work", FolderSaves: engine.FolderSaves{CheckpointFolder: "ckpt", FolderAnew: anew}},
		})
		if ok := k.resumeOwn(link.Generation{Number: 2, Membership: link.Membership{World: 1}}); ok == anew {
			t.Fatal(anew, ok)
		}
		if want := filepath.Join(s.dir, "checkpoint-10"); !anew && k.ResumeFrom() != want {
			t.Error(k.ResumeFrom())
		}
	}
}

// TestRotatedUnknownOnes: of a format that nobody knows, one that the script removes after it began the next was complete.
func TestRotatedUnknownOnes(t *testing.T) {
	k, s := begun(t)
	k.Folder.writers = func() (map[uint64]bool, bool) { return nil, true }
	var filed int64
	k.Folder.told = func(step int64) { filed = step }
	w, err := k.Folder.Watcher(0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	look := func() {
		t.Helper()
		if err := k.Folder.look(w); err != nil {
			t.Fatal(err)
		}
	}
	s.put("step-10/weights.raw", bytes.Repeat([]byte("w"), 100<<10))
	look()
	look() // it has not changed
	if filed != 0 {
		t.Fatal(filed)
	}
	s.put("step-20/weights.raw", bytes.Repeat([]byte("v"), 100<<10))
	if err := os.RemoveAll(filepath.Join(s.dir, "step-10")); err != nil {
		t.Fatal(err)
	}
	look()
	look()
	if filed != 10 {
		t.Fatal(filed)
	}
	if e, ok := k.Folder.bring(10); !ok || e.Name != "step-10" {
		t.Error(e, ok)
	}
	if raw, err := os.ReadFile(filepath.Join(s.dir, "step-10/weights.raw")); err != nil || len(raw) != 100<<10 {
		t.Error(len(raw), err)
	}
}

// TestMarksComeBack: what DeepSpeed and TensorFlow find their checkpoints by lies beside them again.
func TestMarksComeBack(t *testing.T) {
	k, s := begun(t)
	s.put("global_step5/mp_rank_00_model_states.pt", large(5))
	s.put("latest", []byte("global_step5"))
	look := looks(t, k)
	look()
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if !k.resumeOwn(link.Generation{Number: 2, Membership: link.Membership{World: 1}}) || k.ResumeFrom() != filepath.Join(s.dir, "global_step5") {
		t.Fatal(k.ResumeFrom())
	}
	if raw, err := os.ReadFile(filepath.Join(s.dir, "latest")); err != nil || string(raw) != "global_step5" {
		t.Errorf("%q %v", raw, err)
	}
	if err := os.RemoveAll(filepath.Join(s.dir, "global_step5")); err != nil {
		t.Fatal(err)
	}
	s.put("ckpt-9.data-00000-of-00001", large(9))
	s.put("ckpt-9.index", []byte("index\x57\xfb\x80\x8b\x24\x75\x47\xdb"))
	look()
	save, refs, err := k.persister.write(t.Context(), link.TierShared, &rankset.Job{Generation: 1, Step: 9, World: 1})
	if err != nil {
		t.Fatal(err)
	}
	repo, err := k.tiers.repo(link.TierShared, "task-1")
	if err != nil {
		t.Fatal(err)
	}
	m, err := repo.Commit(t.Context(), ckpt.Proposal{Generation: 1, Step: 9, World: 1, Parts: refs})
	if err != nil {
		t.Fatal(err)
	}
	if err := save.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	k.Folder.known = map[int64]found{} // another launcher
	if err := k.resumeFiles(t.Context(), link.Generation{Number: 2, Membership: link.Membership{World: 1}, States: link.States{Restore: 9, Origin: &link.Origin{TaskID: "task-1", Name: m.Name()}}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ckpt-9.index", "ckpt-9.data-00000-of-00001", "checkpoint"} {
		if _, err := os.Stat(filepath.Join(s.dir, name)); err != nil {
			t.Error(err)
		}
	}
	if k.ResumeFrom() != filepath.Join(s.dir, "ckpt-9") {
		t.Error(k.ResumeFrom())
	}
}

// TestARaceWithRotation: while a script saves and removes as fast as it can, whatever is taken is whole, and something is.
func TestARaceWithRotation(t *testing.T) {
	k, s := begun(t)
	look := looks(t, k)
	const steps = 50
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		for step := 1; step <= steps; step++ {
			s.save(step, 1)
			time.Sleep(25 * time.Millisecond) // the kernel's clock of files ticks: nobody saves as fast
		}
	})
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		look()
		k.Folder.mu.Lock()
		for step, e := range k.Folder.known {
			if e.aside == "" {
				continue
			}
			at := filepath.Join(filepath.Dir(filepath.Dir(s.dir)), e.aside, fmt.Sprintf("checkpoint-%d", step))
			for _, name := range []string{"optimizer.pt", "rng_state.pth"} {
				if raw, err := os.ReadFile(filepath.Join(at, name)); err != nil || !bytes.Equal(raw, large(int(step))) {
					t.Errorf("step %d: %s: %d bytes, %v", step, name, len(raw), err)
				}
			}
			if raw, err := os.ReadFile(filepath.Join(at, "trainer_state.json")); err != nil || string(raw) != fmt.Sprintf(`{"global_step": %d}`, step) {
				t.Errorf("step %d: %q, %v", step, raw, err)
			}
		}
		k.Folder.mu.Unlock()
	}
	wg.Wait()
	if _, ok := k.Folder.known[steps]; !ok {
		t.Error("the last one is not known")
	}
}
