package serving

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/api/v1/spot"
	"github.com/fermi-cluster/fermi/internal/fault"
)

var update = flag.Bool("update", false, "write the golden files anew")

func service(change func(*ServiceSpec)) *InferenceService {
	s := &InferenceService{Meta: api.Meta{Name: "chat"}, Spec: ServiceSpec{Template: ServiceTemplate{Command: []string{"serve"}}}}
	change(&s.Spec)
	return s
}

// TestRules: what a service lacks is filled in, and what it may not have is refused by its path in both languages.
func TestRules(t *testing.T) {
	s := service(func(*ServiceSpec) {})
	s.Default()
	if list := s.Validate(); len(list) > 0 {
		t.Fatal(list)
	}
	p := &s.Spec
	if p.Template.Engine != EngineCustom || p.Replicas != 1 || p.Protocol != REST || p.Timeout != api.Duration(time.Minute) || p.MaxConcurrency != 64 || p.MaxQueue != 128 || p.Template.Health.Failures != 3 || p.Template.Resources.CPU == 0 {
		t.Errorf("defaults: %+v", p)
	}
	sample := service(func(p *ServiceSpec) {
		p.Template = ServiceTemplate{Engine: EngineSample, Model: &ServiceModel{Task: "train"}}
	})
	sample.Default()
	if list := sample.Validate(); len(list) > 0 || sample.Spec.Template.Health.Path != "/healthz" {
		t.Errorf("sample: %v, %+v", list, sample.Spec.Template.Health)
	}
	if got := strings.Join(sample.Workload().Roles[0].Command, " "); got != "fermi sample serve --model model.json" {
		t.Errorf("sample runs %q", got)
	}
	magic := service(func(p *ServiceSpec) { p.Template = ServiceTemplate{Engine: "magic"} })
	magic.Default()
	if list := magic.Validate(); len(list) != 1 || list[0].Path != "spec.template.engine" {
		t.Errorf("an engine that is not there: %v", list)
	}
	for path, change := range map[string]func(*ServiceSpec){
		"spec.replicas": func(p *ServiceSpec) { p.Replicas = 1001 },
		"spec.protocol": func(p *ServiceSpec) { p.Protocol = "ftp" },
		"spec.timeout":  func(p *ServiceSpec) { p.Timeout = -1 },
		"spec.path":     func(p *ServiceSpec) { p.Path = "//host/x" },
		"spec.format":   func(p *ServiceSpec) { p.Format = "xml" },
		"spec.schema.properties.a.type": func(p *ServiceSpec) {
			p.Schema = map[string]any{"properties": map[string]any{"a": map[string]any{"type": "float"}}}
		},
		"spec.maxConcurrency":   func(p *ServiceSpec) { p.MaxConcurrency = -1 },
		"spec.priority":         func(p *ServiceSpec) { p.Priority = new(int); *p.Priority = -1 },
		"spec.template.engine":  func(p *ServiceSpec) { p.Template.Engine = "magic" },
		"spec.template.command": func(p *ServiceSpec) { p.Template.Command = nil },
		"spec.template.model":   func(p *ServiceSpec) { p.Template.Model = &ServiceModel{Task: "t"} },
		"spec.template.model.file": func(p *ServiceSpec) {
			p.Template = ServiceTemplate{Engine: EngineSample, Model: &ServiceModel{File: "../../etc/shadow"}}
		},
		"spec.template.image": func(p *ServiceSpec) { p.Template = ServiceTemplate{Engine: EngineSample, Image: "debian:13"} },
		"spec.template.options.maxLength": func(p *ServiceSpec) {
			p.Template = ServiceTemplate{Engine: EngineTriton, Options: &EngineOptions{MaxLength: 5}}
		},
		"spec.template.options.batchSize": func(p *ServiceSpec) { p.Template.Options = &EngineOptions{BatchSize: 5} },
		"spec.template.options.grpc":      func(p *ServiceSpec) { p.Template.Options = &EngineOptions{GRPC: true} },
		"spec.template.options.precision": func(p *ServiceSpec) {
			p.Template = ServiceTemplate{Engine: EngineVLLM, Options: &EngineOptions{Precision: "fp3"}}
		},
		"spec.template.options.tensorParallel": func(p *ServiceSpec) {
			p.Template = ServiceTemplate{Engine: EngineVLLM, Options: &EngineOptions{TensorParallel: 4}, Resources: api.Resources{Accelerators: api.Accelerators{Count: 2, Type: "A100"}}}
		},
		"spec.autoscale.metrics": func(p *ServiceSpec) {
			p.Autoscale = &ServiceAutoscale{MaxReplicas: 2, Metrics: []ScaleMetric{{MetricDevice, 50}}}
		},
		"spec.gateway.affinity":     func(p *ServiceSpec) { p.Gateway = &ServiceGateway{Affinity: "love"} },
		"spec.gateway.zones":        func(p *ServiceSpec) { p.Gateway = &ServiceGateway{Zones: ZonesBalanced} },
		"spec.gateway.ping":         func(p *ServiceSpec) { p.Gateway = &ServiceGateway{Ping: 1} },
		"spec.gateway.hedge":        func(p *ServiceSpec) { p.Gateway = &ServiceGateway{Hedge: -1} },
		"spec.gateway.log.percent":  func(p *ServiceSpec) { p.Gateway = &ServiceGateway{Log: &RequestLog{Percent: 101}} },
		"spec.gateway.cache.ttl":    func(p *ServiceSpec) { p.Gateway = &ServiceGateway{Cache: &ResponseCache{}} },
		"spec.template.spot":        func(p *ServiceSpec) { p.Template.Spot = "always" },
		"spec.zones[1].zone":        func(p *ServiceSpec) { p.Zones = []ServiceZone{{Zone: "a"}, {Zone: "a"}} },
		"spec.zones[0].zone":        func(p *ServiceSpec) { p.Zones = []ServiceZone{{Zone: "A b"}} },
		"spec.zones[0].role":        func(p *ServiceSpec) { p.Zones = []ServiceZone{{Zone: "a", Role: ZoneBackup}} },
		"spec.zones[1].weight":      func(p *ServiceSpec) { p.Zones = []ServiceZone{{Zone: "a"}, {Zone: "b", Weight: -1}} },
		"spec.zones[0].minReplicas": func(p *ServiceSpec) { p.Zones = []ServiceZone{{Zone: "a", MinReplicas: 1}} },
		"spec.zones": func(p *ServiceSpec) {
			p.Zones, p.Autoscale = []ServiceZone{{Zone: "a", MaxReplicas: 1}}, &ServiceAutoscale{MaxReplicas: 2}
		},
		"spec.slo.availability":       func(p *ServiceSpec) { p.SLO = &SLO{Availability: 100} },
		"spec.slo.latency":            func(p *ServiceSpec) { p.SLO = &SLO{Availability: 99, Latency: -1} },
		"spec.slo.window":             func(p *ServiceSpec) { p.SLO = &SLO{Availability: 99, Window: 1} },
		"spec.template.port":          func(p *ServiceSpec) { p.Template.Port = 70000 },
		"spec.template.health.path":   func(p *ServiceSpec) { p.Template.Health = &ServiceHealth{Path: "http://169.254.169.254/"} },
		"spec.template.health.every":  func(p *ServiceSpec) { p.Template.Health = &ServiceHealth{Every: 1} },
		"spec.template.env[0].name":   func(p *ServiceSpec) { p.Template.Env = []api.EnvVar{{Name: "FERMI_X"}} },
		"spec.template.workingDir":    func(p *ServiceSpec) { p.Template.WorkingDir = "/etc" },
		"spec.template.resources.cpu": func(p *ServiceSpec) { p.Template.Resources.CPU = -1 },
	} {
		bad := service(change)
		bad.Default()
		if list := bad.Validate(); len(list) == 0 || list[0].Path != path || list[0].Message.EN == "" || list[0].Message.ZH == "" {
			t.Errorf("%s: %+v", path, list)
		}
	}
	wide := service(func(p *ServiceSpec) {
		p.Template = ServiceTemplate{Engine: EngineLlama, Options: &EngineOptions{BatchSize: 1000, MaxLength: 10_000_000}}
	})
	wide.Default()
	if list := wide.Validate(); len(list) != 1 || list[0].Path != "spec.template.options.maxLength" {
		t.Errorf("more tokens than llama.cpp can count: %+v", list)
	}
	long := service(func(*ServiceSpec) {})
	long.Default()
	long.Meta.Name = strings.Repeat("a", 51)
	if list := long.Validate(); len(list) != 1 || list[0].Path != "metadata.name" {
		t.Errorf("a name that leaves no room for those of replicas: %+v", list)
	}
	// A host in the path would make a launcher, which is not the tenant, ask somebody else.
	for _, path := range []string{"//host/x", "x", "\n/", "/a b", "/\x00"} {
		bad := service(func(p *ServiceSpec) { p.Template.Health = &ServiceHealth{Path: path} })
		bad.Default()
		if len(bad.Validate()) == 0 {
			t.Errorf("%q is taken", path)
		}
	}
}

