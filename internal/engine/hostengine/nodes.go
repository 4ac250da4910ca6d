package hostengine

import (
	"context"
	"slices"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine/inventory"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// listEvery is how often the inventory is asked.
const listEvery = 30 * time.Second

// thisMachine is the inventory where none was given.
func thisMachine(ctx context.Context) ([]api.Node, error) {
	n, err := inventory.Local(ctx)
	if err != nil {
		return nil, err
	}
	return []api.Node{n}, nil
}

// LookAtNodes asks for a report before its time. It never blocks.
func (e *Engine) LookAtNodes() {
	select {
	case e.relist <- struct{}{}:
	default:
	}
}

// reportNodes tells what the inventory says, now and then, until ctx ends.
func (e *Engine) reportNodes(ctx context.Context) {
	pause := time.Second // until it could be read for the first time
	for {
		if list, err := e.cfg.Inventory(ctx); err == nil {
			e.Report(withExposed(list, e.index.exposed("")))
			pause = listEvery
		} else if ctx.Err() == nil {
			e.cfg.Log.Warn("the inventory could not be read; trying again", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-e.relist:
		case <-e.cfg.Clock.After(pause):
		}
	}
}

// withExposed adds to the nodes' messages that replicas of an earlier version still use the machine's network.
func withExposed(nodes []api.Node, n int) []api.Node {
	if n == 0 {
		return nodes
	}
	why := fault.T("Replicas that an earlier version started still use the machine's network, until they end (%d).", "由旧版本启动的副本仍在使用本机网络，直至其结束（%d 个）。", n)
	nodes = slices.Clone(nodes)
	for i := range nodes {
		s := &nodes[i].Status
		s.Message = fault.Text{EN: strings.TrimSpace(s.Message.EN + " " + why.EN), ZH: s.Message.ZH + why.ZH}
	}
	return nodes
}
