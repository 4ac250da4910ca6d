package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/launch/inside"
	"github.com/fermi-cluster/fermi/internal/link"
)

// uploader stores one file; link.Client is one.
type uploader interface {
	PutOutput(ctx context.Context, path string, size int64, modified time.Time, r io.Reader) error
}

// outputs uploads the files of $FERMI_OUTPUT, and of the logs folder under "logs/". It is used by
// one goroutine at a time.
type outputs struct {
	sources []source
	uid     int // whose files they are; read with no more rights than that. 0: ours
	to      uploader
	clock   clock.Clock
	log     *slog.Logger
	note    func(format string, args ...any) // into the user's log; may be nil

	before   map[string]mark // the last scan
	uploaded map[string]mark
	refused  map[string]string // path: why it can never be uploaded
	noted    map[string]bool   // entries that are neither file nor folder
	full     bool              // there are more files than maxFiles
}

// source is a folder on disk, and what its files are called. sub is the way on through what the
// user made; foreign says that dir itself is the user's.
type source struct {
	dir, sub, prefix string
	foreign          bool
}

// mark tells one content of a file from another, as well as that can be told without reading.
type mark struct {
	size  int64
	mtime time.Time
}

const (
	maxFiles    = 100_000
	scanEvery   = 10 * time.Second
	uploadPause = 200 * time.Millisecond
	maxRetry    = 5 * time.Second
	maxListed   = 5 // files named in done.json's Incomplete
)

func newOutputs(sources []source, to uploader, c clock.Clock, log *slog.Logger, note func(string, ...any)) *outputs {
	return &outputs{
		sources: sources, to: to, clock: c, log: log, note: note,
		before: map[string]mark{}, uploaded: map[string]mark{}, refused: map[string]string{}, noted: map[string]bool{},
	}
}

// during uploads every scanEvery what has changed and stood still since the last scan, until ctx ends.
func (o *outputs) during(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.clock.After(scanEvery):
		}
		now := o.scan()
		for name, m := range now {
			if o.before[name] != m || o.settled(name, m) || ctx.Err() != nil {
				continue
			}
			if err := o.upload(ctx, name, m); err != nil && !errors.Is(err, errChanged) {
				o.log.Warn("output not uploaded yet", "path", name, "error", err)
				break // the server is away: the others would fail alike
			}
		}
		o.before = now
	}
}

func (o *outputs) settled(name string, m mark) bool {
	_, refused := o.refused[name]
	return refused || o.uploaded[name] == m
}

// finish uploads all that is missing, and tries until it is done or ctx ends. found is the last
// scan, made when the tree had ended.
func (o *outputs) finish(ctx context.Context, found map[string]mark) error {
	pause := uploadPause
	for {
		missing := 0
		var last error
		for name, m := range found {
			if o.settled(name, m) {
				continue
			}
			if err := o.upload(ctx, name, m); err != nil {
				missing++
				last = err
				if errors.Is(err, errChanged) { // a process that escaped writes on: take it as it is
					found[name] = o.lookAgain(name, m)
				}
				break // the server is away: the others would fail alike
			}
		}
		if missing == 0 {
			return nil
		}
		o.log.Warn("outputs not uploaded yet", "error", last)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-o.clock.After(pause):
		}
		pause = min(2*pause, maxRetry)
	}
}

// total is what was uploaded, and incomplete what was not and why.
func (o *outputs) total(found map[string]mark) (files int, bytes int64, incomplete string) {
	var missing []string
	for name, m := range found {
		if o.uploaded[name] == m {
			files++
			bytes += m.size
			continue
		}
		why := o.refused[name]
		if why == "" {
			why = "the server was away"
		}
		missing = append(missing, fmt.Sprintf("%q (%s)", name, why))
	}
	if len(missing) > 0 {
		n := len(missing)
		incomplete = fmt.Sprintf("%d output files were not uploaded: %s", n, strings.Join(missing[:min(n, maxListed)], ", "))
	}
	if o.full {
		incomplete = strings.TrimPrefix(incomplete+fmt.Sprintf("; more than %d output files, the rest was left out", maxFiles), "; ")
	}
	return files, bytes, incomplete
}

// scan lists the regular files. Links are not followed, since they could lead anywhere.
func (o *outputs) scan() map[string]mark {
	found := map[string]mark{}
	for _, src := range o.sources {
		// An error: the process did not make it, or removed it.
		_ = o.within(src, func(root *os.Root) { o.walk(root, src.prefix, found) })
	}
	return found
}

