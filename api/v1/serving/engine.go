package serving

import (
	"cmp"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/mount"
)

// Engine is what answers.
type Engine string

// The engines.
const (
	EngineCustom      Engine = "custom" // the command of the manifest
	EngineSample      Engine = "sample" // the small server of this program
	EngineONNX        Engine = "onnxruntime"
	EngineTriton      Engine = "triton"
	EngineMLServer    Engine = "mlserver"
	EngineTorchServe  Engine = "torchserve"
	EngineTensorFlow  Engine = "tensorflow-serving"
	EngineLlama       Engine = "llama-cpp"
	EngineVLLM        Engine = "vllm"
	EngineSGLang      Engine = "sglang"
	shell                    = "/bin/sh"
	allAddresses             = "0.0.0.0"
	usualHealth              = "/healthz"
	kserveHealth             = "/v2/health/ready"
	kserveInfer              = "/v2/models/NAME/infer"
	openAIChat               = "/v1/chat/completions"
	prometheusMetrics        = "/metrics"
)

// Recipe is how an engine is started: one row of a table, and nothing else knows it.
type Recipe struct {
	Engine Engine
	// Program is what runs, unless the manifest names another one.
	Program []string
	// Verified says that a real one, with a real client, is run by our tests. The others follow their makers' documents.
	Verified bool
	// Health is a path at its port for HTTP; "": there is none.
	Health string
	// Metrics is what it says of itself.
	Metrics Gauges
	// GRPC says that it has a port for gRPC beside that for HTTP.
	GRPC bool
	// Script starts "$0" "$@" after the recipe's words; "": the program reads $PORT itself. $MODEL is the model, $PORT the port
	// that answers, $SIDE one beside it, $THIRD one beside that.
	script, grpcScript string
	// asked is where questions are posted to. In both it and Health NAME stands for the service's name.
	asked string
	// words are the flags of options by the options' names; one that is not here is refused.
	words map[string]string
	// shares says that its flag for maxLength is what all requests have together: each of batchSize gets its part.
	shares bool
	// several is what it is told where its members are several, by the shell: there, $GROUP_RANK is which of $GROUP_WORLD_SIZE it is, and $MASTER_ADDR the lead's.
	several string
	// adapters is how it is told of adapters.
	adapters adapterWords
	modelWords
	// fixed words come before all others.
	fixed []string
}

// modelWords are the flags for the model's name at its clients, "" where there is none, and for the model, "" where $MODEL stands in the script.
type modelWords struct{ name, model string }

// Gauges are what an engine says of itself in Prometheus' format, at its port for HTTP, by their names in its versions.
type Gauges struct {
	Path    string   // "": nothing
	Waiting []string // requests that wait in it
	Held    []string // share of its memory for what it has read (KV cache), 0 to 1
}

// GaugesOf are those by which gateways weigh the replicas of an engine; nil: it says nothing of the kind.
func GaugesOf(e Engine) *Gauges {
	if r := RecipeOf(e); r != nil && len(r.Metrics.Waiting) > 0 {
		return &r.Metrics
	}
	return nil
}

// The options by their names in manifests.
const (
	optionBatch    = "batchSize"
	optionLength   = "maxLength"
	optionPrec     = "precision"
	optionTensor   = "tensorParallel"
	optionPipeline = "pipelineParallel"
)

