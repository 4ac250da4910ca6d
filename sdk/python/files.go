package python

import (
	"embed"
	"io/fs"
	"os"
	"path/filepath"
)

//go:embed src/fermi/*.py src/instant/*.py
var files embed.FS

// SelfTest is what a preflight runs on the devices of a node.
//
//go:embed src/fermi/_selftest.py
var SelfTest string

// Write puts the package fermi, and what interpreters with instant saves run first, into dir, which must not exist yet.
func Write(dir string) error {
	src, err := fs.Sub(files, "src")
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return os.CopyFS(filepath.Clean(dir), src)
}
