package gang

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/recipe"
)

// Gang is everybody there shall be of a task, and everybody there still is.
type Gang struct {
	Terms
	Members Members     // of the current attempt, in the placement's order; empty without one
	Order   []int       // of members, as ranks go
	World   int         // ranks of all members
	Joining Members     // replicas of an elastic task that take part from the next generation on
	Spares  Members     // replicas that have no rank
	Seats   map[int]int // seats of members that took another's, by index
	Vacant  []int       // seats of members that were lost and that nobody took, rising
	Surplus Members     // replicas that it gives up; they are among others as well
	Others  []engine.Observation
	Hush        // who says nothing, and who was given up for it
	shift   int // places in order between a member and its peer; 0: not known yet
}

// Everybody is who takes part and, behind them, who joins, and who stands by. It is only read: mostly there are no others
// than the members, of whom there may be thousands.
func (g *Gang) Everybody() Members {
	if len(g.Joining)+len(g.Spares) == 0 {
		return slices.Clip(g.Members)
	}
	return slices.Concat(g.Members, g.Joining, g.Spares)
}

// Rank gives every member its first rank: role by role and within one in the order of the topology,
// so that neighbours in rank are neighbours in place.
func (g *Gang) Rank() {
	order := make([]int, len(g.Members))
	for i := range order {
		order[i] = i
	}
	role := map[string]int{}
	for i := range g.Members {
		if _, ok := role[g.Members[i].Role]; !ok {
			role[g.Members[i].Role] = len(role)
		}
	}
	if g.Inside() {
		role = nil // the user's order counts
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &g.Members[a], &g.Members[b]
		if role == nil {
			return cmp.Compare(x.Index, y.Index)
		}
		return cmp.Or(
			cmp.Compare(role[x.Role], role[y.Role]), cmp.Compare(x.Zone, y.Zone), cmp.Compare(x.Leaf, y.Leaf),
			cmp.Compare(x.Number, y.Number), cmp.Compare(lowest(x.Devices), lowest(y.Devices)), cmp.Compare(x.Index, y.Index))
	})
	g.keepSeats(order)
	g.Order, g.World, g.shift = order, 0, 0
	places := order
	if len(g.Seats)+len(g.Vacant) > 0 {
		places = g.seated(order)
		g.Order = slices.DeleteFunc(slices.Clone(places), func(i int) bool { return i < 0 })
	}
	next, groups := map[string]int{}, map[string]int{} // the next rank and launcher; "": of the roles that restart with the task
	for place, i := range places {
		if i < 0 {
			continue
		}
		m := &g.Members[i]
		space := g.Alone(m.Role)
		m.Seat, m.First, m.Group = place, next[space], groups[space]
		next[space] += m.Ranks
		groups[space]++
		g.World += m.Ranks
	}
	for i := range g.Members {
		g.Members[i].Groups = groups[g.Alone(g.Members[i].Role)]
	}
}

// keepSeats puts who is of the open generation where it was, and newcomers where somebody is missing: states
// are of a rank, and ranks that stay keep their number. order is sorted by role.
func (g *Gang) keepSeats(order []int) {
	r := g.Task.Status.Rendezvous
	if r == nil || !g.Peered() || len(order) != len(r.Seats) {
		return // not all are there
	}
	for from := 0; from < len(order); {
		role, to := g.Members[order[from]].Role, from
		for to < len(order) && g.Members[order[to]].Role == role {
			to++
		}
		g.keepSeatsOf(order[from:to], r.Seats[from:to])
		from = to
	}
}

func (g *Gang) keepSeatsOf(order, seats []int) {
	placed, free := make([]int, len(seats)), []int{}
	for k := range placed {
		placed[k] = -1
	}
	for _, i := range order {
		if k := slices.Index(seats, g.Members[i].Index); k >= 0 {
			placed[k] = i
		} else {
			free = append(free, i)
		}
	}
	for k := range placed {
		if placed[k] < 0 {
			placed[k], free = free[0], free[1:]
		}
	}
	copy(order, placed)
}

// seated is an order of members in which those that took another's place have it, and the others keep theirs.
func (g *Gang) seated(order []int) (places []int) {
	places = make([]int, len(order)+len(g.Vacant))
	const empty, vacant = -1, -2
	for i := range places {
		places[i] = empty
		if slices.Contains(g.Vacant, i) {
			places[i] = vacant
		}
	}
	var rest []int
	for _, i := range order {
		if at, ok := g.Seats[g.Members[i].Index]; ok && at < len(places) && places[at] == empty {
			places[at] = i
		} else {
			rest = append(rest, i)
		}
	}
	for at := range places {
		if places[at] == empty && len(rest) > 0 {
			places[at], rest = rest[0], rest[1:]
		}
	}
	return places
}

// Seating is who has which rank: the indexes of the replicas in the order of their ranks.
func (g *Gang) Seating() (out []int) {
	if g.Peered() {
		for _, i := range g.Order {
			out = append(out, g.Members[i].Index)
		}
	}
	return out
}

// Coming says that somebody may still take a place that is vacant.
func (g *Gang) Coming() bool {
	return g.Joining.Any(func(m *Member) bool { return !m.Leaving }) || g.Spares.Any(func(m *Member) bool { return !m.Ended() && !m.Leaving })
}

// Addresses is what every rank is told about the roles, and its hash.
func (g *Gang) Addresses() (roles []link.Role, hash string) {
	if len(g.Task.Spec.Roles) < 2 {
		return nil, ""
	}
	at := map[string]int{}
	for _, i := range g.Order {
		m := &g.Members[i]
		k, ok := at[m.Role]
		if !ok {
			k = len(roles)
			at[m.Role], roles = k, append(roles, link.Role{Name: m.Role})
		}
		r := &roles[k]
		r.Ranks += m.Ranks
		if r.Replicas++; r.Replicas > link.MaxAddresses {
			continue
		}
		address := ""
		if m.Said.Serve != 0 {
			address = m.Address(m.Said.Serve)
		}
		r.Addresses = append(r.Addresses, address)
	}
	h := sha256.New()
	for i := range roles {
		fmt.Fprintln(h, roles[i])
	}
	return roles, hex.EncodeToString(h.Sum(nil)[:16])
}

// Hosts is the addresses of all members in rank order, for a framework that names them; none where no
// launcher has one of its own: they are all on one machine then.
func (g *Gang) Hosts() (out []string) {
	if !recipe.Needed(&g.Task.Spec) || !g.Members.Any(func(m *Member) bool { return m.Said.Address != "" }) {
		return nil
	}
	for _, i := range g.Order {
		out = append(out, g.Members[i].Host())
	}
	return out
}

// TooFew says that fewer take part than the task can do with.
func (g *Gang) TooFew() bool { return g.Members.TooFew(&g.Task.Spec) }

// Reachable says that every launcher has told where its ranks may be reached.
func (g *Gang) Reachable() bool { return g.Members.Reachable(&g.Task.Spec) }
