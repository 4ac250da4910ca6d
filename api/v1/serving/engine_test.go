package serving

import (
	"os"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
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
		{ServiceTemplate{Engine: EngineLlama, Model: &ServiceModel{File: "m.gguf"}, Options: &EngineOptions{BatchSize: 4, MaxLength: 8192}}, false, "llama-server --metrics --host 0.0.0.0 --alias chat --parallel 4 --ctx-size 8192", `--model "$MODEL"`, "/health"},
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
