package recipe

import (
	"path"
	"slices"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/image"
)

// environment is what a process finds, in a fixed order.
func (w *plan) environment(p *process) []api.EnvVar {
	var out []api.EnvVar
	set := func(name, value string) {
		if value != "" {
			out = append(out, api.EnvVar{Name: name, Value: value})
		}
	}
	spec, v := w.in.Spec, p.world.vendor
	set("FERMI_PRECISION", string(spec.Precision))
	if spec.Precision == api.PrecisionFP16 {
		set("FERMI_LOSS_SCALE", "dynamic")
	}
	if w.fw.id == api.FrameworkPlain {
		return out
	}
	set("FERMI_GRAD_COMPRESSION", string(spec.GradCompression))
	set("FERMI_FRAMEWORK", string(w.fw.id))
	set("FERMI_STRATEGY", string(w.kind))
	set("FERMI_BACKEND", v.torch)
	set("FERMI_COLLECTIVE_TIMEOUT", seconds(w.timeout))
	if p.world == w.worlds[0] || w.fw.cluster {
		set("FERMI_DATA_PARALLEL", itoa(w.sizes.data))
		set("FERMI_TENSOR_PARALLEL", itoa(w.sizes.tensor))
		set("FERMI_PIPELINE_PARALLEL", itoa(w.sizes.pipeline))
		set("FERMI_EXPERT_PARALLEL", itoa(w.expert))
		if w.batch.train > 0 {
			set("FERMI_TRAIN_BATCH_SIZE", itoa(w.batch.train))
			set("FERMI_MICRO_BATCH_SIZE", itoa(w.batch.micro))
			set("FERMI_ACCUMULATION_STEPS", itoa(w.batch.steps))
		}
	}
	for _, other := range w.worlds {
		name := "FERMI_ROLE_" + strings.ToUpper(strings.ReplaceAll(other.role, "-", "_"))
		first := &w.ranks[other.first]
		if w.named() {
			set(name, first.group.Address+":"+first.port)
		}
		set(name+"_SIZE", itoa(other.size))
	}
	for _, e := range w.fw.env {
		set(e.name, w.expand(e.value, p))
	}
	for _, e := range w.collective(p) {
		set(e.name, w.expand(e.value, p))
	}
	return out
}

// collective is what the backend's library reads. Processes without a card, and Horovod's and
// Paddle's own threads, use gloo.
func (w *plan) collective(p *process) []pair {
	v := p.world.vendor
	var out []pair
	if w.fw.torch {
		out = slices.Clone(v.env)
	}
	if w.iface != "" {
		out = append(out, pair{gloo.socket, w.iface})
		if v.socket != "" && v.socket != gloo.socket {
			out = append(out, pair{v.socket, w.iface})
		}
		if w.fw.id == "horovod" {
			out = append(out, pair{"HOROVOD_GLOO_IFACE", w.iface})
		}
		if w.fw.start == startLead { // Open MPI leaves the loopback out unless it is told
			out = append(out, pair{"OMPI_MCA_oob_tcp_if_include", w.iface}, pair{"OMPI_MCA_btl_tcp_if_include", w.iface})
		}
	}
	// Across servers the table lacks the cards' own addresses, and HCCL finds its peers without it.
	if v.name == huawei && len(p.world.groups) == 1 {
		out = append(out, pair{"RANK_TABLE_FILE", DirToken + "/" + fileRankTable})
	}
	return out
}

// expand puts the words of a process into a text of the table. The launcher's tokens stay.
func (w *plan) expand(text string, p *process) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		word, after, _ := strings.Cut(rest, "}")
		b.WriteString(w.word(word, p))
		text = after
	}
}

func (w *plan) word(name string, p *process) string {
	switch name {
	case "rank":
		return itoa(p.rank)
	case "world":
		return itoa(p.world.size)
	case "localRank":
		return itoa(p.local)
	case "localWorld":
		return itoa(p.group.Ranks)
	case "replica":
		return itoa(p.at)
	case "replicas":
		return itoa(len(p.world.groups))
	case "role":
		return p.world.role
	case "master":
		return p.world.master.host
	case "masterPort":
		return p.world.master.port
	case "address":
		return p.group.Address
	case "port":
		return p.port
	case "interface":
		return w.iface
	case "timeout":
		return seconds(w.timeout)
	case "timeoutMinutes":
		return minutes(w.timeout)
	case "servers":
		return itoa(w.count("server"))
	case "workers":
		return itoa(w.count("worker"))
	case "endpoints":
		return strings.Join(p.world.endpoints, ",")
	case "paddleBackend":
		if p.world.vendor.torch == gloo.torch {
			return "gloo"
		}
		return "auto"
	case "tfConfig":
		return w.tfText(p)
	}
	return "${" + name + "}"
}

