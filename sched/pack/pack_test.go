package pack

import (
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func drawAsk(t *rapid.T) Ask {
	a := Ask{CPU: rapid.Int64Range(0, 64).Draw(t, "cpu") * 500, Memory: rapid.Int64Range(0, 8).Draw(t, "memory")}
	switch rapid.IntRange(0, 3).Draw(t, "class") {
	case 0:
	case 1:
		a.Devices, a.Share = 1, uint16(rapid.IntRange(1, Whole-1).Draw(t, "share"))
	default:
		a.Devices, a.Share = rapid.IntRange(1, 9).Draw(t, "devices"), Whole
	}
	if a.Devices > 0 && rapid.Bool().Draw(t, "typed") {
		a.Types = rapid.SliceOfNDistinct(rapid.Uint16Range(0, 3), 1, 3, rapid.ID[uint16]).Draw(t, "types")
		slices.Sort(a.Types)
	}
	return a
}

func drawRoom(t *rapid.T) *Room {
	r := &Room{CPU: rapid.Int64Range(0, 128).Draw(t, "room cpu") * 500, Memory: rapid.Int64Range(0, 16).Draw(t, "room memory")}
	r.Types = rapid.SliceOfN(rapid.Uint16Range(0, 3), 0, 12).Draw(t, "room types")
	for range r.Types {
		r.Free = append(r.Free, rapid.SampledFrom([]uint16{0, 190, 500, 530, 999, Whole, Whole, Whole}).Draw(t, "free"))
	}
	return r
}

func drawDemand(t *rapid.T) *Demand {
	d := NewDemand()
	for range rapid.IntRange(0, 3).Draw(t, "makes") {
		d.Have(*drawRoom(t), rapid.IntRange(1, 5).Draw(t, "nodes"))
	}
	for _, a := range rapid.SliceOfN(rapid.Custom(drawAsk), 0, 60).Draw(t, "seen") {
		d.See(a)
	}
	return d
}

// feasible is the slow, obvious version: some type has enough devices with the share free.
func feasible(r *Room, a *Ask) bool {
	if r.CPU < a.CPU || r.Memory < a.Memory {
		return false
	}
	if a.Devices == 0 {
		return true
	}
	for _, id := range r.Types {
		n := 0
		for d, free := range r.Free {
			if r.Types[d] == id && free >= a.Share {
				n++
			}
		}
		if n >= a.Devices && (a.Types == nil || slices.Contains(a.Types, id)) {
			return true
		}
	}
	return false
}

func TestScoreFitsExactlyWhenFeasible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, r, a := drawDemand(t), drawRoom(t), drawAsk(t)
		before := slices.Clone(r.Free)
		score, devices, ok := d.Score(r, &a)
		if ok != feasible(r, &a) {
			t.Fatalf("ok = %v", ok)
		}
		if !slices.Equal(before, r.Free) {
			t.Fatal("the room was changed")
		}
		if !ok {
			if score != 0 || devices != 0 {
				t.Fatalf("a refusal says %d, %b", score, devices)
			}
			return
		}
		if bits.OnesCount64(devices) != a.Devices {
			t.Fatalf("%b for %d devices", devices, a.Devices)
		}
		types := map[uint16]bool{}
		for i := range 64 {
			if devices>>i&1 == 0 {
				continue
			}
			if i >= len(r.Free) || r.Free[i] < a.Share || !a.takes(r.Types[i]) {
				t.Fatalf("device %d can't serve", i)
			}
			types[r.Types[i]] = true
		}
		if len(types) > 1 {
			t.Fatal("devices of several types")
		}
	})
}

func TestScoreIsAFunctionOfWhatWasSeen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seen := rapid.SliceOfN(rapid.Custom(drawAsk), 0, 60).Draw(t, "seen")
		r, a := drawRoom(t), drawAsk(t)
		one, two := NewDemand(), NewDemand()
		for _, s := range seen {
			one.See(s)
			one.Score(r, &a)
			two.See(s)
		}
		s1, d1, _ := one.Score(r, &a)
		s2, d2, _ := two.Score(r, &a)
		if s1 != s2 || d1 != d2 || one.Version() != two.Version() {
			t.Fatalf("%d %b, then %d %b", s1, d1, s2, d2)
		}
	})
}

func TestScoreChangesOnlyWithVersion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, r, a := drawDemand(t), drawRoom(t), drawAsk(t)
		score, devices, _ := d.Score(r, &a)
		version := d.Version()
		d.See(drawAsk(t))
		if s, v, _ := d.Score(r, &a); d.Version() == version && (s != score || v != devices) {
			t.Fatal("another score, the same version")
		}
	})
}

func TestVersionIsRare(t *testing.T) {
	d := NewDemand()
	for i := range 200_000 {
		d.See(Ask{CPU: int64(i%97) * 100, Devices: 1, Share: uint16(1 + i%Whole)})
	}
	if v := d.Version(); v > 70 {
		t.Fatalf("%d versions for 200,000 arrivals", v)
	}
	if len(d.counts) > maxKinds || d.total >= memory {
		t.Fatalf("%d kinds, %d remembered", len(d.counts), d.total)
	}
}

func TestCloneIsIndependent(t *testing.T) {
	d := learned(Ask{CPU: 12000, Devices: 1, Share: Whole}, Ask{CPU: 4000, Devices: 1, Share: 300})
	r, a := room(96000, 1000, 700, 1000), Ask{CPU: 4000, Devices: 1, Share: 300}
	want, _ := score(t, d, r, a)
	c := d.Clone()
	for range 5000 {
		c.See(Ask{CPU: 90000, Devices: 2, Share: Whole, Types: []uint16{9}})
	}
	c.Have(*r, 7)
	if got, _ := score(t, d, r, a); got != want || len(d.builds) != 0 {
		t.Fatalf("%d before, %d after its clone learned", want, got)
	}
	if got, _ := score(t, c, r, a); got == want {
		t.Fatal("the clone learned nothing")
	}
}

