package shm

import (
	"errors"
	"fmt"
	"os"

	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/launch/steward"
	"github.com/fermi-cluster/fermi/internal/launch/word"
)

// PeerSlots are those of a rank whose states are copied to a peer: one more than else, for the step that is safe there
// stays, and the one on its way too, beside the watermark and the one being written.
const PeerSlots = 4

// Slots are the states of the ranks in $FERMI_SHM. The folder is the ranks': whatever lies there is opened, made and moved by the
// steward, and read and written here by the descriptor that it gives.
type Slots struct{ Folder *steward.Folder }

// Name is a rank's slot within the folder, as docs/reference/rank-protocol.md has it.
func Name(local, k int) string { return fmt.Sprintf("rank-%d.%d", local, k) }

func Names(local, n int) (names []string) {
	for k := range n {
		names = append(names, Name(local, k))
	}
	return names
}

// find is the slot of a local rank that is wanted; the errors are those of the others.
func (s Slots) find(local int, wanted func(ckpt.Header) bool) (found *ckpt.Slot, errs []error) {
	files, failed := s.Folder.OpenAll(Names(local, word.MaxSlots), false)
	for i, f := range files {
		if found != nil {
			if f != nil {
				f.Close()
			}
			continue
		}
		slot, err := ckpt.ReadSlot(f, failed[i])
		switch {
		case err != nil:
			errs = append(errs, err)
		case wanted(slot.Header):
			found = slot
		default:
			slot.Close()
		}
	}
	return found, errs
}

// Own finds a rank's state among the slots of a local rank.
func (s Slots) Own(local int, of State, world int) (*ckpt.Slot, error) {
	slot, _ := s.find(local, func(h ckpt.Header) bool {
		return int(h.Rank) == of.Rank && int64(h.Step) == of.Step && int(h.World) == world
	})
	if slot == nil {
		return nil, fmt.Errorf("step %d of rank %d is not here", of.Step, of.Rank)
	}
	return slot, nil
}

// With is the slot of a local rank that holds a step.
func (s Slots) With(local int, step int64) (*ckpt.Slot, error) {
	slot, errs := s.find(local, func(h ckpt.Header) bool { return h.Step == uint64(step) })
	if slot == nil {
		return nil, fmt.Errorf("no slot of local rank %d holds step %d: %w", local, step, errors.Join(errs...))
	}
	return slot, nil
}

// Spare is the slot of a local rank that is needed least: one with nothing whole in it, or the oldest.
func (s Slots) Spare(local int) string {
	best, oldest := Name(local, 0), uint64(1<<63)
	files, failed := s.Folder.OpenAll(Names(local, PeerSlots), false)
	empty := ""
	for k, f := range files {
		slot, err := ckpt.ReadSlot(f, failed[k])
		if err != nil {
			if empty == "" {
				empty = Name(local, k)
			}
			continue
		}
		slot.Close()
		if slot.Header.Step < oldest {
			best, oldest = Name(local, k), slot.Header.Step
		}
	}
	if empty != "" {
		return empty
	}
	return best
}

// Each calls f with every slot of a local rank that is a file, open for both.
func (s Slots) Each(local int, f func(*os.File)) {
	files, _ := s.Folder.OpenAll(Names(local, word.MaxSlots), true)
	for _, file := range files {
		if file != nil {
			f(file)
			file.Close()
		}
	}
}

// Change calls f with one slot, open for both.
func (s Slots) Change(local, k int, f func(*os.File) error) error {
	file, err := s.Folder.Change(Name(local, k))
	if err != nil {
		return err
	}
	defer file.Close()
	return f(file)
}

// State names one state.
type State struct {
	Rank int
	Step int64
}
