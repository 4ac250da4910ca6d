package recipe

import (
	"slices"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// start is who starts the processes.
type start string

const (
	startRank start = "rank" // the launcher, each with the task's command
	startLead start = "lead" // a program in the first replica, which starts the others
	startRay  start = "ray"  // the head runs the command; the others serve it
)

// framework is one row of the table.
type framework struct {
	id    api.Framework
	label string
	text  fault.Text
	// strategies are those there are; the first is the usual one.
	strategies []api.StrategyKind
	start      start
	// env is set for every process; ${…} are the words of words.go.
	env []pair
	// torch adds what torch.distributed reads about time-outs, errors and dumps.
	torch bool
	// sdk: what it has no option for itself is done by our Python SDK.
	sdk bool
	// files are made by these, in order.
	files []maker
	// compress are the compressions of gradients it can have.
	compress []api.GradCompression
	// cluster: its roles form one world, by their names; otherwise each role is a world of its own.
	cluster bool
	// helpers are roles of a cluster that share none of the work.
	helpers []string
	// listed: every process is told every address, in one variable.
	listed bool
}

type pair struct{ name, value string }

// torchEnv is what env:// reads.
var torchEnv = []pair{
	{"MASTER_ADDR", "${master}"}, {"MASTER_PORT", "${masterPort}"}, {"RANK", "${rank}"}, {"WORLD_SIZE", "${world}"},
	{"LOCAL_RANK", "${localRank}"}, {"LOCAL_WORLD_SIZE", "${localWorld}"}, {"GROUP_RANK", "${replica}"}, {"GROUP_WORLD_SIZE", "${replicas}"},
	{"ROLE_RANK", "${rank}"}, {"ROLE_WORLD_SIZE", "${world}"}, {"ROLE_NAME", "${role}"},
}

var (
	ddp    = api.StrategyDDP
	fsdp   = api.StrategyFSDP
	pipe   = api.StrategyPipeline
	tensor = api.StrategyTensor
	hybrid = api.StrategyHybrid
)

// frameworks is the table: framework × strategy → recipe.
var frameworks = []framework{
	{
		id: "pytorch-ddp", label: "PyTorch DDP", text: fault.T("data parallel", "数据并行"),
		strategies: []api.StrategyKind{ddp}, start: startRank, env: torchEnv, torch: true, sdk: true, files: []maker{torchConfig},
		compress: []api.GradCompression{api.CompressFP16, api.CompressBF16, api.CompressPowerSGD},
	},
	{
		id: "pytorch-fsdp", label: "PyTorch FSDP", text: fault.T("fully sharded data parallel", "全切片数据并行"),
		strategies: []api.StrategyKind{fsdp, tensor, hybrid}, start: startRank, env: torchEnv, torch: true, sdk: true, files: []maker{torchConfig},
	},
	{
		id: "deepspeed", label: "DeepSpeed", text: fault.T("ZeRO, offload, pipeline and tensor parallel", "ZeRO、卸载、流水线与张量并行"),
		strategies: []api.StrategyKind{ddp, fsdp, pipe, tensor, hybrid}, start: startRank, torch: true, files: []maker{hostfile, dsConfig},
		env: append(slices.Clone(torchEnv), pair{"CROSS_RANK", "${replica}"}, pair{"CROSS_SIZE", "${replicas}"}, pair{"LOCAL_SIZE", "${localWorld}"},
			pair{"DEEPSPEED_TIMEOUT", "${timeoutMinutes}"}, pair{"FERMI_DS_CONFIG", DirToken + "/" + fileDS}),
	},
	{
		id: "horovod", label: "Horovod", text: fault.T("ring all-reduce for PyTorch, TensorFlow and MXNet", "Ring-AllReduce，支持 PyTorch/TensorFlow/MXNet"),
		strategies: []api.StrategyKind{ddp}, start: startLead, files: []maker{hostfile, rshHosts},
		env: append(slices.Clone(mpiEnv), pair{"HOROVOD_GLOO_TIMEOUT_SECONDS", "${timeout}"}, pair{"HOROVOD_STALL_CHECK_TIME_SECONDS", "60"},
			pair{"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "${timeout}"}),
	},
	{
		id: "megatron-lm", label: "Megatron-LM", text: fault.T("tensor, pipeline, expert and data parallel transformers", "面向 Transformer 的张量、流水线、专家与数据并行"),
		strategies: []api.StrategyKind{hybrid, tensor, pipe, ddp}, start: startRank, torch: true, files: []maker{megatronArgs, dsConfig},
		env: append(slices.Clone(torchEnv), pair{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}), // its overlap of tensor parallel calls needs one queue
	},
	{
		id: "tensorflow", label: "TensorFlow", text: fault.T("TF_CONFIG for MultiWorkerMirrored and parameter servers", "TF_CONFIG，支持多工作节点镜像与参数服务器"),
		strategies: []api.StrategyKind{ddp}, start: startRank, files: []maker{tfConfig},
		env: []pair{{"TF_CONFIG", "${tfConfig}"}}, cluster: true, helpers: []string{"ps", "evaluator"}, listed: true,
	},
	{
		id: "paddle", label: "PaddlePaddle", text: fault.T("collective training and fleet", "集合通信训练与 fleet"),
		strategies: []api.StrategyKind{ddp, fsdp, pipe, tensor, hybrid}, start: startRank, files: []maker{paddleStrategy}, listed: true,
		env: []pair{
			{"PADDLE_MASTER", "${master}:${masterPort}"}, {"PADDLE_NNODES", "${replicas}"}, {"PADDLE_TRAINER_ID", "${rank}"}, {"PADDLE_TRAINERS_NUM", "${world}"},
			{"PADDLE_GLOBAL_RANK", "${rank}"}, {"PADDLE_GLOBAL_SIZE", "${world}"}, {"PADDLE_LOCAL_RANK", "${localRank}"}, {"PADDLE_LOCAL_SIZE", "${localWorld}"},
			{"PADDLE_RANK_IN_NODE", "${localRank}"}, {"PADDLE_CURRENT_ENDPOINT", "${address}:${port}"}, {"PADDLE_TRAINER_ENDPOINTS", "${endpoints}"},
			{"PADDLE_DISTRI_BACKEND", "${paddleBackend}"}, {"FLAGS_selected_gpus", "${localRank}"},
		},
	},
	{
		id: "mxnet", label: "MXNet", text: fault.T("parameter servers: roles scheduler, server and worker", "参数服务器：角色 scheduler、server 与 worker"),
		strategies: []api.StrategyKind{ddp}, start: startRank, cluster: true, helpers: []string{"scheduler", "server"},
		env: []pair{
			{"DMLC_ROLE", "${role}"}, {"DMLC_PS_ROOT_URI", "${master}"}, {"DMLC_PS_ROOT_PORT", "${masterPort}"}, {"DMLC_NUM_SERVER", "${servers}"},
			{"DMLC_NUM_WORKER", "${workers}"}, {"DMLC_NODE_HOST", "${address}"}, {"DMLC_INTERFACE", "${interface}"}, {"PS_HEARTBEAT_TIMEOUT", "${timeout}"},
		},
	},
	{
		id: "jax", label: "JAX", text: fault.T("jax.distributed; the mesh is the script's", "jax.distributed；mesh 由脚本定义"),
		strategies: []api.StrategyKind{ddp, fsdp, tensor, hybrid}, start: startRank,
		env: []pair{
			{"JAX_COORDINATOR_ADDRESS", "${master}:${masterPort}"}, {"JAX_NUM_PROCESSES", "${world}"}, {"JAX_PROCESS_ID", "${rank}"},
			{"JAX_LOCAL_DEVICE_IDS", "${localRank}"}, {"JAX_CPU_COLLECTIVES_IMPLEMENTATION", "gloo"},
		},
	},
	{
		id: "mpi", label: "MPI", text: fault.T("mpirun over a hostfile", "mpirun 与 hostfile"),
		strategies: []api.StrategyKind{ddp}, start: startLead, files: []maker{hostfile, rshHosts}, env: mpiEnv,
	},
	{
		id: "ray", label: "Ray", text: fault.T("a head that runs the command, and workers", "由 head 运行命令，其余为 worker"),
		strategies: []api.StrategyKind{ddp}, start: startRay, cluster: true, files: []maker{rayHead, rayWorker},
		env: []pair{{"RAY_ADDRESS", "${master}:${masterPort}"}, {"RAY_DISABLE_IMPORT_WARNING", "1"},
			{"RAY_gcs_rpc_server_reconnect_timeout_s", "5"}}, // a head that is gone has ended: workers need not wait a minute for it
	},
	{id: api.FrameworkPlain, label: "plain", text: fault.T("the command as it is", "直接运行命令"), start: startRank},
}

// mpiEnv lets Open MPI run as whoever we are: the replica is ours alone.
var mpiEnv = []pair{{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}}

// rowOf finds a row; nil when there is none. Absent is plain.
func rowOf(id api.Framework) *framework {
	if id == "" {
		id = api.FrameworkPlain
	}
	for i := range frameworks {
		if frameworks[i].id == id {
			return &frameworks[i]
		}
	}
	return nil
}

// pairs lists which framework has which strategy, for a refusal.
func pairs(has func(*framework) bool) string {
	var out []string
	for i := range frameworks {
		if fw := &frameworks[i]; has(fw) {
			out = append(out, string(fw.id)+" ("+join(fw.strategies)+")")
		}
	}
	return strings.Join(out, "; ")
}

func join[S ~string](words []S) string {
	parts := make([]string, len(words))
	for i, w := range words {
		parts[i] = string(w)
	}
	return strings.Join(parts, ", ")
}

// Needed says whether a task's processes get more than their command.
func Needed(spec *api.TrainingTaskSpec) bool {
	return spec.Framework != "" && spec.Framework != api.FrameworkPlain || spec.Precision != "" || spec.Strategy != nil || spec.GradCompression != ""
}

// Torch says whether a framework's processes are PyTorch's.
func Torch(id api.Framework) bool {
	fw := rowOf(id)
	return fw != nil && fw.torch
}

// Ranks is how many processes a replica of a role has: as the role says, or one for each device.
// Ray and MXNet make their own use of the devices: one a replica.
func Ranks(id api.Framework, role *api.Role) int {
	fw := rowOf(id)
	switch {
	case role.Ranks > 0 || fw == nil || fw.start == startRay || fw.id == api.FrameworkPlain || fw.id == "mxnet":
		return role.RankCount()
	}
	return max(1, role.Resources.Accelerators.Count)
}

// Started is how many of them the launcher starts: all, or the one that starts the others.
func Started(id api.Framework, role *api.Role) int {
	if fw := rowOf(id); fw != nil && fw.start != startRank {
		return 1
	}
	return Ranks(id, role)
}

// DataParallel says whether a task's processes sum up all gradients in every step.
func DataParallel(spec *api.TrainingTaskSpec) bool {
	fw := rowOf(spec.Framework)
	if fw == nil || len(fw.strategies) == 0 || fw.strategies[0] != ddp {
		return false
	}
	st := spec.Strategy
	return st == nil || (st.Kind == "" || st.Kind == ddp) && st.Tensor <= 1 && st.Pipeline <= 1
}