func seconds(d time.Duration) string { return itoa(max(1, int(d/time.Second))) }
func minutes(d time.Duration) string { return itoa(max(1, int((d+time.Minute-1)/time.Minute))) }

// command is what starts a process; empty where another does it.
func (w *plan) command(p *process) []string {
	own := []string{}
	for i := range w.in.Spec.Roles {
		if r := &w.in.Spec.Roles[i]; r.Name == p.group.Role {
			own = image.Argv(r, w.in.Spec.ImageOf(r))
		}
	}
	first := p.rank == 0 && p.world == w.worlds[w.leading()]
	switch {
	case w.remote() && p.local == 0 && !first:
		return []string{"fermi", "rsh", "serve"}
	case w.fw.start == startLead && !first:
		return []string{}
	case w.fw.id == "mpi":
		return w.leader(slices.Concat([]string{"mpirun", "--hostfile", DirToken + "/" + fileHosts, "-np", itoa(p.world.size)}, own))
	case w.fw.id == "horovod":
		how := "--" + string(api.ControllerGloo)
		if w.st.Controller == api.ControllerMPI {
			how = "--" + string(api.ControllerMPI)
		}
		head := []string{"horovodrun", "-np", itoa(p.world.size), "--hostfile", DirToken + "/" + fileHosts, how}
		if w.iface != "" {
			head = append(head, "--network-interfaces", w.iface)
		}
		if w.remote() { // it gives the first replica's variables to all processes, its devices among them
			head = append(head, "sh", "-c", `exec "${FERMI_RSH_HERE:-$FERMI_RSH_LEAD}" rsh own "$@"`, "own")
		}
		return w.leader(slices.Concat(head, own))
	case w.fw.start == startRay && first:
		return slices.Concat([]string{"sh", DirToken + "/" + fileRayHead}, own)
	case w.fw.start == startRay:
		return []string{"sh", DirToken + "/" + fileRayWorker}
	case w.fw.id == "deepspeed" && callsDeepSpeed(own):
		command, _ := withoutDeepSpeed(own)
		return command
	case w.fw.id == "megatron-lm" && p.world == w.worlds[0]:
		return slices.Concat(own, w.megatron(own))
	}
	return w.told(own)
}

// leader runs a program that starts processes in other replicas too.
func (w *plan) leader(command []string) []string {
	if !w.remote() {
		return command
	}
	return slices.Concat([]string{"fermi", "rsh", "lead", "--"}, command)
}

// megatron is what its scripts are told; what the command says itself is left to it.
func (w *plan) megatron(own []string) []string {
	var out []string
	add := func(flag string, values ...string) {
		if !slices.ContainsFunc(own, func(a string) bool { return a == flag || strings.HasPrefix(a, flag+"=") }) {
			out = append(append(out, flag), values...)
		}
	}
	add("--tensor-model-parallel-size", itoa(w.sizes.tensor))
	add("--pipeline-model-parallel-size", itoa(w.sizes.pipeline))
	if w.expert > 1 {
		add("--expert-model-parallel-size", itoa(w.expert))
	}
	add("--distributed-backend", w.worlds[0].vendor.torch)
	add("--distributed-timeout-minutes", minutes(w.timeout))
	if p := w.in.Spec.Precision; p == api.PrecisionFP16 || p == api.PrecisionBF16 {
		add("--" + string(p))
	}
	if w.batch.train > 0 {
		add("--micro-batch-size", itoa(w.batch.micro))
		add("--global-batch-size", itoa(w.batch.train))
	}
	if w.deepspeed() {
		add("--deepspeed")
		add("--deepspeed_config", path.Join(DirToken, fileDS))
		add("--zero-stage", itoa(w.zero))
	}
	return out
}
