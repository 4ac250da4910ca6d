// Package program is the fermi binary as a file that may be replaced by another one.
//
// Place: layer 6, below the agent and the hosts of a server. Promise: what stands at the program's path is whole and was tried, or is what was there before,
// whenever the power goes; a program that does not come up replaces nothing. Enemies: a disk that fills midway, a folder that nobody may write, a program that
// hangs, one that is gone from the disk while it runs.
package program

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Platform is what this process runs on.
const Platform = runtime.GOOS + "/" + runtime.GOARCH

// most bounds a program.
const most = 1 << 30

// Own is the program that this process runs, also after its file was replaced.
type Own struct {
	file   *os.File
	Digest string
	Size   int64
}

// Running reads it, once.
var Running = sync.OnceValues(func() (*Own, error) {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Own{f, hex.EncodeToString(sum.Sum(nil)), n}, nil
})

// Reader reads it from its beginning.
func (o *Own) Reader() io.Reader { return io.NewSectionReader(o.file, 0, o.Size) }

// Next is where the successor of a program lies until it takes its place.
func Next(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".next")
}

// Replaceable says why the program at a path can't be replaced; nil: it can.
func Replaceable(path string) error {
	f, err := create(Next(path))
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(Next(path)))
	}
	if err == nil {
		return nil
	}
	return fault.New(fault.Conflict, "ProgramReadOnly", fault.T("The agent can't write beside its program %s: %v", "代理无法在其程序 %s 所在目录写入：%v", path, reason(err))).
		WithHint(fault.T("Replace the program as it was installed (its package, its image), and restart the agent.", "请按原安装方式（软件包或镜像）更新程序，并重启代理。"))
}

// create makes the file anew: nobody else's, and no link.
func create(path string) (*os.File, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o700)
}

func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// Receive has fetch write a program beside the one at path, and checks that it is the one with this size and digest.
func Receive(path string, size int64, digest string, fetch func(io.Writer) error) (next string, err error) {
	if size <= 0 || size > most {
		return "", fault.New(fault.Invalid, "BadProgram", fault.T("A program of %d bytes is not taken.", "不接受大小为 %d 字节的程序。", size))
	}
	old, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	next = Next(path)
	f, err := create(next)
	if err != nil {
		return "", err
	}
	w := &bounded{file: f, left: size, sum: sha256.New()}
	if err = fetch(w); err == nil && (w.left != 0 || hex.EncodeToString(w.sum.Sum(nil)) != digest) {
		err = fault.New(fault.Conflict, "OtherDigest", fault.T("What came is not the program that was promised: its digest differs.", "收到的程序与预期不符：摘要不一致。"))
	}
	if err == nil {
		err = f.Chmod(old.Mode().Perm() | 0o100)
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		_ = os.Remove(next)
		if full := w.failed; full != nil {
			return "", fault.New(fault.Unavailable, "ProgramNotWritten", fault.T("The program can't be written to %s: %v", "无法将程序写入 %s：%v", filepath.Dir(path), reason(full)))
		}
		return "", err
	}
	return next, nil
}

// bounded writes no more than was promised.
type bounded struct {
	file   *os.File
	left   int64
	sum    hash.Hash
	failed error // of the file
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, errors.New("more than was promised")
	}
	b.sum.Write(p)
	n, err := b.file.Write(p)
	if err != nil {
		b.failed = err
	}
	return n, err
}

// Put makes next what stands at path.
func Put(next, path string) error {
	if err := os.Rename(next, path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Try runs a program, which ends well within patience; else the error says what it said last. It dies with this process.
func Try(ctx context.Context, path string, args []string, patience time.Duration, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	last := &tail{}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = out, io.MultiWriter(out, last)
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the signal comes at the end of the thread
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fault.New(fault.Unavailable, "NotUpInTime", fault.T("The new program did not attach to a server within %s. %s", "新程序未能在 %s 内连接到服务器。%s", patience, last.line()))
	}
	return fault.New(fault.Unavailable, "NotUp", fault.T("The new program did not come up (%v): %s", "新程序未能启动（%v）：%s", err, last.line()))
}

// tail keeps the end of what is written.
type tail struct{ text []byte }

const (
	mostTail = 2 << 10
	mostLine = 400
)

func (t *tail) Write(p []byte) (int, error) {
	if t.text = append(t.text, p...); len(t.text) > mostTail {
		t.text = append([]byte(nil), t.text[len(t.text)-mostTail:]...)
	}
	return len(p), nil
}

// line is the last two, in one.
func (t *tail) line() string {
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(t.text), "�")), "\n")
	s := strings.Join(strings.Fields(strings.Join(lines[max(0, len(lines)-2):], " ")), " ")
	if len(s) > mostLine {
		s = strings.ToValidUTF8(s[:mostLine], "") + "…"
	}
	return s
}
