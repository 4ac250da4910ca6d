package inventory

import (
	"fmt"
	"io"
	"math"
	"strings"

	"sigs.k8s.io/yaml"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/way"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// The bounds of a zones file.
const (
	maxZonesBytes = 1 << 20
	maxZones      = 64
	maxGroups     = 256
	maxNodes      = 12_500
	numbersAZone  = 1_000_000
)

type zonesFile struct {
	Zones []zoneEntry `json:"zones"`
}

type zoneEntry struct {
	Name             string             `json:"name"`
	DisplayName      string             `json:"displayName,omitempty"`
	Region           string             `json:"region"`
	LatencyMs        map[string]float64 `json:"latencyMs,omitempty"`
	LatencyP99Ms     map[string]float64 `json:"latencyP99Ms,omitempty"`
	BandwidthGbps    map[string]float64 `json:"bandwidthGbps,omitempty"`
	ConsoleLatencyMs float64            `json:"consoleLatencyMs,omitempty"`
	UTCOffset        string             `json:"utcOffset,omitempty"`
	PUE              float64            `json:"pue,omitempty"`
	Carbon           *api.Carbon        `json:"carbon,omitempty"`
	DeviceWatts      map[string]float64 `json:"deviceWatts,omitempty"`
	Price            api.Price          `json:"price,omitzero"`
	Health           api.ZoneHealth     `json:"health,omitempty"`
	HealthReason     string             `json:"healthReason,omitempty"`
	FirstNumber      uint32             `json:"firstNumber,omitempty"`
	NodesPerRack     int                `json:"nodesPerRack,omitempty"`
	NodesPerLeaf     int                `json:"nodesPerLeaf,omitempty"`
	Nodes            []nodeGroup        `json:"nodes"`
}

type nodeGroup struct {
	Count    int          `json:"count"`
	CPU      api.MilliCPU `json:"cpu"`
	Memory   api.Bytes    `json:"memory"`
	Disk     api.Bytes    `json:"disk,omitempty"`
	Cordoned bool         `json:"cordoned,omitempty"`
	Devices  *deviceGroup `json:"devices,omitempty"`
}

type deviceGroup struct {
	Count  int       `json:"count"`
	Type   string    `json:"type"`
	Vendor string    `json:"vendor,omitempty"`
	Memory api.Bytes `json:"memory,omitempty"`
	Linked bool      `json:"linked,omitempty"`
}

// LoadZones reads the file of `fermi up --zones FILE`: zones of virtual nodes, in YAML or JSON.
//
//	zones:
//	  - name: lab-1                # DNS-safe
//	    displayName: 实验室-1       # as name when absent
//	    region: 北京
//	    latencyMs: {lab-2: 1.3}    # round trip to other zones; the way back is the same unless given
//	    consoleLatencyMs: 1.2
//	    price: {currency: CNY, deviceHour: 8.5, coreHour: 0.2, memoryGBHour: 0.01}
//	                               # and latencyP99Ms, bandwidthGbps, utcOffset, pue, carbon, deviceWatts as in a Zone
//	    health: degraded           # healthy when absent
//	    healthReason: 电力维护
//	    firstNumber: 1000000       # of its nodes; the zone's place in the file × 1000000 when absent
//	    nodesPerRack: 4            # 4 when absent
//	    nodesPerLeaf: 8            # 8 when absent
//	    nodes:                     # groups; nodes are named lab-1-n01, lab-1-n02 … over all groups
//	      - count: 20
//	        cpu: 128
//	        memory: 1Ti
//	        disk: 8Ti
//	        devices: {count: 8, type: A100, vendor: nvidia, memory: 80Gi, linked: true}
//	      - count: 4               # no devices
//	        cpu: 64
//	        memory: 256Gi
//	        cordoned: true
//	  - name: lab-2
//	    region: 北京
//	    nodes: [{count: 2, cpu: 8, memory: 32Gi}]
//
// The file is refused as a whole, with every fault in it. It may have 1 MiB, 64 zones and 12,500 nodes.
func LoadZones(r io.Reader) ([]api.Zone, []api.Node, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxZonesBytes+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read the zones file: %w", err)
	}
	if len(data) > maxZonesBytes {
		return nil, nil, fault.New(fault.TooLarge, "BadZonesFile", fault.T(
			"The zones file is larger than %d bytes.", "可用区文件超过 %d 字节。", maxZonesBytes))
	}
	var file zonesFile
	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		return nil, nil, fault.New(fault.Invalid, "BadZonesFile", fault.T(
			"The zones file cannot be read: %s", "无法解析可用区文件：%s", parseText(err)))
	}
	l := &loader{}
	l.load(file)
	if len(l.fields) > 0 {
		return nil, nil, fault.New(fault.Invalid, "BadZonesFile", fault.T(
			"The zones file has %d [fault|faults].", "可用区文件有 %d 处错误。", len(l.fields))).WithFields(l.fields...)
	}
	return l.zones, l.nodes, nil
}

