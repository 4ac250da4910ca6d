package output

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

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/launch/retry"
	"github.com/fermi-cluster/fermi/internal/launch/steward"
	"github.com/fermi-cluster/fermi/internal/link"
)

// uploader stores one file; link.Client is one.
type uploader interface {
	PutOutput(ctx context.Context, path string, size int64, modified time.Time, r io.Reader) error
}

// Set uploads the files of $FERMI_OUTPUT, and of the logs folder under "logs/". It is used by
// one goroutine at a time.
type Set struct {
	sources []Source
	to      uploader
	clock   clock.Clock
	log     *slog.Logger
	note    func(format string, args ...any) // into the user's log; may be nil

	before   map[string]Mark // the last scan
	uploaded map[string]Mark
	refused  map[string]string // path: why it can never be uploaded
	noted    map[string]bool   // entries that are neither file nor folder
	full     bool              // there are more files than maxFiles
}

// Source is a folder of the user's, and what its files are called.
type Source struct {
	Folder *steward.Folder
	Prefix string
	only   map[string]bool // nil: all of its files
}

// Mark tells one content of a file from another, as well as that can be told without reading.
type Mark struct {
	size  int64
	mtime time.Time
}

const (
	maxFiles  = 100_000
	scanEvery = 10 * time.Second
	maxListed = 5 // files named in done.json's Incomplete
)

func New(sources []Source, to uploader, c clock.Clock, log *slog.Logger, note func(string, ...any)) *Set {
	return &Set{
		sources: sources, to: to, clock: c, log: log, note: note,
		before: map[string]Mark{}, uploaded: map[string]Mark{}, refused: map[string]string{}, noted: map[string]bool{},
	}
}

// During uploads every scanEvery what has changed and stood still since the last scan, until ctx ends.
func (o *Set) During(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.clock.After(scanEvery):
		}
		now := o.Scan()
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

func (o *Set) settled(name string, m Mark) bool {
	_, refused := o.refused[name]
	return refused || o.uploaded[name] == m
}

// Finish uploads all that is missing, and tries until it is done or ctx ends. found is the last
// scan, made when the tree had ended.
func (o *Set) Finish(ctx context.Context, found map[string]Mark) error {
	pause := retry.First
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
		pause = min(2*pause, retry.Most)
	}
}

// Total is what was uploaded, and incomplete what was not and why.
func (o *Set) Total(found map[string]Mark) (files int, bytes int64, incomplete string) {
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

// Scan lists the regular files. Links are not followed, since they could lead anywhere.
func (o *Set) Scan() map[string]Mark {
	found := map[string]Mark{}
	for _, src := range o.sources {
		full, err := src.Folder.Walk(maxFiles, func(p string, info fs.FileInfo) {
			name := src.Prefix + p
			if src.only != nil && !src.only[p] {
				return
			}
			if !info.Mode().IsRegular() {
				o.skip(name)
				return
			}
			if _, taken := found[name]; taken { // output/logs/x wins over the logs folder's x
				return
			}
			if len(found) >= maxFiles {
				o.full = true
				return
			}
			found[name] = Mark{info.Size(), info.ModTime()}
		})
		o.full = o.full || full
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // otherwise the process did not make it, or removed it
			o.log.Warn("outputs can't be listed", "error", err)
		}
	}
	return found
}

func (o *Set) skip(name string) {
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
func (o *Set) upload(ctx context.Context, name string, m Mark) error {
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

func (o *Set) refuse(name string, err error) {
	o.refused[name] = err.Error()
	o.log.Error("output can't be uploaded", "path", name, "error", err)
}

func markOf(f *os.File) (Mark, error) {
	info, err := f.Stat()
	if err != nil {
		return Mark{}, err
	}
	return Mark{info.Size(), info.ModTime()}, nil
}

// open follows no link out of the folder.
func (o *Set) open(name string) (*os.File, error) {
	err := error(fs.ErrNotExist)
	for _, src := range o.sources {
		rest, ok := strings.CutPrefix(name, src.Prefix)
		if !ok {
			continue
		}
		f, oerr := src.Folder.Open(rest)
		if oerr == nil {
			return f, nil
		}
		err = oerr
	}
	return nil, err
}

// lookAgain is a file's mark now; one that is gone stays as it was and is given up on.
func (o *Set) lookAgain(name string, old Mark) Mark {
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

// LogsFolder is the further logs folder, which the task names relative to its working directory.
func LogsFolder(base, workingDir, logs string) (string, bool) {
	if logs == "" || base == "" {
		return "", false
	}
	clean := path.Clean(logs)
	if path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../") {
		return "", false
	}
	return path.Join(base, workingDir, clean), true
}
