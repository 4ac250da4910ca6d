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
)

// machine are the files of the machine that a command finds in every image: names and addresses are the same.
var machine = []string{"/etc/hosts", "/etc/hostname", "/etc/resolv.conf"}

// whole are the folders of the kernel's that it finds there with all that is mounted in them.
var whole = []string{"/dev", "/sys"}

// enter makes the image the file system of this namespace, and leaves the machine's.
//
// The simple story: mount the image and bind what the replica has of its own over it. How the code differs:
// the image lies read-only under every replica of the node and lacks the folders to mount on, and a link in
// it could lead a path of ours out of it. So those folders, the spine, are made in an empty file system and
// laid over the image: on the way to a mount there are only folders of ours.
func (w *Wall) enter() error {
	if len(w.IDs) > 0 { // or our children would be looked for by the machine's numbers
		if err := mount("proc", "/proc", "proc", hardened|syscall.MS_NOEXEC, ""); err != nil {
			return err
		}
	}
	keep, err := w.takeAlong()
	if err != nil {
		return err
	}
	if err := mount("fermi", w.Stage, "tmpfs", hardened, "mode=755,size=8m"); err != nil {
		return err
	}
	spine, root := w.Stage+"/spine", w.Stage+"/root"
	for _, dir := range []string{spine + "/proc", spine + "/dev", spine + "/sys", root} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return &stepError{StepBuild, dir, err}
		}
	}
	for i, o := range keep {
		if !slices.ContainsFunc(keep[:i], o.below) && !strings.HasPrefix(o.path, "/dev/") {
			if err := o.place(spine + o.path); err != nil {
				return err
			}
		}
	}
	if err := w.layers(spine, root); err != nil {
		return err
	}
	for _, dir := range whole {
		if err := w.solid(root, dir, true); err != nil {
			return err
		}
		if dir == "/sys" && w.Net != 0 {
			continue
		}
		if err := mount(dir, root+dir, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
			return err
		}
	}
	if err := errors.Join(w.ownSys(root), w.memory(root)); err != nil {
		return err
	}
	for _, o := range keep {
		if err := w.solid(root, o.path, o.folder); err != nil && o.spare {
			_ = syscall.Close(o.handle)
			continue
		} else if err != nil {
			return err
		}
		if err := o.bind(root); err != nil {
			return err
		}
	}
	if err := w.solid(root, "/proc", true); err != nil {
		return err
	}
	if err := mount("proc", root+"/proc", "proc", hardened|syscall.MS_NOEXEC, ""); err != nil {
		return err
	}
	return pivot(root)
}

// takeAlong opens what the command has beside the image, those that lie in others after them.
func (w *Wall) takeAlong() ([]opened, error) {
	var keep []opened
	from := map[string]string{"/tmp": w.Tmp, "/var/tmp": w.VarTmp}
	for _, file := range machine {
		if exists(file) {
			from[file] = file
		}
	}
	for at, file := range w.Files {
		from[at] = file
	}
	for at, file := range w.Placed {
		from[at] = file
	}
	for at, file := range from {
		o, err := openAny(file)
		if err != nil {
			return nil, err
		}
		o.path = path.Clean(at)
		keep = append(keep, o)
	}
	for _, bind := range w.Binds {
		o, err := open(bind)
		if err != nil {
			return nil, err
		}
		keep = append(keep, o)
	}
	for _, f := range w.Folders {
		o, err := w.openFolder(f)
		if err != nil {
			return nil, &stepError{StepFolder, f.Path, err}
		}
		if f.At == "" {
			o.path = path.Clean(f.Path) // by the name that it is known by: the image has not the machine's links
		}
		keep = append(keep, o)
	}
	if err := apart(w.Folders, keep); err != nil {
		return nil, err
	}
	for at, file := range w.Extras {
		if o, err := openAny(file); err == nil && w.hasRoom(at) {
			o.path, o.spare = path.Clean(at), true
			keep = append(keep, o)
		}
	}
	slices.SortFunc(keep, func(a, b opened) int { return strings.Compare(a.path, b.path) })
	return keep, nil
}

// hasRoom says that nothing is at this path of the image, and that no link leads to it.
func (w *Wall) hasRoom(at string) bool {
	place := w.Root
	for part := range strings.SplitSeq(strings.Trim(path.Clean(at), "/"), "/") {
		place += "/" + part
		switch info, err := os.Lstat(place); {
		case errors.Is(err, fs.ErrNotExist):
			return true
		case err != nil || !info.IsDir():
			return false
		}
	}
	return false
}

// openAny is open with links followed: these paths are the machine's.
func openAny(file string) (opened, error) {
	fd, err := syscall.Open(file, oPath|syscall.O_CLOEXEC, 0)
	if err != nil {
		return opened{}, &stepError{StepBuild, file, err}
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return opened{}, &stepError{StepBuild, file, err}
	}
	return opened{path: file, handle: fd, folder: st.Mode&syscall.S_IFMT == syscall.S_IFDIR}, nil
}

// below says that it lies in another.
func (o opened) below(other opened) bool { return strings.HasPrefix(o.path, other.path+"/") }

// overlay lays one folder over another. By their descriptors: a path could have a colon in it.
func overlay(over, under, at string) error {
	layers := ""
	for _, dir := range []string{over, under} {
		o, err := openAny(dir)
		if err != nil {
			return err
		}
		defer syscall.Close(o.handle)
		layers += ":/proc/self/fd/" + strconv.Itoa(o.handle)
	}
	return mount("fermi", at, "overlay", syscall.MS_RDONLY|hardened, "lowerdir="+layers[1:])
}

// pivot makes a mount the root of this namespace, and lets go of the one before.
func pivot(root string) error {
	old, err := syscall.Open("/", syscall.O_DIRECTORY|syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return &stepError{StepBuild, "/", err}
	}
	defer syscall.Close(old)
	for _, step := range []func() error{
		func() error { return syscall.Chdir(root) },
		func() error { return syscall.PivotRoot(".", ".") },
		func() error { return syscall.Fchdir(old) }, // the old one lies over the new
		func() error { return syscall.Unmount(".", syscall.MNT_DETACH) },
		func() error { return syscall.Chdir("/") },
	} {
		if err := step(); err != nil {
			return &stepError{StepBuild, root, err}
		}
	}
	return nil
}