// parseText is the parser's complaint in one bounded line; it quotes only the file.
func parseText(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if r := []rune(text); len(r) > 300 {
		text = string(r[:300]) + "…"
	}
	return text
}

type loader struct {
	zones  []api.Zone
	nodes  []api.Node
	fields []fault.Field
}

func (l *loader) fault(path, en, zh string, args ...any) {
	l.fields = append(l.fields, fault.Field{Path: path, Message: fault.T(en, zh, args...)})
}

func (l *loader) load(file zonesFile) {
	if len(file.Zones) == 0 || len(file.Zones) > maxZones {
		l.fault("zones", "There are %d zones; 1 to %d are allowed.", "可用区有 %d 个，允许 1 到 %d 个。", len(file.Zones), maxZones)
		return
	}
	place := map[string]int{}
	for i, z := range file.Zones {
		if _, twice := place[z.Name]; twice {
			l.fault(fmt.Sprintf("zones[%d].name", i), "%q is another zone's name.", "名称 %q 与其他可用区重复。", z.Name)
		}
		place[z.Name] = i
	}
	for i, z := range file.Zones {
		l.zone(fmt.Sprintf("zones[%d]", i), i, z, place)
	}
	if len(l.fields) == 0 {
		l.wayBack(place)
		l.numbers()
	}
}

func (l *loader) zone(path string, i int, entry zoneEntry, place map[string]int) {
	z := api.Zone{
		Meta: api.Meta{Name: entry.Name, DisplayName: entry.DisplayName},
		Spec: api.ZoneSpec{
			Region: entry.Region, LatencyMs: map[string]float64{}, ConsoleLatencyMs: entry.ConsoleLatencyMs,
			LatencyP99Ms: entry.LatencyP99Ms, Roads: way.Roads{BandwidthGbps: entry.BandwidthGbps}, UTCOffset: entry.UTCOffset,
			PUE: entry.PUE, Carbon: entry.Carbon, DeviceWatts: entry.DeviceWatts,
			Price: entry.Price, Health: entry.Health, HealthReason: entry.HealthReason, Virtual: true,
		},
	}
	for other, ms := range entry.LatencyMs {
		z.Spec.LatencyMs[other] = ms
		if _, known := place[other]; !known || other == entry.Name {
			l.fault(path+".latencyMs", "%q is not another zone of this file.", "%q 不是此文件中的其他可用区。", other)
		}
	}
	if len(entry.Name) > 40 {
		l.fault(path+".name", "The name has %d characters; at most 40 are allowed, so that its nodes can be named after it.",
			"名称有 %d 个字符，最多允许 40 个，以便为其节点命名。", len(entry.Name))
		return
	}
	l.check(path, &z)
	first := entry.FirstNumber
	if first == 0 {
		first = uint32(i+1) * numbersAZone
	}
	nodes := l.groups(path, entry, first)
	if uint64(first)+uint64(len(nodes)) > math.MaxUint32 {
		l.fault(path+".firstNumber", "%d is too large: the numbers of its %d nodes must stay below 2³².",
			"%d 过大：其 %d 个节点的编号必须小于 2³²。", first, len(nodes))
	}
	z.Status = statusOf(z, nodes)
	l.zones, l.nodes = append(l.zones, z), append(l.nodes, nodes...)
}