// whole is an object of each kind with every field set, so that a renamed field shows as a changed golden file.
func whole() []api.Object {
	at := time.Date(2026, 11, 18, 8, 30, 0, 0, time.UTC)
	meta := func(name, project string) api.Meta {
		return api.Meta{ID: "svc-0123456789abcdefghjk", Name: name, DisplayName: "问答服务", Project: project, Owner: "admin", Revision: 42, CreatedAt: at, UpdatedAt: at}
	}
	text, one := fault.T("A sentence.", "一句话。"), 1
	template := ServiceTemplate{
		EngineSample, &ServiceModel{"spiral", "3", "train", "model.json"}, Parts{[]Adapter{{"poet", "lora", "2", "final"}}, []ServiceRole{{"prefill", 2, []string{"prefill"}, []string{"-v"}, []api.EnvVar{{Name: "B", Value: "2"}}, &api.Resources{CPU: 500}}}}, &EngineOptions{8, 4096, "bfloat16", 2, 4, true}, "i", []string{"python"}, []string{"serve.py"}, []api.EnvVar{{Name: "A", Value: "1"}},
		Given{spot.Prefer, true, mount.Lists{Datasets: []mount.AssetRef{{Name: "d"}}, Models: []mount.AssetRef{{Name: "m"}}}, []api.SecretFile{{Name: "f", Secret: "s", Key: "k"}}, []api.CredentialRef{{Secret: "hub"}}},
		"src", &api.Code{Archive: "sha256:00"}, api.Resources{CPU: 1500, Memory: 16 << 30}, 8000,
		&ServiceHealth{"/healthz", api.Duration(time.Second), api.Duration(2 * time.Second), 3}, api.Duration(30 * time.Second),
	}
	scale := ServiceAutoscale{0, 8, []ScaleMetric{{MetricQPS, 10}}, ScalePolicy{api.Duration(time.Minute), api.Duration(time.Second), api.Duration(time.Minute)}, []ScaleWindow{{"08:00", "20:00", []int{1, 5}, "Asia/Shanghai", 2, 16}}}
	rules := []TrafficRule{{"X-Group", "group", "b", "ann", 10, TrackCanary}}
	traffic := ServiceTraffic{&Canary{[]int{5, 50, 100}, api.Duration(time.Minute), 20, 1, api.Duration(time.Second), "/check", true}, rules, &Promotion{2, 2}, &Shadow{10}}
	road := ServiceGateway{AffinityPrefix, api.Duration(15 * time.Second), api.Duration(time.Second), &ResponseCache{api.Duration(time.Minute), 1 << 20}, &RequestBatch{8, api.Duration(5 * time.Millisecond)}, ZonesBalanced, &RequestLog{10, true}}
	asked := Contract{REST, "/v2/models/m/infer", FormatJSON, map[string]any{"type": "object"}}
	zones := []ServiceZone{{"beijing-1", 2, 1, 4, 80, ZonePrimary, []string{"north"}}}
	spec := ServiceSpec{"说明", 3, template, asked, api.Duration(time.Minute), 64, 128, "default", &one, &scale, &traffic, &road, zones, &SLO{99.9, api.Duration(time.Second), api.Duration(720 * time.Hour)}, true}
	return []api.Object{
		&InferenceService{meta("chat", "default"), spec, ServiceStatus{api.PhaseRunning, Degraded, "FewReplicas", text, "0123456789abcdef", 2, []ServiceRevision{{2, at, template}}, ServiceCount{3, 2, 1, 4}, 7, "/inference/chat", &at,
			&CanaryStatus{2, 1, 1, 50, at, CanaryCount{100, 1, 2}, RolledBack}, &ScaleStatus{3, "Load", text, at, []ScaleStep{{at, 2, 3, "Load", text}}},
		}},
		&ServiceReplica{meta("chat-7", "default"), ServiceReplicaSpec{"chat", "svc-0123456789abcdefghjk", 2, "beijing-1", template, "default", 1000, &at}, ServiceReplicaStatus{
			api.PhaseRunning, "Started", text, 2, []time.Time{at}, &at, &at, &at, api.ReplicaCount{Total: 1, Running: 1}, &one, []string{"beijing-1"}, "node-1", Answers{true, &at, "100.64.0.2:8000", &Via{"node-1", "10.0.0.2:7073", "rep-1"}, "refused"},
		}},
		&ServiceEndpoints{meta("chat", ""), ServiceEndpointsSpec{"svc-0123456789abcdefghjk", "default", asked, api.Duration(time.Minute), 64, 128, &road, EngineVLLM, []string{"poet"}, api.Duration(time.Second), true, Road{1, 2, 50, rules, 10, zones}, []ServiceEndpoint{{"chat-7", "100.64.0.2:8000", 2, "beijing-1", &Via{"node-1", "10.0.0.2:7073", "rep-1"}}}}},
	}
}

