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
	if name == python { // many systems have only the other name
		if file, err := Find(python3, dir, search); err == nil {
			return file, nil
		}
	}
	return name, syscall.ENOENT
}

const python, python3 = "python", "python3"

// Args are the words that the program in file gets. An interpreter finds itself by the first: it is told the name under
// which it was found.
func Args(file string, args []string) []string {
	if args[0] == python && path.Base(file) == python3 {
		return append([]string{python3}, args[1:]...)
	}
	return args
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
