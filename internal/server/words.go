package server

import (
	"github.com/fermi-cluster/fermi/internal/server/cluster"
	"github.com/fermi-cluster/fermi/internal/server/limit"
	"github.com/fermi-cluster/fermi/internal/server/tenant"
	"github.com/fermi-cluster/fermi/internal/server/train"
	"github.com/fermi-cluster/fermi/internal/server/truth"
	"github.com/fermi-cluster/fermi/internal/server/work"
)

// What whoever assembles a server names of its rooms.
type (
	Store        = truth.Store
	Limits       = limit.Limits
	Stored       = tenant.Stored
	LogReader    = train.LogReader
	Checkpoints  = train.Checkpoints
	RankImage    = train.RankImage
	Imports      = train.Imports
	Explanation  = train.Explanation
	ReplicaView  = train.ReplicaView
	MoveWish     = train.MoveWish
	FaultWish    = train.FaultWish
	ProbeView    = train.ProbeView
	CapacityView = cluster.CapacityView
	WorkRow      = work.Row
	WorkVerb     = work.Verb
)
