package orderbook

import (
	"fmt"
	"sync/atomic"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
)

// Folder is the orders of a launcher that lie in its replica's folder.
type Folder struct {
	dir    string
	epochs atomic.Pointer[string] // record.Link.Epochs, once Spec was asked
}

// Open reads nothing yet.
func Open(dir string) *Folder { return &Folder{dir: dir} }

// Spec is what is to run, and how a server is reached.
func (f *Folder) Spec() (r engine.Replica, ends record.Link, err error) {
	for file, v := range map[string]any{record.FileReplica: &r, record.FileEndpoint: &ends} {
		if ok, err := record.Read(f.dir, file, v); err != nil || !ok {
			return r, ends, fmt.Errorf("replica folder without %s: %w", file, err)
		}
	}
	f.epochs.Store(&ends.Epochs)
	return r, ends, nil
}

// Said is the newest go that was kept.
func (f *Folder) Said() (said record.Go, ok bool, err error) {
	ok, err = record.Read(f.dir, record.FileGo, &said)
	return said, ok, err
}

// Keep writes a go down, durably.
func (f *Folder) Keep(said record.Go) error { return record.Write(f.dir, record.FileGo, said) }

// Epoch is that of the current leader.
func (f *Folder) Epoch() (int64, error) {
	where := f.epochs.Load()
	if where == nil {
		return 0, fmt.Errorf("the epoch was asked for before what is to run")
	}
	return record.CurrentEpoch(*where)
}

// Stop is the order of the leader of an epoch to stop.
func (f *Folder) Stop(epoch int64) (wish record.Stop, ok bool, err error) {
	ok, err = record.Read(f.dir, record.StopFile(epoch), &wish)
	return wish, ok, err
}

// AnyStop says that some leader, of whatever epoch, ordered a stop.
func (f *Folder) AnyStop() bool { return record.AnyStop(f.dir) }