func (l *loader) groups(path string, entry zoneEntry, first uint32) []api.Node {
	rack, leaf := entry.NodesPerRack, entry.NodesPerLeaf
	if rack == 0 {
		rack = nodesPerRack
	}
	if leaf == 0 {
		leaf = nodesPerLeaf
	}
	if rack < 1 || leaf < 1 || rack > maxNodes || leaf > maxNodes || leaf%rack != 0 {
		l.fault(path+".nodesPerLeaf", "A leaf has whole racks: %d nodes are not a multiple of %d.",
			"一个叶交换机应包含整数个机架：%d 个节点不是 %d 的倍数。", leaf, rack)
		return nil
	}
	if len(entry.Nodes) > maxGroups {
		l.fault(path+".nodes", "There are %d groups of nodes; at most %d are allowed.", "节点组有 %d 个，最多允许 %d 个。", len(entry.Nodes), maxGroups)
		return nil
	}
	var out []api.Node
	for g, group := range entry.Nodes {
		at := fmt.Sprintf("%s.nodes[%d]", path, g)
		if group.Count < 1 || len(l.nodes)+len(out)+group.Count > maxNodes {
			l.fault(at+".count", "%d nodes are out of range: 1 or more, and at most %d in the whole file.",
				"节点数 %d 超出范围：至少 1 个，整个文件最多 %d 个。", group.Count, maxNodes)
			continue
		}
		s, ok := l.shape(at, group)
		if !ok {
			continue
		}
		for n := range group.Count {
			node := virtualNode(entry.Name, first+uint32(len(out)), len(out), rack, leaf, s)
			if n == 0 { // the others of the group are the same
				l.check(at, &node)
			}
			out = append(out, node)
		}
	}
	return out
}

func (l *loader) shape(at string, g nodeGroup) (shape, bool) {
	s := shape{cpu: g.CPU, memory: g.Memory, disk: g.Disk, cordoned: g.Cordoned}
	if g.Devices == nil {
		return s, true
	}
	if g.Devices.Count < 1 || g.Devices.Count > 64 {
		l.fault(at+".devices.count", "%d devices are out of range: 1 to 64 are allowed.", "设备数 %d 超出范围：允许 1 到 64。", g.Devices.Count)
		return s, false
	}
	s.devices = g.Devices.Count
	s.model = model{g.Devices.Vendor, g.Devices.Type, g.Devices.Memory, g.Devices.Linked}
	return s, true
}

// check runs the rules that every object of the kind must pass, and says where in the file it failed.
func (l *loader) check(path string, o api.Object) {
	err := api.Prepare(o, func(n int) string { return strings.Repeat("x", n) })
	if err == nil {
		return
	}
	e := fault.From(err)
	if len(e.Fields) == 0 {
		l.fields = append(l.fields, fault.Field{Path: path, Message: e.Message})
	}
	for _, f := range e.Fields {
		field := strings.TrimPrefix(strings.TrimPrefix(f.Path, "metadata."), "spec.")
		l.fields = append(l.fields, fault.Field{Path: path + "." + field, Message: f.Message})
	}
}

// wayBack fills in latencies that were given in one direction only.
func (l *loader) wayBack(place map[string]int) {
	for i := range l.zones {
		for other, ms := range l.zones[i].Spec.LatencyMs {
			back := l.zones[place[other]].Spec.LatencyMs
			if _, given := back[l.zones[i].Meta.Name]; !given {
				back[l.zones[i].Meta.Name] = ms
			}
		}
	}
}

// numbers refuses two nodes with one number.
func (l *loader) numbers() {
	seen := make(map[uint32]string, len(l.nodes))
	for _, n := range l.nodes {
		if other, twice := seen[n.Spec.Number]; twice {
			l.fault("zones", "%s and %s have the same number %d; set firstNumber further apart.",
				"%s 与 %s 的编号同为 %d，请调整 firstNumber 使其不重叠。", other, n.Meta.Name, n.Spec.Number)
			return
		}
		seen[n.Spec.Number] = n.Meta.Name
	}
}
