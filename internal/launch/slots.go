package launch

import (
	"errors"
	"fmt"
	"os"

	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/launch/steward"
	"github.com/fermi-cluster/fermi/internal/launch/word"
)

// peerSlots are those of a rank whose states are copied to a peer: one more than else, for the step that is safe there
// stays, and the one on its way too, beside the watermark and the one being written.
const peerSlots = 4

// slots are the states of the ranks in $FERMI_SHM. The folder is the ranks': whatever lies there is opened, made and moved by the
// steward, and read and written here by the descriptor that it gives.
type slots struct{ folder *steward.Folder }

// slotName is a rank's slot within the folder, as docs/reference/rank-protocol.md has it.
func slotName(local, k int) string { return fmt.Sprintf("rank-%d.%d", local, k) }

func slotNames(local, n int) (names []string) {
	for k := range n {
		names = append(names, slotName(local, k))
	}
	return names
}

// find is the slot of a local rank that is wanted; the errors are those of the others.
func (s slots) find(local int, wanted func(ckpt.Header) bool) (found *ckpt.Slot, errs []error) {
	files, failed := s.folder.OpenAll(slotNames(local, word.MaxSlots), false)
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

// own finds a rank's state among the slots of a local rank.
func (s slots) own(local int, of stateOf, world int) (*ckpt.Slot, error) {
	slot, _ := s.find(local, func(h ckpt.Header) bool {
		return int(h.Rank) == of.rank && int64(h.Step) == of.step && int(h.World) == world
	})
	if slot == nil {
		return nil, fmt.Errorf("step %d of rank %d is not here", of.step, of.rank)
	}
	return slot, nil
}

// with is the slot of a local rank that holds a step.
func (s slots) with(local int, step int64) (*ckpt.Slot, error) {
	slot, errs := s.find(local, func(h ckpt.Header) bool { return h.Step == uint64(step) })
	if slot == nil {
		return nil, fmt.Errorf("no slot of local rank %d holds step %d: %w", local, step, errors.Join(errs...))
	}
	return slot, nil
}

// spare is the slot of a local rank that is needed least: one with nothing whole in it, or the oldest.
func (s slots) spare(local int) string {
	best, oldest := slotName(local, 0), uint64(1<<63)
	files, failed := s.folder.OpenAll(slotNames(local, peerSlots), false)
	empty := ""
	for k, f := range files {
		slot, err := ckpt.ReadSlot(f, failed[k])
		if err != nil {
			if empty == "" {
				empty = slotName(local, k)
			}
			continue
		}
		slot.Close()
		if slot.Header.Step < oldest {
			best, oldest = slotName(local, k), slot.Header.Step
		}
	}
	if empty != "" {
		return empty
	}
	return best
}

// each calls f with every slot of a local rank that is a file, open for both.
func (s slots) each(local int, f func(*os.File)) {
	files, _ := s.folder.OpenAll(slotNames(local, word.MaxSlots), true)
	for _, file := range files {
		if file != nil {
			f(file)
			file.Close()
		}
	}
}

// change calls f with one slot, open for both.
func (s slots) change(local, k int, f func(*os.File) error) error {
	file, err := s.folder.Change(slotName(local, k))
	if err != nil {
		return err
	}
	defer file.Close()
	return f(file)
}
