package message

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
)

const testCheckpoint = "0000000000000000001-0000000000000000020"

func TestPersistThereAndBack(t *testing.T) {
	w := Watermark{Generation: 3, Step: 9, Persist: &Persist{8, []string{TierLocal, TierShared}, true}, Committed: []Committed{{TierShared, 3, 4}}, Last: true, Denied: []Denied{{Want{"", 8}, fault.Text{EN: "no", ZH: "否"}}}}
	raw, err := proto.Marshal(w.Message())
	var m linkpb.Watermark
	if err != nil || proto.Unmarshal(raw, &m) != nil || CheckWatermark(&m) != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(w, WatermarkOf(&m)); d != "" {
		t.Error(d)
	}
	r := Ranks{Holding: Holding{Persisted: []Persisted{{TierLocal, 3, 8, []byte("[]"), "", map[string]float64{"loss": 0.5}}, {TierShared, 3, 8, nil, "full", nil}}, Refused: &Origin{"task-1", testCheckpoint}, Restored: TierShared, RestoredAt: time.Unix(5, 0).UTC(), Keeping: Keeping{engine.ReasonStopped, []Want{{TierShared, 8}, {"", 9}}, 7}}}
	if err := CheckRanks(r.Message()); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{engine.FromFolder, engine.FromPeer} {
		if err := CheckRanks(Ranks{Holding: Holding{Restored: from, RestoredAt: r.RestoredAt}}.Message()); err != nil {
			t.Error(from, err)
		}
	}
	back := RanksOf(r.Message())
	if d := cmp.Diff(r.Persisted, back.Persisted) + cmp.Diff(r.Keeping, back.Keeping); d != "" || *back.Refused != *r.Refused || back.Restored != TierShared || !back.RestoredAt.Equal(r.RestoredAt) {
		t.Error(d, back.Refused)
	}
	g := GenerationOf(Generation{Number: 1, Membership: Membership{World: 1, Lead: "127.0.0.1:1"}, States: States{Origin: r.Refused}}.Order(1, 1))
	if g.Origin == nil || *g.Origin != *r.Refused {
		t.Error(g.Origin)
	}
}

func TestPersistIsChecked(t *testing.T) {
	for name, w := range map[string]Watermark{
		"no step":            {Generation: 1, Step: 1, Persist: &Persist{0, []string{TierLocal}, false}},
		"no tier":            {Generation: 1, Step: 1, Persist: &Persist{1, nil, false}},
		"unknown tier":       {Generation: 1, Step: 1, Persist: &Persist{1, []string{"moon"}, false}},
		"too many":           {Generation: 1, Step: 1, Persist: &Persist{1, []string{TierLocal, TierLocal, TierLocal}, false}},
		"committed nothing":  {Generation: 1, Step: 1, Committed: []Committed{{TierLocal, 1, 0}}},
		"committed nowhere":  {Generation: 1, Step: 1, Committed: []Committed{{"", 1, 1}}},
		"committed too many": {Generation: 1, Step: 1, Committed: make([]Committed, 3)},
		"nothing":            {Generation: 1},
		"denied nothing":     {Generation: 1, Step: 1, Denied: make([]Denied, 1)},
		"denied nowhere":     {Generation: 1, Step: 1, Denied: []Denied{{Want: Want{"moon", 1}}}},
		"denied too many":    {Generation: 1, Step: 1, Denied: make([]Denied, 4)},
	} {
		if CheckWatermark(w.Message()) == nil {
			t.Error(name)
		}
	}
	for name, r := range map[string]*linkpb.Ranks{
		"tier":     {Persisted: []*linkpb.Persisted{{Tier: "moon", Generation: 1, Step: 1}}},
		"step":     {Persisted: []*linkpb.Persisted{{Tier: TierLocal, Generation: 1}}},
		"parts":    {Persisted: []*linkpb.Persisted{{Tier: TierLocal, Generation: 1, Step: 1, Parts: make([]byte, maxParts+1)}}},
		"error":    {Persisted: []*linkpb.Persisted{{Tier: TierLocal, Generation: 1, Step: 1, Error: strings.Repeat("x", MaxText+1)}}},
		"metrics":  {Persisted: []*linkpb.Persisted{{Tier: TierLocal, Generation: 1, Step: 1, Metrics: manyMetrics()}}},
		"metric":   {Persisted: []*linkpb.Persisted{{Tier: TierLocal, Generation: 1, Step: 1, Metrics: map[string]float64{"loss": math.NaN()}}}},
		"name":     {Persisted: []*linkpb.Persisted{{Tier: TierLocal, Generation: 1, Step: 1, Metrics: map[string]float64{strings.Repeat("x", 129): 1}}}},
		"many":     {Persisted: make([]*linkpb.Persisted, 3)},
		"ended":    {Keeping: &linkpb.Keeping{Ended: "Bored"}},
		"want":     {Keeping: &linkpb.Keeping{Wants: []*linkpb.Want{{Tier: "moon", Step: 1}}}},
		"no want":  {Keeping: &linkpb.Keeping{Wants: []*linkpb.Want{{}}}},
		"file":     {Keeping: &linkpb.Keeping{File: -1}},
		"wants":    {Keeping: &linkpb.Keeping{Wants: make([]*linkpb.Want, 4)}},
		"restored": {Restored: "moon"},
		"before":   {RestoredAtUnixNano: -1},
		"refused":  {Refused: &linkpb.Origin{TaskId: "task-1", Name: "../../etc"}},
		"no task":  {Refused: &linkpb.Origin{Name: testCheckpoint}},
	} {
		if CheckRanks(r) == nil {
			t.Error(name)
		}
	}
}

func manyMetrics() map[string]float64 {
	out := map[string]float64{}
	for i := range MaxMetrics + 1 {
		out[strconv.Itoa(i)] = 1
	}
	return out
}
