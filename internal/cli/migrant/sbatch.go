package migrant

import (
	"bufio"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/array"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/pattern"
)

// short are Slurm's letters.
var short = map[string]string{
	"J": "job-name", "N": "nodes", "n": "ntasks", "c": "cpus-per-task", "t": "time", "p": "partition", "a": "array", "o": "output", "e": "error", "D": "chdir",
	"A": "account", "q": "qos", "C": "constraint", "w": "nodelist", "x": "exclude", "d": "dependency", "G": "gpus", "b": "begin", "i": "input", "s": "oversubscribe", "L": "licenses",
}

// whyNot is why an option of sbatch has no place in the manifest.
var whyNot = map[string]fault.Text{
	"partition": whyPartition, "account": whyAccount, "constraint": whyNodes, "nodelist": whyNodes, "exclude": whyNodes, "exclusive": whyNodes, "switches": whyNodes,
	"qos":        fault.T("How much may be used is the queue's; what goes first is spec.priority.", "用量上限由队列决定；先后次序由 spec.priority 决定。"),
	"output":     fault.T("What is printed is kept with the task: fermi logs.", "输出随任务保存：fermi logs。"),
	"error":      fault.T("What is printed is kept with the task: fermi logs.", "输出随任务保存：fermi logs。"),
	"chdir":      fault.T("Files travel with the task: submit it with --code FOLDER, or name a granted folder in spec.code.folder.", "文件随任务提交：用 --code 目录，或在 spec.code.folder 中指定已授权的目录。"),
	"dependency": fault.T("Tasks don't wait for each other; wait with fermi train wait.", "任务之间没有依赖关系；可用 fermi train wait 等待。"),
	"begin":      fault.T("A task may be put off to cheaper hours (spec.deferrable), not to a time.", "任务可推迟到更便宜的时段（spec.deferrable），但不能指定开始时间。"),
	"mail-type":  fault.T("Nobody is told by mail; follow with fermi events.", "不发送邮件；可用 fermi events 关注。"),
	"mail-user":  fault.T("Nobody is told by mail; follow with fermi events.", "不发送邮件；可用 fermi events 关注。"),
	"signal":     fault.T("A task is told with SIGTERM and has timeouts.stopGrace to save.", "任务以 SIGTERM 通知，并有 timeouts.stopGrace 的时间用于保存。"),
}

// request is what a script asks for.
type request struct {
	nodes, tasks, perNode, cpus int
	memory, perCPU, perGPU      string
	gpus, perNodeGPUs, taskGPUs int
	gpuType                     string
}

// readScript makes a task of a script for sbatch.
func readScript(file, text string) (Job, error) {
	d, want := newDraft(file), request{cpus: 1}
	d.name(strings.TrimSuffix(file[strings.LastIndexByte(file, '/')+1:], ".sh"))
	var body []string
	begun := false
	scan := bufio.NewScanner(strings.NewReader(text))
	scan.Buffer(nil, maxFile)
	for scan.Scan() {
		line := scan.Text()
		rest, ours := strings.CutPrefix(line, "#SBATCH")
		switch {
		case ours && begun:
			d.leave(line, fault.T("It comes after the first command, where sbatch does not read it either.", "它位于首条命令之后，sbatch 也不会读取。"))
		case ours:
			d.options(&want, rest)
		case strings.HasPrefix(line, "#!") && len(body) == 0:
		default:
			begun = begun || strings.TrimSpace(line) != "" && !strings.HasPrefix(strings.TrimSpace(line), "#")
			body = append(body, line)
		}
	}
	if err := scan.Err(); err != nil || !begun {
		return Job{}, bad(file, fault.T("It has no commands.", "脚本中没有命令。"))
	}
	role, err := want.role(d)
	if err != nil {
		return Job{}, err
	}
	role["command"] = []string{"/bin/bash", "-c", d.script(body)}
	d.spec["roles"] = []any{role}
	return d.job()
}

// options reads the words of one line.
func (d *draft) options(want *request, line string) {
	if at := strings.Index(line, " #"); at >= 0 {
		line = line[:at]
	}
	words := strings.Fields(line)
	for i := 0; i < len(words); i++ {
		word := words[i]
		name, value, has := strings.Cut(strings.TrimLeft(word, "-"), "=")
		if !strings.HasPrefix(word, "--") && len(name) > 1 && !has { // -N2
			name, value, has = name[:1], name[1:], true
		}
		if !strings.HasPrefix(word, "--") && short[name] != "" {
			name = short[name]
		}
		if !has && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
			i++
			value = words[i]
			word += " " + value
		}
		d.option(want, word, name, strings.Trim(value, `"'`))
	}
}

