package inventory

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func prepare(t *testing.T, o api.Object) {
	t.Helper()
	if err := api.Prepare(o, func(n int) string { return strings.Repeat("x", n) }); err != nil {
		t.Errorf("%s: %v", api.KeyOf(o), err)
	}
}

func TestLocal(t *testing.T) {
	n, err := Local(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	prepare(t, &n)
	if n.Spec.Zone != LocalZone().Meta.Name || n.Spec.CPU < 1 || n.Spec.Memory < 1<<20 || n.Spec.Disk <= 0 || n.Spec.Virtual {
		t.Errorf("spec %+v", n.Spec)
	}
	if n.Status.BootID == "" || !strings.Contains(n.Status.OS, "Linux") || n.Status.Tenancy != "single-tenant" || !n.Status.Ready {
		t.Errorf("status %+v", n.Status)
	}
	if n.Status.Limits == "none" && (n.Status.Message.EN == "" || n.Status.Message.ZH == "") {
		t.Error("no limits, and no word why")
	}
	for _, d := range n.Spec.Devices {
		if d.UUID == "" || d.Type == "" || d.Memory <= 0 || d.Virtual {
			t.Errorf("device %+v", d)
		}
	}
	t.Logf("%+v", n)
	z := LocalZone()
	prepare(t, &z)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Local(ctx); err == nil {
		t.Error("a context that has ended was ignored")
	}
}

func TestMemTotal(t *testing.T) {
	got, err := memTotal(strings.NewReader("MemFree: 1 kB\nMemTotal:       24590456 kB\n"))
	if err != nil || got != 24590456<<10 {
		t.Errorf("memTotal = %d, %v", got, err)
	}
	for _, bad := range []string{"", "MemTotal: x kB\n", "MemTotal: 1 MB\n", "MemTotal: -1 kB\n"} {
		if got, err := memTotal(strings.NewReader(bad)); err == nil {
			t.Errorf("memTotal(%q) = %d", bad, got)
		}
	}
}

func TestNodeName(t *testing.T) {
	for host, want := range map[string]string{
		"gpu01": "gpu01", "GPU-01.example.org": "gpu-01", "": "local", "___": "local", "-a_b-": "a-b",
		strings.Repeat("a", 70): strings.Repeat("a", 63),
	} {
		if got := nodeName(host); got != want {
			t.Errorf("nodeName(%q) = %q; want %q", host, got, want)
		}
	}
}

func TestTypeOf(t *testing.T) {
	for model, want := range map[string]string{
		"NVIDIA A100-SXM4-80GB":                  "A100",
		"NVIDIA A100 80GB PCIe":                  "A100",
		"NVIDIA A100-SXM4-40GB MIG 1g.5gb":       "A100",
		"Tesla V100-SXM2-32GB":                   "V100",
		"Tesla T4":                               "T4",
		"NVIDIA H800":                            "H800",
		"NVIDIA H100 80GB HBM3":                  "H100",
		"NVIDIA H200":                            "H200",
		"NVIDIA H20":                             "H20",
		"NVIDIA GH200 480GB":                     "GH200",
		"NVIDIA GB200":                           "GB200",
		"NVIDIA B200":                            "B200",
		"NVIDIA L40S":                            "L40S",
		"NVIDIA L4":                              "L4",
		"NVIDIA A10G":                            "A10G",
		"NVIDIA A800-SXM4-80GB":                  "A800",
		"NVIDIA GeForce RTX 4090":                "RTX 4090",
		"NVIDIA GeForce RTX 3060 Laptop GPU":     "RTX 3060",
		"NVIDIA GeForce GTX 1080 Ti":             "GTX 1080 Ti",
		"NVIDIA RTX A6000":                       "RTX A6000",
		"NVIDIA RTX 6000 Ada Generation":         "RTX 6000 Ada",
		"NVIDIA TITAN RTX":                       "TITAN RTX",
		"NVIDIA GeForce RTX 2080 with Max-Q":     "RTX 2080",
		"":                                       "GPU",
		"NVIDIA":                                 "GPU",
		"NVIDIA \x00\x1bH100":                    "H100",
		"Unknown " + strings.Repeat("x", 100):    "Unknown " + strings.Repeat("x", 56),
		"NVIDIA Graphics Device":                 "GPU",
		"NVIDIA RTX PRO 6000 Blackwell 96GB":     "RTX PRO 6000 Blackwell",
		"NVIDIA H100 NVL":                        "H100",
		"NVIDIA A40-48Q":                         "A40",
		"GRID T4-16Q":                            "GRID T4 16Q",
		"NVIDIA GeForce RTX 4090 D":              "RTX 4090 D",
		"NVIDIA RTX 4000 SFF Ada Generation":     "RTX 4000 SFF Ada",
		"NVIDIA A16":                             "A16",
		"Tesla P100-PCIE-16GB":                   "P100",
		"NVIDIA Tesla K80":                       "K80",
		"NVIDIA H100 PCIe":                       "H100",
		"NVIDIA GeForce RTX 5090":                "RTX 5090",
		"NVIDIA GB300":                           "GB300",
		"NVIDIA TITAN V":                         "TITAN V",
		"Quadro RTX 8000":                        "Quadro RTX 8000",
		"NVIDIA A30":                             "A30",
		"NVIDIA A2":                              "A2",
		"NVIDIA L20":                             "L20",
		"NVIDIA GeForce RTX 3080 12GB":           "RTX 3080",
		"NVIDIA A100-PCIE-40GB":                  "A100",
		"NVIDIA H100 80GB HBM2e":                 "H100",
		"NVIDIA B300 SXM6 AC":                    "B300",
		"NVIDIA GH200 144G HBM3e":                "GH200",
		"NVIDIA Quadro P4000 with Max-Q Design":  "Quadro P4000",
		"NVIDIA RTX 5000 Ada Generation Laptop":  "RTX 5000 Ada",
		"NVIDIA GeForce GTX 1650 with Max-Q GPU": "GTX 1650",
	} {
		if got := TypeOf(model); got != want {
			t.Errorf("TypeOf(%q) = %q; want %q", model, got, want)
		}
	}
}

func FuzzTypeOf(f *testing.F) {
	f.Add("NVIDIA A100-SXM4-80GB")
	f.Add("\xff - - -")
	f.Fuzz(func(t *testing.T, model string) {
		got := TypeOf(model)
		if got == "" || len(got) > maxType || strings.TrimSpace(got) != got {
			t.Errorf("TypeOf(%q) = %q", model, got)
		}
	})
}

func TestIslands(t *testing.T) {
	c := func(bus string, links ...string) card { return card{bus: bus, links: links} }
	for _, tc := range []struct {
		name  string
		cards []card
		want  []string
	}{
		{"none", nil, []string{}},
		{"no links", []card{c("1"), c("2")}, []string{"", ""}},
		{"two pairs", []card{c("1", "3"), c("2", "4"), c("3", "1"), c("4", "2")}, []string{"nvlink-0", "nvlink-1", "nvlink-0", "nvlink-1"}},
		{"a chain", []card{c("1", "2"), c("2", "1", "3"), c("3", "2"), c("4")}, []string{"nvlink-0", "nvlink-0", "nvlink-0", ""}},
		{"a switch", []card{c("1", "s"), c("2", "s"), c("3", "s")}, []string{"nvlink-0", "nvlink-0", "nvlink-0"}},
		{"one card on a switch", []card{c("1", "s", "s")}, []string{""}},
		{"no address", []card{c("", "s"), c("", "s")}, []string{"", ""}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, islands(tc.cards)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestDemo(t *testing.T) {
	zones, nodes := Demo()
	again, nodesAgain := Demo()
	if d := cmp.Diff(zones, again) + cmp.Diff(nodes, nodesAgain); d != "" {
		t.Error(d)
	}
	type row struct {
		Name, Display, Region string
		Health                api.ZoneHealth
		Nodes, Devices        int
		Console               float64
		Latency               map[string]float64
	}
	var got []row
	for i := range zones {
		z := &zones[i]
		prepare(t, z)
		got = append(got, row{z.Meta.Name, z.Meta.DisplayName, z.Spec.Region, z.Status.Health, z.Status.Nodes, z.Status.Devices, z.Spec.ConsoleLatencyMs, z.Spec.LatencyMs})
		if z.Spec.Price.Currency != "CNY" || z.Spec.Price.Device("A100") != 8.5 || z.Spec.Price.Core() != 0.2 || !z.Spec.Virtual {
			t.Errorf("%s: %+v", z.Meta.Name, z.Spec)
		}
		if (z.Spec.Health == api.ZoneDegraded) != (z.Spec.HealthReason != "") {
			t.Errorf("%s: degraded and its reason do not agree", z.Meta.Name)
		}
	}
	if d := cmp.Diff([]row{
		{"beijing-1", "北京-1", "北京", "healthy", 24, 192, 1.2, map[string]float64{"beijing-2": 1.3, "shanghai-1": 8.5, "shenzhen-1": 12.3}},
		{"beijing-2", "北京-2", "北京", "healthy", 18, 144, 1.5, map[string]float64{"beijing-1": 1.3, "shanghai-1": 8.5, "shenzhen-1": 12.3}},
		{"shanghai-1", "上海-1", "上海", "healthy", 32, 256, 8.5, map[string]float64{"beijing-1": 8.5, "beijing-2": 8.5, "shenzhen-1": 9.8}},
		{"shenzhen-1", "深圳-1", "深圳", "degraded", 16, 128, 12.3, map[string]float64{"beijing-1": 12.3, "beijing-2": 12.3, "shanghai-1": 9.8}},
	}, got); d != "" {
		t.Error(d)
	}
	checkDemoNodes(t, nodes)
}

func checkDemoNodes(t *testing.T, nodes []api.Node) {
	t.Helper()
	types, racks, leaves, numbers, names := map[string]int{}, map[string]int{}, map[string]int{}, map[uint32]bool{}, map[string]bool{}
	for i := range nodes {
		n := &nodes[i]
		prepare(t, n)
		types[n.Spec.Zone+" "+n.Spec.Devices[0].Vendor+" "+n.Spec.Devices[0].Type]++
		racks[n.Spec.Rack]++
		leaves[n.Spec.Leaf]++
		if numbers[n.Spec.Number] || names[n.Meta.Name] {
			t.Errorf("%s (%d) is there twice", n.Meta.Name, n.Spec.Number)
		}
		numbers[n.Spec.Number], names[n.Meta.Name] = true, true
		if n.Spec.CPU != 128_000 || n.Spec.Memory != tib || len(n.Spec.Devices) != 8 || !n.Spec.Virtual || !n.Status.Ready {
			t.Errorf("%s: %+v", n.Meta.Name, n.Spec)
		}
		for _, d := range n.Spec.Devices {
			if !d.Virtual || (d.Vendor == "nvidia") != (d.Island == "nvlink-0") {
				t.Errorf("%s: %+v", n.Meta.Name, d)
			}
		}
	}
	if d := cmp.Diff(map[string]int{
		"beijing-1 nvidia A100": 20, "beijing-1 nvidia V100": 4, "beijing-2 nvidia A100": 18,
		"shanghai-1 nvidia A100": 28, "shanghai-1 nvidia H800": 4,
		"shenzhen-1 nvidia A100": 14, "shenzhen-1 huawei Ascend 910": 2,
	}, types); d != "" {
		t.Error(d)
	}
	for rack, n := range racks {
		if n > 4 {
			t.Errorf("rack %s has %d nodes", rack, n)
		}
	}
	for leaf, n := range leaves {
		if n > 8 {
			t.Errorf("leaf %s has %d nodes", leaf, n)
		}
	}
	if !names["beijing-1-n07"] || len(racks) != 6+5+8+4 || len(leaves) != 3+3+4+2 {
		t.Errorf("%d racks, %d leaves", len(racks), len(leaves))
	}
}

// example is the file in LoadZones' comment.
func example(t testing.TB) string {
	t.Helper()
	src, err := os.ReadFile("zonesfile.go")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?s)in YAML or JSON\.\n//\n(.*?)\n//\n// The file`).FindSubmatch(src)
	if m == nil {
		t.Fatal("the comment has no example")
	}
	return regexp.MustCompile(`(?m)^//\t`).ReplaceAllString(string(m[1]), "")
}

func TestLoadZonesExample(t *testing.T) {
	zones, nodes, err := LoadZones(strings.NewReader(example(t)))
	if err != nil {
		t.Fatal(err)
	}
	if len(zones) != 2 || len(nodes) != 26 {
		t.Fatalf("%d zones, %d nodes", len(zones), len(nodes))
	}
	if zones[0].Meta.DisplayName != "实验室-1" || zones[0].Spec.Health != api.ZoneDegraded || zones[1].Meta.DisplayName != "lab-2" {
		t.Errorf("zones %+v", zones)
	}
	if got := zones[1].Spec.LatencyMs["lab-1"]; got != 1.3 {
		t.Errorf("the way back takes %v ms", got)
	}
	last := nodes[23]
	if last.Meta.Name != "lab-1-n24" || !last.Spec.Cordoned || len(last.Spec.Devices) != 0 || last.Spec.Rack != "lab-1-r06" || last.Spec.Number != 1000023 {
		t.Errorf("node %+v", last)
	}
	if d := nodes[0].Spec.Devices[7]; d.Type != "A100" || d.Memory != 80*gib || !d.Virtual || d.Island == "" {
		t.Errorf("device %+v", d)
	}
	if nodes[24].Spec.Number != 2000000 {
		t.Errorf("the second zone begins at %d", nodes[24].Spec.Number)
	}
}

func TestLoadZonesRefuses(t *testing.T) {
	group := "[{count: 1, cpu: 1, memory: 1Gi}]"
	for _, tc := range []struct{ name, file, path string }{
		{"empty", "", "zones"},
		{"no zones", "zones: []", "zones"},
		{"unknown field", "zones: [{name: a, region: x, colour: red}]", ""},
		{"twice the same key", "zones: []\nzones: []", ""},
		{"not yaml", "zones: [", ""},
		{"bad name", "zones: [{name: 北京, region: x, nodes: " + group + "}]", "zones[0].name"},
		{"no region", "zones: [{name: a, nodes: " + group + "}]", "zones[0].region"},
		{"same name", "zones: [{name: a, region: x}, {name: a, region: x}]", "zones[1].name"},
		{"latency to nobody", "zones: [{name: a, region: x, latencyMs: {b: 1}}]", "zones[0].latencyMs"},
		{"negative latency", "zones: [{name: a, region: x, latencyMs: {b: -1}}, {name: b, region: x}]", "zones[0].latencyMs.b"},
		{"no count", "zones: [{name: a, region: x, nodes: [{cpu: 1, memory: 1Gi}]}]", "zones[0].nodes[0].count"},
		{"too many", "zones: [{name: a, region: x, nodes: [{count: 20000, cpu: 1, memory: 1Gi}]}]", "zones[0].nodes[0].count"},
		{"no memory", "zones: [{name: a, region: x, nodes: [{count: 1, cpu: 1}]}]", "zones[0].nodes[0].memory"},
		{"too many devices", "zones: [{name: a, region: x, nodes: [{count: 1, cpu: 1, memory: 1Gi, devices: {count: 65, type: A100}}]}]", "zones[0].nodes[0].devices.count"},
		{"device without type", "zones: [{name: a, region: x, nodes: [{count: 1, cpu: 1, memory: 1Gi, devices: {count: 1}}]}]", "zones[0].nodes[0].devices[0].type"},
		{"torn racks", "zones: [{name: a, region: x, nodesPerRack: 3, nodes: " + group + "}]", "zones[0].nodesPerLeaf"},
		{"same number", "zones: [{name: a, region: x, firstNumber: 5, nodes: " + group + "}, {name: b, region: x, firstNumber: 5, nodes: " + group + "}]", "zones"},
		{"number too large", "zones: [{name: a, region: x, firstNumber: 4294967295, nodes: " + group + "}]", "zones[0].firstNumber"},
		{"too large", strings.Repeat("#", maxZonesBytes+1), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := LoadZones(strings.NewReader(tc.file))
			if err == nil {
				t.Fatal("accepted")
			}
			e := fault.From(err)
			if e.Reason != "BadZonesFile" || e.Message.EN == "" || e.Message.ZH == "" {
				t.Errorf("%+v", e)
			}
			if tc.path == "" {
				return
			}
			var paths []string
			for _, f := range e.Fields {
				paths = append(paths, f.Path)
				if f.Path == tc.path && f.Message.EN != "" && f.Message.ZH != "" {
					return
				}
			}
			t.Errorf("faults at %q; want %s", paths, tc.path)
		})
	}
}

func FuzzLoadZones(f *testing.F) {
	f.Add(example(f))
	f.Add("zones: [{name: a, region: x, firstNumber: 4294967295, nodes: [{count: 3, cpu: 1, memory: 1Gi}]}]")
	f.Add("a: &a [x]\nb: [*a, *a]\n")
	f.Fuzz(func(t *testing.T, file string) {
		zones, nodes, err := LoadZones(strings.NewReader(file))
		if err != nil {
			return
		}
		if len(zones) == 0 || len(zones) > maxZones || len(nodes) > maxNodes {
			t.Fatalf("%d zones, %d nodes", len(zones), len(nodes))
		}
		seen := map[string]bool{}
		for _, n := range nodes {
			for _, key := range []string{n.Meta.Name, fmt.Sprint(n.Spec.Number)} {
				if seen[key] {
					t.Fatalf("%s is there twice", key)
				}
				seen[key] = true
			}
		}
	})
}
