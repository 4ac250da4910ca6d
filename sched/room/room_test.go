package room_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/fermi-cluster/fermi/sched/pack"
	"github.com/fermi-cluster/fermi/sched/room"
)

// wish is a number of whole devices.
type wish int

// world is nodes of one type of device in racks of two.
type world struct {
	rooms []pack.Room
	space room.Space[wish]
	asked int // of nodes
}

func newWorld(nodes int) *world {
	w := &world{}
	var racks []int32
	for i := range nodes {
		w.rooms = append(w.rooms, pack.Room{Types: make([]uint16, 4), Free: []uint16{1000, 1000, 1000, 1000}})
		racks = append(racks, int32(i/2))
	}
	w.space = room.NewSpace(func(k *wish) pack.Ask { return pack.Ask{Devices: int(*k), Share: pack.Whole} }, func(_ *wish, a *pack.Ask, at int32) (int32, int64, uint8) {
		w.asked++
		fits, score := w.judge(a, at)
		return fits, score, 0
	})
	w.space.Lay(room.Layout{Of: [][]int32{racks}, Domains: []int{(nodes + 1) / 2}, Room: func(at int32) *pack.Room { return &w.rooms[at] }})
	return w
}

func (w *world) judge(a *pack.Ask, at int32) (fits int32, score int64) {
	free := int32(0)
	for _, f := range w.rooms[at].Free {
		if f == pack.Whole {
			free++
		}
	}
	if fits = free / int32(a.Devices); fits == 0 {
		return 0, math.MinInt64
	}
	return fits, -int64(free)
}

func (w *world) set(at int32, device int, free uint16) {
	w.rooms[at].Free[device] = free
	w.space.Touch(at)
}

// TestIndexesAreAsAScanWouldSay, whatever changed, was looked at in between, or was forgotten.
func TestIndexesAreAsAScanWouldSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(rapid.IntRange(1, 9).Draw(t, "nodes"))
		node := rapid.Int32Range(0, int32(len(w.rooms)-1))
		version := uint64(1)
		check := func() {
			ix := w.space.Index(wish(rapid.IntRange(1, 5).Draw(t, "wish")), version)
			sums := make([]int64, len(ix.Sum[0]))
			for at := range w.rooms {
				fits, score := w.judge(&ix.Ask, int32(at))
				if ix.Fits[at] != fits || ix.Score[at] != score {
					t.Fatalf("node %d takes %d (%d), the index says %d (%d)", at, fits, score, ix.Fits[at], ix.Score[at])
				}
				sums[at/2] += int64(fits)
			}
			if !slices.Equal(sums, ix.Sum[0]) {
				t.Fatalf("racks take %v, the index says %v", sums, ix.Sum[0])
			}
			count := rapid.Int32Range(1, 3).Draw(t, "count")
			best := int32(-1)
			for at := range w.rooms {
				if ix.Fits[at] >= count && (best < 0 || ix.Better(int32(at), best, count)) {
					best = int32(at)
				}
			}
			if got := ix.Best(0, int32(len(w.rooms)), count); got != best {
				t.Fatalf("the best for %d is %d, the index says %d", count, best, got)
			}
		}
		change := func() (at int32, device int, was uint16) {
			at, device = node.Draw(t, "node"), rapid.IntRange(0, 3).Draw(t, "device")
			was = w.rooms[at].Free[device]
			w.set(at, device, rapid.SampledFrom([]uint16{0, 500, 1000}).Draw(t, "free"))
			return at, device, was
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "op") {
			case 0, 1:
				change()
			case 2:
				check()
			case 3: // a look at what would be
				mark := w.space.Begin()
				var back []func()
				for range rapid.IntRange(0, 3).Draw(t, "changes") {
					at, device, was := change()
					back = append(back, func() { w.set(at, device, was) })
					if rapid.Bool().Draw(t, "asked") {
						check()
					}
				}
				for _, undo := range slices.Backward(back) {
					undo()
				}
				w.space.End(mark)
			case 4:
				version++
			}
		}
		check()
	})
}

// TestLooksCostNothing to who did not take part: after one no node is judged again.
func TestLooksCostNothing(t *testing.T) {
	w := newWorld(8)
	w.space.Index(1, 1)
	mark := w.space.Begin()
	for at := range int32(8) {
		w.set(at, 0, 0)
		w.set(at, 0, 1000)
	}
	w.space.End(mark)
	w.asked = 0
	w.space.Index(1, 1)
	if w.asked != 0 {
		t.Error(w.asked, "nodes were judged again")
	}
}

// TestFullNodesAreRefusedByTheirGist: a wish that is new in a full cluster is asked of nobody.
func TestFullNodesAreRefusedByTheirGist(t *testing.T) {
	w := newWorld(8)
	for at := range int32(8) {
		for d := range 3 {
			w.set(at, d, 0)
		}
	}
	w.space.Index(2, 1)
	if w.asked != 0 {
		t.Error(w.asked, "nodes were judged")
	}
	w.space.Index(1, 1)
	if w.asked != 8 {
		t.Error(w.asked, "of 8 nodes were judged that have a device")
	}
}

// TestMemoryIsBounded: who was asked for longest ago is forgotten, and comes back as it is.
func TestMemoryIsBounded(t *testing.T) {
	w := newWorld(2)
	const many = 4_000_000
	for i := range 200 {
		w.space.Index(wish(many+i), 1)
	}
	if n := len(w.space.Indexes); n != 200 {
		t.Error(n, "indexes of a small cluster")
	}
	big := newWorld(200_000)
	for i := range 70 {
		big.space.Index(wish(5+i), 1)
	}
	if n := len(big.space.Indexes); n != 64 {
		t.Error(n, "indexes of a large cluster")
	}
	big.set(7, 0, 0)
	if ix := big.space.Index(1, 1); ix.Fits[7] != 3 || ix.Fits[8] != 4 {
		t.Error(ix.Fits[7], ix.Fits[8])
	}
}
