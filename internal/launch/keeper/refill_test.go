package keeper

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/launch/rankset"
	"github.com/fermi-cluster/fermi/internal/launch/shm"
	"github.com/fermi-cluster/fermi/internal/launch/shmtest"
	"github.com/fermi-cluster/fermi/internal/link"
)

// flipping is a store of which reads of some objects give wrong bytes, so many times each.
type flipping struct {
	ckpt.Store
	part  string // of the key
	times int

	mu    sync.Mutex
	reads map[string]int
}

func (f *flipping) Open(ctx context.Context, key string) (io.ReadSeekCloser, blob.Info, error) {
	in, info, err := f.Store.Open(ctx, key)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reads[key]++; err != nil || !strings.Contains(key, f.part) || f.reads[key] > f.times {
		return in, info, err
	}
	raw, err := io.ReadAll(in)
	if err != nil {
		return nil, info, err
	}
	for i := range raw { // of whichever stretch is read
		raw[i] ^= 4
	}
	return struct {
		io.ReadSeeker
		io.Closer
	}{bytes.NewReader(raw), in}, info, nil
}

// restorable is a keeper of some ranks with a checkpoint of them in a shared folder, and none on its disk.
func restorable(t *testing.T, ranks int) (k *Keeper, shared *folder.Store, name, dir string) {
	t.Helper()
	dir = t.TempDir()
	shared, err := folder.Open(filepath.Join(dir, "shared"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shared.Close() })
	k = New(Config{
		Replica: engine.Replica{TaskID: "task-1", Ranks: ranks}, Ranks: rankset.New(rankset.Config{Ranks: ranks, Tell: func(link.Ranks) {}}), Slots: func() shm.Slots { return slotsIn(dir) }, Clock: clock.Real, Log: quiet,
	})
	k.tiers.stores = func() map[string]ckpt.Store { return map[string]ckpt.Store{link.TierShared: shared} }
	repo, err := k.tiers.repo(link.TierShared, "task-1")
	if err != nil {
		t.Fatal(err)
	}
	save, err := repo.Begin(t.Context(), 1, 5, uint32(ranks), false)
	if err != nil {
		t.Fatal(err)
	}
	p := ckpt.Proposal{Generation: 1, Step: 5, World: uint32(ranks)}
	for rank := range ranks {
		root, err := os.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		if err := root.WriteFile("state", fmt.Appendf(nil, "the state of rank %d", rank), 0o600); err != nil {
			t.Fatal(err)
		}
		slot, err := ckpt.FilesSlot(root, []string{"state"}, ckpt.Header{Rank: uint32(rank), World: uint32(ranks), Generation: 1, Step: 5})
		if err != nil {
			t.Fatal(err)
		}
		ref, err := save.Rank(t.Context(), slot)
		if err != nil {
			t.Fatal(err)
		}
		slot.Close()
		p.Parts = append(p.Parts, ref)
	}
	m, err := repo.Commit(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return k, shared, m.Name(), dir
}

// TestAWrongByteOnTheWay costs another read; one that is there each time costs the checkpoint.
func TestAWrongByteOnTheWay(t *testing.T) {
	for _, part := range []string{"/manifests/", "/parts/", "/packs/"} {
		for _, times := range []int{1, 1 << 20} {
			t.Run(fmt.Sprint(strings.Trim(part, "/"), times), func(t *testing.T) {
				k, shared, name, _ := restorable(t, 1)
				sick := &flipping{Store: shared, part: part, times: times, reads: map[string]int{}}
				k.tiers.stores = func() map[string]ckpt.Store { return map[string]ckpt.Store{link.TierShared: sick} }
				err := k.restoreAll(t.Context(), link.Generation{Number: 2, Membership: link.Membership{World: 1}, States: link.States{Restore: 5, Origin: &link.Origin{TaskID: "task-1", Name: name}}})
				if once := times == 1; once != (err == nil) || !once && !final(err) {
					t.Fatal(err)
				}
				left, err := shared.List(t.Context(), "task-1/manifests/", "", 10)
				if err != nil || len(left) != min(1, 2-min(times, 2)) {
					t.Fatal(left, err)
				}
			})
		}
	}
}

// TestNoRoomForAStateDropsNothing: that memory has no folder for slots says nothing about the checkpoint.
func TestNoRoomForAStateDropsNothing(t *testing.T) {
	k, shared, name, _ := restorable(t, 1)
	none := filepath.Join(t.TempDir(), "none")
	k.slots = func() shm.Slots { return slotsIn(none) }
	if err := k.restoreAll(t.Context(), link.Generation{Number: 2, Membership: link.Membership{World: 1}, States: link.States{Restore: 5, Origin: &link.Origin{TaskID: "task-1", Name: name}}}); err == nil {
		t.Fatal("restored to nowhere")
	}
	if left, err := shared.List(t.Context(), "task-1/manifests/", "", 10); err != nil || len(left) != 1 {
		t.Fatal(left, err)
	}
}

// TestRanksAreRestoredTogether: all of a launcher's, each its own state; where that of one in the middle is damaged the
// checkpoint is refused and gone, and is no failure of the moment.
func TestRanksAreRestoredTogether(t *testing.T) {
	const ranks = 3 * restorers
	k, shared, name, dir := restorable(t, ranks)
	meeting := &meetingStore{Store: shared, all: make(chan struct{}), want: restorers}
	k.tiers.stores = func() map[string]ckpt.Store { return map[string]ckpt.Store{link.TierShared: meeting} }
	g := link.Generation{Number: 2, Membership: link.Membership{World: ranks}, States: link.States{Restore: 5, Origin: &link.Origin{TaskID: "task-1", Name: name}}}
	if err := k.restoreAll(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	for rank := range ranks {
		slot, err := ckpt.OpenSlot(slotPath(dir, rank, 0))
		if err != nil || int(slot.Header.Rank) != rank || slot.Header.Generation != 2 {
			t.Fatal(rank, err)
		}
		root, err := os.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		if err := ckpt.WriteFiles(slot, root); err != nil {
			t.Fatal(err)
		}
		if raw, err := root.ReadFile("state"); err != nil || string(raw) != fmt.Sprint("the state of rank ", rank) {
			t.Fatalf("rank %d: %q, %v", rank, raw, err)
		}
		slot.Close()
	}
	repo, err := k.tiers.repo(link.TierShared, "task-1")
	if err != nil {
		t.Fatal(err)
	}
	m, err := repo.Manifest(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if err := shared.Delete(t.Context(), "task-1/"+m.Parts[ranks/2].Key); err != nil {
		t.Fatal(err)
	}
	if err := k.restoreAll(t.Context(), g); !final(err) {
		t.Fatal(err)
	}
	if left, err := shared.List(t.Context(), "task-1/manifests/", "", 10); err != nil || len(left) != 0 {
		t.Fatal(left, err)
	}
}

// meetingStore opens no pack before so many are asked for: who restores one rank after the other waits for ever.
type meetingStore struct {
	ckpt.Store
	want int
	all  chan struct{}

	mu   sync.Mutex
	come int
}

func (m *meetingStore) Open(ctx context.Context, key string) (io.ReadSeekCloser, blob.Info, error) {
	if strings.Contains(key, "/packs/") {
		m.mu.Lock()
		if m.come++; m.come == m.want {
			close(m.all)
		}
		m.mu.Unlock()
		<-m.all
	}
	return m.Store.Open(ctx, key)
}

// TestDamagedInMemory: what a generation goes on from is read before its ranks start; a slot with a flipped bit is emptied.
func TestDamagedInMemory(t *testing.T) {
	dir := t.TempDir()
	l := &restorer{ranks: rankset.New(rankset.Config{Ranks: 1, Tell: func(link.Ranks) {}}), local: 1, slots: func() shm.Slots { return slotsIn(dir) }, log: quiet}
	path := slotPath(dir, 0, 2)
	shmtest.Copied(t, path, 6, bytes.Repeat([]byte{7}, 64))
	if err := ckpt.SealSlot(path, 6); err != nil {
		t.Fatal(err)
	}
	l.Check(link.Generation{Number: 5, Membership: link.Membership{World: 1}, States: link.States{Restore: 6}})
	s, err := ckpt.OpenSlot(path)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[4100] ^= 4
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	l.Check(link.Generation{Number: 6, Membership: link.Membership{World: 1}, States: link.States{Restore: 5}}) // it is another one's business
	if s, err = ckpt.OpenSlot(path); err != nil {
		t.Fatal(err)
	}
	s.Close()
	l.Check(link.Generation{Number: 6, Membership: link.Membership{World: 1}, States: link.States{Restore: 6}})
	if s, err = ckpt.OpenSlot(path); err == nil {
		s.Close()
		t.Fatal("a damaged state was left")
	}
}
