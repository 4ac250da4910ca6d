package placement_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/where"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/control/node"
	"github.com/fermi-cluster/fermi/internal/control/placement"
	"github.com/fermi-cluster/fermi/internal/engine/inventory"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/storetest"
	"github.com/fermi-cluster/fermi/sched/advice"
)

// demo is a leader over the demo topology; change edits the zones first.
func demo(t *testing.T, change func([]api.Zone)) (*store.Store, *placement.Controller) {
	t.Helper()
	s := storetest.Open(t)
	zones, nodes := inventory.Demo()
	if change != nil {
		change(zones)
	}
	c := lead(t, s, zones, nodes)
	all := seedTask(14, "A100")
	all.Spec.Zones = &api.ZoneRules{Allow: []string{"shenzhen-1"}} // written last
	eventually(t, "the leader knows the nodes", func() bool {
		p, err := c.Preview(t.Context(), all)
		return err == nil && p.Fits && p.Planned.NodeCount == 14
	})
	return s, c
}

// lead runs a leader over these zones and nodes.
func lead(t testing.TB, s *store.Store, zones []api.Zone, nodes []api.Node, change ...func(*placement.Config)) *placement.Controller {
	t.Helper()
	return leadOn(t, s, s, zones, nodes, change...)
}

// leadOn is lead with a store of the controller's own over s.
func leadOn(t testing.TB, own store.ReadWriter, s *store.Store, zones []api.Zone, nodes []api.Node, change ...func(*placement.Config)) *placement.Controller {
	t.Helper()
	syncer := node.New(node.Config{
		Store: s, Clock: clock.Real, IDs: id.Default, Log: quiet, Zones: zones,
		Nodes: func() ([]api.Node, bool) { return nodes, true },
	})
	if err := syncer.Sync(t.Context(), store.Epoch{}); err != nil {
		t.Fatal(err)
	}
	commit(t, s, store.Create(&api.Queue{Meta: api.Meta{ID: id.Default.New("queue"), Name: "q"}}))
	cfg := placement.Config{Store: own, Clock: clock.Real, IDs: id.Default, Log: quiet, Host: "h", Processes: 100_000}
	for _, f := range change {
		f(&cfg)
	}
	c := placement.New(cfg)
	leading, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- s.Campaign(leading, "me", func(ctx context.Context, epoch store.Epoch) error { return c.Run(ctx, epoch) })
	}()
	t.Cleanup(func() { stop(); <-ended })
	return c
}

// seedTask is replicas of the seed's node: 8 devices, 64 cores, 256 GB.
func seedTask(replicas int, deviceType string) *api.TrainingTask {
	t := task("p", replicas, 8)
	t.Spec.Roles[0].Resources = api.Resources{CPU: 64_000, Memory: 256 << 30, Accelerators: api.Accelerators{Type: deviceType, Count: 8}}
	return t
}

