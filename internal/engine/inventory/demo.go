package inventory

import (
	"fmt"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	nodesPerRack = 4
	nodesPerLeaf = 8
	gib          = api.Bytes(1) << 30
	tib          = api.Bytes(1) << 40
)

// model is a kind of virtual device.
type model struct {
	vendor, name string
	memory       api.Bytes
	linked       bool // all of a node's share a fast link
}

var (
	a100      = model{"nvidia", "A100", 80 * gib, true}
	v100      = model{"nvidia", "V100", 32 * gib, true}
	h800      = model{"nvidia", "H800", 80 * gib, true}
	ascend910 = model{"huawei", "Ascend 910", 32 * gib, false}
)

// demoZone is a row of the demo: its last `others` nodes have another model.
type demoZone struct {
	name, display, region string
	nodes, others         int
	other                 model
	console               float64
	pue, grams            float64 // grams of CO₂ a kWh: about what the region's grid has, constant
	degraded              string
}

var demoZones = []demoZone{
	{name: "beijing-1", display: "北京-1", region: "北京", nodes: 24, others: 4, other: v100, console: 1.2, pue: 1.25, grams: 558},
	{name: "beijing-2", display: "北京-2", region: "北京", nodes: 18, console: 1.5, pue: 1.30, grams: 558},
	{name: "shanghai-1", display: "上海-1", region: "上海", nodes: 32, others: 4, other: h800, console: 8.5, pue: 1.25, grams: 585},
	{
		name: "shenzhen-1", display: "深圳-1", region: "深圳", nodes: 16, others: 2, other: ascend910, console: 12.3, pue: 1.35, grams: 440,
		degraded: "The backbone has jitter; there is less bandwidth between zones.\n骨干网络抖动，跨区带宽下降。",
	},
}

// demoLatency is the round trip in milliseconds between regions, and within one.
var demoLatency = map[[2]string]float64{
	{"北京", "北京"}: 1.3, {"北京", "上海"}: 8.5, {"北京", "深圳"}: 12.3, {"上海", "深圳"}: 9.8,
}

// The unit prices of the demo; a price is always computed from them (docs/decisions/0008).
var demoDeviceHour, demoCoreHour = 8.50, 0.20

// Demo is the demo topology: four zones of virtual nodes. What is placed there runs as real
// processes on this machine.
func Demo() ([]api.Zone, []api.Node) {
	var zones []api.Zone
	var nodes []api.Node
	for i, row := range demoZones {
		z := api.Zone{
			Meta: api.Meta{Name: row.name, DisplayName: row.display},
			Spec: api.ZoneSpec{
				Region: row.region, LatencyMs: map[string]float64{}, ConsoleLatencyMs: row.console,
				UTCOffset: "+08:00", PUE: row.pue, Carbon: &api.Carbon{GramsPerKWh: &row.grams}, Virtual: true,
				Price: api.Price{Currency: "CNY", DeviceHour: &demoDeviceHour, CoreHour: &demoCoreHour},
			},
		}
		if row.degraded != "" {
			z.Spec.Health, z.Spec.HealthReason = api.ZoneDegraded, row.degraded
		}
		for j, other := range demoZones {
			ms, ok := demoLatency[[2]string{row.region, other.region}]
			if !ok {
				ms = demoLatency[[2]string{other.region, row.region}]
			}
			if i != j {
				z.Spec.LatencyMs[other.name] = ms
			}
		}
		z.Default()
		var ours []api.Node
		for n := range row.nodes {
			m := a100
			if n >= row.nodes-row.others {
				m = row.other
			}
			// A thousand numbers a zone, so that a zone may grow without moving another's.
			ours = append(ours, virtualNode(row.name, uint32((i+1)*1000+n+1), n, nodesPerRack, nodesPerLeaf, shape{
				cpu: 128_000, memory: tib, disk: 8 * tib, devices: 8, model: m,
			}))
		}
		z.Status = statusOf(z, ours)
		zones, nodes = append(zones, z), append(nodes, ours...)
	}
	return zones, nodes
}

// shape is what a virtual node has.
type shape struct {
	cpu          api.MilliCPU
	memory, disk api.Bytes
	devices      int
	model        model
	cordoned     bool
}

// virtualNode is the index-th of its zone.
func virtualNode(zone string, number uint32, index, rack, leaf int, s shape) api.Node {
	name := fmt.Sprintf("%s-n%02d", zone, index+1)
	n := api.Node{
		Meta: api.Meta{Name: name, DisplayName: name},
		Spec: api.NodeSpec{
			Number: number, Zone: zone, Cordoned: s.cordoned, CPU: s.cpu, Memory: s.memory, Disk: s.disk, Virtual: true,
			Rack: fmt.Sprintf("%s-r%02d", zone, index/rack+1), Leaf: fmt.Sprintf("%s-l%02d", zone, index/leaf+1),
		},
		Status: api.NodeStatus{
			Ready: true, Limits: "none", Tenancy: tenancy,
			Message: fault.T("Virtual: CPU, memory and devices are nominal; work runs as processes of this machine.",
				"虚拟节点：CPU、内存与设备均为标称值，任务以本机进程运行。"),
		},
	}
	for d := range s.devices {
		dev := api.Device{Index: d, Vendor: s.model.vendor, Type: s.model.name, Memory: s.model.memory, Virtual: true}
		if s.model.linked {
			dev.Island = "nvlink-0"
		}
		n.Spec.Devices = append(n.Spec.Devices, dev)
	}
	return n
}

func statusOf(z api.Zone, nodes []api.Node) api.ZoneStatus {
	s := api.ZoneStatus{Health: z.Spec.Health, Nodes: len(nodes)}
	if s.Health == "" {
		s.Health = api.ZoneHealthy
	}
	for _, n := range nodes {
		if n.Status.Ready {
			s.Ready++
		}
		s.Devices += len(n.Spec.Devices)
	}
	return s
}

// IsDemo says that zones begin with the demo's.
func IsDemo(zones []api.Zone) bool {
	demo, _ := Demo()
	return len(zones) >= len(demo) && slices.EqualFunc(zones[:len(demo)], demo, func(a, b api.Zone) bool {
		return a.Meta.Name == b.Meta.Name && a.Spec.Virtual
	})
}
