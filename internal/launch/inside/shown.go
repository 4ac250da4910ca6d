package inside

import (
	"errors"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unsafe"
)

// Folders of ours, which are seen where the user wished: datasets and models. On the machine's own file system each first folder on the way, such
// as /data, is an empty one of the replica's, in which they alone are. Where the machine has no such folder its root is put together anew.

// firsts are the first folders of ours, each once.
func (w *Wall) firsts() (list []string) {
	for _, f := range w.Folders {
		if f.At == "" {
			continue
		}
		first, _, _ := strings.Cut(strings.TrimPrefix(f.At, "/"), "/")
		if at := "/" + first; !slices.Contains(list, at) {
			list = append(list, at)
		}
	}
	return list
}

// below opens a folder in one that is open, with no more rights than the tenant has; no link leads out of it.
func (w *Wall) below(handle int, file string) (fd int, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread, and what it gave up, ends with us
		if err = takeOn(w.UID, w.GID); err == nil {
			fd, err = openBelow(handle, file)
		}
	}()
	<-done
	return fd, err
}

// openBelow is openat2, RESOLVE_BENEATH.
func openBelow(handle int, file string) (int, error) {
	const openat2, noMagicLinks, beneath, tries = 437, 0x02, 0x08, 100
	name, err := syscall.BytePtrFromString(file)
	if err != nil {
		return 0, err
	}
	how := struct{ flags, mode, resolve uint64 }{flags: oPath | syscall.O_DIRECTORY | syscall.O_CLOEXEC, resolve: noMagicLinks | beneath}
	for try := 1; ; try++ {
		fd, _, e := syscall.Syscall6(openat2, uintptr(handle), uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
		switch {
		case e == 0:
			return int(fd), nil
		case e != syscall.EAGAIN || try == tries: // somebody renames a folder on the way
			return 0, e
		}
	}
}

// apart refuses folders of ours where something else is, or leads to.
func apart(folders []Folder, keep []opened) error {
	for _, f := range folders {
		if f.At == "" {
			continue
		}
		for _, o := range keep {
			if o.path != f.At && (strings.HasPrefix(o.path, f.At+"/") || strings.HasPrefix(f.At, o.path+"/")) {
				return &stepError{StepFolder, f.At, errors.New(o.path + " is in its way")}
			}
		}
	}
	return nil
}

// ground makes a root that has the first folders of ours, if the machine's lacks one; then it is the only cover so far.
func (w *Wall) ground() (covers []string, err error) {
	var missing []string
	for _, first := range w.firsts() {
		if _, err := os.Lstat(first); err != nil {
			missing = append(missing, first)
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	if w.Stage == "" {
		return nil, &stepError{StepBuild, missing[0], errors.New("there is no place for it")}
	}
	if err := mount("fermi", w.Stage, "tmpfs", hardened, "mode=755,size=1m,nr_inodes=1024"); err != nil {
		return nil, err
	}
	// Or each folder that it lies in would have it, with all that is in it so far.
	if err := mount("", w.Stage, "", syscall.MS_UNBINDABLE, ""); err != nil {
		return nil, err
	}
	list, err := os.ReadDir("/")
	if err != nil {
		return nil, &stepError{StepBuild, "/", err}
	}
	for _, e := range list {
		if err := w.bring("/"+e.Name(), e.Type()); err != nil {
			return nil, err
		}
	}
	for _, first := range missing {
		if err := os.Mkdir(w.Stage+first, 0o755); err != nil {
			return nil, &stepError{StepBuild, first, err}
		}
	}
	if err := pivot(w.Stage); err != nil {
		return nil, err
	}
	return []string{"/"}, mount("", "/", "", syscall.MS_PRIVATE, "")
}

// bring shows what the machine's root has in the new one.
func (w *Wall) bring(name string, kind os.FileMode) error {
	at := w.Stage + name
	var err error
	switch {
	case kind&os.ModeSymlink != 0:
		var target string
		if target, err = os.Readlink(name); err == nil {
			err = os.Symlink(target, at)
		}
	case kind.IsDir():
		if err = os.Mkdir(at, 0o755); err == nil {
			return mount(name, at, "", syscall.MS_BIND|syscall.MS_REC, "")
		}
	case kind.IsRegular():
		if err = os.WriteFile(at, nil, 0o644); err == nil {
			return mount(name, at, "", syscall.MS_BIND, "")
		}
	}
	if err != nil {
		return &stepError{StepBuild, path.Clean(at), err}
	}
	return nil
}

// clear empties the first folders of ours, and says which they are.
func (w *Wall) clear() (covers []string, err error) {
	for _, first := range w.firsts() {
		if err := mount("fermi", first, "tmpfs", hardened, "mode=755,size=1m,nr_inodes=4096"); err != nil {
			return nil, err
		}
		covers = append(covers, first)
	}
	return covers, nil
}