// option takes one wish.
func (d *draft) option(want *request, said, name, value string) {
	count := func(into *int, field string) {
		n, err := strconv.Atoi(strings.Split(value, "-")[0])
		if err != nil || n < 1 {
			d.leave(said, fault.T("%q is no number.", "%q 不是数字。", value))
			return
		}
		*into = n
		d.keep(said, field)
		if strings.Contains(value, "-") {
			d.leave(said, fault.T("The least of the range counts; for more, and fewer when machines fail, set minReplicas and maxReplicas.", "取范围的下限；如需弹性扩缩，请设置 minReplicas 与 maxReplicas。"))
		}
	}
	const replicas, ranks, cards = "spec.roles[0].replicas", "spec.roles[0].ranks", "spec.roles[0].resources.accelerators"
	switch name {
	case "job-name":
		d.name(value)
		d.keep(said, "metadata.name")
	case "comment":
		d.spec["description"] = value
		d.keep(said, "spec.description")
	case "nodes":
		count(&want.nodes, replicas)
	case "ntasks":
		count(&want.tasks, ranks)
	case "ntasks-per-node", "tasks-per-node":
		count(&want.perNode, ranks)
	case "cpus-per-task":
		count(&want.cpus, "spec.roles[0].resources.cpu")
	case "mem":
		want.memory = d.amount(said, value)
	case "mem-per-cpu":
		want.perCPU = d.amount(said, value)
	case "mem-per-gpu":
		want.perGPU = d.amount(said, value)
	case "gres", "gpus-per-node", "gpus", "gpus-per-task":
		d.cards(want, said, name, value, cards)
	case "time":
		if limit, ok := slurmTime(value); ok {
			d.spec["timeouts"] = map[string]any{"run": limit.String()}
			d.keep(said, "spec.timeouts.run")
			return
		}
		d.leave(said, fault.T("%q is no time of Slurm's.", "%q 不是 Slurm 的时间格式。", value))
	case "array":
		indexes, atOnce, err := array.ParseAtOnce(value)
		var bad *array.Error
		if errors.As(err, &bad) {
			d.leave(said, bad.Text)
			return
		}
		d.kind, d.spec["indexes"] = array.Kind, indexes
		d.keep(said, "spec.indexes")
		if atOnce > 0 {
			d.spec["atOnce"] = atOnce
			d.keep(said, "spec.atOnce")
		}
	case "requeue":
		d.spec["restartPolicy"] = map[string]any{"maxRestarts": 3}
		d.keep(said, "spec.restartPolicy")
	case "no-requeue":
		d.spec["restartPolicy"] = map[string]any{"maxRestarts": 0}
		d.keep(said, "spec.restartPolicy")
	default:
		why, known := whyNot[name]
		if !known {
			why = whyNothing
		}
		d.leave(said, why)
	}
}

var gpuWords = pattern.New(`^(?:gpu:)?(?:([A-Za-z][A-Za-z0-9_.-]*):)?([0-9]+)(?:\(.*\))?$`)

// cards reads gpu:TYPE:N, TYPE:N or N.
func (d *draft) cards(want *request, said, name, value, field string) {
	m := gpuWords.FindStringSubmatch(value)
	if m == nil && name == "gres" && value == "gpu" {
		m = []string{value, "", "1"}
	}
	if m == nil || name == "gres" && !strings.HasPrefix(value, "gpu") {
		d.leave(said, fault.T("Only accelerators are counted: gpu:TYPE:N.", "仅支持加速卡：gpu:类型:数量。"))
		return
	}
	n, err := strconv.Atoi(m[2])
	if err != nil {
		d.leave(said, whyNothing)
		return
	}
	switch name {
	case "gpus":
		want.gpus = n
	case "gpus-per-task":
		want.taskGPUs = n
	default:
		want.perNodeGPUs = n
	}
	if m[1] != "" {
		want.gpuType = strings.ToUpper(m[1])
	}
	d.keep(said, field)
}

var amountWords = pattern.New(`^([0-9]+)([KMGTkmgt]?)B?$`)

// amount is a size of Slurm's, whose bare numbers are MiB; "" where it is none.
func (d *draft) amount(said, value string) string {
	m := amountWords.FindStringSubmatch(value)
	if m == nil || strings.Trim(m[1], "0") == "" {
		d.leave(said, fault.T("%q gives no amount; replicas have the usual share of memory.", "%q 未给出数量；副本使用默认内存。", value))
		return ""
	}
	d.keep(said, "spec.roles[0].resources.memory")
	unit := strings.ToUpper(m[2])
	if unit == "" {
		unit = "M"
	}
	return m[1] + unit + "i"
}

// slurmTime reads M, M:S, H:M:S, D-H, D-H:M and D-H:M:S.
func slurmTime(text string) (time.Duration, bool) {
	days, rest, dashed := strings.Cut(text, "-")
	if !dashed {
		days, rest = "0", text
	}
	parts := strings.Split(rest, ":")
	units := map[bool][][]time.Duration{
		true:  {{time.Hour}, {time.Hour, time.Minute}, {time.Hour, time.Minute, time.Second}},
		false: {{time.Minute}, {time.Minute, time.Second}, {time.Hour, time.Minute, time.Second}},
	}[dashed]
	if len(parts) > len(units) {
		return 0, false
	}
	n, err := strconv.Atoi(days)
	if err != nil || n < 0 || n > 10_000 {
		return 0, false
	}
	total := time.Duration(n) * 24 * time.Hour
	for i, p := range parts {
		v, err := strconv.Atoi(p)
		if err != nil || v < 0 || v > 1_000_000 {
			return 0, false
		}
		total += time.Duration(v) * units[len(parts)-1][i]
	}
	return total, total > 0
}

