package serving

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/mount"
)

// TestRecipes: each engine is started as its maker says, with the words made of our fields, and asked where it says that it
// answers.
func TestRecipes(t *testing.T) {
	const odd = `it's "odd"; $(x)/m.onnx`
	for _, c := range []struct {
		template      ServiceTemplate
		grpc          bool
		words, script string // the words come behind the shell's, where there is a script
		health        string
	}{
		{ServiceTemplate{Engine: EngineCustom, Command: []string{"a", "b"}}, false, "a b", "", ""},
		{ServiceTemplate{Engine: EngineSample, Model: &ServiceModel{Task: "t"}}, false, "fermi sample serve --model model.json", "", "/healthz"},
		{ServiceTemplate{Engine: EngineONNX, Model: &ServiceModel{File: odd}, Options: &EngineOptions{BatchSize: 8}}, false, "python3 -m fermi.onnx --name chat --model " + odd + " --max-batch 8", "", "/v2/health/ready"},
		{ServiceTemplate{Engine: EngineTriton, Model: &ServiceModel{File: odd}}, false, "tritonserver", `MODEL='it'\''s "odd"; $(x)/m.onnx' SIDE=`, "/v2/health/ready"},
		{ServiceTemplate{Engine: EngineTriton}, true, "tritonserver", `--grpc-port="$PORT"`, ""},
		{ServiceTemplate{Engine: EngineMLServer, Command: []string{"/opt/m/bin/mlserver", "start"}}, false, "/opt/m/bin/mlserver start", `MLSERVER_HTTP_PORT="$PORT"`, "/v2/health/ready"},
		{ServiceTemplate{Engine: EngineTorchServe, Model: &ServiceModel{File: "m/x.mar"}}, false, "torchserve --start --foreground --disable-token-auth --no-config-snapshots", `--models "$NAME=$(basename "$MODEL")"`, "/ping"},
		{ServiceTemplate{Engine: EngineTensorFlow, Model: &ServiceModel{File: "saved"}}, false, "tensorflow_model_server", `--rest_api_port="$PORT"`, "/v1/models/chat"},
		{ServiceTemplate{Engine: EngineLlama, Model: &ServiceModel{File: "m.gguf"}, Options: &EngineOptions{BatchSize: 4, MaxLength: 8192}}, false, "llama-server --metrics --host 0.0.0.0 --alias chat --parallel 4 --ctx-size 32768", `--model "$MODEL"`, "/health"},
		{ServiceTemplate{Engine: EngineSample, Parts: Parts{Adapters: two}}, false, "fermi sample serve --adapter poet=/models/adapters/poet/model.json --adapter sql=/models/adapters/sql/q/w", "", "/healthz"},
		{ServiceTemplate{Engine: EngineVLLM, Parts: Parts{Adapters: two}}, false, "vllm serve --host 0.0.0.0 --served-model-name chat --enable-lora --lora-modules chat:poet=/models/adapters/poet chat:sql=/models/adapters/sql/q/w", `--model "$MODEL"`, "/health"},
		{ServiceTemplate{Engine: EngineSGLang, Parts: Parts{Adapters: two}}, false, "python3 -m sglang.launch_server --enable-metrics --host 0.0.0.0 --served-model-name chat --enable-lora --lora-paths poet=/models/adapters/poet sql=/models/adapters/sql/q/w", `--model-path "$MODEL"`, "/health"},
		{ServiceTemplate{Engine: EngineVLLM, Parts: Parts{Roles: []ServiceRole{{Name: "node", Members: 4}}}, Options: &EngineOptions{TensorParallel: 8, PipelineParallel: 4}, Resources: eight}, false, "vllm serve --host 0.0.0.0 --served-model-name chat --tensor-parallel-size 8 --pipeline-parallel-size 4", "--headless", "/health"},
		{ServiceTemplate{Engine: EngineSGLang, Parts: Parts{Roles: []ServiceRole{{Name: "node", Members: 2}}}, Options: &EngineOptions{TensorParallel: 16}, Resources: eight}, false, "python3 -m sglang.launch_server --enable-metrics --host 0.0.0.0 --served-model-name chat --tp-size 16", `--dist-init-addr "$MASTER_ADDR:$MASTER_PORT"`, "/health"},
		{ServiceTemplate{Engine: EngineVLLM, Options: &EngineOptions{64, 4096, "bfloat16", 2, 4, false}, Resources: eight}, false, "vllm serve --host 0.0.0.0 --served-model-name chat --max-num-seqs 64 --max-model-len 4096 --dtype bfloat16 --tensor-parallel-size 2 --pipeline-parallel-size 4", `--port "$PORT"`, "/health"},
		{ServiceTemplate{Engine: EngineSGLang, Options: &EngineOptions{64, 4096, "bfloat16", 2, 4, false}, Resources: eight}, false, "python3 -m sglang.launch_server --enable-metrics --host 0.0.0.0 --served-model-name chat --max-running-requests 64 --context-length 4096 --dtype bfloat16 --tp-size 2 --pp-size 4", `--model-path "$MODEL"`, "/health"},
	} {
		s := &InferenceService{Meta: api.Meta{Name: "chat"}, Spec: ServiceSpec{Template: c.template}}
		if c.grpc {
			s.Spec.Protocol = GRPC
		}
		if s.Default(); len(s.Validate()) > 0 {
			t.Errorf("%s: %+v", c.template.Engine, s.Validate())
		}
		command := s.Workload().Roles[0].Command
		script := ""
		if c.script != "" {
			if len(command) < 3 || command[0] != shell || command[1] != "-c" {
				t.Fatalf("%s runs %q", c.template.Engine, command)
			}
			script, command = command[2], command[3:]
		}
		if got := strings.Join(command, " "); got != c.words || !strings.Contains(script, c.script) || s.Spec.Template.Health.Path != c.health {
			t.Errorf("%s: %q, %s, health %q", c.template.Engine, got, script, s.Spec.Template.Health.Path)
		}
	}
}

