package link

import (
	"context"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
)

// pingKind is the question that every server answers itself, with the zone it stands in.
const pingKind = "ping"

// maxZone bounds the answer.
const maxZone = 63

// Addresses are those of the other servers that live now.
func (p *Peers) Addresses() []string {
	var out []string
	for _, s := range p.others() {
		out = append(out, s.Address)
	}
	return out
}

// Ping measures a round trip to another server and says in which zone it stands; "" is unknown. The
// first of two trips may find the connection yet to be made, so only the second counts.
func (p *Peers) Ping(ctx context.Context, address string) (zone string, trip time.Duration, err error) {
	conn, err := p.conn(address)
	if err != nil {
		return "", 0, err
	}
	peer := linkpb.NewPeerClient(conn)
	for range 2 {
		begin := time.Now()
		a, err := peer.Ask(ctx, &linkpb.Question{Kind: pingKind})
		if err != nil {
			return "", 0, err
		}
		if len(a.GetJson()) > maxZone {
			return "", 0, fault.New(fault.Invalid, "BadZone", fault.T("A server names a zone of %d bytes.", "某服务器的可用区名称有 %d 字节。", len(a.GetJson())))
		}
		zone, trip = string(a.GetJson()), time.Since(begin)
	}
	return zone, trip, nil
}
