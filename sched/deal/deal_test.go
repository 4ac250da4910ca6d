package deal

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/fermi-cluster/fermi/api/v1/where"
)

// share is a zone that may have least to most of a gang and has room for so many.
func share(least, most, room int) Share {
	return Share{Span: where.Span{Least: least, Most: most}, Room: room}
}

func counts(d *Shares) (out []int) {
	for _, x := range d.List {
		out = append(out, x.Count)
	}
	return out
}

func TestDeal(t *testing.T) {
	for name, c := range map[string]struct {
		list  []Share
		rank  []int
		even  bool
		total int
		want  []int // nil: they do not take all
	}{
		"least, then the preferred":   {[]Share{share(2, 6, 9), share(2, 4, 9)}, []int{1, 0}, false, 7, []int{3, 4}},
		"where most room is":          {[]Share{share(0, 9, 4), share(0, 9, 8)}, []int{0, 1}, true, 6, []int{1, 5}},
		"even where room is the same": {[]Share{share(0, 9, 9), share(0, 9, 9)}, []int{1, 0}, true, 5, []int{2, 3}},
		"even within bounds":          {[]Share{share(3, 9, 9), share(0, 1, 90)}, []int{0, 1}, true, 5, []int{4, 1}},
		"no room for the least":       {[]Share{share(3, 9, 2), share(0, 9, 9)}, []int{0, 1}, false, 5, nil},
		"too little together":         {[]Share{share(0, 2, 2), share(0, 9, 2)}, []int{0, 1}, false, 5, nil},
		"too much at least":           {[]Share{share(3, 3, 3), share(3, 3, 3)}, []int{0, 1}, false, 5, nil},
	} {
		d := &Shares{List: c.list, Even: c.even, Rank: c.rank}
		var got []int
		if d.Deal(c.total) {
			got = counts(d)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Zones of a split that must have some are all taken or none; the others only where they are near to those.
func TestSplit(t *testing.T) {
	zone := func(at, least int) Share { return Share{Zone: at, Span: where.Span{Least: least, Most: 9}, Room: 9} }
	far := func(a, b Share) bool { return a.Zone-b.Zone > 1 || b.Zone-a.Zone > 1 }
	for name, c := range map[string]struct {
		list []Share
		want []int // nil: none
	}{
		"near":                      {[]Share{zone(1, 1), zone(2, 1)}, []int{1, 2}},
		"too far":                   {[]Share{zone(1, 1), zone(3, 1)}, nil},
		"one may be left out":       {[]Share{zone(1, 0), zone(2, 0), zone(3, 2)}, []int{2, 3}},
		"the first of two that may": {[]Share{zone(1, 0), zone(3, 0)}, []int{1}},
	} {
		d, ok := Split(c.list, false, far)
		var got []int
		if ok {
			for _, x := range d.List {
				got = append(got, x.Zone)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Balance takes zones with most room first, ill ones only where the others are not enough.
func TestBalance(t *testing.T) {
	list := []Share{{Zone: 0, Room: 2, Span: where.Span{Most: 99}}, {Zone: 1, Room: 5, Span: where.Span{Most: 99}}, {Zone: 2, Room: 9, Span: where.Span{Most: 99}, Ill: true}}
	near := func(Share, Share) bool { return false }
	for total, want := range map[int][]int{3: {0, 3}, 7: {2, 5}, 10: {0, 3, 7}} {
		d, ok := Balance(slices.Clone(list), total, near)
		if !ok || !d.Deal(total) || !slices.Equal(counts(d), want) {
			t.Errorf("%d: %+v", total, d)
		}
	}
	if d, ok := Balance(list, 17, near); ok {
		t.Errorf("%+v", d)
	}
	if d, ok := Balance(list, 6, func(a, b Share) bool { return true }); !ok || len(d.List) != 1 || d.List[0].Zone != 2 {
		t.Errorf("each is far from the others, and one holds all: %+v", d)
	}
}

// A share that turned out too large is asked for less, by more each time, but never for less than it must have.
func TestLess(t *testing.T) {
	d := &Shares{List: []Share{share(1, 20, 20), share(0, 20, 20)}, Rank: []int{0, 1}}
	var got []int
	for range 9 {
		if !d.Deal(20) {
			t.Fatal(d.List)
		}
		got = append(got, d.List[0].Count)
		if !d.List[0].Less() {
			break
		}
	}
	if want := []int{20, 19, 17, 13, 5, 1}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Whatever can be dealt is, within the bounds; and even shares leave no zone with two more free than one that could have had less.
func TestDealAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Shares{Even: rapid.Bool().Draw(t, "even")}
		low, high := 0, 0
		for i := range rapid.IntRange(1, 5).Draw(t, "zones") {
			least := rapid.IntRange(0, 4).Draw(t, "least")
			x := share(least, least+rapid.IntRange(0, 6).Draw(t, "more"), rapid.IntRange(0, 12).Draw(t, "room"))
			d.List, d.Rank = append(d.List, x), append(d.Rank, i)
			low, high = low+least, high+x.most()
			if x.most() < least {
				high = -1 << 20
			}
		}
		total := rapid.IntRange(0, 30).Draw(t, "total")
		if ok := d.Deal(total); ok != (low <= total && total <= high) {
			t.Fatalf("%d over %+v: %v", total, d.List, ok)
		} else if !ok {
			return
		}
		sum := 0
		for _, x := range d.List {
			sum += x.Count
			if x.Count < x.Span.Least || x.Count > x.most() {
				t.Fatalf("%+v", x)
			}
			for _, o := range d.List {
				if d.Even && x.Count > x.Span.Least && o.Count < o.most() && o.Room-o.Count > x.Room-x.Count+1 {
					t.Fatalf("%+v got one that %+v had room for", x, o)
				}
			}
		}
		if sum != total {
			t.Fatalf("%d of %d", sum, total)
		}
	})
}

func TestEvenly(t *testing.T) {
	for _, c := range []struct {
		count int32
		rooms []int64
		want  []int32
	}{{6, []int64{9, 9, 9}, []int32{2, 2, 2}}, {7, []int64{9, 1, 9}, []int32{3, 1, 3}}, {3, []int64{0, 9, 9}, []int32{0, 2, 1}}} {
		if got := Evenly(c.count, c.rooms); !slices.Equal(got, c.want) {
			t.Errorf("%d over %v: %v, want %v", c.count, c.rooms, got, c.want)
		}
	}
}

func TestTake(t *testing.T) {
	left := []int{3, 2, 4}
	if got := Take(left, 4); !slices.Equal(got, []int{3, 1, 0}) || !slices.Equal(left, []int{0, 1, 4}) {
		t.Error(got, left)
	}
	if got := Take(left, 4); !slices.Equal(got, []int{0, 1, 3}) || !slices.Equal(left, []int{0, 0, 1}) {
		t.Error(got, left)
	}
}
