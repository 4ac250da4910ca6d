package migrant

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/pattern"
)

// tree is a manifest that remembers what of it was used.
type tree struct {
	root map[string]any
	used map[string]bool
}

// at is what lies at a path; "a.0.b" goes into lists. nil: nothing.
func (t *tree) at(path string) any {
	var here any = t.root
	for _, key := range strings.Split(path, ".") {
		switch x := here.(type) {
		case map[string]any:
			here = x[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(x) {
				return nil
			}
			here = x[i]
		default:
			return nil
		}
	}
	return here
}

// use is at, and what lies there counts as read.
func (t *tree) use(path string) any {
	t.used[path] = true
	return t.at(path)
}

func (t *tree) text(path string) string {
	switch v := t.use(path).(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case int64:
		return strconv.FormatInt(v, 10)
	}
	return ""
}

func (t *tree) number(path string, otherwise int) int {
	n, err := strconv.Atoi(t.text(path))
	if err != nil {
		return otherwise
	}
	return n
}

// rest visits every value that nobody used.
func (t *tree) rest(visit func(path string, v any)) { t.walk("", t.root, visit) }

func (t *tree) walk(path string, v any, visit func(string, any)) {
	if t.used[path] {
		return
	}
	under := func(key string, v any) { t.walk(strings.TrimPrefix(path+"."+key, "."), v, visit) }
	switch x := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(x))
		for k := range x {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			under(k, x[k])
		}
	case []any:
		for i, one := range x {
			under(strconv.Itoa(i), one)
		}
	case nil:
	default:
		visit(path, v)
	}
}

// reasons are why a field of a manifest has no place, by a pattern of its path; the first that fits counts.
var reasons = []struct {
	path *pattern.Pattern
	why  fault.Text
}{
	{pattern.New(`metadata\.(namespace|uid|resourceVersion|generation|creationTimestamp|annotations|managedFields|ownerReferences)|^status\.`), fault.T("It is the other cluster's; the project is given with --project.", "属于原集群；项目用 --project 指定。")},
	{pattern.New(`volumes|volumeMounts|volumeClaim`), whyVolumes},
	{pattern.New(`nodeSelector|affinity|tolerations|topologySpread|nodeName`), whyNodes},
	{pattern.New(`[qQ]ueue`), whyPartition},
	{pattern.New(`priorityClass`), fault.T("Classes have other names here: inference, training, environment, preemptible, as spec.priorityClass.", "优先级类别名称不同：inference、training、environment、preemptible，见 spec.priorityClass。")},
	{pattern.New(`\.policies|[rR]estartPolicy|successPolicy`), fault.T("Who starts again, and how often, is spec.restartPolicy and roles[].restart.", "重启规则由 spec.restartPolicy 与 roles[].restart 决定。")},
	{pattern.New(`\.plugins`), fault.T("Ranks know each other already: addresses, ranks and hosts come with the framework's recipe.", "rank 之间已可互相发现：地址、编号与主机列表由框架配方提供。")},
	{pattern.New(`ports|hostNetwork|dnsPolicy|subdomain|hostname`), fault.T("Replicas of a task reach each other without ports or services.", "同一任务的副本可直接互通，无需端口或服务。")},
	{pattern.New(`imagePullSecrets|imagePullPolicy|serviceAccount`), fault.T("How images are fetched is the project's: a secret named in spec.credentials.", "镜像拉取方式由项目决定：在 spec.credentials 中引用密钥。")},
	{pattern.New(`securityContext|hostPID|hostIPC|shareProcessNamespace`), fault.T("Processes run as the project's user behind its wall; nothing more is given.", "进程以项目用户身份在隔离墙内运行，不提供更高权限。")},
	{pattern.New(`initContainers|containers\.[1-9]|lifecycle|Probe`), fault.T("A replica has one command; what goes before it belongs into that.", "每个副本只有一条命令；前置步骤请写入该命令。")},
	{pattern.New(`resources\.(limits|requests)`), fault.T("Only cpu, memory, ephemeral-storage and accelerators are counted.", "仅计量 CPU、内存、临时存储与加速卡。")},
	{pattern.New(`valueFrom|envFrom`), fault.T("Values come from secrets of the project: env[].valueFrom.", "取值来自项目密钥：env[].valueFrom。")},
	{pattern.New(`initializer`), fault.T("Datasets and models are named in spec.dataset and spec.model.", "数据集与模型在 spec.dataset 与 spec.model 中引用。")},
	{pattern.New(`ttlSecondsAfterFinished|cleanPodPolicy`), fault.T("What ended is kept in history by the server's rules.", "结束的任务按服务器规则保存在历史中。")},
}

