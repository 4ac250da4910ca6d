package inside

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// stepError is a failure with the step that it is reported as.
type stepError struct {
	step, file string
	err        error
}

func (e *stepError) Error() string { return e.step + " " + e.file + ": " + e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

const hardened = syscall.MS_NOSUID | syscall.MS_NODEV

// opened is a place as it was before anything was hidden.
type opened struct {
	path   string
	handle int // O_PATH
	folder bool
	whole  bool // with what is mounted in it
	tree   int  // all of it, as it was before the machine was closed to writers; 0: not taken
	closed bool // to writers
	spare  bool // left out where something else is in its place
}

// build makes the mounts of this namespace.
func (w *Wall) build() error {
	// Nothing of ours goes out; what the machine unmounts does come in.
	if err := mount("", "/", "", syscall.MS_REC|syscall.MS_SLAVE, ""); err != nil {
		return err
	}
	if w.Root != "" {
		return w.enter()
	}
	return w.cover()
}

// cover hides parts of the machine's own file system. Everything that stays visible is taken in hand first;
// then the private and the empty folders come over what was there; then it is put back.
func (w *Wall) cover() error {
	bare, err := w.ground()
	if err != nil {
		return err
	}
	var keep []opened
	for _, bind := range w.Binds {
		o, err := open(bind)
		if err != nil {
			return err
		}
		keep = append(keep, o)
	}
	for _, f := range w.Folders {
		o, err := w.openFolder(f)
		if err != nil {
			return &stepError{StepFolder, f.Path, err}
		}
		keep = append(keep, o)
	}
	for at, file := range w.Files {
		if !exists(at) {
			continue
		}
		o, err := openAny(file)
		if err != nil {
			return err
		}
		o.path = at
		keep = append(keep, o)
	}
	if err := shut(); err != nil {
		return err
	}
	for at, dir := range w.Extras {
		if isPlain(at) {
			_ = overlay(dir, at, at)
		}
	}
	if err := w.privateFolders(); err != nil {
		return err
	}
	if err := w.memory(""); err != nil {
		return err
	}
	if err := apart(w.Folders, keep); err != nil {
		return err
	}
	own, err := w.clear()
	if err != nil {
		return err
	}
	covers, err := w.hide(keep, append(own, bare...))
	if err != nil {
		return err
	}
	for _, o := range keep {
		if err := o.bind(""); err != nil {
			return err
		}
	}
	for _, cover := range covers {
		if err := mount("", cover, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY|hardened|syscall.MS_NOEXEC, ""); err != nil {
			return err
		}
	}
	if err := w.ownSys(""); err != nil {
		return err
	}
	return mount("proc", "/proc", "proc", hardened|syscall.MS_NOEXEC, "")
}

// isPlain says that a path is a folder, and that no link leads to it.
func isPlain(dir string) bool {
	real, err := realPath(dir)
	return err == nil && real == dir
}

// ownSys shows the interfaces of the replica's network below root, not the machine's.
func (w *Wall) ownSys(root string) error {
	if w.Net == 0 {
		return nil
	}
	const groups = "/sys/fs/cgroup"
	var keep *opened
	if exists(groups) {
		o, err := open(groups)
		if err != nil {
			return err
		}
		defer syscall.Close(o.handle)
		keep = &o
	}
	if err := mount("sysfs", root+"/sys", "sysfs", syscall.MS_RDONLY|hardened|syscall.MS_NOEXEC, ""); err != nil {
		return err
	}
	if keep == nil || !exists(root+groups) {
		return nil
	}
	if err := mount("/proc/self/fd/"+strconv.Itoa(keep.handle), root+groups, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
		return err
	}
	return w.ownGroups(root + groups)
}

// ownGroups hides the control groups of other replicas: their names and figures say what other projects do. Its own stay where programs look for them.
func (w *Wall) ownGroups(at string) error {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return &stepError{StepBuild, at, err}
	}
	for line := range strings.Lines(string(text)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		names, group, _ := strings.Cut(rest, ":")
		before, _, ok := strings.Cut(group+"/", "/"+w.Mark+"/")
		if !ok {
			continue
		}
		own := before + "/" + w.Mark
		for path.Base(path.Dir(own)) == guestGroups { // it stands inside another's
			own = path.Dir(path.Dir(own))
		}
		if path.Dir(own) == "/" {
			continue
		}
		for _, hierarchy := range append(strings.Split(strings.TrimPrefix(names, "name="), ","), names, "unified", "") {
			if err := alone(path.Join(at, hierarchy, own)); err != nil {
				return err
			}
		}
	}
	return nil
}

