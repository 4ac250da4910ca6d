package sched

import (
	"math"
	"slices"
	"strings"

	"github.com/fermi-cluster/fermi/sched/pack"
	"github.com/fermi-cluster/fermi/sched/room"
)

// index is what is known of one wish.
type index = room.Index[room.Key]

// known is what was worked out about nodes and is still worth something, and what arrived.
type known struct {
	room.Space[room.Key]
	demand *pack.Demand
	makes  []nodesMade
	seen   bool // something arrived: before that the demand makes nothing of nodes
}

// nodesMade is how many nodes of a make came, or went, since the demand was last told: it thinks for
// a while whenever it hears of some, and there is a time when all come at once.
type nodesMade struct {
	empty pack.Room
	count int
}

// maxMakes are kept for later.
const maxMakes = 256

func (k *known) made(n *node, count int) {
	for i := range k.makes {
		m := &k.makes[i]
		if m.empty.CPU == int64(n.CPU) && m.empty.Memory == int64(n.Memory) && slices.Equal(m.empty.Types, n.room.Types) {
			m.count += count
			return
		}
	}
	if len(k.makes) == maxMakes {
		k.tell()
	}
	k.makes = append(k.makes, nodesMade{pack.Room{CPU: int64(n.CPU), Memory: int64(n.Memory), Types: n.room.Types}, count})
}

func (k *known) tell() {
	for _, m := range k.makes {
		if m.count != 0 {
			k.demand.Have(m.empty, m.count)
		}
	}
	k.makes = k.makes[:0]
}

// begin knows nothing of a cluster yet.
func (k *known) begin(c *Cluster) {
	k.demand = pack.NewDemand()
	k.Space = room.NewSpace((*room.Key).Ask, func(key *room.Key, ask *pack.Ask, at int32) (fits int32, score int64, grade uint8) {
		n := c.tree.nodes[at]
		score, grade = math.MinInt64, uint8(min(max(n.Failures, 0), 255))
		if n.Closed || key.Strict && n.Failures > 0 || key.Spot.Bars(n.Spot) {
			return 0, score, grade
		}
		if fits = min(n.room.Fits(ask), n.disks(key.Disk)); fits > 0 {
			score, _, _ = k.demand.Score(&n.room, ask)
		}
		return fits, score, grade
	})
}

// lay tells of the nodes of a new tree.
func (k *known) lay(t *tree) {
	l := room.Layout{Room: func(at int32) *pack.Room { return &t.nodes[at].room }}
	for level := range levels {
		l.Of, l.Domains = append(l.Of, t.Of[level]), append(l.Domains, len(t.Levels[level]))
	}
	k.Lay(l)
}

// index finds or makes the one for a wish, and brings it up to now.
func (c *Cluster) index(key room.Key) *index {
	c.topology()
	if c.known.seen {
		c.known.tell()
	}
	return c.known.Index(key, c.known.demand.Version())
}

// flows tells the demand of what came, or went; what is kept for a look does neither.
func (k *known) flows(id string, h *hold, came bool) {
	if strings.IndexByte(id, 0) >= 0 {
		return
	}
	for i := range h.at {
		n := &h.roles[i].Need
		for range min(len(h.at[i]), mostSeen) {
			if devices := int64(n.Devices) * int64(n.Part()); came {
				k.demand.Take(devices)
			} else {
				k.demand.Leave(devices)
			}
		}
	}
}