var two = []Adapter{{Name: "poet", Model: "lora-p", Version: "3"}, {Name: "sql", Model: "lora-s", File: "q/w"}}

// TestAdapters: they are mounted behind the model, what is taken away is mounted no more, and the versions that they mean are written down.
func TestAdapters(t *testing.T) {
	s := ServiceTemplate{Engine: EngineVLLM, Model: &ServiceModel{Name: "base"}, Parts: Parts{Adapters: two}}
	s.Models = []mount.AssetRef{{Name: "gone", Path: "/models/adapters/gone"}, {Name: "own", Path: "/mnt/own"}}
	s.MountModel()
	var at []string
	for i := range s.Models {
		at = append(at, s.Models[i].Name+" "+s.Models[i].Path)
		s.Models[i].Version = "7"
	}
	if d := cmp.Diff([]string{"base /models/base", "own /mnt/own", "lora-p /models/adapters/poet", "lora-s /models/adapters/sql"}, at); d != "" {
		t.Error(d)
	}
	if s.TakeVersions(); s.Model.Version != "7" || s.Adapters[0].Version != "7" || two[0].Version != "3" {
		t.Errorf("written down: %+v %+v", s.Model, s.Adapters)
	}
	for field, list := range map[string][]Adapter{
		"spec.template.adapters[0].name": {{Name: "A:b", Model: "m"}}, "spec.template.adapters[1].name": {{Name: "a", Model: "m"}, {Name: "a", Model: "n"}},
		"spec.template.adapters[0].model": {{Name: "a"}}, "spec.template.adapters[0].file": {{Name: "a", Model: "m", File: "../x"}}, "spec.template.adapters": make([]Adapter, 65),
	} {
		s := &InferenceService{Meta: api.Meta{Name: "chat"}, Spec: ServiceSpec{Template: ServiceTemplate{Engine: EngineVLLM, Parts: Parts{Adapters: list}}}}
		s.Default()
		if bad := s.Validate(); len(bad) != 1 || bad[0].Path != field {
			t.Errorf("%s: %+v", field, bad)
		}
	}
	s.Engine = EngineTriton
	o := &InferenceService{Meta: api.Meta{Name: "chat"}, Spec: ServiceSpec{Template: s}}
	if o.Default(); len(o.Validate()) != 1 {
		t.Errorf("Triton with adapters: %+v", o.Validate())
	}
}

