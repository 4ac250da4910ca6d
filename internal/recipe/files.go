package recipe

import (
	"encoding/json"
	"fmt"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// maker makes one file; an empty name is none.
type maker func(*plan) (name, text string)

// The files' names.
const (
	fileTorch     = "pytorch_ddp_config.yaml"
	fileHosts     = "hostfile"
	fileRshHosts  = "rsh_hosts"
	fileDS        = "ds_config.json"
	fileMegatron  = "megatron_args.txt"
	fileTF        = "tf_config.json"
	filePaddle    = "fleet_strategy.json"
	fileRayHead   = "ray_head.sh"
	fileRayWorker = "ray_worker.sh"
	fileRoles     = "roles.json"
	fileRankTable = "hccl_rank_table.json"
)

// encode is JSON for people. What is encoded here has no channel, function or cycle in it.
func encode(v any) string {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic("recipe: " + err.Error())
	}
	return string(data) + "\n"
}

// quoted is a text as YAML and JSON both read it.
func quoted(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		panic("recipe: " + err.Error())
	}
	return string(data)
}

// name of a group for people: its node, or its place where there is none yet.
func (g *Group) name() string {
	if g.Node != "" {
		return g.Node
	}
	return g.replica()
}

// replica is its name within the task.
func (g *Group) replica() string { return g.Role + "-" + itoa(g.Index) }