// whyLeft is the reason of a path.
func whyLeft(path string) fault.Text {
	for _, r := range reasons {
		if r.path.MatchString(path) {
			return r.why
		}
	}
	return whyNothing
}

// readManifest makes a task of one document.
func readManifest(file string, root map[string]any) (Job, error) {
	d, t := newDraft(file), &tree{root, map[string]bool{}}
	kind, group := t.text("kind"), strings.Split(t.text("apiVersion"), "/")[0]
	d.name(t.text("metadata.name"))
	d.keep("metadata.name", "metadata.name")
	if labels, ok := t.at("metadata.labels").(map[string]any); ok && len(labels) > 0 {
		d.meta["labels"] = t.use("metadata.labels")
		d.keep("metadata.labels", "metadata.labels")
	}
	var roles []any
	switch {
	case kind == "Job" && group == "batch.volcano.sh":
		roles = d.volcano(t)
	case kind == "PyTorchJob" && group == "kubeflow.org":
		roles = d.pytorch(t)
	case kind == "TrainJob" && group == "trainer.kubeflow.org":
		roles = d.trainJob(t)
	default:
		return Job{}, bad(file, fault.T("%s of %s is none of those that are read.", "不支持 %[2]s 的 %[1]s。", cmp.Or(kind, "?"), cmp.Or(group, "?")))
	}
	if len(roles) == 0 {
		return Job{}, bad(file, fault.T("It has no replicas.", "其中没有副本。"))
	}
	d.spec["roles"] = roles
	t.rest(func(path string, v any) { d.leave(fmt.Sprintf("%s: %v", path, v), whyLeft(path)) })
	return d.job()
}

func (d *draft) volcano(t *tree) (roles []any) {
	t.use("spec.schedulerName")
	if n := t.number("spec.maxRetry", -1); n >= 0 {
		d.spec["restartPolicy"] = map[string]any{"maxRestarts": n}
		d.keep("spec.maxRetry", "spec.restartPolicy.maxRestarts")
	}
	if _, ok := t.at("spec.plugins.pytorch").([]any); ok {
		d.spec["framework"] = "pytorch-ddp"
		t.use("spec.plugins.pytorch")
		d.keep("spec.plugins.pytorch", "spec.framework")
	}
	tasks, _ := t.at("spec.tasks").([]any)
	sum := 0
	for i := range tasks {
		at := fmt.Sprintf("spec.tasks.%d", i)
		role := d.pod(t, at+".template.spec")
		role["name"] = cmp.Or(t.text(at+".name"), "task-"+strconv.Itoa(i))
		n := t.number(at+".replicas", 1)
		role["replicas"] = n
		if least := t.number(at+".minAvailable", n); least < n {
			role["minReplicas"] = least
			d.keep(at+".minAvailable", "spec.roles[].minReplicas")
		}
		sum += n
		d.keep(at, fmt.Sprintf("spec.roles[%d]", i))
		roles = append(roles, role)
	}
	if least := t.number("spec.minAvailable", sum); least < sum {
		d.leave(fmt.Sprintf("spec.minAvailable: %d", least), fault.T("A task starts with all of its replicas, or as many as each role's minReplicas says.", "任务会等待全部副本；如需更少，请为角色设置 minReplicas。"))
	}
	return roles
}

