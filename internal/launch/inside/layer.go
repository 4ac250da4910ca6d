package inside

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// The folders of Wall.Layer.
const (
	LayerUpper = "upper"
	LayerWork  = "work"
)

// layers puts the image together at root: the spine over it and, where it may be written to, what was written over both.
func (w *Wall) layers(spine, root string) error {
	if len(w.IDs) == 0 {
		return overlay(spine, w.Root, root)
	}
	if w.Base != "" {
		if err := os.MkdirAll(spine+w.Base, 0o755); err != nil {
			return &stepError{StepBuild, w.Base, err}
		}
	}
	err := fs.WalkDir(os.DirFS(spine), ".", func(p string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = w.giveRoot(path.Join(spine, p))
		}
		return err
	})
	if err != nil {
		return &stepError{StepBuild, spine, err}
	}
	image := w.Stage + "/image"
	if err := os.Mkdir(image, 0o755); err != nil {
		return &stepError{StepBuild, image, err}
	}
	if err := w.mapped(w.Root, image); err != nil {
		return err
	}
	type part struct{ name, dir string }
	parts, flags := []part{{"lowerdir", spine}, {"", image}}, uintptr(hardened)
	switch {
	case w.Frozen != "":
		parts, flags = []part{{"lowerdir", spine}, {"", path.Join(w.Frozen, LayerUpper)}, {"", image}}, hardened|syscall.MS_RDONLY
	case w.Layer == "":
		return overlay(spine, image, root)
	default:
		parts = append(parts, part{"upperdir", path.Join(w.Layer, LayerUpper)}, part{"workdir", path.Join(w.Layer, LayerWork)})
	}
	data := ""
	for _, part := range parts {
		o, err := open(part.dir)
		if err != nil {
			return err
		}
		defer syscall.Close(o.handle)
		if part.name == "" {
			data += ":"
		} else {
			data += "," + part.name + "="
		}
		data += "/proc/self/fd/" + strconv.Itoa(o.handle)
	}
	if err := mount("fermi", root, "overlay", flags, strings.TrimPrefix(data, ",")); err != nil || w.Base == "" {
		return err
	}
	return mount(image, root+w.Base, "", syscall.MS_BIND, "")
}

// moved are numbers that begin at another one.
func moved(ids []IDs, by int) (out []IDs) {
	for _, m := range ids {
		out = append(out, IDs{Inside: by + m.Inside, Outside: m.Outside, Count: m.Count})
	}
	return out
}

// mapped shows a folder of Maker's at another place, where what is its maker's is root's of the user namespace.
func (w *Wall) mapped(dir, at string) error {
	space, err := namespace(moved(w.IDs, w.Maker), moved(w.groups(), w.Maker))
	if err != nil {
		return err
	}
	defer space.Close()
	const clone, atEmptyPath, fromEmptyPath = 1, 0x1000, 4
	const idMap = 0x00100000
	refuse := func(what string, e syscall.Errno) error {
		return &stepError{StepBuild, dir, errors.Join(errors.New(what), e)}
	}
	empty := new(byte)
	from, err := syscall.BytePtrFromString(dir)
	if err != nil {
		return &stepError{StepBuild, dir, err}
	}
	to, err := syscall.BytePtrFromString(at)
	if err != nil {
		return &stepError{StepBuild, at, err}
	}
	tree, _, e := syscall.Syscall(sysOpenTree, cwd(), uintptr(unsafe.Pointer(from)), clone|syscall.O_CLOEXEC)
	if e != 0 {
		return refuse("open_tree", e)
	}
	defer syscall.Close(int(tree))
	attr := struct{ set, clear, propagation, userns uint64 }{set: readOnly | noSUID | noDev | idMap, userns: uint64(space.Fd())}
	if _, _, e := syscall.Syscall6(sysMountSetattr, tree, uintptr(unsafe.Pointer(empty)), atEmptyPath, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0); e != 0 {
		return refuse("mount_setattr", e)
	}
	if _, _, e := syscall.Syscall6(sysMoveMount, tree, uintptr(unsafe.Pointer(empty)), cwd(), uintptr(unsafe.Pointer(to)), fromEmptyPath, 0); e != 0 {
		return refuse("move_mount", e)
	}
	return nil
}

// solid sees to it that nothing but folders leads to a place below root where something is mounted: in a layer root of the user namespace may have
// put a link there. What is missing is made, and is that root's. Nobody else writes there before we are through.
func (w *Wall) solid(root, at string, folder bool) error {
	if w.Layer == "" {
		return nil
	}
	parts := strings.Split(strings.Trim(path.Clean(at), "/"), "/")
	for i := range parts {
		place := root + "/" + strings.Join(parts[:i+1], "/")
		wantFolder := folder || i < len(parts)-1
		info, err := os.Lstat(place)
		switch {
		case err == nil && wantFolder && info.IsDir(), err == nil && !wantFolder && (info.Mode().IsRegular() || info.Mode()&fs.ModeCharDevice != 0):
			continue
		case err == nil:
			return &stepError{StepLayer, strings.TrimPrefix(place, root), syscall.EEXIST}
		case !errors.Is(err, fs.ErrNotExist):
			return &stepError{StepBuild, place, err}
		case wantFolder:
			err = os.Mkdir(place, 0o755)
		default:
			err = os.WriteFile(place, nil, 0o644)
		}
		if err == nil && !strings.HasPrefix(at, "/dev/") {
			err = w.giveRoot(place)
		}
		if err != nil {
			return &stepError{StepBuild, place, err}
		}
	}
	return nil
}
