package link

import (
	"github.com/fermi-cluster/fermi/internal/link/message"
	"github.com/fermi-cluster/fermi/internal/link/pace"
)

// What launchers and leaders tell each other, by the names that their users know.
type (
	Generation = message.Generation
	Membership = message.Membership
	States     = message.States
	Role       = message.Role
	Ranks      = message.Ranks
	Progress   = message.Progress
	Holding    = message.Holding
	RankState  = message.RankState
	RankExit   = message.RankExit
	RankOwn    = message.RankOwn
	Use        = message.Use
	Saves      = message.Saves
	Pace       = pace.Pace
	Course     = pace.Course
	Copy       = message.Copy
	Source     = message.Source
	Origin     = message.Origin
	Persisted  = message.Persisted
	Persist    = message.Persist
	Committed  = message.Committed
	Watermark  = message.Watermark
	Keeping    = message.Keeping
	Want       = message.Want
	Denied     = message.Denied
	Probe      = message.Probe
	Probed     = message.Probed
)

// The tiers that steps are persisted to, and the bounds that others keep to.
const (
	TierLocal    = message.TierLocal
	TierShared   = message.TierShared
	MaxHeld      = message.MaxHeld
	MaxCopies    = message.MaxCopies
	MaxMetrics   = message.MaxMetrics
	MaxManifest  = message.MaxManifest
	MaxAddresses = message.MaxAddresses
)

// Tiers are all there are, the nearest first.
var Tiers = message.Tiers
