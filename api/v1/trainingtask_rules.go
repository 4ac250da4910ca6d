package v1

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/pattern"
)

// What a training task gets when it does not say.
const (
	defaultPriorityClass = "training"
	defaultWindow        = Duration(time.Hour)
	DefaultStopGrace     = Duration(30 * time.Second)
)

// Bounds of a training task. An argument of 128 KiB is what Linux refuses to start.
const (
	maxRoles     = 16
	maxRoleName  = 20
	maxArgs      = 1 << 20
	maxArg       = 128<<10 - 1
	maxEnv       = 1000
	maxEnvBytes  = 512 << 10
	maxParams    = 1000
	maxParamName = 128
	maxParamText = 64 << 10
	maxRestarts  = 10_000
	maxPriority  = 10_000
	maxAccel     = 64
	maxRanks     = 64
	maxPreload   = 32
	maxModule    = 128
	minProcesses = 16      // less would not let a shell start a pipeline
	maxProcesses = 1 << 22 // the kernel's own
)

var moduleName = pattern.New(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$`)

var _ interface {
	Defaulter
	Validator
} = (*TrainingTask)(nil)

// Default fills what the user left out. CPU and memory follow the accelerators: a process that
// feeds a card needs more than one that does not.
func (t *TrainingTask) Default() {
	s := &t.Spec
	mount.Fill(s.Datasets, mount.Data)
	mount.Fill(s.Models, mount.Models)
	if s.Framework == "" {
		s.Framework = FrameworkPlain
	}
	for i := range s.Roles {
		if s.Roles[i].Replicas == 0 && len(s.Inside) > 0 {
			s.Roles[i].Replicas = len(s.Inside)
		}
		s.Roles[i].fill(len(s.Inside) > 0)
	}
	if s.Restart == nil {
		s.Restart = &RestartPolicy{}
	}
	if s.Restart.Window == 0 {
		s.Restart.Window, s.Restart.Interval = s.Restart.Interval, 0
	}
	if s.Restart.Window == 0 {
		s.Restart.Window = defaultWindow
	}
	if s.Timeouts == nil {
		s.Timeouts = &Timeouts{}
	}
	if s.Timeouts.StopGrace == 0 {
		s.Timeouts.StopGrace = DefaultStopGrace
	}
	if s.Priority == nil {
		class := s.PriorityClass
		if class == "" {
			class = defaultPriorityClass
		}
		if p, ok := PriorityClasses[class]; ok {
			s.Priority = &p
		}
	}
}

// fill fills a role; one that runs inside others has their resources and none of its own.
func (r *Role) fill(inside bool) {
	if r.Name == "" {
		r.Name = "worker"
	}
	if r.Replicas == 0 {
		r.Replicas = 1
	}
	if inside {
		return
	}
	n := r.Resources.Accelerators.Count
	if r.Resources.CPU == 0 {
		r.Resources.CPU = 1000
		if n > 0 && n <= maxAccel {
			r.Resources.CPU = MilliCPU(4000 * n)
		}
	}
	if r.Resources.Memory == 0 {
		r.Resources.Memory = 1 << 30
		if n > 0 && n <= maxAccel {
			r.Resources.Memory = Bytes(n) << 34
		}
	}
}

// Validate lists every refused field.
func (t *TrainingTask) Validate() []fault.Field {
	s := &t.Spec
	f := faults{spec: s}
	f.description("spec.description", s.Description)
	oneOf(&f, "spec.framework", s.Framework, Frameworks)
	f.strategy(s)
	f.inside(s)
	f.roles("spec.roles", s.Roles)
	f.elasticTask(s)
	f.spares(s)
	f.code("spec.code", s.Code)
	f.requirements(s)
	f.credentials("spec.credentials", s.Credentials)
	f.hyperParameters("spec.hyperParameters", s.HyperParameters)
	if s.Restart != nil {
		f.count("spec.restartPolicy.maxRestarts", s.Restart.MaxRestarts, 0, maxRestarts)
		f.span("spec.restartPolicy.window", s.Restart.Window)
	}
	f.priority(s)
	if s.Queue != "" {
		f.name("spec.queue", s.Queue)
	}
	f.zoneRules("spec.zones", s)
	f.timing(s)
	oneOf(&f, "spec.stragglers", s.Stragglers, []StragglerRule{StragglersReport, StragglersReplace})
	oneOf(&f, "spec.preflight", s.Preflight, []Preflight{PreflightOff, PreflightWarn, PreflightRequire})
	if s.Timeouts != nil {
		f.span("spec.timeouts.pending", s.Timeouts.Pending)
		f.span("spec.timeouts.run", s.Timeouts.Run)
		f.span("spec.timeouts.stopGrace", s.Timeouts.StopGrace)
	}
	if s.Framework != "" && s.Framework != FrameworkPlain {
		if i := slices.IndexFunc(s.Roles, func(r Role) bool { return r.Alone() }); i >= 0 {
			f.add(item("spec.roles", i)+".restart", "Roles restart by themselves only with framework plain: %s counts all ranks as one.", "只有 framework 为 plain 时角色才能单独重启：%s 把所有 rank 视为一个整体。", quote(string(s.Framework)))
		}
	}
	f.checkpoints(s)
	f.assets(s)
	return f.list
}

func (f *faults) roles(at string, roles []Role) {
	if len(roles) == 0 || len(roles) > maxRoles {
		f.add(at, "A task has 1 to %[2]d roles, not %[1]d; give at least one role with a command.", "任务应有 1 到 %[2]d 个角色，而不是 %[1]d 个；请至少给出一个带 command 的角色。", len(roles), maxRoles)
		return
	}
	total := 0
	seen := map[string]bool{}
	if !slices.ContainsFunc(roles, func(r Role) bool { return !r.Alone() }) {
		f.add(at+"[0].restart", "Every role has restart: role; leave it out for the one whose processes are the task.", "所有角色都设置了 restart: role；请至少让任务主体的一个角色不设置它。")
	}
	for i := range roles {
		r := &roles[i]
		path := item(at, i)
		f.role(path, r)
		if seen[r.Name] {
			f.add(path+".name", "Two roles are called %s; give each its own name.", "有两个角色都叫 %s，请使用不同的名称。", quote(r.Name))
		}
		seen[r.Name] = true
		total += min(max(r.Replicas, 0), maxReplicas+1) + min(max(r.Spares, 0), maxSpares)
	}
	if total > maxReplicas {
		f.add(at, "The roles have more than %d replicas in total; that is the most a task may have.", "各角色副本总数超过上限 %d。", maxReplicas)
	}
}

func (f *faults) role(at string, r *Role) {
	if !IsName(r.Name) || len(r.Name) > maxRoleName {
		f.add(at+".name", "%s is not a role name: use 1 to %d lower-case letters, digits and '-', such as worker.", "%s 不是合法的角色名：请使用 1 到 %d 个小写字母、数字或 '-'，例如 worker。", quote(r.Name), maxRoleName)
	}
	f.count(at+".replicas", r.Replicas, 1, maxReplicas)
	f.count(at+".ranks", r.RankCount(), 1, maxRanks)
	f.elastic(at, r)
	if !f.borrows {
		f.resources(at+".resources", &r.Resources)
	}
	f.image(at+".image", r.Image)
	f.argv(at, r)
	f.env(at+".env", r.Env)
	f.secretFiles(at+".secretFiles", r.SecretFiles)
	f.relative(at+".workingDir", r.WorkingDir)
	f.standby(at+".standby.preload", r.Standby)
	oneOf(f, at+".restart", r.Restart, []RoleRestart{RestartTask, RestartRole})
}

// standby checks the names of modules: they go, separated by commas, into an environment variable.
func (f *faults) standby(at string, s *Standby) {
	if s == nil {
		return
	}
	if len(s.Preload) > maxPreload {
		f.add(at, "%d modules are too many: at most %d may be imported ahead.", "预加载模块 %d 个过多：最多 %d 个。", len(s.Preload), maxPreload)
	}
	for i, name := range s.Preload {
		if len(name) > maxModule || !moduleName.MatchString(name) {
			f.add(at+"["+strconv.Itoa(i)+"]", "%s is not the name of a Python module, such as torch or torch.nn.", "%s 不是 Python 模块名，例如 torch 或 torch.nn。", quote(name))
		}
	}
}

func (f *faults) resources(at string, r *Resources) {
	if r.CPU < 1 || r.CPU > maxCPU {
		f.add(at+".cpu", "%s cores are out of range: 1m to %s are allowed.", "%s 核超出范围：允许 1m 到 %s。", r.CPU, maxCPU)
	}
	switch {
	case r.Memory > 0 && r.Memory < minMemory:
		f.add(at+".memory", "%[1]d bytes are less than the smallest amount, 1Mi; did you mean %[1]dGi?", "%[1]d 字节小于最小值 1Mi；您是否想写 %[1]dGi？", int64(r.Memory))
	case r.Memory < minMemory || r.Memory > maxMemory:
		f.add(at+".memory", "%s is out of range: 1Mi to 1Pi are allowed.", "%s 超出范围：允许 1Mi 到 1Pi。", r.Memory)
	}
	f.count(at+".accelerators.count", r.Accelerators.Count, 0, maxAccel)
	f.accelerators(at+".accelerators", &r.Accelerators)
	if r.SharedMemory < 0 || r.SharedMemory > max(r.Memory, 0) {
		f.add(at+".sharedMemory", "%s is out of range: shared memory is part of the memory, here 0 to %s.", "%s 超出范围：共享内存属于内存的一部分，此处允许 0 到 %s。", r.SharedMemory, max(r.Memory, 0))
	}
	if r.EphemeralDisk < 0 || r.EphemeralDisk > maxMemory {
		f.add(at+".ephemeralDisk", "%s is out of range: 0 to 1Pi are allowed.", "%s 超出范围：允许 0 到 1Pi。", r.EphemeralDisk)
	}
	if r.Processes != 0 {
		f.count(at+".processes", r.Processes, minProcesses, maxProcesses)
	}
}

func (f *faults) argv(at string, r *Role) {
	if ofImage := len(r.Command) == 0 && f.spec != nil && f.spec.Framework == FrameworkPlain && isImage(f.spec.ImageOf(r)); !ofImage && (len(r.Command) == 0 || r.Command[0] == "") {
		f.add(at+".command", "Say which program to run, as a list: [\"python\", \"train.py\"]; only with framework plain an image's own can do without.", "请以列表形式写明要运行的程序：[\"python\", \"train.py\"]；仅当 framework 为 plain 且使用镜像时，可使用镜像自带的命令。")
	}
	total := 0
	for _, part := range []struct {
		path string
		args []string
	}{{at + ".command", r.Command}, {at + ".args", r.Args}} {
		for i, a := range part.args {
			if f.Enough() {
				return
			}
			f.processText(item(part.path, i), a)
			total += len(a) + 1
		}
	}
	if total > maxArgs {
		f.add(at+".args", "Command and arguments have %d bytes; at most %d are allowed. Put long lists into a file.", "命令和参数共 %d 字节，上限为 %d 字节。请把较长的列表放入文件。", total, maxArgs)
	}
}

// processText checks a text that the kernel hands to a process.
func (f *faults) processText(at, s string) {
	switch {
	case strings.ContainsRune(s, 0):
		f.add(at, "The text holds a NUL byte, which cannot be given to a process; remove it.", "文本包含 NUL 字节，无法传给进程，请删除。")
	case !utf8.ValidString(s):
		f.add(at, "The text is not valid UTF-8.", "文本不是合法的 UTF-8 编码。")
	case len(s) > maxArg:
		f.add(at, "The text has %d bytes; Linux gives a process at most %d in one piece. Put it into a file.", "文本长度为 %d 字节，Linux 单个参数上限为 %d 字节。请放入文件。", len(s), maxArg)
	}
}

func (f *faults) env(at string, env []EnvVar) {
	if len(env) > maxEnv {
		f.add(at, "There are %d variables; at most %d are allowed.", "环境变量有 %d 个，最多允许 %d 个。", len(env), maxEnv)
		return
	}
	seen := make(map[string]bool, len(env))
	total := 0
	for i, e := range env {
		name := item(at, i) + ".name"
		switch {
		case !envName.MatchString(e.Name) || len(e.Name) > maxPath:
			f.add(name, "%s is not a variable name: use letters, digits and '_', not starting with a digit.", "%s 不是合法的环境变量名：请使用字母、数字和 '_'，且不以数字开头。", quote(e.Name))
		case strings.HasPrefix(e.Name, "FERMI_") && !strings.HasPrefix(e.Name, "FERMI_ARRAY_"): // a task of an array may be run again
			f.add(name, "Names starting with FERMI_ are set by the platform; choose another than %s.", "以 FERMI_ 开头的变量由平台设置，请更换变量名 %s。", quote(e.Name))
		case seen[e.Name]:
			f.add(name, "%s is given twice; give it once.", "%s 重复出现，请只保留一个。", quote(e.Name))
		}
		seen[e.Name] = true
		if e.ValueFrom != nil {
			f.secretRef(item(at, i)+".valueFrom", e.ValueFrom.Secret, e.ValueFrom.Key)
			if e.Value != "" {
				f.add(item(at, i)+".value", "Give a value or valueFrom, not both.", "value 与 valueFrom 只能填写一个。")
			}
		}
		f.processText(item(at, i)+".value", e.Value)
		total += len(e.Name) + len(e.Value) + 2
	}
	if total > maxEnvBytes {
		f.add(at, "The variables have %d bytes together; at most %d are allowed.", "环境变量共 %d 字节，上限为 %d 字节。", total, maxEnvBytes)
	}
}

func (f *faults) code(at string, c *Code) {
	if c == nil {
		return
	}
	given := 0
	for _, there := range []bool{c.Folder != "", c.Archive != "", c.Git != nil} {
		if there {
			given++
		}
	}
	switch {
	case given != 1:
		f.add(at, "Give exactly one of folder, archive and git, or leave code out.", "folder、archive 与 git 必须且只能填写一个，或去掉 code。")
	case c.Git != nil:
		f.git(at+".git", c.Git)
	case c.Folder != "":
		f.folder(at+".folder", c.Folder)
	case !digest.MatchString(c.Archive):
		f.add(at+".archive", "%s is not the digest of an archive: sha256: and 64 hexadecimal digits in lower case.", "%s 不是合法的代码包摘要：应为 sha256: 加 64 位小写十六进制数字。", quote(c.Archive))
	}
}

func (f *faults) hyperParameters(at string, params map[string]any) {
	if len(params) > maxParams {
		f.add(at, "There are %d hyper-parameters; at most %d are allowed.", "超参数有 %d 个，最多允许 %d 个。", len(params), maxParams)
		return
	}
	seen := make(map[string]string, len(params))
	for _, name := range sortedKeys(params) {
		path := child(at, name)
		if !paramName.MatchString(name) || len(name) > maxParamName {
			f.add(path, "%s is not a parameter name: use letters, digits, '_', '.' and '-', starting with a letter or '_'.", "%s 不是合法的超参数名：请使用字母、数字、'_'、'.' 和 '-'，并以字母或 '_' 开头。", quote(name))
		}
		variable := HyperParameterEnv(name)
		if variable == "FERMI_HP_FILE" {
			f.add(path, "%s would become the variable FERMI_HP_FILE, which names the file of all hyper-parameters; rename it.", "%s 会变成环境变量 FERMI_HP_FILE，该变量已用于超参数文件，请改名。", quote(name))
		}
		if other, ok := seen[variable]; ok {
			f.add(path, "%s and %s would both become the variable %s; rename one.", "%s 与 %s 都会变成环境变量 %s，请改名其一。", quote(name), quote(other), variable)
		}
		seen[variable] = name
		f.parameter(path, params[name])
	}
}

func (f *faults) parameter(at string, v any) {
	switch v := v.(type) {
	case bool, int, int32, int64, uint32, uint64, json.Number:
		return
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			return
		}
	case string:
		if len(v) > maxParamText || strings.ContainsRune(v, 0) {
			f.add(at, "A text has at most %d bytes and no NUL byte.", "文本最多 %d 字节，且不能包含 NUL 字节。", maxParamText)
		}
		return
	}
	f.add(at, "A hyper-parameter is a text, a finite number, true or false; write lists and objects as a text of JSON.", "超参数应为文本、有限数值或 true/false；列表和对象请写成 JSON 文本。")
}

// HyperParameterEnv is the environment variable in which a hyper-parameter reaches the process:
// "lr.max" becomes FERMI_HP_LR_MAX, "stepTime" FERMI_HP_STEP_TIME. The launcher names them the
// same way; two names that become one variable are refused.
func HyperParameterEnv(name string) string {
	lower := func(c byte) bool { return c >= 'a' && c <= 'z' }
	upper := func(c byte) bool { return c >= 'A' && c <= 'Z' }
	digit := func(c byte) bool { return c >= '0' && c <= '9' }
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case lower(c):
			b.WriteByte(c - 'a' + 'A')
		case digit(c):
			b.WriteByte(c)
		case upper(c):
			wordEnds := i > 0 && (lower(name[i-1]) || digit(name[i-1]))
			acronymEnds := i > 0 && upper(name[i-1]) && i+1 < len(name) && lower(name[i+1])
			if wordEnds || acronymEnds {
				b.WriteByte('_')
			}
			b.WriteByte(c)
		default:
			b.WriteByte('_')
		}
	}
	return "FERMI_HP_" + b.String()
}

func (f *faults) priority(s *TrainingTaskSpec) {
	class, known := PriorityClasses[s.PriorityClass]
	if s.PriorityClass != "" && !known {
		text := fault.T("%s is no priority class; known are inference (1000), training (500), environment (400), preemptible (100).", "%s 不是已知的优先级类别，可用的有 inference（1000）、training（500）、environment（400）、preemptible（100）。", quote(s.PriorityClass))
		f.Put("spec.priorityClass", "InvalidField", suggest(text, s.PriorityClass, sortedKeys(PriorityClasses)))
	}
	if s.Priority == nil {
		return
	}
	f.count("spec.priority", *s.Priority, 0, maxPriority)
	if known && *s.Priority != class {
		f.add("spec.priority", "The priority %d contradicts the class %s, which is %d; give one of the two.", "优先级 %d 与类别 %s（%d）矛盾，请只填写其中一个。", *s.Priority, s.PriorityClass, class)
	}
}

// image checks the form of a name; what is there is known when a node asks the registry.
func (f *faults) image(at, image string) {
	switch {
	case image == "" || image == ImageHost:
	case f.borrows:
		f.add(at, "A task inside environments runs in theirs: leave the image out.", "在已有环境中运行的任务使用环境的镜像：请勿填写镜像。")
	case len(image) > maxImage || !isImage(image):
		f.add(at, "%s is not the name of an image: use name:tag, registry/name:tag or name@sha256:… in lower case, or host for the node's own system.",
			"%s 不是镜像名称：请使用 name:tag、registry/name:tag 或 name@sha256:…（小写），或用 host 表示节点自身的系统。", quote(image))
	}
}

// maxImage bounds a name with its registry, tag and digest.
const maxImage = 512

// imageName is the grammar of references: a registry, a path in lower case, a tag and a digest.
var imageName = pattern.New(`^((localhost|[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+|[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*:[0-9]{1,5}|localhost:[0-9]{1,5}|\[[0-9a-fA-F:]+\](:[0-9]{1,5})?)/)?` +
	`[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?$`)

// isImage takes what the grammar and the client of registries both do.
func isImage(image string) bool {
	_, err := name.ParseReference(image)
	return err == nil && imageName.MatchString(image)
}

func (f *faults) assets(s *TrainingTaskSpec) {
	f.image("spec.image", s.Image)
	f.list = append(f.list, mount.Check("spec", s.Datasets, s.Models)...)
	if s.Outputs == nil {
		return
	}
	f.list = append(f.list, s.Outputs.Check("spec.outputs")...)
	f.relative("spec.outputs.logs", s.Outputs.Logs)
	f.span("spec.outputs.keep", s.Outputs.Keep)
}
