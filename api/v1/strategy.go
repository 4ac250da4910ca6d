package v1

import "github.com/fermi-cluster/fermi/internal/pattern"

// StrategyKind is how the work of a training task is divided among its processes.
type StrategyKind string

// StrategyKinds lists them all; which framework has which is the recipes' table.
var StrategyKinds = []StrategyKind{StrategyDDP, StrategyFSDP, StrategyPipeline, StrategyTensor, StrategyHybrid}

// The kinds.
const (
	StrategyDDP      StrategyKind = "ddp"      // every process holds the whole model
	StrategyFSDP     StrategyKind = "fsdp"     // parameters are cut over the processes
	StrategyPipeline StrategyKind = "pipeline" // layers are cut over the processes
	StrategyTensor   StrategyKind = "tensor"   // matrices are cut over the processes
	StrategyHybrid   StrategyKind = "hybrid"   // several of these at once
)

// Strategy says how the processes of the first role share the work. Sizes that are absent follow
// from the others; data × pipeline × tensor is the number of processes.
type Strategy struct {
	Kind     StrategyKind `json:"kind,omitempty" enum:"ddp,fsdp,pipeline,tensor,hybrid" doc:"ddp, fsdp, pipeline, tensor or hybrid; follows from the sizes and the framework when absent."`
	Data     int          `json:"data,omitempty" explicit:"nonzero" minimum:"1" maximum:"1048576" doc:"Copies of the model; what the other sizes leave when absent."`
	Tensor   int          `json:"tensor,omitempty" explicit:"nonzero" minimum:"1" maximum:"1048576" doc:"Processes that share each matrix."`
	Pipeline int          `json:"pipeline,omitempty" explicit:"nonzero" minimum:"1" maximum:"1048576" doc:"Stages of layers."`
	Expert   int          `json:"expert,omitempty" explicit:"nonzero" minimum:"1" maximum:"1048576" doc:"Processes that share the experts; divides data."`
	// Engine is for Megatron-LM only: DeepSpeed's optimizer under Megatron's model.
	Engine    StrategyEngine `json:"engine,omitempty" enum:"deepspeed" doc:"deepspeed: Megatron-LM on DeepSpeed."`
	ZeroStage *int           `json:"zeroStage,omitempty" minimum:"0" maximum:"3" doc:"DeepSpeed: what ZeRO cuts; 2 when absent, 3 with fsdp."`
	Offload   Offload        `json:"offload,omitempty" enum:"none,cpu" doc:"DeepSpeed: cpu keeps the optimizer (stage 3: also parameters) in host memory."`
	// TrainBatchSize = MicroBatchSize × AccumulationSteps × Data; one that is absent follows.
	TrainBatchSize    int `json:"trainBatchSize,omitempty" explicit:"nonzero" minimum:"1" maximum:"1073741824" doc:"Samples of one optimizer step over all processes."`
	MicroBatchSize    int `json:"microBatchSize,omitempty" explicit:"nonzero" minimum:"1" maximum:"1073741824" doc:"Samples of one process at once."`
	AccumulationSteps int `json:"accumulationSteps,omitempty" explicit:"nonzero" minimum:"1" maximum:"1048576" doc:"Micro batches of one optimizer step."`
	// Controller is for Horovod only.
	Controller        Controller `json:"controller,omitempty" enum:"gloo,mpi" doc:"Horovod: gloo (when absent) or mpi."`
	CollectiveTimeout Duration   `json:"collectiveTimeout,omitempty" explicit:"nonzero" doc:"After which a collective counts as hung; 10m when absent."`
	NetworkInterface  string     `json:"networkInterface,omitempty" pattern:"^([A-Za-z0-9][A-Za-z0-9_.-]{0,14})?$" doc:"Which interface collectives use, as eth0; chosen by the library when absent."`
}

// StrategyEngine is a library under another.
type StrategyEngine string

// EngineDeepSpeed is the one there is.
const EngineDeepSpeed StrategyEngine = "deepspeed"

// Offload is where state goes that no device holds.
type Offload string

// The places.
const (
	OffloadNone Offload = "none"
	OffloadCPU  Offload = "cpu"
)

// Controller is what Horovod's processes find each other by.
type Controller string

// The controllers.
const (
	ControllerGloo Controller = "gloo"
	ControllerMPI  Controller = "mpi"
)

// Precision is the number format of forward and backward passes.
type Precision string

// Precisions lists them all.
var Precisions = []Precision{PrecisionFP32, PrecisionFP16, PrecisionBF16}

// The precisions.
const (
	PrecisionFP32 Precision = "fp32"
	PrecisionFP16 Precision = "fp16" // with loss scaling
	PrecisionBF16 Precision = "bf16"
)

// GradCompression is what gradients become on the wire.
type GradCompression string

// GradCompressions lists them all.
var GradCompressions = []GradCompression{CompressNone, CompressFP16, CompressBF16, CompressPowerSGD}

// The compressions.
const (
	CompressNone     GradCompression = "none"
	CompressFP16     GradCompression = "fp16"
	CompressBF16     GradCompression = "bf16"
	CompressPowerSGD GradCompression = "powersgd"
)

const maxParallel, maxBatch = 1 << 20, 1 << 30

// interfaceName is what Linux allows for one, less what a shell would stumble over.
var interfaceName = pattern.New(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$`)

// strategy checks each field by itself; whether they fit framework and world the recipes know.
func (f *faults) strategy(s *TrainingTaskSpec) {
	oneOf(f, "spec.precision", s.Precision, Precisions)
	oneOf(f, "spec.gradCompression", s.GradCompression, GradCompressions)
	st := s.Strategy
	if st == nil {
		return
	}
	const at = "spec.strategy"
	oneOf(f, at+".kind", st.Kind, StrategyKinds)
	oneOf(f, at+".engine", st.Engine, []StrategyEngine{EngineDeepSpeed})
	oneOf(f, at+".offload", st.Offload, []Offload{OffloadNone, OffloadCPU})
	oneOf(f, at+".controller", st.Controller, []Controller{ControllerGloo, ControllerMPI})
	for _, n := range []struct {
		name       string
		value, top int
	}{
		{"data", st.Data, maxParallel}, {"tensor", st.Tensor, maxParallel}, {"pipeline", st.Pipeline, maxParallel}, {"expert", st.Expert, maxParallel},
		{"trainBatchSize", st.TrainBatchSize, maxBatch}, {"microBatchSize", st.MicroBatchSize, maxBatch}, {"accumulationSteps", st.AccumulationSteps, maxParallel},
	} {
		if n.value != 0 {
			f.count(at+"."+n.name, n.value, 1, n.top)
		}
	}
	if st.ZeroStage != nil {
		f.count(at+".zeroStage", *st.ZeroStage, 0, 3)
	}
	f.span(at+".collectiveTimeout", st.CollectiveTimeout)
	if st.NetworkInterface != "" && !interfaceName.MatchString(st.NetworkInterface) {
		f.add(at+".networkInterface", "%s is not the name of a network interface, such as eth0.", "%s 不是合法的网络接口名，例如 eth0。", quote(st.NetworkInterface))
	}
}

// oneOf refuses a word that is not among the known; empty is absent.
func oneOf[S ~string](f *faults, at string, word S, known []S) {
	names := make([]string, len(known))
	for i, k := range known {
		if word == k {
			return
		}
		names[i] = string(k)
	}
	if word != "" {
		text := T("%s is not known here; use one of %s.", "%s 不是合法的取值，可用的有 %s。", quote(string(word)), list(known))
		f.Put(at, "InvalidField", suggest(text, string(word), names))
	}
}
