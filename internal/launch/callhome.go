package launch

import (
	"context"
	"errors"
	"net"

	"github.com/fermi-cluster/fermi/internal/accept"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/link/callhome"
)

// mostCalls bounds the connections to the API that are carried at once: they share one line with what else the launcher fetches and brings.
const mostCalls = 32

// openHome opens the address at which processes of a replica that has a machine of its own, such as a pod, reach the API, and writes it into ends. nil: who
// made the replica's network has seen to that, or it can't be had.
func (l *launcher) openHome(ends *record.Link) net.Listener {
	if !ends.Own {
		return nil
	}
	at, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		l.log.Warn("processes don't reach the API", "error", err)
		return nil
	}
	ends.Network.Server = "http://" + at.Addr().String()
	return at
}

// callHome carries their connections to a server until ctx ends.
func (l *launcher) callHome(ctx context.Context, at net.Listener) {
	way := callhome.Source{Client: l.client}
	err := accept.Serve(ctx, at, mostCalls, nil, func(ctx context.Context, conn net.Conn) {
		if err := way.Carry(ctx, conn); err != nil && ctx.Err() == nil {
			l.log.Info("a call of the replica's reached no server", "error", err)
		}
	})
	if err != nil && !errors.Is(err, net.ErrClosed) {
		l.log.Warn("processes don't reach the API any more", "error", err)
	}
}
