package hostengine

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/fermi-cluster/fermi/internal/fault"
)

func take(t *testing.T, b UIDBook, used ...int) int {
	t.Helper()
	uid, err := b.Take(used)
	if err != nil {
		t.Fatal(err)
	}
	if uid%UIDsEach != 0 || uid < FirstAuto || uid > LastAuto {
		t.Errorf("%d is not the first of a block", uid)
	}
	return uid
}

// TestInstancesOfOneMachineHaveDifferentUIDs: however many start at once, and whatever projects they have.
func TestInstancesOfOneMachineHaveDifferentUIDs(t *testing.T) {
	dir := t.TempDir()
	var mu sync.Mutex
	var wg sync.WaitGroup
	owner := map[int]int{}
	for i := range 4 {
		b := UIDBook{Dir: filepath.Join(dir, "book"), Data: filepath.Join(dir, string(rune('a'+i)))}
		for range 2 { // two servers of one folder
			wg.Go(func() {
				for range 10 {
					uid, err := b.Take(nil)
					mu.Lock()
					if _, had := owner[uid]; err != nil || had {
						t.Errorf("%d twice, or %v", uid, err)
					}
					owner[uid] = i
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	if info, err := os.Stat(filepath.Join(dir, "book")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestUIDsThatProjectsHave: numbers of older folders and of restored ones stay, nobody gets them again, and two
// who have the same are told.
func TestUIDsThatProjectsHave(t *testing.T) {
	dir := t.TempDir()
	book := filepath.Join(dir, "book")
	a, b := UIDBook{Dir: book, Data: filepath.Join(dir, "a")}, UIDBook{Dir: book, Data: filepath.Join(dir, "b")}
	first := take(t, a)
	old := []int{1900000000, 1900000001, first + UIDsEach}
	if clashes, err := b.Claim(old); err != nil || len(clashes) != 0 {
		t.Fatal(clashes, err)
	}
	if next := take(t, a, first); next == first+UIDsEach || next == first {
		t.Errorf("%d is another's", next)
	}
	if clashes, err := a.Claim([]int{first, old[2]}); err != nil || len(clashes) != 1 || clashes[0] != (Clash{old[2], b.Data}) {
		t.Error(clashes, err)
	}
	// A folder that moved is the same instance; one that was copied is not.
	moved := UIDBook{Dir: book, Data: filepath.Join(dir, "moved")}
	if err := os.Rename(a.Data, moved.Data); err != nil {
		t.Fatal(err)
	}
	if clashes, err := moved.Claim([]int{first}); err != nil || len(clashes) != 0 {
		t.Error(clashes, err)
	}
	copied := UIDBook{Dir: book, Data: filepath.Join(dir, "copied")}
	if err := os.CopyFS(copied.Data, os.DirFS(moved.Data)); err != nil {
		t.Fatal(err)
	}
	if clashes, err := copied.Claim([]int{first}); err != nil || len(clashes) != 1 || clashes[0].Data != moved.Data {
		t.Error(clashes, err)
	}
}

// TestUIDsOfInstancesThatAreGone come back only when there are no others.
func TestUIDsOfInstancesThatAreGone(t *testing.T) {
	dir := t.TempDir()
	book := filepath.Join(dir, "book")
	gone, here := UIDBook{Dir: book, Data: filepath.Join(dir, "gone")}, UIDBook{Dir: book, Data: filepath.Join(dir, "here")}
	first := take(t, gone)
	var all []int
	for uid := FirstAuto; uid <= LastAuto; uid += UIDsEach {
		if uid != first {
			all = append(all, uid)
		}
	}
	if _, err := here.Take(all); fault.ReasonOf(err) != "UIDsUsedUp" {
		t.Errorf("one of an instance that stands: %v", err)
	}
	if err := os.RemoveAll(gone.Data); err != nil {
		t.Fatal(err)
	}
	if got := take(t, here, all...); got != first {
		t.Errorf("%d, not %d", got, first)
	}
	if err := os.WriteFile(filepath.Join(book, fileBook), []byte("garbled"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := here.Take(nil); fault.ReasonOf(err) != "UIDNotWritten" {
		t.Errorf("from a garbled book: %v", err)
	}
}

// TestABookOfANewerVersion: what a newer version wrote and this one does not know stays; a format that this one does
// not know is refused, and the book is left as it was.
func TestABookOfANewerVersion(t *testing.T) {
	dir := t.TempDir()
	b := UIDBook{Dir: filepath.Join(dir, "book"), Data: filepath.Join(dir, "a")}
	file := filepath.Join(b.Dir, fileBook)
	if err := os.MkdirAll(b.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(fmt.Sprintf(`{"next":%d,"retired":[5,{"x":1}],"instances":{"m":{"data":"/nowhere","uids":[%d],"region":"north"}}}`, FirstAuto, FirstAuto))
	uid := take(t, b)
	if uid == FirstAuto {
		t.Error("somebody has it already")
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Format    *int
		Retired   []any
		Instances map[string]struct {
			UIDs   []int
			Region string
		}
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if got.Format != nil || len(got.Retired) != 2 || got.Instances["m"].Region != "north" || len(got.Instances) != 2 {
		t.Errorf("the newer version's fields, or an older one's way to read it, are gone: %s", raw)
	}
	newer := `{"format":2,"next":"elsewhere","pages":[]}`
	write(newer)
	_, err = b.Take(nil)
	if f := fault.From(err); f == nil || f.Reason != "UIDBookIsNewer" || f.Code != fault.Conflict || f.Hint.ZH == "" {
		t.Errorf("%v", err)
	}
	if raw, _ := os.ReadFile(file); string(raw) != newer {
		t.Errorf("it was changed: %s", raw)
	}
	for _, bad := range []string{`{"next":"x"}`, `[]`, `{"next":1`} {
		write(bad)
		if _, err := b.Take(nil); fault.ReasonOf(err) != "UIDNotWritten" {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestBlocksOfOlderUIDs: a project whose uid begins no block keeps its uid and gets one block for ever, which nobody else has; one whose uid begins a
// block has that.
func TestBlocksOfOlderUIDs(t *testing.T) {
	dir := t.TempDir()
	book := filepath.Join(dir, "book")
	a, b := UIDBook{Dir: book, Data: filepath.Join(dir, "a")}, UIDBook{Dir: book, Data: filepath.Join(dir, "b")}
	block := func(book UIDBook, uid int, used ...int) int {
		t.Helper()
		first, err := book.Block(uid, used)
		if err != nil || first%UIDsEach != 0 || first < FirstAuto || first > LastAuto {
			t.Fatalf("%d has the block of %d: %v", uid, first, err)
		}
		return first
	}
	old := []int{1900000000, 1900000001}
	seen := map[int]bool{}
	for _, first := range []int{block(a, old[0], old...), block(a, old[1], old...), block(b, 1900000000), take(t, a, old...), take(t, b)} {
		if seen[first] {
			t.Errorf("two have the block of %d", first)
		}
		seen[first] = true
	}
	if first := block(a, old[0], old...); !seen[first] || first != block(a, old[0]) {
		t.Errorf("a block of its own changed to %d", first)
	}
	if uid := take(t, a, old...); block(a, uid, old...) != uid {
		t.Errorf("%d begins a block and has another", uid)
	}
}