var eight = api.Resources{Accelerators: api.Accelerators{Count: 8, Type: "A100"}}

// TestEnginesAreDocumented: the guide names each engine, says which are not verified, and has each of their words.
func TestEnginesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/guide/services.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range Recipes {
		at := strings.Index(string(text), "| `"+string(r.Engine)+"` |")
		if at < 0 {
			t.Errorf("the guide does not know %s", r.Engine)
			continue
		}
		line, _, _ := strings.Cut(string(text[at:]), "\n")
		if strings.Contains(line, "not verified") == r.Verified {
			t.Errorf("the guide is wrong about whether %s is verified: %s", r.Engine, line)
		}
		for option, word := range r.words {
			if !strings.Contains(line, "`"+option+"`") {
				t.Errorf("the guide does not say that %s has %s (%s)", r.Engine, option, word)
			}
		}
	}
}

// TestGang: the members of a replica are roles of the gang, each with what it says itself or else what the template says; faults name their field.
func TestGang(t *testing.T) {
	s := &InferenceService{Meta: api.Meta{Name: "chat"}, Spec: ServiceSpec{Replicas: 3, Template: ServiceTemplate{
		Command: []string{"serve"}, Args: []string{"-v"}, Env: []api.EnvVar{{Name: "A", Value: "1"}}, Resources: api.Resources{CPU: 2000},
		Parts: Parts{Roles: []ServiceRole{
			{Name: "decode", Members: 2, Resources: &api.Resources{Accelerators: api.Accelerators{Count: 8}}},
			{Name: "prefill", Args: []string{"--prefill"}, Env: []api.EnvVar{{Name: "B", Value: "2"}}},
		}},
	}}}
	s.Default()
	if bad := s.Validate(); len(bad) > 0 {
		t.Fatalf("%+v", bad)
	}
	all, one := s.Workload().Roles, (&ServiceReplica{Spec: ServiceReplicaSpec{Service: "chat", Template: s.Spec.Template}}).Workload().Roles
	if len(one) != 2 || one[0].Name != "decode" || one[0].Replicas != 2 || one[1].Replicas != 1 || all[0].Replicas != 6 || all[1].Replicas != 3 {
		t.Errorf("roles: %+v of %+v", one, all)
	}
	if one[0].Resources.Accelerators.Count != 8 || one[0].Resources.Memory == 0 || one[1].Resources.CPU != 2000 || one[1].Args[0] != "--prefill" || one[0].Args[0] != "-v" || len(one[1].Env) != 2 || len(one[0].Env) != 1 {
		t.Errorf("what they have: %+v", one)
	}
	if l := s.Spec.Template.Lead(); l != "decode" || !s.Spec.Template.IsGang() || (&ServiceTemplate{}).IsGang() || (&ServiceTemplate{}).Lead() != "server" {
		t.Errorf("the lead is %s", l)
	}
	for field, roles := range map[string][]ServiceRole{
		"spec.template.roles[0].name": {{Name: "A B"}}, "spec.template.roles[1].name": {{Name: "a"}, {Name: "a"}}, "spec.template.roles[0].members": {{Name: "a", Members: 65}},
		"spec.template.roles": {{Name: "a", Members: 64}, {Name: "b", Members: 64}, {Name: "c", Members: 64}, {Name: "d", Members: 64}, {Name: "e", Members: 64}},
	} {
		o := &InferenceService{Meta: api.Meta{Name: "chat"}, Spec: ServiceSpec{Template: ServiceTemplate{Command: []string{"serve"}, Parts: Parts{Roles: roles}}}}
		o.Default()
		found := false
		for _, f := range o.Validate() {
			found = found || f.Path == field
		}
		if !found {
			t.Errorf("%s: %+v", field, o.Validate())
		}
	}
}