// devices are the cards' indices as the processes count them, from 0.
func (g *Group) devices() string {
	list := make([]string, len(g.Devices))
	for i := range list {
		list[i] = itoa(i)
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// torchConfig is for scripts that read a file instead of the environment.
func torchConfig(w *plan) (name, text string) {
	var b strings.Builder
	wd := w.worlds[0]
	fmt.Fprintf(&b, `# world_size counts processes; each finds its own rank in $RANK.
distributed:
  backend: %s
  init_method: %s
  world_size: %d
  nnodes: %d
  rank: 0  # of the master
  timeout: %s
`, wd.vendor.torch, quoted("tcp://"+wd.master.host+":"+wd.master.port), wd.size, len(wd.groups), seconds(w.timeout))
	if w.kind != ddp {
		fmt.Fprintf(&b, "strategy: {kind: %s, data: %d, tensor: %d, pipeline: %d}\n", w.kind, w.sizes.data, w.sizes.tensor, w.sizes.pipeline)
	}
	if p := w.in.Spec.Precision; p != "" {
		fmt.Fprintf(&b, "precision: %s\n", p)
	}
	b.WriteString("\nnodes:\n")
	first := 0
	for i, g := range wd.groups {
		fmt.Fprintf(&b, "  - name: %s\n    rank: %d\n    first_process: %d\n    processes: %d\n    ip: %s\n    gpus: %s\n", quoted(g.name()), i, first, g.Ranks, quoted(g.Address), g.devices())
		first += g.Ranks
	}
	return fileTorch, b.String()
}

// hostfile is what mpirun, horovodrun and deepspeed read: one line an address. Where our rsh agent
// starts the others it is one line a replica, by the name that the agent knows: several may have one
// address.
func hostfile(w *plan) (name, text string) {
	slots := map[string]int{}
	var order []string
	for _, g := range w.worlds[0].groups {
		host := g.Address
		if w.remote() {
			host = g.replica()
		}
		if slots[host] == 0 {
			order = append(order, host)
		}
		slots[host] += g.Ranks
	}
	var b strings.Builder
	for _, host := range order {
		fmt.Fprintf(&b, "%s slots=%d\n", host, slots[host])
	}
	return fileHosts, b.String()
}

// rshHosts tells the rsh agent where the agents of the other replicas listen.
func rshHosts(w *plan) (name, text string) {
	if !w.remote() {
		return "", ""
	}
	var b strings.Builder
	for i := range w.ranks {
		if p := &w.ranks[i]; p.local == 0 {
			fmt.Fprintf(&b, "%s %s:%s\n", p.group.replica(), p.group.Address, p.port)
		}
	}
	return fileRshHosts, b.String()
}

// megatronArgs is what is added to the command of a script without arguments of its own.
func megatronArgs(w *plan) (name, text string) {
	return fileMegatron, strings.Join(w.megatron(nil), "\n") + "\n"
}

// roleTable tells every process where the others are.
func roleTable(w *plan) (name, text string) {
	if !w.named() {
		return "", ""
	}
	type row struct {
		Role      string   `json:"role"`
		Processes int      `json:"processes"`
		Endpoints []string `json:"endpoints"`
	}
	var rows []row
	for _, wd := range w.worlds {
		rows = append(rows, row{wd.role, wd.size, wd.endpoints})
	}
	return fileRoles, encode(map[string]any{"roles": rows})
}

// tfCluster is the part of TF_CONFIG that is the same for all: addresses by kind of task. Roles with
// names of their own are workers.
func (w *layout) tfCluster() (cluster map[string][]string, first map[*world]int) {
	cluster, first = map[string][]string{}, map[*world]int{}
	for _, wd := range w.worlds {
		task := tfTask(wd.role)
		first[wd] = len(cluster[task])
		cluster[task] = append(cluster[task], wd.endpoints...)
	}
	delete(cluster, "evaluator") // TensorFlow's rule: it is no member of the cluster it looks at
	return cluster, first
}

func tfTask(role string) string {
	switch role {
	case "chief", "ps", "evaluator":
		return role
	}
	return "worker"
}

func tfConfig(w *plan) (name, text string) {
	cluster, _ := w.tfCluster()
	return fileTF, encode(map[string]any{"cluster": cluster})
}

func (w *plan) tfText(p *process) string {
	cluster, first := w.tfCluster()
	data, err := json.Marshal(map[string]any{
		"cluster": cluster, "task": map[string]any{"type": tfTask(p.world.role), "index": first[p.world] + p.rank},
	})
	if err != nil {
		panic("recipe: " + err.Error())
	}
	return string(data)
}

// paddleStrategy is fleet's hybrid_configs.
func paddleStrategy(w *plan) (name, text string) {
	degrees := map[string]int{"dp_degree": w.sizes.data, "mp_degree": w.sizes.tensor, "pp_degree": w.sizes.pipeline, "sharding_degree": 1}
	if w.kind == fsdp {
		degrees["dp_degree"], degrees["sharding_degree"] = 1, w.sizes.data
	}
	out := map[string]any{"hybrid_configs": degrees}
	switch w.in.Spec.Precision {
	case api.PrecisionFP16:
		out["amp"], out["amp_configs"] = true, map[string]any{"dtype": "float16", "use_dynamic_loss_scaling": true}
	case api.PrecisionBF16:
		out["amp"], out["amp_configs"] = true, map[string]any{"dtype": "bfloat16", "use_dynamic_loss_scaling": false}
	}
	return filePaddle, encode(out)
}

// rankTable is HCCL's, in the form of version 1.0; the cards' own addresses are known to the node
// alone.
func rankTable(w *plan) (name, text string) {
	wd := w.worlds[0]
	if wd.vendor.name != huawei {
		return "", ""
	}
	type card struct {
		ID   string `json:"device_id"`
		Rank string `json:"rank_id"`
	}
	type server struct {
		ID      string `json:"server_id"`
		Devices []card `json:"device"`
		NIC     string `json:"host_nic_ip"`
	}
	var servers []server
	rank := 0
	for _, g := range wd.groups {
		s := server{ID: g.Address, NIC: "reserve", Devices: []card{}}
		for local := range g.Ranks {
			index := local
			if local < len(g.Devices) {
				index = g.Devices[local].Index
			}
			s.Devices = append(s.Devices, card{itoa(index), itoa(rank)})
			rank++
		}
		servers = append(servers, s)
	}
	return fileRankTable, encode(struct {
		Version string   `json:"version"`
		Count   string   `json:"server_count"`
		Servers []server `json:"server_list"`
		Status  string   `json:"status"`
	}{"1.0", itoa(len(servers)), servers, "completed"})
}

// rayHead starts the head and runs the command. The launcher ends what the script leaves behind;
// "ray stop" would end every other task's Ray on the machine too.
func rayHead(w *plan) (name, text string) {
	lead := w.worlds[w.leading()].master
	return fileRayHead, fmt.Sprintf(`#!/bin/sh
# The head of the Ray cluster; its arguments are the task's command.
set -u
ray start --head --node-ip-address=%s --port=%s --include-dashboard=false --disable-usage-stats || exit
"$@"
`, lead.host, lead.port)
}

// rayWorker serves the head until it is gone. What it ends with when the head goes says nothing:
// the head's own end does.
func rayWorker(w *plan) (name, text string) {
	lead := w.worlds[w.leading()].master
	address := lead.host + ":" + lead.port
	return fileRayWorker, fmt.Sprintf(`#!/bin/sh
# A worker of the Ray cluster.
set -u
waited=0
until ray health-check --address=%[1]s >/dev/null 2>&1; do
	waited=$((waited + 1))
	[ $waited -le %[2]s ] || { echo "no Ray head at %[1]s after %[2]s tries" >&2; exit 1; }
	sleep 1
done
ray start --address=%[1]s --disable-usage-stats --block
code=$?
if ray health-check --address=%[1]s >/dev/null 2>&1; then
	exit $code
fi
exit 0
`, address, seconds(w.timeout))
}