// Recipes is the table, but for custom, which is the manifest's own command.
var Recipes = []Recipe{
	{Engine: EngineSample, Program: []string{"fermi", "sample", "serve"}, Verified: true, Health: usualHealth, modelWords: modelWords{model: "--model"}, asked: "/predict", adapters: adapterWords{flag: "--adapter", each: true}},
	{
		Engine: EngineONNX, Program: []string{"python3", "-m", "fermi.onnx"}, Verified: true, Health: kserveHealth, Metrics: Gauges{Path: prometheusMetrics},
		modelWords: modelWords{"--name", "--model"}, words: map[string]string{optionBatch: "--max-batch"}, asked: kserveInfer,
	},
	{
		Engine: EngineTriton, Program: []string{"tritonserver"}, Verified: true, Health: kserveHealth, GRPC: true, asked: kserveInfer,
		// It wants a folder of folders; a model that is one file is put into one.
		script: `case "$MODEL" in *.onnx) R=$(mktemp -d) && mkdir -p "$R/$NAME/1" && ln -s "$AT" "$R/$NAME/1/model.onnx" && MODEL=$R;; esac
exec "$0" "$@" --model-repository="$MODEL" --http-address=0.0.0.0 --http-port="$PORT" --grpc-port="$SIDE" --metrics-port="$THIRD"`,
		grpcScript: `case "$MODEL" in *.onnx) R=$(mktemp -d) && mkdir -p "$R/$NAME/1" && ln -s "$AT" "$R/$NAME/1/model.onnx" && MODEL=$R;; esac
exec "$0" "$@" --model-repository="$MODEL" --grpc-address=0.0.0.0 --grpc-port="$PORT" --http-port="$SIDE" --metrics-port="$THIRD"`,
	},
	{
		Engine: EngineMLServer, Program: []string{"mlserver", "start"}, Verified: true, Health: kserveHealth, GRPC: true, asked: kserveInfer,
		script:     `export MLSERVER_HOST=0.0.0.0 MLSERVER_HTTP_PORT="$PORT" MLSERVER_GRPC_PORT="$SIDE" MLSERVER_METRICS_PORT="$THIRD"; exec "$0" "$@" "$MODEL"`,
		grpcScript: `export MLSERVER_HOST=0.0.0.0 MLSERVER_GRPC_PORT="$PORT" MLSERVER_HTTP_PORT="$SIDE" MLSERVER_METRICS_PORT="$THIRD"; exec "$0" "$@" "$MODEL"`,
	},
	{
		Engine: EngineTorchServe, Program: []string{"torchserve"}, Verified: true, Health: "/ping", asked: "/predictions/NAME",
		fixed: []string{"--start", "--foreground", "--disable-token-auth", "--no-config-snapshots"},
		// It writes logs into the folder where it is started, unless it is told otherwise.
		script: `export LOG_LOCATION=$(mktemp -d) && export METRICS_LOCATION=$LOG_LOCATION
T=$(mktemp) && printf 'inference_address=http://0.0.0.0:%s\nmanagement_address=http://127.0.0.1:%s\nmetrics_address=http://127.0.0.1:%s\n' "$PORT" "$SIDE" "$THIRD" >"$T"
exec "$0" "$@" --ts-config "$T" --model-store "$(dirname "$MODEL")" --models "$NAME=$(basename "$MODEL")"`,
	},
	{
		Engine: EngineTensorFlow, Program: []string{"tensorflow_model_server"}, Health: "/v1/models/NAME", GRPC: true, asked: "/v1/models/NAME:predict",
		script:     `exec "$0" "$@" --model_name="$NAME" --model_base_path="$AT" --rest_api_port="$PORT" --port="$SIDE"`,
		grpcScript: `exec "$0" "$@" --model_name="$NAME" --model_base_path="$AT" --port="$PORT" --rest_api_port="$SIDE"`,
	},
	{
		Engine: EngineLlama, Program: []string{"llama-server"}, Verified: true, Health: "/health", Metrics: Gauges{prometheusMetrics, []string{"llamacpp:requests_deferred"}, []string{"llamacpp:kv_cache_usage_ratio"}}, fixed: []string{"--metrics", "--host", allAddresses},
		asked: openAIChat, modelWords: modelWords{name: "--alias"}, script: `exec "$0" "$@" --model "$MODEL" --port "$PORT"`, words: map[string]string{optionBatch: "--parallel", optionLength: "--ctx-size"}, shares: true,
	},
	{
		Engine: EngineVLLM, Program: []string{"vllm", "serve"}, Health: "/health", Metrics: Gauges{prometheusMetrics, []string{"vllm:num_requests_waiting"}, []string{"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"}}, asked: openAIChat, fixed: []string{"--host", allAddresses},
		modelWords: modelWords{name: "--served-model-name"}, script: `exec "$0" "$@" --model "$MODEL" --port "$PORT"`,
		adapters: adapterWords{before: []string{"--enable-lora"}, flag: "--lora-modules", full: true},
		several:  `set -- "$@" --nnodes "$GROUP_WORLD_SIZE" --node-rank "$GROUP_RANK" --master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT"; [ "$GROUP_RANK" = 0 ] || set -- "$@" --headless`,
		words:    map[string]string{optionBatch: "--max-num-seqs", optionLength: "--max-model-len", optionPrec: "--dtype", optionTensor: "--tensor-parallel-size", optionPipeline: "--pipeline-parallel-size"},
	},
	{
		Engine: EngineSGLang, Program: []string{"python3", "-m", "sglang.launch_server"}, Health: "/health", Metrics: Gauges{prometheusMetrics, []string{"sglang:num_queue_reqs"}, []string{"sglang:token_usage"}}, asked: openAIChat, fixed: []string{"--enable-metrics", "--host", allAddresses},
		modelWords: modelWords{name: "--served-model-name"}, script: `exec "$0" "$@" --model-path "$MODEL" --port "$PORT"`,
		adapters: adapterWords{before: []string{"--enable-lora"}, flag: "--lora-paths"},
		several:  `set -- "$@" --nnodes "$GROUP_WORLD_SIZE" --node-rank "$GROUP_RANK" --dist-init-addr "$MASTER_ADDR:$MASTER_PORT"`,
		words:    map[string]string{optionBatch: "--max-running-requests", optionLength: "--context-length", optionPrec: "--dtype", optionTensor: "--tp-size", optionPipeline: "--pp-size"},
	},
}

