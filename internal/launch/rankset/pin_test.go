package rankset

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermi-cluster/fermi/internal/launch/shm"
	"github.com/fermi-cluster/fermi/internal/launch/steward"
	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

// TestPin: ranks keep what the leader says, told before a watermark that frees it; a step that may be
// overwritten already is not promised.
func TestPin(t *testing.T) {
	var last link.Ranks
	var mu sync.Mutex
	r := newSet(1, func(s link.Ranks) { mu.Lock(); last = s; mu.Unlock() })
	r.Begin(link.Generation{Number: 1, Membership: link.Membership{World: 2, FirstRank: 1}})
	for _, step := range []int64{1, 2, 3} {
		r.take(0, word.Word{Saved: &word.Saved{Step: step}})
	}
	told := func(mark int64, keep ...int64) []int64 {
		got, ok := r.Watermark(link.Watermark{Generation: 1, Step: mark, Keep: keep})
		if !ok {
			t.Fatal("not of this generation")
		}
		return got
	}
	if got := told(2, 2); !cmp.Equal(got, []int64{2}) {
		t.Error(got)
	}
	if got := told(3, 1, 2); !cmp.Equal(got, []int64{2}) {
		t.Errorf("%v: step 1 may be gone", got)
	}
	if got := told(3, 2, 3, 4); !cmp.Equal(got, []int64{2, 3}) {
		t.Errorf("%v: step 4 is not there", got)
	}
	want := []link.Copy{{First: 1, Ranks: 1, Steps: []int64{2, 3}}}
	eventually(t, "it is told", func() bool { mu.Lock(); defer mu.Unlock(); return cmp.Equal(last.Copies, want) })
	if _, ok := r.Watermark(link.Watermark{Generation: 2, Step: 3}); ok {
		t.Error("a generation that is not here")
	}
	r.Begin(link.Generation{Number: 2, Membership: link.Membership{World: 2, FirstRank: 1}, States: link.States{Restore: 2}})
	r.take(0, word.Word{Held: &word.Held{Steps: []int64{2}}})
	if !cmp.Equal(r.hold.pinned, []int64{2}) {
		t.Error(r.hold.pinned)
	}
	r.Begin(link.Generation{Number: 3, Membership: link.Membership{World: 2, FirstRank: 1}, States: link.States{Restore: 2}})
	r.take(0, word.Word{Held: &word.Held{Steps: []int64{}}})
	if len(r.hold.pinned) != 0 {
		t.Errorf("%v of a rank that holds nothing", r.hold.pinned)
	}
}

// slotsIn are the slots in a folder of ours.
func slotsIn(dir string) shm.Slots { return shm.Slots{Folder: steward.New(nil).Memory(dir)} }

func slotPath(memory string, local, k int) string { return filepath.Join(memory, shm.Name(local, k)) }
