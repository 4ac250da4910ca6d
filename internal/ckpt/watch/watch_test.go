package watch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// folder is a watched one in virtual time; the files are real.
type folder struct {
	*testing.T
	dir   string
	clock *clock.Fake
	w     *Watcher
	wrote time.Time // of the last file
}

func watched(t *testing.T) *folder {
	f := &folder{T: t, dir: t.TempDir(), clock: clock.NewFake(time.Unix(1000, 0)), wrote: time.Unix(1, 0)}
	w, err := New(Config{Dir: f.dir, Clock: f.clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	f.w = w
	return f
}

// write gives each file a later time than the one before, as a clock that ticks would.
func (f *folder) write(name, text string) {
	f.Helper()
	at := filepath.Join(f.dir, name)
	f.wrote = f.wrote.Add(time.Second)
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
	for _, name := range []string{at, filepath.Dir(at)} {
		if err := os.Chtimes(name, f.wrote, f.wrote); err != nil {
			f.Fatal(err)
		}
	}
}

func (f *folder) rename(from, to string) {
	f.Helper()
	if err := os.Rename(filepath.Join(f.dir, from), filepath.Join(f.dir, to)); err != nil {
		f.Fatal(err)
	}
}

func (f *folder) look() []Entry {
	f.Helper()
	found, err := f.w.Look()
	if err != nil {
		f.Fatal(err)
	}
	return found
}

func (f *folder) sees(want ...string) {
	f.Helper()
	var names []string
	for _, e := range f.look() {
		names = append(names, e.Name)
	}
	if !slices.Equal(names, want) {
		f.Fatalf("complete: %v, want %v", names, want)
	}
}

func TestAQuietFileIsComplete(t *testing.T) {
	f := watched(t)
	f.write("step-5.pt", "a")
	f.sees()
	f.clock.Advance(DefaultQuiet / 2)
	f.write("step-5.pt", "ab") // it grows
	f.sees()
	f.clock.Advance(DefaultQuiet - 1)
	f.sees()
	f.clock.Advance(1)
	f.sees("step-5.pt")
	f.sees("step-5.pt") // until it is taken
	f.w.Taken(f.look()[0])
	f.sees()
	f.write("step-5.pt", "abc")
	f.sees()
	f.clock.Advance(DefaultQuiet)
	f.sees("step-5.pt")
}

func TestARenamedOneIsCompleteAtOnce(t *testing.T) {
	f := watched(t)
	f.write("a.pt.tmp", "a")
	f.write("tmp-checkpoint-7/model", "m")
	f.write("tmp-checkpoint-7/sub/optimizer", "o")
	f.clock.Advance(10 * DefaultQuiet)
	f.sees()
	f.clock.Advance(10 * DefaultQuiet) // a name that says it is unfinished never is finished
	f.sees()
	f.rename("tmp-checkpoint-7", "checkpoint-7")
	f.rename("a.pt.tmp", "a.pt")
	f.sees("a.pt", "checkpoint-7")
	e := f.look()[1]
	if e.Step != 7 || e.Bytes != 2 || len(e.Files) != 2 || e.Files[1].Path != "checkpoint-7/sub/optimizer" {
		t.Fatalf("%+v", e)
	}
}

func TestOrderIsThatOfWriting(t *testing.T) {
	f := watched(t)
	for _, n := range []int{9, 10, 2, 100} {
		f.write(fmt.Sprintf("step-%d.pt", n), "x")
	}
	same := time.Unix(500, 0)
	for _, name := range []string{"z-10", "z-9"} {
		f.write(name, "x")
		if err := os.Chtimes(filepath.Join(f.dir, name), same, same); err != nil {
			t.Fatal(err)
		}
	}
	f.sees()
	f.clock.Advance(DefaultQuiet)
	f.sees("step-9.pt", "step-10.pt", "step-2.pt", "step-100.pt", "z-9", "z-10")
}

func TestWhatChangedWhileItWasReadIsTold(t *testing.T) {
	f := watched(t)
	f.write("c/a", "1")
	f.write("c/b", "2")
	f.sees()
	f.clock.Advance(DefaultQuiet)
	e := f.look()[0]
	is := func(want bool) {
		t.Helper()
		if got, err := f.w.Unchanged(e); err != nil || got != want {
			t.Fatalf("unchanged: %v, %v", got, err)
		}
	}
	is(true)
	f.write("c/b", "3")
	is(false)
	f.w.Taken(f.look2(e))
	if err := os.RemoveAll(filepath.Join(f.dir, "c")); err != nil {
		t.Fatal(err)
	}
	is(false)
}

// look2 looks again and gives back the entry that was given before.
func (f *folder) look2(e Entry) Entry { f.look(); return e }

func TestLinksAndPipesAreNoState(t *testing.T) {
	f := watched(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.Symlink(secret, filepath.Join(f.dir, "link-1")), os.Symlink(filepath.Dir(secret), filepath.Join(f.dir, "folder-1")),
		syscall.Mkfifo(filepath.Join(f.dir, "pipe-1"), 0o600), os.Mkdir(filepath.Join(f.dir, "empty-1"), 0o700),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	f.sees()
	f.clock.Advance(DefaultQuiet)
	f.sees()
}

func TestAFolderWithoutEndIsRefusedAndTheRestGiven(t *testing.T) {
	f := watched(t)
	deep := "deep"
	for range maxDepth + 1 {
		deep += "/d"
	}
	f.write(deep+"/x", "x")
	f.write("good-1", "x")
	if _, err := f.w.Look(); !fault.Is(err, fault.Invalid) {
		t.Fatal(err)
	}
	f.clock.Advance(DefaultQuiet)
	found, err := f.w.Look()
	if !fault.Is(err, fault.Invalid) || len(found) != 1 || found[0].Name != "good-1" {
		t.Fatal(found, err)
	}
}

func TestStepOf(t *testing.T) {
	for name, want := range map[string]uint64{
		"checkpoint-500": 500, "epoch=3-step=1200.ckpt": 1200, "global_step100": 100, "model.pt": 0, "model.77": 77, "last": 0,
		"step-99999999999999999999999999.pt": 999999999999999999,
	} {
		if got := stepOf(name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

// many makes folders of so many files each and lets them settle.
func (f *folder) many(folders, files int) {
	f.Helper()
	for i := range folders {
		for k := range files {
			f.write(fmt.Sprintf("checkpoint-%d/part-%d/%d", i, k%3, k), "x")
		}
	}
	for range 3 {
		f.look()
		f.clock.Advance(DefaultQuiet)
	}
}

// stats is how many files and folders some looks at an unchanged folder ask for.
func (f *folder) stats(looks int) int {
	f.Helper()
	before := f.w.stats
	for range looks {
		if n := len(f.look()); n == 0 {
			f.Fatal("nothing is complete")
		}
		f.clock.Advance(time.Second)
	}
	return f.w.stats - before
}

func TestAQuietFolderIsNotReadFileByFile(t *testing.T) {
	const folders, files, looks = 5, 600, 50
	f := watched(t)
	f.many(folders, files)
	all := folders * (files + 4) // with each folder and its three
	if n, most := f.stats(looks), looks*(turn+folders*5)+all; n > most || n > looks*all/5 {
		t.Errorf("%d looks at %d files took %d stats, want at most %d", looks, all, n, most)
	}
}

// TestChangesInQuietFoldersAreSeen whatever shows them.
func TestChangesInQuietFoldersAreSeen(t *testing.T) {
	for name, change := range map[string]func(f *folder){
		"a new file":             func(f *folder) { f.write("checkpoint-1/part-2/new", "y") },
		"a new folder":           func(f *folder) { f.write("checkpoint-1/part-9/new", "y") },
		"one replaced by rename": func(f *folder) { f.write("x.tmp", "y"); f.rename("x.tmp", "checkpoint-1/part-0/0") },
		"one removed": func(f *folder) {
			if err := os.Remove(filepath.Join(f.dir, "checkpoint-1/part-0/0")); err != nil {
				f.Fatal(err)
			}
		},
		"one written in place": func(f *folder) { f.write("checkpoint-1/part-0/0", "y") },
	} {
		t.Run(name, func(t *testing.T) {
			f := watched(t)
			f.many(3, 300)
			if got := f.look(); len(got) != 3 {
				t.Fatal(got)
			}
			change(f)
			looks := 1
			if name == "one written in place" {
				looks += 3 * 304 / turn // until it is its turn
			}
			for range looks {
				f.look()
			}
			f.sees("checkpoint-0", "checkpoint-2")
			f.clock.Advance(DefaultQuiet)
			if got := f.look(); len(got) != 3 {
				t.Errorf("%d are complete", len(got))
			}
		})
	}
}

// TestARefusedFolderIsNotReadEachTime though it is told each time.
func TestARefusedFolderIsNotReadEachTime(t *testing.T) {
	f := watched(t)
	deep := "deep"
	for range maxDepth + 1 {
		deep += "/d"
	}
	f.write(deep+"/x", "x")
	for range 3 {
		if _, err := f.w.Look(); !fault.Is(err, fault.Invalid) {
			t.Fatal(err)
		}
		f.clock.Advance(DefaultQuiet)
	}
	before := f.w.stats
	if _, err := f.w.Look(); !fault.Is(err, fault.Invalid) || f.w.stats != before+1 {
		t.Errorf("%d stats, %v", f.w.stats-before, err)
	}
}