func look(t *testing.T, c *placement.Controller, task *api.TrainingTask) api.Preview {
	t.Helper()
	p, err := c.Preview(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPreview(t *testing.T) {
	cheap, green := 4.0, 100.0
	s, c := demo(t, func(zones []api.Zone) {
		zones[2].Spec.Price = api.Price{Currency: "CNY", DeviceHour: &cheap, CoreHour: &cheap, Windows: []api.PriceWindow{{From: "00:00", To: "24:00", Factor: 0.25}}}
		zones[3].Spec.Carbon.GramsPerKWh = &green
		// Half the price from an hour after now, for eleven hours on the zone's clock.
		hour := time.Now().UTC().Add(9 * time.Hour)
		zones[0].Spec.Price.Windows = []api.PriceWindow{{From: hour.Format("15:04"), To: hour.Add(11 * time.Hour).Format("15:04"), Factor: 0.5}}
	})
	for replicas, want := range map[int]float64{2: 161.60, 5: 404.00, 8: 646.40} { // the seed's examples
		task := seedTask(replicas, "A100")
		task.Spec.Zones = &api.ZoneRules{Deny: []string{"shanghai-1"}}
		p := look(t, c, task)
		if !p.Fits || p.StartBasis != "now" || p.Planned.Prices[0].Total != want || p.Planned.NodeCount != replicas || p.Planned.Zones[0].Region != "北京" {
			t.Errorf("%d: %+v", replicas, p.Planned)
		}
	}
	long := seedTask(2, "A100")
	long.Spec.ExpectedTime = api.Duration(10 * time.Hour)
	long.Spec.Zones = &api.ZoneRules{Deny: []string{"beijing-1"}}
	p := look(t, c, long)
	if p.Planned.Efficiency.Percent != 90 || p.Planned.Latency.P50Ms != 0 || p.Planned.RackLoss.Percent != 100 || p.Planned.Expected.Prices[0].Total != 1440 { // shanghai-1, the cheapest that has room
		t.Errorf("%+v", p.Planned)
	}
	if len(p.Windows) != 0 {
		t.Errorf("nothing is better later, yet: %+v", p.Windows)
	}
	long.Spec.Zones = &api.ZoneRules{Allow: []string{"beijing-1"}}
	if p := look(t, c, long); len(p.Windows) != 1 || p.Windows[0].For != "price" || p.Windows[0].Totals.Prices[0].Total != 808 {
		t.Errorf("windows %+v", p.Windows)
	}
	names := map[string]string{}
	for _, a := range p.Alternatives {
		names[a.Name] = a.Zones[0].Zone
		change := "zones.allow: [" + a.Zones[0].Zone + "]"
		if a.Name == "safer" {
			change = "topology: spread"
		}
		if a.Text.ZH == "" || a.Change.EN != change {
			t.Errorf("%+v", a)
		}
	}
	if len(names) != 2 || names["safer"] != "shanghai-1" || names["greener"] != "shenzhen-1" { // none is cheaper
		t.Errorf("alternatives %v", names)
	}
	// A gang over two zones says how far, and by whose word.
	wide := seedTask(38, "A100") // 20 in beijing-1, 18 in beijing-2, or 28 in shanghai-1
	wide.Spec.Zones = &api.ZoneRules{Deny: []string{"shanghai-1"}}
	if p := look(t, c, wide); p.Planned.Latency.P50Ms != 1.3 || p.Planned.Latency.Class != "near" || p.Planned.Latency.Source != "declared" || len(p.Planned.Zones) != 2 {
		t.Errorf("%+v %+v", p.Planned.Latency, p.Planned.Zones)
	}
	measure(t, s, "beijing-2", api.MeasuredLatency{P50Ms: 3, P99Ms: 4, Samples: 9, At: time.Now()})
	eventually(t, "the measurement counts", func() bool { return look(t, c, wide).Planned.Latency.Source == "measured" })
	if p := look(t, c, wide); p.Planned.Latency.P50Ms != 3 || p.Planned.Latency.P99Ms != 4 || p.Planned.Latency.Class != "regional" {
		t.Errorf("%+v", p.Planned.Latency)
	}
}

func measure(t *testing.T, s *store.Store, zone string, m api.MeasuredLatency) {
	t.Helper()
	o, err := s.Get(t.Context(), api.Key{Kind: api.KindZone, Name: zone}, 0)
	if err != nil {
		t.Fatal(err)
	}
	z := store.Clone(o.(*api.Zone))
	z.Status.Measured = map[string]api.MeasuredLatency{"beijing-1": m}
	commit(t, s, store.Update(z))
}

// TestWishes: what a task says about zones, racks, types and shares reaches the planner.
func TestWishes(t *testing.T) {
	s, c := demo(t, nil)
	split := seedTask(5, "A100")
	split.Spec.Zones = &api.ZoneRules{Split: where.Split{"beijing-1": where.Exactly(2), "shanghai-1": where.Exactly(3)}}
	p := look(t, c, split)
	if !p.Fits || len(p.Planned.Zones) != 2 || p.Planned.Zones[0].Replicas != 2 || p.Planned.Zones[1].Replicas != 3 || p.Planned.Prices[0].Total != 404 {
		t.Errorf("split: %+v", p)
	}
	if p.Planned.Latency.P50Ms != 8.5 || p.Planned.Latency.Class != "far" {
		t.Errorf("split: %+v", p.Planned.Latency)
	}
	split.Spec.Zones.MaxLatency = api.Duration(2 * time.Millisecond)
	if p := look(t, c, split); p.Fits {
		t.Errorf("8.5 ms are within 2 ms: %+v", p.Planned.Latency)
	}
	racks := seedTask(4, "A100")
	racks.Spec.Topology = &api.Topology{Mode: api.TopologyBounded, MaxPerRack: 1}
	if p := look(t, c, racks); !p.Fits || p.Planned.RackLoss.Racks != 4 || p.Planned.RackLoss.Percent != 25 {
		t.Errorf("racks: %+v", p.Planned)
	}
	if p := look(t, c, seedTask(1, "TPU|h-800")); !p.Fits || p.Planned.Nodes[0].DeviceType != "H800" {
		t.Errorf("fallback: %+v", p)
	}
	half := task("p", 2, 1)
	half.Spec.Roles[0].Resources.Accelerators = api.Accelerators{Type: "A100", Count: 1, Share: 500}
	half.Spec.Roles[0].Resources.CPU = 1000
	if p := look(t, c, half); !p.Fits || p.Planned.NodeCount != 1 || p.Planned.Prices[0].Total != 2*(4.25+0.2) {
		t.Errorf("share: %+v", p.Planned)
	}
	// A gang over two zones within the bound, until they are measured to be farther apart.
	wide := seedTask(38, "A100")
	wide.Spec.Zones = &api.ZoneRules{MaxLatency: api.Duration(2 * time.Millisecond)}
	if p := look(t, c, wide); !p.Fits {
		t.Errorf("wide: %+v", p)
	}
	measure(t, s, "beijing-2", api.MeasuredLatency{P50Ms: 3, P99Ms: 4, Samples: 9, At: time.Now()})
	eventually(t, "the planner heeds what was measured", func() bool { return !look(t, c, wide).Fits })
}

// TestPreviewWaits: what does not fit now has a price all the same, and a smaller wish that fits.
func TestPreviewWaits(t *testing.T) {
	s, c := demo(t, nil)
	p := look(t, c, seedTask(30, "V100")) // four nodes have them
	if p.Fits || p.Reason != advice.ReasonNeverFits || p.StartBasis != "unknown" || p.Planned != nil {
		t.Errorf("%+v", p)
	}
	if len(p.Alternatives) != 2 || p.Alternatives[0].Name != "sooner" || p.Alternatives[0].NodeCount != 4 || p.Alternatives[1].NodeCount != 30 {
		t.Errorf("%+v", p.Alternatives)
	}
	commit(t, s, store.Create(seedTask(2, "V100"))) // two of the four are taken
	eventually(t, "it is placed", func() bool { return place(s, "p") != nil })
	p = look(t, c, seedTask(3, "V100"))
	if p.Fits || p.Reason != advice.ReasonDevicesBusy || !p.Planned.Estimated || p.Planned.Prices[0].Total != 242.4 || p.Alternatives[0].Zones[0].Replicas != 2 {
		t.Errorf("%+v", p)
	}
	nowhere := seedTask(1, "")
	nowhere.Spec.Zones = &api.ZoneRules{Allow: []string{"mars"}}
	if p := look(t, c, nowhere); p.Fits || p.Reason != advice.ReasonNoZone || p.Planned != nil {
		t.Errorf("%+v", p)
	}
	o, err := s.Get(t.Context(), api.Key{Kind: api.KindQueue, Name: "q"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	paused := store.Clone(o.(*api.Queue))
	paused.Spec.Paused = true
	commit(t, s, store.Update(paused))
	eventually(t, "the queue is paused", func() bool { return look(t, c, seedTask(1, "")).Reason == advice.ReasonQueuePaused })
	if p := look(t, c, seedTask(1, "")); p.Fits || p.Start != nil || p.Planned == nil {
		t.Errorf("%+v", p)
	}
}

// TestPreviewChangesNothing: previews beside each other and beside placing leave the model as it was.
func TestPreviewChangesNothing(t *testing.T) {
	s, c := demo(t, nil)
	before := fmt.Sprint(look(t, c, seedTask(20, "A100")).Planned.Nodes)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for n := 1; n <= 16; n *= 2 {
				if _, err := c.Preview(t.Context(), seedTask(n, "")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if after := fmt.Sprint(look(t, c, seedTask(20, "A100")).Planned.Nodes); after != before {
		t.Errorf("before %s\nafter %s", before, after)
	}
	commit(t, s, store.Create(seedTask(38, "A100"))) // all of one region
	eventually(t, "the whole gang is placed", func() bool { return place(s, "p") != nil })
}

// BenchmarkPreview/nodes=12500 is a gang of 512 nodes on a cluster of 12,500 in four zones.
func BenchmarkPreview(b *testing.B) {
	var file strings.Builder
	file.WriteString("zones:\n")
	for i := range 4 {
		fmt.Fprintf(&file, "- {name: z%d, region: r%d, nodes: [{count: 3125, cpu: 128, memory: 1Ti, devices: {count: 8, type: A100}}]}\n", i, i/2)
	}
	zones, nodes, err := inventory.LoadZones(strings.NewReader(file.String()))
	if err != nil {
		b.Fatal(err)
	}
	c := lead(b, storetest.Open(b), zones, nodes)
	eventually(b, "the leader knows the nodes", func() bool {
		p, err := c.Preview(b.Context(), seedTask(6250, "A100"))
		return err == nil && p.Fits
	})
	b.Run("nodes=12500", func(b *testing.B) {
		for b.Loop() {
			if p, err := c.Preview(b.Context(), seedTask(512, "A100")); err != nil || !p.Fits || p.Planned.NodeCount != 512 {
				b.Fatal(p, err)
			}
		}
	})
}

func TestPreviewOfFollower(t *testing.T) {
	c := placement.New(placement.Config{Store: storetest.Open(t), Clock: clock.Real, IDs: id.Default, Log: quiet})
	_, err := c.Preview(t.Context(), seedTask(1, ""))
	if !fault.Is(err, fault.Unavailable) || fault.From(err).Hint.IsZero() {
		t.Error(err)
	}
}