// guestGroups is the folder of a group in which those of its guests are (internal/engine/cgroup).
const guestGroups = "guests"

// alone shows a folder as the only one in the one that it is in; one that is not there, or was shown so already, is left.
func alone(dir string) error {
	var st, above syscall.Stat_t
	if syscall.Lstat(dir, &st) != nil || syscall.Lstat(path.Dir(dir), &above) != nil || st.Dev != above.Dev {
		return nil
	}
	o, err := open(dir)
	if err != nil {
		return err
	}
	defer syscall.Close(o.handle)
	if err := mount("fermi", path.Dir(dir), "tmpfs", hardened|syscall.MS_NOEXEC, "mode=755,size=64k,nr_inodes=16"); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return &stepError{StepBuild, dir, err}
	}
	if err := mount("/proc/self/fd/"+strconv.Itoa(o.handle), dir, "", syscall.MS_BIND, ""); err != nil {
		return err
	}
	return mount("", path.Dir(dir), "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY|hardened|syscall.MS_NOEXEC, "")
}

func mount(source, target, kind string, flags uintptr, data string) error {
	if err := syscall.Mount(source, target, kind, flags, data); err != nil {
		return &stepError{StepBuild, target, err}
	}
	return nil
}

const oPath = 0x200000 // O_PATH, the same on every architecture

