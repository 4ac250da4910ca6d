package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// A leader enters its epoch here before it orders anything, as an empty file named by the number;
// the current epoch is the largest name. Nothing is ever overwritten and no lock is held, so that a
// leader frozen at any line neither blocks its successor nor takes the epoch back.

// DirImages is beside the folder of the replicas: the images that they run in.
const DirImages = "images"

// DirEpochs is beside the folder of the replicas.
const DirEpochs = "epochs"

// EnterEpoch makes epoch the current one in dir unless a newer one is there; durable on return.
func EnterEpoch(dir string, epoch int64) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, strconv.FormatInt(epoch, 10)), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Close(), SyncDir(dir), SyncDir(filepath.Dir(dir))); err != nil {
		return err
	}
	all, err := epochs(dir)
	for _, old := range all {
		if old < epoch { // never the largest: the current epoch does not go back
			_ = os.Remove(filepath.Join(dir, strconv.FormatInt(old, 10)))
		}
	}
	return err
}

// CurrentEpoch is the largest that was entered; 0 when none was.
func CurrentEpoch(dir string) (int64, error) {
	all, err := epochs(dir)
	var top int64
	for _, e := range all {
		top = max(top, e)
	}
	return top, err
}

func epochs(dir string) ([]int64, error) {
	if dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list epochs: %w", err)
	}
	var out []int64
	for _, e := range entries {
		if n, err := strconv.ParseInt(e.Name(), 10, 64); err == nil && n >= 0 {
			out = append(out, n)
		}
	}
	return out, nil
}

// StopFile is the name of the order to stop that the leader of epoch gives. An order counts only
// while its epoch is the current one.
func StopFile(epoch int64) string { return fmt.Sprintf("stop-%d.json", epoch) }

// AnyStop says that some leader, perhaps one that leads no more, ordered a stop.
func AnyStop(dir string) bool {
	found, _ := filepath.Glob(filepath.Join(dir, "stop-*.json"))
	return len(found) > 0
}