// role is the one role: a replica for each node, a rank for each of its tasks.
func (r *request) role(d *draft) (map[string]any, error) {
	nodes := max(r.nodes, 1)
	ranks := max(r.perNode, 1)
	if r.perNode == 0 && r.tasks > 0 {
		if ranks = r.tasks / nodes; ranks*nodes != r.tasks {
			return nil, bad(d.file, fault.T("%d tasks don't divide over %d nodes: replicas of a role are alike.", "%d 个任务无法平均分配到 %d 个节点：同一角色的副本必须一致。", r.tasks, nodes))
		}
	}
	gpus := max(r.perNodeGPUs, r.taskGPUs*ranks, (r.gpus+nodes-1)/nodes)
	resources := map[string]any{"cpu": strconv.Itoa(r.cpus * ranks)}
	if gpus > 0 {
		card := map[string]any{"count": gpus}
		if r.gpuType != "" {
			card["type"] = r.gpuType
		}
		resources["accelerators"] = card
	}
	switch {
	case r.memory != "":
		resources["memory"] = r.memory
	case r.perCPU != "":
		resources["memory"] = times(r.perCPU, r.cpus*ranks)
	case r.perGPU != "":
		resources["memory"] = times(r.perGPU, max(gpus, 1))
	}
	return map[string]any{"name": "worker", "replicas": nodes, "ranks": ranks, "resources": resources}, nil
}

func times(amount string, n int) string {
	digits := strings.TrimRight(amount, "KMGTi")
	v, _ := strconv.Atoi(digits) // amount has digits
	return strconv.Itoa(v*n) + amount[len(digits):]
}

// slurmVariables is what ranks have of Slurm's words.
var slurmVariables = []struct{ slurm, ours string }{
	{"SLURM_PROCID", "RANK"}, {"SLURM_LOCALID", "LOCAL_RANK"}, {"SLURM_NTASKS", "WORLD_SIZE"}, {"SLURM_NPROCS", "WORLD_SIZE"}, {"SLURM_NTASKS_PER_NODE", "LOCAL_WORLD_SIZE"}, {"SLURM_JOB_ID", "FERMI_TASK_ID"},
	{"SLURM_JOBID", "FERMI_TASK_ID"}, {"SLURM_NODEID", "GROUP_RANK"}, {"SLURM_NNODES", "GROUP_WORLD_SIZE"}, {"SLURM_JOB_NUM_NODES", "GROUP_WORLD_SIZE"},
	{"SLURM_ARRAY_TASK_ID", array.IndexVariable}, {"SLURM_ARRAY_TASK_COUNT", array.CountVariable}, {"SLURM_ARRAY_TASK_MIN", array.FirstVariable}, {"SLURM_ARRAY_TASK_MAX", array.LastVariable}, {"SLURM_ARRAY_JOB_ID", array.NameVariable},
}

var (
	srunLine = pattern.New(`(^|[;&|]\s*|\s)srun((?:\s+-{1,2}[A-Za-z][\w-]*(?:=\S+|\s+\d\S*)?)*)\s+`)
	slurmVar = pattern.New(`SLURM_[A-Z_]+`)
)

// script is the body as each rank runs it.
func (d *draft) script(body []string) string {
	text := strings.TrimSpace(strings.Join(body, "\n"))
	steps := 0
	for _, line := range strings.Split(text, "\n") {
		if srunLine.MatchString(line) && !strings.HasPrefix(strings.TrimSpace(line), "#") {
			steps++
		}
	}
	switch {
	case steps > 0:
		text = srunLine.ReplaceAllString(text, "$1")
		d.keep("srun", "spec.roles[0].command")
		d.leave("the lines around srun", fault.T("sbatch runs them once, on the first node; here every rank runs the whole script.", "sbatch 只在首个节点执行一次；此处每个 rank 都会执行整个脚本。"))
	case strings.Contains(text, "torchrun") || strings.Contains(text, "torch.distributed"):
		d.leave("torchrun", fault.T("Ranks are started by their launcher: prefer framework: pytorch-ddp with the script itself as the command.", "rank 由启动器拉起：建议使用 framework: pytorch-ddp，并直接以脚本为命令。"))
	default:
		d.leave("the script", fault.T("sbatch runs it once, on the first node; here every rank of every replica runs it.", "sbatch 只在首个节点执行一次；此处每个副本的每个 rank 都会执行。"))
	}
	head := ""
	known := map[string]bool{}
	for _, v := range slurmVariables {
		known[v.slurm] = true
		if regexp.MustCompile(`\b` + v.slurm + `\b`).MatchString(text) {
			head += "export " + v.slurm + "=\"$" + v.ours + "\"\n"
			d.keep(v.slurm, v.ours)
		}
	}
	for _, name := range slurmVar.FindAllString(text, -1) {
		if !known[name] {
			known[name] = true
			d.leave("$"+name, fault.T("Nothing sets it here.", "此处不会设置该变量。"))
		}
	}
	return head + text
}
