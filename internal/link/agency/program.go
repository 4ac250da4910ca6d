package agency

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/agency/agencypb"
)

// An agent that is to be upgraded fetches the program from any server that runs it, by the road that it attaches over: both ends have shown who they are.

const (
	fetchCall = "/fermi.agency.v1.Programs/Fetch"
	kindFetch = "fetch" // with the digest
	maxSlice  = 256 << 10
)

// programs is the service; its messages are frames.
var programs = grpc.ServiceDesc{
	ServiceName: "fermi.agency.v1.Programs", HandlerType: (*any)(nil),
	Streams: []grpc.StreamDesc{{
		StreamName: "Fetch", ServerStreams: true, ClientStreams: true,
		Handler: func(desk any, s grpc.ServerStream) error { return desk.(*Desk).hand(s) },
	}},
}

// hand sends this server's program.
func (d *Desk) hand(s grpc.ServerStream) error {
	if _, _, err := d.caller(s.Context()); err != nil {
		return status.Error(codes.Unauthenticated, err.Error())
	}
	var wish agencypb.Frame
	if err := s.RecvMsg(&wish); err != nil {
		return err
	}
	if wish.GetKind() != kindFetch || d.cfg.Program == nil {
		return status.Error(codes.Unimplemented, "nothing to fetch here")
	}
	program, err := d.cfg.Program(string(wish.GetBody()))
	if err != nil {
		return status.Error(codes.NotFound, err.Error())
	}
	buf := make([]byte, maxSlice)
	for {
		n, err := program.Read(buf)
		if n > 0 {
			if err := s.SendMsg(&agencypb.Frame{Body: buf[:n]}); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return status.Error(codes.Internal, err.Error())
		}
	}
}

// Fetch writes the program of this digest, as a server has it, to into. What was written before an error is no program; who calls checks the digest.
func (m *Member) Fetch(ctx context.Context, digest string, into io.Writer) error {
	m.mu.Lock()
	addresses := m.addresses()
	m.mu.Unlock()
	var errs []error
	for _, address := range addresses {
		begun, err := m.fetchFrom(ctx, address, digest, into)
		if err == nil {
			return nil
		}
		if errs = append(errs, err); begun || ctx.Err() != nil {
			break
		}
	}
	return fault.New(fault.Unavailable, "ProgramAway", fault.T("No server gave the whole program.", "没有服务器完整提供该程序。")).Because(errors.Join(errs...))
}

func (m *Member) fetchFrom(ctx context.Context, address, digest string, into io.Writer) (begun bool, err error) {
	line, err := m.dial(address)
	if err != nil {
		return false, err
	}
	defer line.Close()
	ctx, end := context.WithCancel(ctx)
	defer end()
	s, err := line.NewStream(ctx, &programs.Streams[0], fetchCall)
	if err != nil {
		return false, err
	}
	if err := s.SendMsg(&agencypb.Frame{Kind: kindFetch, Body: []byte(digest)}); err != nil {
		return false, err
	}
	for {
		var f agencypb.Frame
		err := s.RecvMsg(&f)
		if errors.Is(err, io.EOF) {
			return begun, nil
		}
		if err != nil {
			return begun, err
		}
		begun = true
		if _, err := into.Write(f.GetBody()); err != nil {
			return true, err
		}
	}
}
