package server

import (
	"context"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
)

// checkQueue refuses a queue that does not fit into the tree of the others. The queues above it must
// hold still until the commit: two that become each other's parent at once would make a circle.
// had are the projects that it named before.
func (s *Server) checkQueue(ctx context.Context, q *api.Queue, had []string) ([]store.Op, error) {
	if err := s.checkGrants(ctx, q, had); err != nil {
		return nil, err
	}
	snap, err := s.Store.List(ctx, api.KindQueue, "", s.newest.Load())
	if err != nil {
		return nil, err
	}
	var others []*api.Queue
	byName := map[string]*api.Queue{}
	snap.Ascend("", func(o api.Object) bool {
		others = append(others, o.(*api.Queue))
		byName[o.GetMeta().Name] = o.(*api.Queue)
		return true
	})
	if fields := api.CheckQueues(q, others); len(fields) > 0 {
		return nil, fault.New(fault.Invalid, "InvalidField", fault.T("The queue does not fit into the tree.", "队列与现有层级不符。")).WithFields(fields...)
	}
	var guards []store.Op
	for at := byName[q.Spec.Parent]; at != nil; at = byName[at.Spec.Parent] {
		guards = append(guards, store.Unchanged(api.KeyOf(at), at.Meta.Revision))
	}
	return guards, nil
}