func open(file string) (opened, error) {
	info, err := os.Lstat(file)
	if err != nil {
		return opened{}, &stepError{StepBuild, file, err}
	}
	fd, err := syscall.Open(file, oPath|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if err != nil {
		return opened{}, &stepError{StepBuild, file, err}
	}
	return opened{path: file, handle: fd, folder: info.IsDir()}, nil
}

// openReal opens a folder with all links on the way followed; its path is where that led.
func openReal(dir string) (opened, error) {
	fd, err := syscall.Open(dir, oPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return opened{}, err
	}
	real, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	return opened{path: real, handle: fd, folder: true}, err
}

// realPath is a folder's path without links.
func realPath(dir string) (string, error) {
	o, err := openReal(dir)
	if err == nil {
		err = syscall.Close(o.handle)
	}
	return o.path, err
}

// openFolder opens a folder that an operator named. One that every replica has its own of, or that has the platform's in it,
// is no folder to show.
func (w *Wall) openFolder(f Folder) (opened, error) {
	if f.At != "" && f.Real == "" {
		o, err := open(f.Path)
		o.path, o.closed = f.At, true
		return o, err
	}
	o, err := openReal(f.Path)
	if err != nil {
		return o, err
	}
	if f.Real != "" && o.path != f.Real {
		return o, errors.New("it leads elsewhere than when it was named")
	}
	o.whole, o.closed = true, f.ReadOnly
	never := append([]string{"/", "/proc", "/sys", "/dev"}, privates...)
	for _, dir := range w.Hide {
		if real, err := realPath(dir); err == nil {
			never = append(never, real)
		}
	}
	for _, dir := range never {
		if o.path == dir || strings.HasPrefix(dir, o.path+"/") {
			return o, errors.New("it is, or has in it, a folder that no project may see")
		}
	}
	for _, dir := range append(w.Hide, "/proc", "/sys", "/dev") {
		if real, err := realPath(dir); err == nil && strings.HasPrefix(o.path, real+"/") {
			return o, errors.New("it lies in a folder that no project may see")
		}
	}
	if f.Below != "" {
		if o.handle, err = w.below(o.handle, f.Below); err != nil {
			return o, err
		}
	}
	if !o.closed && w.Root == "" {
		o.take()
	}
	if f.At != "" {
		o.path = f.At
	}
	return o, nil
}

// bind puts it where it was, below root.
func (o opened) bind(root string) error {
	at := root + o.path
	if err := o.place(at); err != nil {
		return err
	}
	defer syscall.Close(o.handle)
	source, flags := "/proc/self/fd/"+strconv.Itoa(o.handle), uintptr(hardened)
	if o.closed {
		flags |= syscall.MS_RDONLY
	}
	if o.whole {
		if err := o.bring(source, at); err != nil {
			return err
		}
		if setAll(at, o.closed) == nil {
			return nil
		}
		// An older kernel changes one mount at a time: what is mounted below stays out of sight.
		if err := syscall.Unmount(at, syscall.MNT_DETACH); err != nil {
			return &stepError{StepBuild, at, err}
		}
	}
	if err := mount(source, at, "", syscall.MS_BIND, ""); err != nil {
		return err
	}
	return mount("", at, "", syscall.MS_REMOUNT|syscall.MS_BIND|flags, "")
}

// bring puts a folder with all that is mounted in it at a place.
func (o opened) bring(source, at string) error {
	if o.tree == 0 {
		return mount(source, at, "", syscall.MS_BIND|syscall.MS_REC, "")
	}
	defer syscall.Close(o.tree)
	to, err := syscall.BytePtrFromString(at)
	if err != nil {
		return &stepError{StepBuild, at, err}
	}
	if _, _, e := syscall.Syscall6(sysMoveMount, uintptr(o.tree), uintptr(unsafe.Pointer(new(byte))), cwd(), uintptr(unsafe.Pointer(to)), 4 /* by the descriptor alone */, 0); e != 0 {
		return &stepError{StepBuild, at, e}
	}
	return nil
}

// take keeps a folder as it is, with all that is mounted in it. An older kernel can't, and can't shut the machine either.
func (o *opened) take() {
	const clone, byDescriptor, recursive = 1, 0x1000, 0x8000
	fd, _, e := syscall.Syscall(sysOpenTree, uintptr(o.handle), uintptr(unsafe.Pointer(new(byte))), clone|byDescriptor|recursive|syscall.O_CLOEXEC)
	if e == 0 {
		o.tree = int(fd)
	}
}

// The same on every architecture.
const (
	sysOpenTree, sysMoveMount, sysMountSetattr = 428, 429, 442

	readOnly, noSUID, noDev = 1, 2, 4 // of mount_setattr
)

// cwd says that a path is no other descriptor's.
func cwd() uintptr {
	at := -100
	return uintptr(at)
}

// shut closes the machine's own file systems to writers. A folder there that anybody may write to is nobody's who runs here: what is left in it would count
// nowhere, stay, and be seen by other projects. An older kernel (before 5.12) can't.
func shut() error {
	if err := setAttr("/", readOnly); err != nil && !errors.Is(err, syscall.ENOSYS) {
		return &stepError{StepBuild, "/", err}
	}
	return nil
}

// setAll hardens a mount and all below it.
func setAll(at string, closed bool) error {
	set := uint64(noSUID | noDev)
	if closed {
		set |= readOnly
	}
	return setAttr(at, set)
}

// setAttr sets flags of a mount and of all below it.
func setAttr(at string, set uint64) error {
	const recursive = 0x8000
	attr := struct{ set, clear, propagation, userns uint64 }{set: set}
	p, err := syscall.BytePtrFromString(at)
	if err != nil {
		return err
	}
	if _, _, e := syscall.RawSyscall6(sysMountSetattr, cwd(), uintptr(unsafe.Pointer(p)), recursive, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0); e != 0 {
		return e
	}
	return nil
}

// place makes what it can be mounted on.
func (o opened) place(at string) error {
	err := os.MkdirAll(path.Dir(at), 0o755)
	if err == nil && o.folder {
		err = os.MkdirAll(at, 0o755)
	} else if err == nil && !exists(at) {
		err = os.WriteFile(at, nil, 0o644)
	}
	if err != nil {
		return &stepError{StepBuild, at, err}
	}
	return nil
}

// privates are the folders that every replica has its own of.
var privates = []string{"/tmp", "/var/tmp", "/dev/shm"}

// private says whether something lies in one of them.
func private(file string) bool {
	return slices.ContainsFunc(privates, func(p string) bool { return strings.HasPrefix(file, p+"/") })
}

// privateFolders replaces the temporary ones that this machine has; they are on disk, in the replica's
// folder, while shared memory counts as its memory.
func (w *Wall) privateFolders() error {
	var temporary []opened
	for target, source := range map[string]string{"/tmp": w.Tmp, "/var/tmp": w.VarTmp} {
		if real, err := realPath(target); err != nil || real != target {
			continue // not there, or another name for one that is
		}
		o, err := open(source) // both before one of them is gone
		if err != nil {
			return err
		}
		o.path = target
		temporary = append(temporary, o)
	}
	for _, o := range temporary {
		if err := o.bind(""); err != nil {
			return err
		}
	}
	return nil
}

// memory gives the replica, whose file system begins at root, shared memory, message queues and terminals of its own.
func (w *Wall) memory(root string) error {
	size := ""
	if w.SharedMemory > 0 {
		size = ",size=" + strconv.FormatInt(w.SharedMemory, 10)
	}
	for _, m := range []struct{ target, kind, data string }{{"/dev/shm", "tmpfs", "mode=1777" + size}, {"/dev/mqueue", "mqueue", ""}} {
		at := root + m.target
		if info, err := os.Lstat(at); err != nil || !info.IsDir() {
			continue
		}
		if err := mount("fermi", at, m.kind, hardened|syscall.MS_NOEXEC, m.data); err != nil {
			return err
		}
	}
	return w.terminals(root)
}

// terminals gives the replica terminals of its own; see pty.go.
func (w *Wall) terminals(root string) error {
	const at = "/dev/pts"
	if info, err := os.Lstat(root + at); err != nil || !info.IsDir() {
		return nil
	}
	return mount("fermi", root+at, "devpts", syscall.MS_NOSUID|syscall.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
}

// hide covers the platform's folders and says where; covers are there already. A cover begins at the first folder on the way
// that the user could not enter: what was bound below must be reachable, and the rest of such a
// folder was out of reach anyway. The way to a granted folder is opened the same way.
func (w *Wall) hide(keep []opened, covers []string) ([]string, error) {
	cover := func(at string) error {
		if slices.ContainsFunc(covers, func(c string) bool { return at == c || strings.HasPrefix(at, c+"/") }) {
			return nil
		}
		if err := mount("fermi", at, "tmpfs", hardened, "mode=755,size=1m,nr_inodes=256"); err != nil {
			return err
		}
		covers = append(covers, at)
		return nil
	}
	for _, dir := range w.Hide {
		real, err := realPath(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it lay in a folder that is private now
		}
		if err != nil {
			return nil, &stepError{StepBuild, dir, err}
		}
		if err := cover(w.firstClosed(real)); err != nil {
			return nil, err
		}
	}
	for _, o := range keep {
		if !o.whole || private(o.path) {
			continue
		}
		if at := w.firstClosed(path.Dir(o.path)); at != path.Dir(o.path) || !w.open(at) {
			if err := cover(at); err != nil {
				return nil, err
			}
		}
	}
	return covers, nil
}

// open says whether the user may enter a folder, if it comes there.
func (w *Wall) open(dir string) bool {
	var st syscall.Stat_t
	return syscall.Lstat(dir, &st) == nil && w.mayEnter(&st)
}

func (w *Wall) firstClosed(dir string) string {
	at := ""
	for part := range strings.SplitSeq(strings.TrimPrefix(dir, "/"), "/") {
		at += "/" + part
		if !w.open(at) {
			return at
		}
	}
	return dir
}

func (w *Wall) mayEnter(st *syscall.Stat_t) bool {
	switch {
	case int(st.Uid) == w.UID:
		return st.Mode&0o100 != 0
	case int(st.Gid) == w.GID:
		return st.Mode&0o010 != 0
	}
	return st.Mode&0o001 != 0
}