// TestGolden: the JSON of the kinds changes only with their golden files, and reads back as it was.
func TestGolden(t *testing.T) {
	for i, o := range whole() {
		if o.Kind() != Rows[i].Kind {
			t.Fatalf("row %d is of %s", i, Rows[i].Kind)
		}
		got, err := json.MarshalIndent(o, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, '\n')
		file := filepath.Join("testdata", Rows[i].Singular+".json")
		if *update {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v; go test ./api/v1/serving -update\n%s", file, err, got)
		}
		back := Rows[i].New()
		if err := json.Unmarshal(got, back); err != nil {
			t.Fatal(err)
		}
		if again, _ := json.MarshalIndent(back, "", "  "); !bytes.Equal(append(again, '\n'), want) {
			t.Errorf("%s does not read back as it was", file)
		}
	}
}

// TestSpot: the rule on spot nodes is each replica's, also where its zone is fixed.
func TestSpot(t *testing.T) {
	r := &ServiceReplica{Spec: ServiceReplicaSpec{Service: "chat"}}
	if z := r.Workload().Wish.Zones; z != nil {
		t.Errorf("nobody said anything: %+v", z)
	}
	r.Spec.Template.Balance = true
	if z := r.Workload().Wish.Zones; z == nil || !z.Balance || z.Spot != "" {
		t.Errorf("%+v", z)
	}
	r.Spec.Template.Spot = spot.Prefer
	if z := r.Workload().Wish.Zones; z == nil || z.Spot != spot.Prefer || z.Allow != nil {
		t.Errorf("%+v", z)
	}
	r.Spec.Zone = "k1"
	if z := r.Workload().Wish.Zones; z.Spot != spot.Prefer || len(z.Allow) != 1 {
		t.Errorf("%+v", z)
	}
}
