package sealed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/zeebo/blake3"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Reader gives the verified bytes of an object. Not safe for concurrent use.
type Reader struct {
	key  string
	r    io.ReadSeekCloser
	size int64
	at   int64
	// fit are the versions that everything read so far fits to; nil: the object has no sums.
	fit []version
	buf []byte // a verified block
	of  int64  // its number; -1: none
	bad error
}

var _ io.ReadSeekCloser = (*Reader)(nil)

// Open fails with fault NotFound, and with Damaged where no content that was put there has this size. The caller closes.
func Open(ctx context.Context, s blob.Store, key string) (*Reader, blob.Info, error) {
	for try := 0; ; try++ {
		r, info, err := open(ctx, s, key)
		// Somebody may have replaced it between the two reads.
		if fault.ReasonOf(err) != "Damaged" || try == 2 {
			return r, info, err
		}
	}
}

func open(ctx context.Context, s blob.Store, key string) (*Reader, blob.Info, error) {
	r, info, err := s.Open(ctx, key)
	if err != nil {
		return nil, info, err
	}
	out := &Reader{key: key, r: r, size: info.Size, of: -1}
	known, err := read(ctx, s, key)
	switch {
	case fault.Is(err, fault.NotFound):
		return out, info, nil // from before there were sums
	case err != nil:
		return nil, info, errors.Join(err, r.Close())
	}
	for _, v := range known.Versions {
		if v.Size == info.Size && int64(len(v.Sums)) == (v.Size+block-1)/block*sumSize {
			out.fit = append(out.fit, v)
		}
	}
	if len(out.fit) == 0 {
		err := fault.New(fault.Internal, "Damaged", fault.T("%s is damaged: it has %d bytes, which is not what was stored.", "%s 已损坏：当前为 %d 字节，与存入时不一致。", key, info.Size)).WithHint(rescue())
		return nil, info, errors.Join(err, r.Close())
	}
	return out, info, nil
}

// Err is why reading ended early; nil when it did not.
func (r *Reader) Err() error { return r.bad }

func (r *Reader) Close() error { return r.r.Close() }

func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.size
	}
	if offset < 0 {
		return 0, fmt.Errorf("sealed: offset %d", offset)
	}
	r.at = offset
	return offset, nil
}

func (r *Reader) Read(p []byte) (int, error) {
	if r.bad != nil {
		return 0, r.bad
	}
	if r.at >= r.size {
		return 0, io.EOF
	}
	if n := r.at / block; n != r.of {
		if r.bad = r.load(n); r.bad != nil {
			return 0, r.bad
		}
	}
	n := copy(p, r.buf[r.at%block:])
	r.at += int64(n)
	return n, nil
}

// load reads a block and verifies it.
func (r *Reader) load(n int64) error {
	start := n * block
	if r.buf == nil {
		r.buf = make([]byte, min(block, r.size))
	}
	r.of = -1
	r.buf = r.buf[:min(block, r.size-start)]
	if _, err := r.r.Seek(start, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.ReadFull(r.r, r.buf); err != nil {
		return damaged(r.key, start, int64(len(r.buf)), err)
	}
	if r.fit != nil {
		sum := blake3.Sum256(r.buf)
		var fit []version
		for _, v := range r.fit {
			if bytes.Equal(v.Sums[n*sumSize:(n+1)*sumSize], sum[:sumSize]) {
				fit = append(fit, v)
			}
		}
		if len(fit) == 0 {
			return damaged(r.key, start, int64(len(r.buf)), errors.New("the checksum does not fit"))
		}
		r.fit = fit
	}
	r.of = n
	return nil
}
