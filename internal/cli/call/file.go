package call

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/internal/cli/pack"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// SaveFile writes a file that is either whole or absent: temporary name, fsync, rename.
func SaveFile(path string, mode fs.FileMode, fill func(*os.File) (int64, error)) (n int64, err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return 0, BadFile(path, err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if n, err = fill(f); err != nil {
		return n, err
	}
	if err = f.Chmod(mode); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return n, BadFile(path, err)
	}
	if d, openErr := os.Open(dir); openErr == nil {
		_ = d.Sync() // best effort: some file systems refuse to sync a folder
		d.Close()
	}
	return n, nil
}

func BadFile(path string, err error) error {
	return fault.New(fault.Invalid, "BadFile", fault.T("%s can't be written: %s.", "无法写入 %s：%s。", path, ReasonOf(err))).Because(err)
}

// CopyProgress copies and, when it takes over a second, says on stderr how far it is. total < 0:
// unknown.
func CopyProgress(ctx context.Context, s *Session, w io.Writer, r io.Reader, total int64, what string) (int64, error) {
	p := s.Progress(what, total)
	defer p.Done()
	return io.Copy(w, &pack.Reader{Ctx: ctx, R: r, Add: p.Add})
}

// Progress shows a line on stderr for anything that takes over a second: in place on a terminal,
// otherwise one line every ten seconds. An upload is read by another goroutine: hence the lock.
type Progress struct {
	mu    sync.Mutex
	s     *Session
	what  string
	total int64
	n     int64
	start time.Time
	last  time.Time
	every time.Duration
	inPl  bool
	shown bool
}

func (s *Session) Progress(what string, total int64) *Progress {
	p := &Progress{s: s, what: what, total: total, start: s.Clock.Now(), every: 10 * time.Second}
	if show.IsTerminal(s.Err) {
		p.inPl, p.every = true, 200*time.Millisecond
	}
	return p
}

func (p *Progress) Add(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n += n
	now := p.s.Clock.Now()
	if now.Sub(p.start) < time.Second || now.Sub(p.last) < p.every {
		return
	}
	p.last, p.shown = now, true
	line := show.Clean(p.what) + ": " + show.Size(p.n)
	if p.total > 0 {
		line += " / " + show.Size(p.total)
	}
	if p.inPl {
		io.WriteString(p.s.Err, "\r\x1b[K"+show.Cut(line, max(20, show.ScreenOf(p.s.Err).Width-1)))
	} else {
		show.Line(p.s.Err, line)
	}
}

// Done wipes the line; the next add may show it again.
func (p *Progress) Done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown && p.inPl {
		io.WriteString(p.s.Err, "\r\x1b[K")
		p.shown = false
	}
}
