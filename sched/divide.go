package sched

import (
	"cmp"
	"slices"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/where"
	"github.com/fermi-cluster/fermi/sched/deal"
	"github.com/fermi-cluster/fermi/sched/room"
)

// division divides a gang over the zones that it may use: where its split says how many may stand in each, or where it is to be
// balanced.
type division struct {
	s     *search
	zones []*zone
	rank  map[*zone]int // the lower the more preferred otherwise
}

func newDivision(s *search, zones []*zone) *division {
	d := &division{s, zones, map[*zone]int{}}
	for i, group := range s.groups(zones) {
		for _, z := range group {
			d.rank[z] = i
		}
	}
	return d
}

// split places the gang as its split allows.
func (d *division) split() bool {
	w := d.s.w
	var list []deal.Share
	for _, name := range sortedKeys(w.Split) {
		if z := d.zone(name); z != nil {
			list = append(list, d.share(z, w.Split[name]))
		} else if w.Split[name].Least > 0 {
			return false
		}
	}
	shares, ok := deal.Split(list, w.Balance, func(a, b deal.Share) bool { return d.apart(a, b, w.MaxLatency > 0) })
	return ok && d.place(shares)
}

// balance places the gang where most room is left, in zones that are near to each other.
func (d *division) balance() bool {
	total := d.s.w.Replicas()
	var list []deal.Share
	for _, z := range d.s.useful(d.zones) {
		list = append(list, d.share(z, where.Span{Most: total}))
	}
	slices.SortFunc(list, func(a, b deal.Share) int { return cmp.Compare(d.s.t.zones[a.Zone].Name, d.s.t.zones[b.Zone].Name) })
	shares, ok := deal.Balance(list, total, func(a, b deal.Share) bool { return d.apart(a, b, true) })
	return ok && d.place(shares)
}

// zone is one of those that the gang may use; nil: it is none.
func (d *division) zone(name string) *zone {
	if z, ok := d.s.c.zones[name]; ok && z.at >= 0 && slices.Contains(d.zones, z) {
		return z
	}
	return nil
}

func (d *division) share(z *zone, span where.Span) deal.Share {
	return deal.Share{Zone: z.at, Span: span, Room: d.room(z), Rank: d.rank[z], Ill: z.Degraded}
}

// room is how many replicas of the gang a zone takes, or more.
func (d *division) room(z *zone) int {
	sum := int64(0)
	for i := range d.s.wants {
		w := &d.s.wants[i]
		n := d.s.most(w, z)
		if d.s.limited {
			n = min(n, d.s.limitedSum(w.ix, room.Place{Level: zonal, ID: int32(z.at)}))
		}
		sum += n
	}
	return int(sum)
}

// apart says that two zones may not both have replicas of the gang.
func (d *division) apart(a, b deal.Share, far bool) bool {
	one, other := d.s.t.zones[a.Zone], d.s.t.zones[b.Zone]
	return far && !d.s.w.nearEnough(one, other) || d.s.w.OneRegion && one.Region != other.Region
}

// place puts the gang into the zones. A zone's room for several roles, or under limits of racks and hosts, may be less than it
// looked: then it is asked for less.
func (d *division) place(shares *deal.Shares) bool {
	s := d.s
	all := slices.Clone(s.wants)
	s.piecewise = true
	defer func() { s.piecewise = false }()
	for range tries {
		if !shares.Deal(s.w.Replicas()) {
			break
		}
		rest := make([]int, len(s.w.Roles))
		for i := range s.w.Roles {
			rest[i] = s.w.Roles[i].Replicas
		}
		full := -1
		for i := range shares.List {
			s.wants = s.wants[:0:0]
			take := deal.Take(rest, shares.List[i].Count)
			for _, w := range all {
				if w.count = int32(take[w.role]); w.count > 0 {
					s.wants = append(s.wants, w)
				}
			}
			if at := shares.List[i].Zone; s.tooMany() || !s.choosy(s.t.zones[at:at+1]) {
				full = i
				break
			}
		}
		if full < 0 {
			return true
		}
		s.undo(0)
		if !shares.List[full].Less() {
			break
		}
	}
	s.wants = all
	s.ask(false, s.w.spot())
	return false
}

// lacking adds to a text which zone of a gang's split has too little room.
func lacking(text api.Text, c *Cluster, w *Workload) api.Text {
	s := &search{c: c, t: c.topology(), w: w}
	restore := s.avoid()
	defer restore()
	if !s.begin(0) {
		return text
	}
	s.ask(false, w.spot())
	d := &division{s: s, zones: allowed(c, w)}
	lack := deal.Lack(w.Split, w.Replicas(), func(name string) int {
		if z := d.zone(name); z != nil {
			return d.room(z)
		}
		return 0
	})
	return api.Text{EN: strings.TrimSpace(text.EN + " " + lack.EN), ZH: text.ZH + lack.ZH}
}