// RecipeOf finds a row; nil: the engine brings no command of its own.
func RecipeOf(e Engine) *Recipe {
	for i := range Recipes {
		if Recipes[i].Engine == e {
			return &Recipes[i]
		}
	}
	return nil
}

// Engines lists them.
var Engines = func() []Engine {
	list := []Engine{EngineCustom}
	for i := range Recipes {
		list = append(list, Recipes[i].Engine)
	}
	return list
}()

// EngineOptions are what an engine is told; each has its own words for them.
type EngineOptions struct {
	BatchSize        int    `json:"batchSize,omitempty" minimum:"0" maximum:"65536" doc:"Requests that it works on together."`
	MaxLength        int    `json:"maxLength,omitempty" minimum:"0" maximum:"100000000" doc:"Tokens of question and answer together."`
	Precision        string `json:"precision,omitempty" enum:"auto,float32,float16,bfloat16" doc:"Of the weights in memory."`
	TensorParallel   int    `json:"tensorParallel,omitempty" minimum:"0" maximum:"1024" doc:"Accelerators that share each layer."`
	PipelineParallel int    `json:"pipelineParallel,omitempty" minimum:"0" maximum:"1024" doc:"Groups of layers, each on accelerators of its own."`
	GRPC             bool   `json:"grpc,omitempty" doc:"Of engines with two ports: that for gRPC answers. True where the service's protocol is grpc."`
}

// option is one that was given.
type option struct{ name, value string }

// given are the options that say something, in the order of the manifest.
func (o *EngineOptions) given() (out []option) {
	if o == nil {
		return nil
	}
	number := func(name string, n int) {
		if n != 0 {
			out = append(out, option{name, strconv.Itoa(n)})
		}
	}
	number(optionBatch, o.BatchSize)
	number(optionLength, o.MaxLength)
	if o.Precision != "" {
		out = append(out, option{optionPrec, o.Precision})
	}
	number(optionTensor, o.TensorParallel)
	number(optionPipeline, o.PipelineParallel)
	return out
}

// together is how many tokens as many requests have as are worked on together.
func (o *EngineOptions) together() int { return o.MaxLength * max(o.BatchSize, 1) }

// healthOf is where an engine says that it answers; "": it is enough that it takes connections.
func (t *ServiceTemplate) healthOf(service string) string {
	r := RecipeOf(t.Engine)
	if r == nil || r.GRPC && t.Options != nil && t.Options.GRPC {
		return ""
	}
	return strings.Replace(r.Health, "NAME", service, 1)
}

// AskedAt is where a service's questions are posted to; "": its engine is a command of the user's own.
func (t *ServiceTemplate) AskedAt(service string) string {
	r := RecipeOf(t.Engine)
	if r == nil {
		return ""
	}
	return strings.Replace(r.asked, "NAME", service, 1)
}

// modelFile is the model's path: where its version is mounted, or else relative to the code.
func (t *ServiceTemplate) modelFile() string {
	if t.Model == nil {
		return ""
	}
	file := t.Model.File
	if t.Engine == EngineSample {
		file = cmp.Or(file, DefaultFile)
	}
	if t.Model.Name != "" {
		return path.Join(mount.Models, t.Model.Name, file)
	}
	return path.Clean(cmp.Or(file, "."))
}

