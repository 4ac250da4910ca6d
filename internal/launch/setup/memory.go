package setup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/launch/shm"
)

// dirMemory is $FERMI_SHM where there is no shared memory.
const dirMemory = "shm"

// Slots are the states of the ranks in their memory.
func (h *Home) Slots() shm.Slots { return shm.Slots{Folder: h.Steward.Memory(h.Memory)} }

// MakeMemory makes $FERMI_SHM: memory that outlives a rank's process, though not its launcher. On
// a machine without such a thing it is a folder, whose files are in memory as long as there is room.
func (h *Home) MakeMemory() error {
	h.Memory = record.SharedMemory(h.Replica.Name)
	// A launcher before us may have got so far. What is removed lay in a folder that only root can change.
	make := func() error {
		return errors.Join(os.RemoveAll(h.Memory), os.RemoveAll(record.PeerMemory(h.Memory)), os.Mkdir(h.Memory, 0o700))
	}
	err := make()
	if errors.Is(err, fs.ErrNotExist) {
		h.Memory = filepath.Join(h.Dir, dirMemory)
		err = make()
	}
	if err != nil {
		return err
	}
	return h.Give(h.Memory)
}

// DropMemory frees it. Nobody uses it any more.
func (h *Home) DropMemory() error {
	if h.Memory == "" {
		return nil
	}
	err := errors.Join(os.RemoveAll(h.Memory), os.RemoveAll(record.PeerMemory(h.Memory)))
	h.Memory = ""
	return err
}
