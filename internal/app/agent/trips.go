package agent

import (
	"context"
	"net"
	"slices"
	"time"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine/agentengine"
)

const (
	tripsOf   = 10 // connections to each
	tripPause = 100 * time.Millisecond
	tripIn    = 2 * time.Second
	mostReach = 8
)

// measure is how long connections to these machines take: one round trip each, by the kernels of both.
func measure(ctx context.Context, to []agentengine.Reach) (out []agentengine.Trip) {
	for _, r := range to[:min(len(to), mostReach)] {
		var took []time.Duration
		for range tripsOf {
			if d, err := connect(ctx, r.Address); err == nil {
				took = append(took, d)
			}
			select {
			case <-ctx.Done():
				return out
			case <-clock.Real.After(tripPause):
			}
		}
		if len(took) == 0 {
			continue
		}
		slices.Sort(took)
		ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
		out = append(out, agentengine.Trip{Node: r.Node, P50Ms: ms(took[len(took)/2]), P99Ms: ms(took[len(took)-1]), Samples: len(took)})
	}
	return out
}

// connect makes a connection that says nothing, and ends it.
func connect(ctx context.Context, address string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, tripIn)
	defer cancel()
	begun := time.Now()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return 0, err
	}
	took := time.Since(begun)
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.SetLinger(0) // nothing is left of it here
	}
	return took, conn.Close()
}