func (d *draft) pytorch(t *tree) []any {
	d.spec["framework"] = "pytorch-ddp"
	d.policy(t)
	const specs = "spec.pytorchReplicaSpecs."
	workers := specs + "Worker.template.spec"
	n := 0
	for _, name := range []string{"Master", "Worker"} {
		if t.at(specs+name) == nil {
			continue
		}
		n += t.number(specs+name+".replicas", 1)
		if name == "Master" && t.at(workers) == nil {
			workers = specs + "Master.template.spec"
		}
	}
	if n == 0 {
		return nil
	}
	role := d.pod(t, workers)
	role["name"], role["replicas"] = "worker", n
	if t.at(specs+"Master") != nil && !strings.HasPrefix(workers, specs+"Master") {
		d.pod(t, specs+"Master.template.spec") // read, and the same
		if fmt.Sprint(t.at(specs+"Master.template.spec.containers.0")) != fmt.Sprint(t.at(workers+".containers.0")) {
			d.leave(specs+"Master.template", fault.T("The master is rank 0 of the same role: the workers' command and resources count.", "master 即同一角色的 rank 0：以 worker 的命令与资源为准。"))
		}
	}
	d.keep("spec.pytorchReplicaSpecs", "spec.roles[0]")
	if per := t.number("spec.nprocPerNode", 0); per > 0 {
		role["ranks"] = per
		d.keep("spec.nprocPerNode", "spec.roles[0].ranks")
	}
	for from, to := range map[string]string{"minReplicas": "minReplicas", "maxReplicas": "maxReplicas"} {
		if v := t.number("spec.elasticPolicy."+from, 0); v > 0 {
			role[to] = v
			d.keep("spec.elasticPolicy."+from, "spec.roles[0]."+to)
		}
	}
	if v := t.number("spec.elasticPolicy.maxRestarts", -1); v >= 0 {
		d.spec["restartPolicy"] = map[string]any{"maxRestarts": v}
		d.keep("spec.elasticPolicy.maxRestarts", "spec.restartPolicy.maxRestarts")
	}
	return []any{role}
}

// policy is Kubeflow's runPolicy.
func (d *draft) policy(t *tree) {
	if v := t.number("spec.runPolicy.activeDeadlineSeconds", 0); v > 0 {
		d.spec["timeouts"] = map[string]any{"run": strconv.Itoa(v) + "s"}
		d.keep("spec.runPolicy.activeDeadlineSeconds", "spec.timeouts.run")
	}
	if v := t.number("spec.runPolicy.backoffLimit", -1); v >= 0 {
		d.spec["restartPolicy"] = map[string]any{"maxRestarts": v}
		d.keep("spec.runPolicy.backoffLimit", "spec.restartPolicy.maxRestarts")
	}
}

func (d *draft) trainJob(t *tree) []any {
	const trainer = "spec.trainer"
	switch runtime := t.text("spec.runtimeRef.name"); {
	case strings.HasPrefix(runtime, "torch"):
		d.spec["framework"] = "pytorch-ddp"
		d.keep("spec.runtimeRef.name: "+runtime, "spec.framework")
	case strings.HasPrefix(runtime, "deepspeed"):
		d.spec["framework"] = "deepspeed"
		d.keep("spec.runtimeRef.name: "+runtime, "spec.framework")
	case runtime != "":
		d.leave("spec.runtimeRef.name: "+runtime, fault.T("What the runtime adds is in the other cluster: name framework, image and command yourself.", "运行时的内容在原集群中：请自行指定 framework、镜像与命令。"))
	}
	t.use("spec.runtimeRef.kind")
	t.use("spec.runtimeRef.apiGroup")
	role := d.container(t, trainer, trainer+".resourcesPerNode")
	role["name"], role["replicas"] = "worker", t.number(trainer+".numNodes", 1)
	d.keep(trainer, "spec.roles[0]")
	if per := t.number(trainer+".numProcPerNode", 0); per > 0 {
		role["ranks"] = per
	}
	return []any{role}
}

