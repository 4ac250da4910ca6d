package inside

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// Find is what a shell does in dir with this search path, with the rights of the caller. An error
// is an errno: ENOENT, EACCES, EISDIR.
func Find(name, dir, search string) (string, error) {
	if strings.Contains(name, "/") {
		if !path.IsAbs(name) {
			name = path.Join(dir, name)
		}
		return name, executable(name)
	}
	denied := "" // one that is there, if no other will do
	for entry := range strings.SplitSeq(search, ":") {
		if !path.IsAbs(entry) {
			entry = path.Join(dir, entry)
		}
		file := path.Join(entry, name)
		switch err := executable(file); {
		case err == nil:
			return file, nil
		case !errors.Is(err, syscall.ENOENT) && exists(file):
			denied = file
		}
	}
	if denied != "" {
		return denied, executable(denied)
	}
	return name, syscall.ENOENT
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func executable(file string) error {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return syscall.ENOENT
	case err != nil:
		return syscall.EACCES
	case info.IsDir():
		return syscall.EISDIR
	}
	const executeOK, atEffective = 1, 0x200
	if syscall.Faccessat(-100 /* AT_FDCWD */, file, executeOK, atEffective) != nil {
		return syscall.EACCES
	}
	return nil
}
