package keeper

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/fermi-cluster/fermi/internal/ckpt/watch"
	"github.com/fermi-cluster/fermi/internal/launch/steward"
)

// What is complete in a script's folder is linked aside at once: a script that keeps its last few removes what is older, and
// may do so while it is read. Links cost no room as long as the script has the files, too. They lie at the top of the code, in a
// folder of the task's name, so that the next launcher finds them where it gets the same folder of the node.

const (
	asidePrefix = ".fermi-kept-" // and the task's id
	asideNewest = 2              // that stay aside
	asideHalf   = ".half"        // of what is being linked
)

// found is a complete entry.
type found struct {
	watch.Entry
	aside string // where it is linked, from the top of the code; "": nowhere
}

// aside links entries. It is safe for concurrent use.
type aside struct {
	top  func() (*steward.Folder, error) // of the code
	from string                          // the watched folder within it
	dir  string

	mu sync.Mutex // one at a time
	n  int        // so that no name comes twice
}

// take links an entry aside, under the name of its step. What was linked is what was seen, or there is an error.
func (a *aside) take(e watch.Entry, step int64) (found, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	top, err := a.top()
	if err != nil {
		return found{}, err
	}
	for a.n++; ; a.n++ {
		if _, err := top.Lstat(a.name(step)); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return found{}, err
		}
	}
	to := a.name(step)
	half := to + asideHalf
	if err := top.RemoveAll(half); err != nil {
		return found{}, err
	}
	got, err := a.link(top, e, half)
	if err == nil {
		err = a.unmoved(top, e)
	}
	if err == nil {
		err = top.Rename(half, to)
	}
	if err != nil {
		return found{}, errors.Join(err, top.RemoveAll(half))
	}
	return found{got, to}, nil
}

func (a *aside) name(step int64) string {
	return path.Join(a.dir, fmt.Sprintf("%d-%d", step, a.n))
}

func (a *aside) link(top *steward.Folder, e watch.Entry, half string) (watch.Entry, error) {
	names := make([]string, len(e.Files))
	for i, f := range e.Files {
		names[i] = f.Path
	}
	if err := top.MkdirAll(half, 0o700); err != nil {
		return e, err
	}
	if err := top.Link(a.from, half, names); err != nil {
		return e, err
	}
	w, err := watch.New(watch.Config{Folder: top.Below(half)})
	if err != nil {
		return e, err
	}
	defer w.Close()
	got, err := w.Again(e)
	if err == nil && !got.Alike(&e) {
		err = errors.New("it changed while it was linked aside")
	}
	if err == nil && e.Mark.Name != "" {
		err = writeMark(top.Below(half), e.Mark.Name, e.Mark.Text)
	}
	return got, err
}

// unmoved says whether an entry is still what was linked. One that the script is removing lacks files that nobody knows of.
func (a *aside) unmoved(top *steward.Folder, e watch.Entry) error {
	w, err := watch.New(watch.Config{Folder: top.Below(a.from)})
	if err != nil {
		return err
	}
	defer w.Close()
	if same, err := w.Unchanged(e); err != nil || !same {
		return errors.Join(errors.New("it changed while it was linked aside"), err)
	}
	return nil
}

func writeMark(root *steward.Folder, name, text string) error {
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// drop removes what was linked.
func (a *aside) drop(at string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	top, err := a.top()
	if err != nil {
		return err
	}
	return top.RemoveAll(at)
}

// clear removes all that is linked aside.
func (a *aside) clear() error { return a.drop(a.dir) }

// left is what an earlier launcher of the task linked aside in this folder and whose format shows it to be whole, by step.
func (a *aside) left() (map[int64]found, error) {
	top, err := a.top()
	if err != nil {
		return nil, err
	}
	list, err := top.List(a.dir, watch.MaxEntries)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	out := map[int64]found{}
	for _, info := range list {
		number, _, _ := strings.Cut(info.Name(), "-")
		step, err := strconv.ParseInt(number, 10, 64)
		if err != nil || step <= 0 || !info.IsDir() || strings.HasSuffix(info.Name(), asideHalf) {
			continue
		}
		at := path.Join(a.dir, info.Name())
		w, err := watch.New(watch.Config{Folder: top.Below(at), Still: true})
		if err != nil {
			continue
		}
		if all, err := w.Look(); err == nil && len(all) == 1 && all[0].Whole {
			out[step] = found{all[0], at}
		}
		w.Close()
	}
	return out, nil
}

// back puts an entry that the script has removed, or spoilt, into its folder again.
func (a *aside) back(f found, mark string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	top, err := a.top()
	if err != nil {
		return err
	}
	tmp := path.Join(a.from, mark)
	if err := cmp.Or(top.RemoveAll(tmp), top.MkdirAll(tmp+"/old", 0o700)); err != nil {
		return err
	}
	defer top.RemoveAll(tmp)
	var names, tops []string
	for _, file := range f.Files {
		names = append(names, file.Path)
		if name, _, _ := strings.Cut(file.Path, "/"); !slices.Contains(tops, name) {
			tops = append(tops, name)
		}
	}
	if f.Mark.Name != "" {
		names, tops = append(names, f.Mark.Name), append(tops, f.Mark.Name)
	}
	if err := top.Link(f.aside, tmp+"/new", names); err != nil {
		return err
	}
	return moveIn(top.Below(a.from), mark, tops)
}

// moveIn moves what lies whole in a folder of its own to its place, and what lay there away.
func moveIn(root *steward.Folder, tmp string, names []string) error {
	for _, name := range names {
		if err := root.Rename(name, tmp+"/old/"+name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := root.Rename(tmp+"/new/"+name, name); err != nil && !isThere(err) {
			return err
		}
	}
	return nil
}
