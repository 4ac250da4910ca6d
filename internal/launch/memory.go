package launch

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

func (l *launcher) slots() shm.Slots { return shm.Slots{Folder: l.steward.Memory(l.memory)} }

// makeSharedMemory makes $FERMI_SHM: memory that outlives a rank's process, though not its launcher. On
// a machine without such a thing it is a folder, whose files are in memory as long as there is room.
func (l *launcher) makeSharedMemory() error {
	l.memory = record.SharedMemory(l.replica.Name)
	// A launcher before us may have got so far. What is removed lay in a folder that only root can change.
	make := func() error {
		return errors.Join(os.RemoveAll(l.memory), os.RemoveAll(record.PeerMemory(l.memory)), os.Mkdir(l.memory, 0o700))
	}
	err := make()
	if errors.Is(err, fs.ErrNotExist) {
		l.memory = filepath.Join(l.dir, dirMemory)
		err = make()
	}
	if err != nil {
		return err
	}
	if err := l.giveOne(l.memory); err != nil {
		return err
	}
	l.ranks.SeenIn(l.slots())
	return l.saves.SettleIn(record.PeerMemory(l.memory), int64(l.replica.Resources.SharedMemory))
}

func (l *launcher) dropSharedMemory() {
	if l.memory == "" {
		return
	}
	if err := errors.Join(os.RemoveAll(l.memory), os.RemoveAll(record.PeerMemory(l.memory))); err != nil {
		l.log.Error("shared memory could not be freed", "error", err)
	}
	l.memory = ""
}
