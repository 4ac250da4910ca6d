// Package keyfile keeps keys in files of their own.
//
// Place: layer 6, assembly. Promise: a file appears whole, private and only if absent; of two servers that make one at the same moment, both
// read the same. Enemies: half a key, a second one.
package keyfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fermi-cluster/fermi/internal/engine/record"
)

// Read reads up to most keys of 32 random bytes, or makes one.
func Read(path string, most int) ([]byte, error) {
	key, err := os.ReadFile(path)
	if err == nil && len(key) > 0 && len(key)%32 == 0 && len(key) <= 32*most {
		return key, nil
	}
	if err == nil {
		return nil, fmt.Errorf("%s has %d bytes, not 32: restore it, or delete it and restart running tasks", path, len(key))
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	key = make([]byte, 32)
	rand.Read(key)
	if err := Make(path, key); errors.Is(err, fs.ErrExist) {
		return os.ReadFile(path) // another server was faster
	} else if err != nil {
		return nil, err
	}
	return key, nil
}

// Make makes a private file that appears whole, and only if absent.
func Make(path string, content []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	if _, err := tmp.Write(content); err != nil {
		return errors.Join(err, tmp.Close())
	}
	if err := errors.Join(tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Link(tmp.Name(), path)
}

// Replace writes a private file that appears whole, in the place of another or of none.
func Replace(path string, content []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	if _, err := tmp.Write(content); err != nil {
		return errors.Join(err, tmp.Close())
	}
	if err := errors.Join(tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	return record.SyncDir(filepath.Dir(path)) // what follows counts on it
}
