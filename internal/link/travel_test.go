package link

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/message"
	"github.com/fermi-cluster/fermi/internal/preflight"
)

// first is the generation of a replica that is alone.
var first = message.Generation{Number: 1, Membership: message.Membership{World: 1, Lead: "127.0.0.1:4000"}}

// saidRanks has something in every field.
var saidRanks = message.Ranks{
	Generation: 3,
	Port:       4001,
	Reach:      engine.Reach{Address: "100.64.4.2", Serve: 4002, Serving: &engine.Serving{Ready: true, Port: 8000, Why: "why"}},
	RoleTable:  "def",
	Ports:      []int{4002, 4003},
	Failed: &message.RankExit{Rank: 2, Code: 137, Signal: "SIGKILL", Reason: engine.ReasonSignaled, Message: "m", At: time.Unix(5, 6).UTC(),
		Diagnosis: engine.Diagnosis{Cause: "killed", Fingerprint: "f", Line: "l", Step: 6}},
	Facts:     &preflight.Facts{Versions: map[string]string{"torch": "2"}, FreeDisk: 3, SharedMemory: 4},
	Preflight: &preflight.Report{Round: "r", Listen: preflight.Taken, Port: 5, Results: []preflight.Result{{Target: preflight.Target{Name: "worker-0", Address: "[::1]:7", Bandwidth: true}, Error: preflight.Silent, Latency: 6, Rate: 7}}, Devices: preflight.Devices{Test: preflight.Tested, Faults: []preflight.DeviceFault{{Index: 3, Kind: preflight.DeviceErrors, Count: 8, Text: "t"}}}},
	Progress:  message.Progress{Step: 7, Use: message.Use{CPU: 1, Seconds: 2, Memory: 3, Devices: 4, Busy: 5, Watched: 6, DeviceMemory: 7, DeviceTotal: 8}, Saves: message.Saves{Begun: 9, Whole: 8, Stall: 0.012}, Parameters: 7e9, Watched: true, HungAt: time.Unix(5, 7).UTC(), Printed: true, Own: []message.RankOwn{{Rank: 2, Seconds: 0.5, Steps: 16}}, Hung: []message.RankState{{Rank: 2, Step: 7, State: 'T', Collective: true, Backward: true, Silent: time.Second, Waits: "w"}}},
	Holding:   message.Holding{Held: []int64{4, 6}, PeerPort: 4004, Copies: []message.Copy{{First: 2, Ranks: 2, Steps: []int64{4, 6}}}, Missed: 9, Every: 40},
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
	cl.Ranks(saidRanks)
	fresh := saidRanks
	fresh.Fresh = true
	eventually(t, "ranks", func() bool { r, ok := leader.Ranks(testName); return ok && cmp.Equal(r, fresh) })
	later := saidRanks
	later.Held = []int64{4, 6, 8}
	cl.Ranks(later)
	eventually(t, "another step", func() bool { r, _ := leader.Ranks(testName); return slices.Equal(r.Held, later.Held) })
	if err := leader.Watermark(testName, message.Watermark{Generation: 3, Step: 6, Keep: []int64{4}}); err != nil {
		t.Fatal(err)
	}
	of, err := ParseName(testName)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range []message.Generation{first, {Number: 2, Membership: message.Membership{World: 1, Lead: first.Lead, Ports: []int{4002, 4003}}}} {
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
	if !k.noteRanks(saidRanks.Message()) || k.noteRanks(later.Message()) {
		t.Error("a further step counts as a change of members, or the first word does not")
	}
}

// TestProbeTravels: to a launcher through a follower, and its answer back to who asked.
func TestProbeTravels(t *testing.T) {
	w := newWorld(t)
	c := w.cluster(2)
	c.lead(0, 7)
	leader := c.list[0].hub
	cl, _, ord, _ := w.client(testName, w.endpoints(c.list[1].target), 0)
	eventually(t, "attached at the leader", func() bool { return leader.Attached(testName) })
	answers := make(chan message.Probed, 1)
	go func() {
		a, err := leader.AskRank(t.Context(), testName, message.Probe{Generation: 3, Rank: 2, Kind: "kill"})
		if err != nil {
			t.Error(err)
		}
		answers <- a
	}()
	var asked message.Probe
	eventually(t, "the probe", func() bool {
		ord.mu.Lock()
		defer ord.mu.Unlock()
		asked = ord.probe
		return asked.ID != ""
	})
	if want := (message.Probe{ID: asked.ID, Generation: 3, Rank: 2, Kind: "kill"}); asked != want {
		t.Errorf("%+v", asked)
	}
	want := message.Probed{ID: asked.ID, Refused: fault.T("No.", "不。"), Text: "seen", At: time.Unix(5, 0).UTC()}
	cl.Probed(want)
	if got := <-answers; !cmp.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := leader.AskRank(over, testName, message.Probe{Generation: 3, Kind: "kill"}); !fault.Is(err, fault.Unavailable) {
		t.Error(err)
	}
}
