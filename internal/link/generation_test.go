package link

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
)

// first is the generation of a replica that is alone.
var first = Generation{Number: 1, World: 1, Lead: "127.0.0.1:4000"}

var someRanks = Ranks{
	Generation: 3, Held: []int64{4, 6}, Port: 4001, Step: 7, Ports: []int{4002, 4003},
	Failed: &RankExit{Rank: 2, Code: 137, Signal: "SIGKILL", Reason: engine.ReasonSignaled, Message: "m", At: time.Unix(5, 6).UTC()},
}

func TestGenerationMessages(t *testing.T) {
	if d := cmp.Diff(someRanks, ranksOf(someRanks.message())); d != "" {
		t.Error(d)
	}
	g := Generation{Number: 4, FirstRank: 2, World: 8, Lead: "127.0.0.1:9", Table: "abc", Restore: 5, Hold: true, Ports: []int{1, 65535}, Key: "k"}
	if d := cmp.Diff(g, generationOf(g.order(1, 1))); d != "" {
		t.Error(d)
	}
	if err := checkGo(g.order(1, 1)); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*linkpb.Go){
		"epoch":       func(m *linkpb.Go) { m.Epoch = 0 },
		"generation":  func(m *linkpb.Go) { m.Generation = 0 },
		"world":       func(m *linkpb.Go) { m.World = MaxWorld + 1 },
		"rank":        func(m *linkpb.Go) { m.FirstRank = 8 },
		"lead":        func(m *linkpb.Go) { m.Lead = "127.0.0.1" },
		"lead's port": func(m *linkpb.Go) { m.Lead = "127.0.0.1:99999" },
		"restore":     func(m *linkpb.Go) { m.Restore = -1 },
		"table":       func(m *linkpb.Go) { m.Table = strings.Repeat("a", maxTable+1) },
		"port":        func(m *linkpb.Go) { m.Ports[1] = 65536 },
		"more ports":  func(m *linkpb.Go) { m.Ports = slices.Repeat(m.Ports, maxPorts) },
		"key":         func(m *linkpb.Go) { m.Key = strings.Repeat("a", maxKey+1) },
	} {
		bad := proto.CloneOf(g.order(1, 1))
		if spoil(bad); checkGo(bad) == nil {
			t.Errorf("a go with a bad %s was taken", name)
		}
	}
	for name, spoil := range map[string]func(*linkpb.Ranks){
		"generation": func(m *linkpb.Ranks) { m.Generation = -1 },
		"port":       func(m *linkpb.Ranks) { m.Port = 65536 },
		"ports":      func(m *linkpb.Ranks) { m.Ports[0] = 0 },
		"order":      func(m *linkpb.Ranks) { m.Held = []int64{2, 1} },
		"step":       func(m *linkpb.Ranks) { m.Held = []int64{0} },
		"many":       func(m *linkpb.Ranks) { m.Held = make([]int64, MaxHeld+1) },
		"reason":     func(m *linkpb.Ranks) { m.Failed.Reason = engine.ReasonSucceeded },
		"code":       func(m *linkpb.Ranks) { m.Failed.Code = 256 },
		"rank":       func(m *linkpb.Ranks) { m.Failed.Rank = -1 },
		"text":       func(m *linkpb.Ranks) { m.Failed.Message = strings.Repeat("a", maxText+1) },
	} {
		bad := proto.CloneOf(someRanks.message())
		if spoil(bad); checkRanks(bad) == nil {
			t.Errorf("ranks with a bad %s were taken", name)
		}
	}
}

// TestRanksAndWatermarkTravel: to the leader through a follower and back; what is new about members
// is told as a change, a further step is not.
func TestRanksAndWatermarkTravel(t *testing.T) {
	w := newWorld(t)
	c := w.cluster(2)
	c.lead(0, 7)
	leader := c.list[0].hub
	cl, _, ord, _ := w.client(testName, w.endpoints(c.list[1].target), 0)
	eventually(t, "attached at the leader", func() bool { return leader.Attached(testName) })
	cl.Ranks(someRanks)
	eventually(t, "ranks", func() bool { r, ok := leader.Ranks(testName); return ok && cmp.Equal(r, someRanks) })
	later := someRanks
	later.Held = []int64{4, 6, 8}
	cl.Ranks(later)
	eventually(t, "another step", func() bool { r, _ := leader.Ranks(testName); return slices.Equal(r.Held, later.Held) })
	if err := leader.Watermark(testName, 3, 6); err != nil {
		t.Fatal(err)
	}
	of, err := ParseName(testName)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range []Generation{first, {Number: 2, World: 1, Lead: first.Lead, Ports: []int{4002, 4003}}} {
		if err := leader.Go(testName, of.Attempt, g); err != nil {
			t.Fatal(err)
		}
		if g.Ports != nil { // only who is told of others gets what they know each other by
			g.Key = w.tokens.MintTask(of.TaskID, of.Attempt)
		}
		eventually(t, "generation", func() bool {
			ord.mu.Lock()
			defer ord.mu.Unlock()
			return cmp.Equal(ord.last, g)
		})
	}
	eventually(t, "watermark", func() bool {
		ord.mu.Lock()
		defer ord.mu.Unlock()
		return slices.Contains(ord.marks, 6)
	})
	k := &known{}
	if !k.noteRanks(someRanks.message()) || k.noteRanks(later.message()) {
		t.Error("a further step counts as a change of members, or the first word does not")
	}
}
