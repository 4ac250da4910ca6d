package agency

import (
	"context"
	"errors"
	"net"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fermi-cluster/fermi/internal/link/callhome"
)

// Processes of replicas call the API at one address of their own machine. On one that joined its agent takes the connection and carries it here, by the
// road that launchers use: the machine need not reach the API's own port, and nothing but what its agent carries comes this way.

const openCall = "/fermi.agency.v1.Calls/Open"

// calls is the service.
var calls = grpc.ServiceDesc{
	ServiceName: "fermi.agency.v1.Calls", HandlerType: (*any)(nil),
	Streams: []grpc.StreamDesc{callhome.Stream(func(desk any, s grpc.ServerStream) error { return desk.(*Desk).call(s) })},
}

// Calls lets replicas of machines that joined call who accepts from it; one at a time.
func (d *Desk) Calls() *callhome.Calls {
	c := callhome.New()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = c
	return c
}

// call serves one.
func (d *Desk) call(s grpc.ServerStream) error {
	ctx := s.Context()
	if _, _, err := d.caller(ctx); err != nil {
		return status.Error(codes.Unauthenticated, err.Error())
	}
	d.mu.Lock()
	to := d.calls
	d.mu.Unlock()
	if to == nil {
		return status.Error(codes.Unavailable, "nobody takes calls here")
	}
	return to.Take(s)
}

// Carry carries a connection of a replica to a server's API until one of both ends it; it closes the connection. An error: no server takes it.
func (m *Member) Carry(ctx context.Context, conn net.Conn) error {
	defer conn.Close()
	m.mu.Lock()
	addresses, good := m.addresses(), m.good
	m.mu.Unlock()
	if i := slices.Index(addresses, good); i > 0 {
		addresses = slices.Concat(addresses[i:], addresses[:i])
	}
	var errs []error
	for _, address := range addresses {
		over, err := m.carryTo(ctx, address, conn)
		if over {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// carryTo carries it to one server; over is false where nothing was said to that one.
func (m *Member) carryTo(ctx context.Context, address string, conn net.Conn) (over bool, err error) {
	line, err := m.dial(address)
	if err != nil {
		return false, err
	}
	defer line.Close()
	return callhome.Carry(ctx, line, openCall, conn, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.good = address
	})
}
