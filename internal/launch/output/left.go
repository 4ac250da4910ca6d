package output

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/fermi-cluster/fermi/internal/launch/steward"
)

// What a script that ended well leaves in its working folder instead of $FERMI_OUTPUT goes with the replica's folder. So it
// is kept beside the outputs, under "workdir/", up to a limit; beyond it the log names the files and says how to keep them.

// LeftPrefix is what such files are called.
const LeftPrefix = "workdir/"

// Bounds of what is kept so.
const (
	leftFiles = 2000
	leftBytes = 2 << 30
	leftNamed = 5 // in the log
)

// Left finds what is new in a folder, or was changed.
type Left struct {
	folder *steward.Folder
	skip   []string // folders within it whose files are kept otherwise
	before map[string]Mark
}

// NewLeft looks at nothing.
func NewLeft(folder *steward.Folder, skip ...string) *Left {
	l := &Left{folder: folder}
	for _, s := range skip {
		if s = path.Clean(s); s != "." && s != "" {
			l.skip = append(l.skip, s+"/")
		}
	}
	return l
}

// Begin remembers what lies there before the script runs. nil does nothing.
func (l *Left) Begin() error {
	if l == nil {
		return nil
	}
	found, full, err := l.walk()
	if err == nil && !full {
		l.before = found
	}
	return err
}

func (l *Left) walk() (found map[string]Mark, full bool, err error) {
	found = map[string]Mark{}
	full, err = l.folder.Walk(maxFiles, func(name string, info fs.FileInfo) {
		if info.Mode().IsRegular() && !l.passes(name) {
			found[name] = Mark{info.Size(), info.ModTime()}
		}
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return found, full, err
}

// passes says that a file is nobody's result: what interpreters and tools keep for themselves, and what is kept otherwise.
func (l *Left) passes(name string) bool {
	if strings.HasSuffix(name, ".pyc") || slices.ContainsFunc(l.skip, func(s string) bool { return strings.HasPrefix(name, s) }) {
		return true
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "__pycache__" || strings.HasPrefix(part, ".") {
			return true
		}
	}
	return false
}

// Take gives the names of what is new or changed and is to be kept; note tells the user of it, and of what is too much. nil
// has nothing.
func (l *Left) Take(note func(format string, args ...any)) []string {
	if l == nil || l.before == nil {
		return nil
	}
	found, full, err := l.walk()
	if err != nil || full {
		return nil
	}
	var names []string
	bytes := int64(0)
	for name, m := range found {
		if l.before[name] != m {
			names = append(names, name)
			bytes += m.size
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	list := strings.Join(names[:min(len(names), leftNamed)], ", ")
	if len(names) > leftNamed {
		list += ", …"
	}
	what := fmt.Sprintf("%d files, %d MiB", len(names), bytes>>20)
	if len(names) > leftFiles || bytes > leftBytes {
		note("the working folder has results that are not kept (%s): %s; at most %d files and %d GiB are. Write them to $FERMI_OUTPUT / 工作目录中的结果未保留（%s）：%s；最多保留 %d 个文件、%d GiB。请将结果写入 $FERMI_OUTPUT",
			what, list, leftFiles, leftBytes>>30, what, list, leftFiles, leftBytes>>30)
		return nil
	}
	note("results in the working folder are kept as outputs under %s (%s): %s / 工作目录中的结果已作为输出保留在 %s 下（%s）：%s", LeftPrefix, what, list, LeftPrefix, what, list)
	return names
}

// Also uploads some files of another folder, too.
func (o *Set) Also(folder *steward.Folder, prefix string, names []string) {
	only := make(map[string]bool, len(names))
	for _, n := range names {
		only[n] = true
	}
	o.sources = append(o.sources, Source{Folder: folder, Prefix: prefix, only: only})
}
