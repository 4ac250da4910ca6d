package intake

import (
	"errors"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fermi-cluster/fermi/internal/link/linkpb"
)

// Reader gives the chunks of a PutOutput, after its header, as a stream of exactly the promised length.
type Reader struct {
	Stream linkpb.Link_PutOutputServer
	Left   int64        // bytes that were promised
	Settle func() error // asked at the end: with an error nothing counts

	buf   []byte
	ended bool
}

// Read gives what has come.
func (r *Reader) Read(p []byte) (int, error) {
	for len(r.buf) == 0 {
		if r.ended {
			return 0, io.EOF
		}
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.buf)
	r.buf = r.buf[n:]
	return n, nil
}

// next waits for another chunk.
func (r *Reader) next() error {
	m, err := r.Stream.Recv()
	switch {
	case errors.Is(err, io.EOF) && r.Left > 0:
		return status.Errorf(codes.InvalidArgument, "output ended %d bytes early", r.Left)
	case errors.Is(err, io.EOF):
		if err := r.Settle(); err != nil {
			return err
		}
		r.ended = true
		return nil
	case err != nil:
		return err
	case m.GetHeader() != nil:
		return status.Error(codes.InvalidArgument, "header comes once")
	case int64(len(m.GetData())) > r.Left:
		return status.Error(codes.InvalidArgument, "output is longer than promised")
	}
	r.buf = m.GetData()
	r.Left -= int64(len(r.buf))
	return nil
}
