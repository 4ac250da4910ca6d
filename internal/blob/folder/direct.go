package folder

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
	"syscall"
	"unsafe"
)

const (
	// align is what O_DIRECT asks of addresses, offsets and lengths; 4096 holds on every disk we know.
	align = 4096
	// large is where an object is written around the page cache: below it the cache is faster, and
	// above it a checkpoint would throw out of memory what training reads.
	large = 4 << 20
	// small is the buffer of most objects.
	small = 32 << 10
)

// buffers holds aligned buffers of large bytes.
var buffers = sync.Pool{New: func() any {
	raw := make([]byte, large+align)
	skip := -int(uintptr(unsafe.Pointer(&raw[0]))) & (align - 1)
	buf := raw[skip : skip+large : skip+large]
	return &buf
}}

func aligned(p []byte) bool { return uintptr(unsafe.Pointer(unsafe.SliceData(p)))&(align-1) == 0 }

// temp writes one temporary file: what is small by plain writes, what is large by O_DIRECT where the
// file system takes that.
type temp struct {
	ctx    context.Context
	files  Files
	name   string
	f      File
	direct bool
	buf    []byte
	pooled *[]byte // what buf is, once the object is large
	held   int     // bytes in buf
	size   int64
}

func (s *Store) newTemp(ctx context.Context, name string) (*temp, error) {
	const how = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	f, err := s.files.OpenFile(name, how, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err := s.files.Mkdir(path.Dir(name), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		f, err = s.files.OpenFile(name, how, 0o600)
	}
	if err != nil {
		return nil, err
	}
	return &temp{ctx: ctx, files: s.files, name: name, f: f, buf: make([]byte, small)}, nil
}

// fill takes all that r gives. A reader that can hand over its own memory is written from there.
func (t *temp) fill(r io.Reader) error {
	if src, ok := r.(io.WriterTo); ok {
		_, err := src.WriteTo(t)
		return err
	}
	for {
		if err := t.ctx.Err(); err != nil {
			return err
		}
		n, err := r.Read(t.buf[t.held:])
		t.held += n
		if t.held == len(t.buf) {
			if err := t.flush(); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Write is for readers that give their own memory.
func (t *temp) Write(p []byte) (int, error) {
	all := len(p)
	for len(p) > 0 {
		if err := t.ctx.Err(); err != nil {
			return all - len(p), err
		}
		if whole := min(len(p), large) &^ (align - 1); t.direct && t.held == 0 && whole > 0 && aligned(p) {
			n, err := t.f.Write(p[:whole])
			t.size += int64(n)
			if err != nil {
				return all - len(p), err
			}
			p = p[whole:]
			continue
		}
		n := copy(t.buf[t.held:], p)
		t.held += n
		p = p[n:]
		if t.held == len(t.buf) {
			if err := t.flush(); err != nil {
				return all - len(p), err
			}
		}
	}
	return all, nil
}

// flush writes the full buffer; the first large one shows that the object is large.
func (t *temp) flush() error {
	if t.pooled == nil {
		t.pooled = buffers.Get().(*[]byte)
		copy(*t.pooled, t.buf)
		t.buf = *t.pooled
		return nil
	}
	if t.size == 0 {
		if err := t.goDirect(); err != nil {
			return err
		}
	}
	n, err := t.f.Write(t.buf[:t.held])
	t.size += int64(n)
	t.held = 0
	return err
}

func (t *temp) goDirect() error {
	f, err := t.files.OpenFile(t.name, os.O_WRONLY|syscall.O_DIRECT, 0)
	if errors.Is(err, syscall.EINVAL) {
		return nil // not on this file system
	}
	if err != nil {
		return err
	}
	t.direct = true
	err = t.f.Close()
	t.f = f
	return err
}

// finish writes the rest and makes all of it durable.
func (t *temp) finish() (fs.FileInfo, error) {
	rest := int64(t.held)
	if t.direct {
		padded := (t.held + align - 1) &^ (align - 1)
		clear(t.buf[t.held:padded])
		t.held = padded
	}
	if t.held > 0 {
		if _, err := t.f.Write(t.buf[:t.held]); err != nil {
			return nil, err
		}
	}
	if int64(t.held) != rest {
		if err := t.f.Truncate(t.size + rest); err != nil {
			return nil, err
		}
	}
	t.size += rest
	if err := t.f.Sync(); err != nil {
		return nil, err
	}
	return t.f.Stat()
}

func (t *temp) close() error {
	if t.pooled != nil {
		buffers.Put(t.pooled)
	}
	return t.f.Close()
}