// command is what a replica runs before the manifest's arguments: the manifest's own, or the engine's with the words made of
// its options.
func (t *ServiceTemplate) command(service string) []string {
	r := RecipeOf(t.Engine)
	if r == nil {
		return t.Command
	}
	program := r.Program
	if len(t.Command) > 0 {
		program = t.Command
	}
	words := slices.Concat(program, r.fixed)
	if r.name != "" {
		words = append(words, r.name, service)
	}
	file := t.modelFile()
	if r.model != "" && file != "" {
		words = append(words, r.model, file)
	}
	for _, o := range t.Options.given() {
		if o.name == optionLength && r.shares {
			o.value = strconv.Itoa(t.Options.together())
		}
		words = append(words, r.words[o.name], o.value)
	}
	words = append(words, r.adapters.make(t, service)...)
	script := r.script
	if t.Options != nil && t.Options.GRPC && r.GRPC {
		script = r.grpcScript
	}
	if script == "" {
		return words
	}
	// The words are arguments of the shell, never part of what it reads.
	port := ""
	if t.IsGang() { // only the lead is told $PORT
		port = "PORT=${PORT:-$FERMI_PORT}\n"
	}
	head := port + "NAME=" + quote(service) + " MODEL=" + quote(cmp.Or(file, ".")) + " SIDE=$((PORT+1)) THIRD=$((PORT+2))\ncase \"$MODEL\" in /*) AT=$MODEL;; *) AT=$PWD/$MODEL;; esac\n"
	if t.IsGang() && len(t.Roles) == 1 && r.several != "" {
		head += r.several + "\n"
	}
	return append([]string{shell, "-c", head + script}, words...)
}

// quote makes one word for a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// engine checks what an engine can be told.
func (f *faults) engine(at string, t *ServiceTemplate) {
	if !slices.Contains(Engines, t.Engine) {
		words := make([]string, len(Engines))
		for i, e := range Engines {
			words[i] = string(e)
		}
		f.add(at+".engine", "One of %s.", "必须是 %s 之一。", strings.Join(words, ", "))
		return
	}
	r := RecipeOf(t.Engine)
	for _, o := range t.Options.given() {
		if r == nil {
			f.add(at+".options."+o.name, "Engine custom is told by its command; leave the option out.", "engine 为 custom 时由命令自行设定：请去掉该选项。")
		} else if r.words[o.name] == "" {
			f.add(at+".options."+o.name, "Engine %s has no such option; say it in args or in the model's own settings.", "引擎 %s 没有此选项，请用 args 或模型自身的配置设定。", t.Engine)
		}
	}
	if o := t.Options; o != nil {
		f.count(at+".options.batchSize", o.BatchSize, 0, 65536)
		f.count(at+".options.maxLength", o.MaxLength, 0, 100_000_000)
		if r != nil && r.shares && o.together() > math.MaxInt32 {
			f.add(at+".options.maxLength", "All requests together have batchSize × maxLength tokens; engine %s takes %d at most.", "全部请求合计为 batchSize × maxLength 个 token，引擎 %s 最多 %d 个。", t.Engine, math.MaxInt32)
		}
		f.count(at+".options.tensorParallel", o.TensorParallel, 0, 1024)
		f.count(at+".options.pipelineParallel", o.PipelineParallel, 0, 1024)
		if !slices.Contains([]string{"", "auto", "float32", "float16", "bfloat16"}, o.Precision) {
			f.add(at+".options.precision", "One of auto, float32, float16, bfloat16.", "必须是 auto、float32、float16、bfloat16 之一。")
		}
		if o.GRPC && (r == nil || !r.GRPC) {
			f.add(at+".options.grpc", "Engine %s has no second port for gRPC.", "引擎 %s 没有单独的 gRPC 端口。", t.Engine)
		}
		have := t.Resources.Accelerators.Count
		if len(t.Roles) == 1 {
			have *= t.members() // they share the model
		}
		if n := max(o.TensorParallel, 1) * max(o.PipelineParallel, 1); n > 1 && n != have && len(t.Roles) < 2 {
			f.add(at+".options.tensorParallel", "%d accelerators share the model, and a replica has %d.", "模型需由 %d 张加速卡共同承载，而每个副本有 %d 张。", n, have)
		}
	}
}

// role is what so many replicas are.
func (t *ServiceTemplate) role(service string, replicas int) api.Role {
	return api.Role{
		Name: roleName, Replicas: replicas, Resources: t.Resources, Image: t.Image, Command: t.command(service), Args: t.Args, Env: t.Env,
		SecretFiles: t.SecretFiles, WorkingDir: t.WorkingDir, Standby: &api.Standby{Disabled: true},
	}
}