// room of n free devices of type 0.
func room(cpu int64, free ...uint16) *Room {
	return &Room{CPU: cpu, Memory: 1 << 40, Types: make([]uint16, len(free)), Free: free}
}

func learned(asks ...Ask) *Demand {
	d := NewDemand()
	for range 40 {
		for _, a := range asks {
			d.See(a)
		}
	}
	return d
}

func score(t *testing.T, d *Demand, r *Room, a Ask) (int64, uint64) {
	t.Helper()
	s, devices, ok := d.Score(r, &a)
	if !ok {
		t.Fatalf("%+v does not fit %+v", a, r)
	}
	return s, devices
}

func TestNothingSeenIsBestFit(t *testing.T) {
	d := NewDemand()
	a := Ask{CPU: 1000, Devices: 1, Share: 500}
	full, _ := score(t, d, room(8000, 600), a)
	empty, _ := score(t, d, room(8000, 1000, 1000), a)
	if full <= empty {
		t.Fatalf("full %d, empty %d", full, empty)
	}
}

func TestShareGoesBesideItsComplement(t *testing.T) {
	big, small := Ask{CPU: 1000, Devices: 1, Share: 700}, Ask{CPU: 1000, Devices: 1, Share: 300}
	d := learned(big, small)
	if _, devices := score(t, d, room(64000, 1000, 700, 300), small); devices != 0b100 {
		t.Fatalf("300 went to %b", devices)
	}
	if _, devices := score(t, d, room(64000, 1000, 700, 300), big); devices != 0b010 {
		t.Fatalf("700 went to %b", devices)
	}
}

func TestAskWithoutDevicesSparesCPUBesideFreeDevices(t *testing.T) {
	d := learned(Ask{CPU: 12000, Devices: 1, Share: Whole})
	a := Ask{CPU: 12000}
	beside, _ := score(t, d, room(12000, 1000), a)
	away, _ := score(t, d, room(96000, 0), a)
	if beside >= away {
		t.Fatalf("beside a free device %d, away from it %d", beside, away)
	}
}

func TestScarceTypeIsSpared(t *testing.T) {
	d := NewDemand()
	common, scarce := room(96000, 1000, 1000), room(96000, 1000, 1000)
	scarce.Types = []uint16{1, 1}
	d.Have(*common, 90)
	d.Have(*scarce, 10)
	anywhere := Ask{CPU: 4000, Devices: 1, Share: Whole}
	for i := range 100 {
		a := anywhere
		if i%10 == 0 {
			a.Types = []uint16{1}
		}
		d.See(a)
	}
	s, _ := score(t, d, scarce, anywhere)
	c, _ := score(t, d, common, anywhere)
	if s >= c {
		t.Fatalf("scarce %d, common %d", s, c)
	}
}

// TestSizeThatFindsNoRoomIsSpared: the more often asks for whole nodes find none, the less a free node is broken for one device.
func TestSizeThatFindsNoRoomIsSpared(t *testing.T) {
	one, eight := Ask{CPU: 1000, Devices: 1, Share: Whole}, Ask{CPU: 8000, Devices: 8, Share: Whole}
	gain := func(found bool) int64 {
		d := NewDemand()
		for i := range 2000 {
			d.See(one)
			d.Take(Whole)
			d.Leave(Whole)
			if i%8 == 0 {
				d.See(eight)
				if found {
					d.Take(8 * Whole)
					d.Leave(8 * Whole)
				}
			}
		}
		free, _ := score(t, d, room(96000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000), one)
		begun, _ := score(t, d, room(96000, 1000, 1000, 1000, 1000), one)
		return free - begun
	}
	if finds, none := gain(true), gain(false); none >= finds {
		t.Fatalf("a free node over one that is begun: %d, %d when whole nodes find no room", finds, none)
	}
}

// TestNodeThatIsEmptySooner: where all finds room and goes again, of two nodes with the same room the one with more on it is
// taken, which is not empty soon anyway; where nothing goes, both are as good.
func TestNodeThatIsEmptySooner(t *testing.T) {
	part := Ask{CPU: 1000, Devices: 1, Share: Whole / 2}
	gain := func(goes bool) int64 {
		d := NewDemand()
		for range 2000 {
			d.See(part)
			d.Take(Whole / 2)
			if goes {
				d.Leave(Whole / 2)
			}
		}
		few, many := room(96000, 1000, 1000, 1000, 500), room(96000, 1000, 1000, 1000, 500)
		few.Standing, many.Standing = 1, 5
		a, _ := score(t, d, many, part)
		b, _ := score(t, d, few, part)
		return a - b
	}
	if live, fill := gain(true), gain(false); live <= 0 || fill != 0 {
		t.Fatalf("the node with more on it is better by %d where things go, %d where nothing does", live, fill)
	}
}

func BenchmarkScore(b *testing.B) {
	d := NewDemand()
	for i := range 2000 {
		d.See(Ask{CPU: int64(1+i%40) * 700, Devices: 1, Share: uint16([]int{Whole, 470, 810, 320}[i%4])})
	}
	r, a := room(70000, 1000, 1000, 530, 190, 0, 0, 1000, 30), Ask{CPU: 4000, Devices: 1, Share: 320}
	if _, _, ok := d.Score(r, &a); !ok {
		b.Fatal("does not fit")
	}
	for b.Loop() {
		d.Score(r, &a)
	}
}