// within opens a source and calls f with it, with the rights of whose files they are: a link laid
// by a user must not lead us further than the user could go.
func (o *outputs) within(src source, f func(*os.Root)) error {
	var root *os.Root
	var err error
	whole := o.uid == 0 || src.foreign
	if !whole {
		if root, err = os.OpenRoot(src.dir); err != nil { // ours: the user can't enter what lies around it
			return err
		}
	}
	do := func() {
		if whole {
			root, err = os.OpenRoot(path.Join(src.dir, src.sub))
		} else if src.sub != "" {
			outer := root
			root, err = outer.OpenRoot(src.sub)
			outer.Close()
		}
		if err == nil {
			f(root)
			root.Close()
		}
	}
	if o.uid == 0 {
		do()
	} else if notCalled := inside.As(o.uid, o.uid, do); notCalled != nil {
		if root != nil {
			root.Close()
		}
		return notCalled
	}
	return err
}

// walk adds the regular files of a folder.
func (o *outputs) walk(root *os.Root, prefix string, found map[string]mark) {
	_ = fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			if d != nil && d.IsDir() {
				return fs.SkipDir
			}
			return nil // it went away meanwhile
		}
		if d.IsDir() {
			return nil
		}
		name := prefix + p
		if !d.Type().IsRegular() {
			o.skip(name)
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		if _, taken := found[name]; !taken { // output/logs/x wins over the logs folder's x
			if len(found) >= maxFiles {
				o.full = true
				return fs.SkipAll
			}
			found[name] = mark{info.Size(), info.ModTime()}
		}
		return nil
	})
}

func (o *outputs) skip(name string) {
	if o.noted[name] || len(o.noted) >= 1000 {
		return
	}
	o.noted[name] = true
	o.log.Info("output left out: not a regular file", "path", name)
	if o.note != nil {
		o.note("output %q is a link or a special file and is not uploaded / 输出 %q 是链接或特殊文件，不会上传", name, name)
	}
}

var errChanged = errors.New("the file changed while it was read")

// upload stores one file as it was when it was scanned.
func (o *outputs) upload(ctx context.Context, name string, m mark) error {
	if err := link.CheckOutputPath(name); err != nil {
		o.refuse(name, err)
		return nil
	}
	f, err := o.open(name)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return errChanged
		}
		o.refuse(name, err)
		return nil
	}
	defer f.Close()
	if now, err := markOf(f); err != nil || now != m {
		return errChanged
	}
	if err := o.to.PutOutput(ctx, name, m.size, m.mtime, f); err != nil {
		if link.Permanent(err) {
			o.refuse(name, err)
			return nil
		}
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			return errChanged
		}
		return err
	}
	if now, err := markOf(f); err != nil || now != m {
		return errChanged
	}
	o.uploaded[name] = m
	return nil
}

func (o *outputs) refuse(name string, err error) {
	o.refused[name] = err.Error()
	o.log.Error("output can't be uploaded", "path", name, "error", err)
}

func markOf(f *os.File) (mark, error) {
	info, err := f.Stat()
	if err != nil {
		return mark{}, err
	}
	return mark{info.Size(), info.ModTime()}, nil
}

// open never follows a link, on no part of the way out of the folder.
func (o *outputs) open(name string) (*os.File, error) {
	err := fs.ErrNotExist
	for _, src := range o.sources {
		rest, ok := strings.CutPrefix(name, src.prefix)
		if !ok {
			continue
		}
		var f *os.File
		var oerr error
		if o.within(src, func(root *os.Root) {
			f, oerr = root.OpenFile(rest, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		}) != nil {
			continue
		}
		if oerr == nil {
			return f, nil
		}
		err = oerr
	}
	return nil, err
}

// lookAgain is a file's mark now; one that is gone stays as it was and is given up on.
func (o *outputs) lookAgain(name string, old mark) mark {
	f, err := o.open(name)
	if err != nil {
		o.refuse(name, errors.New("the file was removed"))
		return old
	}
	defer f.Close()
	if m, err := markOf(f); err == nil {
		return m
	}
	return old
}

// logsSource is the further logs folder, within the working directory only.
func logsSource(base, workingDir, logs string) (source, bool) {
	if logs == "" || base == "" {
		return source{}, false
	}
	clean := path.Clean(logs)
	if path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../") {
		return source{}, false
	}
	return source{dir: base, sub: path.Join(workingDir, clean), prefix: "logs/"}, true
}