// pod is the role that a pod's first container makes.
func (d *draft) pod(t *tree, at string) map[string]any {
	return d.container(t, at+".containers.0", at+".containers.0.resources")
}

func (d *draft) container(t *tree, at, resources string) map[string]any {
	role := map[string]any{}
	t.use(at + ".name")
	if image := t.text(at + ".image"); image != "" {
		role["image"] = image
	}
	for _, key := range []string{"command", "args"} {
		if list, ok := t.use(at + "." + key).([]any); ok && len(list) > 0 {
			role[key] = list
		}
	}
	if role["command"] == nil && role["args"] != nil {
		role["command"] = role["args"]
		delete(role, "args")
		d.leave(at+".command", fault.T("It is the image's own and is not known here: the arguments were taken for the command. Put the program before them.", "命令由镜像定义，此处未知：已将参数作为命令，请在其前补上程序。"))
	}
	if role["command"] == nil {
		role["command"] = []string{"/bin/sh", "-c", "echo 'no command came with the job' >&2; exit 64"}
		d.leave(at+".command", fault.T("It is the image's own and is not known here: name the command.", "命令由镜像定义，此处未知：请填写命令。"))
	}
	if dir := t.text(at + ".workingDir"); dir != "" {
		d.leave(at+".workingDir: "+dir, fault.T("A working folder is a part of the task's code: spec.roles[].workingDir.", "工作目录须位于任务代码之内：spec.roles[].workingDir。"))
	}
	var env []any
	list, _ := t.at(at + ".env").([]any)
	for i := range list {
		one := fmt.Sprintf("%s.env.%d", at, i)
		name := t.text(one + ".name")
		switch {
		case t.at(one+".valueFrom.secretKeyRef") != nil:
			env = append(env, map[string]any{"name": name, "valueFrom": map[string]any{"secret": t.text(one + ".valueFrom.secretKeyRef.name"), "key": t.text(one + ".valueFrom.secretKeyRef.key")}})
			d.leave(name, fault.T("Make the secret in the project first: fermi secret create.", "请先在项目中创建该密钥：fermi secret create。"))
		case t.at(one+".valueFrom") == nil:
			env = append(env, map[string]any{"name": name, "value": t.text(one + ".value")})
		}
	}
	if len(env) > 0 {
		role["env"] = env
	}
	if r := d.resources(t, resources); len(r) > 0 {
		role["resources"] = r
	}
	return role
}

// cards are the extended resources that count accelerators.
var cards = pattern.New(`^(nvidia\.com/gpu|amd\.com/gpu|huawei\.com/[Aa]scend.*|volcano\.sh/vgpu-number|.*/(gpu|npu|mlu|dcu))$`)

// resources takes limits, and requests where there is no limit.
func (d *draft) resources(t *tree, at string) map[string]any {
	out := map[string]any{}
	for _, part := range []string{"limits", "requests"} {
		all, _ := t.at(at + "." + part).(map[string]any)
		for name := range all {
			v := fmt.Sprint(all[name])
			switch {
			case name == "cpu" || name == "memory":
				out[name] = cmp.Or(str(out[name]), v)
			case name == "ephemeral-storage":
				out["ephemeralDisk"] = cmp.Or(str(out["ephemeralDisk"]), v)
			case cards.MatchString(name):
				n, err := strconv.Atoi(v)
				if err != nil {
					continue
				}
				card := map[string]any{"count": n}
				if _, kind, ok := strings.Cut(name, "huawei.com/"); ok {
					card["type"] = kind
				}
				out["accelerators"] = card
			default:
				continue
			}
			d.use(t, at+"."+part, name)
		}
	}
	return out
}

// use marks a key that has dots.
func (d *draft) use(t *tree, at, key string) { t.used[at+"."+key] = true }

func str(v any) string {
	s, _ := v.(string)
	return s
}
