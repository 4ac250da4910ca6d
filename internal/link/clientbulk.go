package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
	"github.com/fermi-cluster/fermi/internal/link/talk"
	"github.com/fermi-cluster/fermi/internal/link/talk/talkpb"
)

// FetchArchive writes the archive to w. After an error that is not Permanent it may be called
// again, with a fresh w.
func (c *Client) FetchArchive(ctx context.Context, digest string, w io.Writer) error {
	return c.Bulk(func(conn *grpc.ClientConn) error {
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
func (c *Client) FetchSecrets(ctx context.Context) (map[api.SecretRef]string, error) {
	out := map[api.SecretRef]string{}
	err := c.Bulk(func(conn *grpc.ClientConn) error {
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
func (c *Client) PutOutput(ctx context.Context, path string, size int64, modified time.Time, r io.Reader) error {
	return c.Bulk(func(conn *grpc.ClientConn) error {
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
func (c *Client) Talk(ctx context.Context, id string) (talkpb.Talk_AnswerClient, error) {
	var last error
	ctx = metadata.AppendToOutgoingContext(ctx, talk.MetaCall, id)
	for range 2 {
		conn, err := c.bulkConn()
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		caller := c.target
		c.mu.Unlock()
		if c.second.leadsTo(conn, caller) {
			stream, err := talkpb.NewTalkClient(conn).Answer(ctx)
			if last = err; err == nil {
				return stream, nil
			}
		}
		c.second.drop(conn)
	}
	return nil, fmt.Errorf("answer a call: %w", last)
}

// Bulk runs one call on the second connection, to the server that welcomed us or else the
// first endpoint; a failed call gives the connection up.
func (c *Client) Bulk(call func(*grpc.ClientConn) error) error {
	conn, err := c.bulkConn()
	if err != nil {
		return err
	}
	err = call(conn)
	if err != nil && !Permanent(err) {
		c.second.drop(conn)
	}
	return err
}

func (c *Client) bulkConn() (*grpc.ClientConn, error) {
	c.mu.Lock()
	target := c.target
	c.mu.Unlock()
	list := c.endpoints()
	c.second.mu.Lock()
	defer c.second.mu.Unlock()
	if c.second.conn != nil {
		return c.second.conn, nil
	}
	target = pickTarget(list, target, c.second.target)
	if target == "" {
		return nil, errors.New("no endpoint")
	}
	conn, err := c.dial(target)
	if err != nil {
		return nil, err
	}
	c.second.conn, c.second.target = conn, target
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
