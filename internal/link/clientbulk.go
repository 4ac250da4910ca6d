package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
	"github.com/fermi-cluster/fermi/internal/link/talk"
	"github.com/fermi-cluster/fermi/internal/link/talk/talkpb"
)

// second is a launcher's connection for bulk, beside its stream. Safe for concurrent use.
type second struct {
	endpoints func() []string
	dial      func(target string) (*grpc.ClientConn, error)
	welcomed  func() string // the server that took our last stream

	mu     sync.Mutex
	conn   *grpc.ClientConn // nil: none
	target string           // of the last one
}

// FetchArchive writes the archive to w. After an error that is not Permanent it may be called
// again, with a fresh w.
func (s *second) FetchArchive(ctx context.Context, digest string, w io.Writer) error {
	return s.Bulk(func(conn *grpc.ClientConn) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := linkpb.NewLinkClient(conn).FetchArchive(ctx, &linkpb.FetchArchiveRequest{Digest: digest})
		if err != nil {
			return err
		}
		for {
			chunk, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if _, err := w.Write(chunk.GetData()); err != nil {
				return err
			}
		}
	})
}

// FetchSecrets brings the values that the replica names. After an error that is not Permanent it
// may be called again.
func (s *second) FetchSecrets(ctx context.Context) (map[api.SecretRef]string, error) {
	out := map[api.SecretRef]string{}
	err := s.Bulk(func(conn *grpc.ClientConn) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := linkpb.NewLinkClient(conn).FetchSecrets(ctx, &linkpb.FetchSecretsRequest{})
		if err != nil {
			return err
		}
		for {
			v, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			out[api.SecretRef{Secret: v.GetSecret(), Key: v.GetKey()}] = v.GetValue()
		}
	})
	return out, err
}

// PutOutput stores exactly size bytes of r under path. After an error that is not Permanent it may
// be called again.
func (s *second) PutOutput(ctx context.Context, path string, size int64, modified time.Time, r io.Reader) error {
	return s.Bulk(func(conn *grpc.ClientConn) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := linkpb.NewLinkClient(conn).PutOutput(ctx)
		if err != nil {
			return err
		}
		head := &linkpb.OutputHeader{Path: path, Size: size, ModifiedUnixNano: modified.UnixNano()}
		err = stream.Send(&linkpb.PutOutputRequest{Part: &linkpb.PutOutputRequest_Header{Header: head}})
		buf := make([]byte, chunkBytes)
		for left := size; left > 0 && err == nil; {
			n, rerr := io.ReadFull(r, buf[:min(left, chunkBytes)])
			if rerr != nil {
				return fmt.Errorf("read output %q: %w", path, rerr)
			}
			left -= int64(n)
			err = stream.Send(&linkpb.PutOutputRequest{Part: &linkpb.PutOutputRequest_Data{Data: buf[:n]}})
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		reply, err := stream.CloseAndRecv() // after a failed Send this has the reason
		if err != nil {
			return err
		}
		if reply.GetStored() != size {
			return fmt.Errorf("server stored %d of %d bytes", reply.GetStored(), size)
		}
		return nil
	})
}

// Talk answers a call on the second connection, to the server that called; the conversation ends with ctx. A connection to another
// server, or to one that has died since, is given up first.
func (s *second) Talk(ctx context.Context, id string) (talkpb.Talk_AnswerClient, error) {
	var last error
	ctx = metadata.AppendToOutgoingContext(ctx, talk.MetaCall, id)
	for range 2 {
		conn, err := s.dialled()
		if err != nil {
			return nil, err
		}
		if s.leadsTo(conn, s.welcomed()) {
			stream, err := talkpb.NewTalkClient(conn).Answer(ctx)
			if last = err; err == nil {
				return stream, nil
			}
		}
		s.drop(conn)
	}
	return nil, fmt.Errorf("answer a call: %w", last)
}

// Bulk runs one call on the second connection, to the server that welcomed us or else the
// first endpoint; a failed call gives the connection up.
func (s *second) Bulk(call func(*grpc.ClientConn) error) error {
	conn, err := s.dialled()
	if err != nil {
		return err
	}
	err = call(conn)
	if err != nil && !Permanent(err) {
		s.drop(conn)
	}
	return err
}

func (s *second) dialled() (*grpc.ClientConn, error) {
	welcomed, list := s.welcomed(), s.endpoints()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		return s.conn, nil
	}
	target := pickTarget(list, welcomed, s.target)
	if target == "" {
		return nil, errors.New("no endpoint")
	}
	conn, err := s.dial(target)
	if err != nil {
		return nil, err
	}
	s.conn, s.target = conn, target
	return conn, nil
}

// pickTarget prefers the server that welcomed us while it is listed; otherwise the one after the
// one tried last.
func pickTarget(list []string, welcomed, last string) string {
	next := ""
	for i, t := range list {
		if t == welcomed && t != last {
			return t
		}
		if t == last {
			next = list[(i+1)%len(list)]
		}
	}
	if next == "" && len(list) > 0 {
		next = list[0]
	}
	return next
}

func (s *second) leadsTo(conn *grpc.ClientConn, target string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn == conn && s.target == target
}

func (s *second) drop(conn *grpc.ClientConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == conn {
		s.conn = nil
	}
	conn.Close()
}

func (s *second) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
}
