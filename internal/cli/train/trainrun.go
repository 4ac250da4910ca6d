package train

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/array"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/here"
	"github.com/fermi-cluster/fermi/internal/cli/logs"
	"github.com/fermi-cluster/fermi/internal/cli/object"
	"github.com/fermi-cluster/fermi/internal/cli/ship"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func trainRunCommand(a *call.Shell) *cobra.Command {
	r := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARG...]",
		Short: speech.Both("Run a command as a training task and follow it", "将命令作为训练任务运行并跟踪"),
		Long: speech.Both(`Packs the current folder, submits the command as a training task, follows its log and ends with the
task's exit code. Ctrl-C asks whether to stop the task or to detach from it; a second Ctrl-C detaches
at once. Without a terminal Ctrl-C detaches. After a detach the exit code is 130.`,
			`打包当前文件夹，将命令提交为训练任务，跟踪其日志，并以任务的退出码结束。Ctrl-C 会询问停止任务还是
脱离跟踪；再按一次 Ctrl-C 立即脱离。没有终端时 Ctrl-C 直接脱离。脱离后的退出码为 130。`),
		Example: "  fermi train run -- python train.py\n  fermi train run -f task.yaml --gpus 4 --hp lr=0.1\n  fermi train run --no-code --hp steps=500 -- fermi sample train",
		Args:    cobra.ArbitraryArgs,
	}
	r.add(cmd)
	cmd.Flags().StringVarP(&r.file, "filename", "f", "", speech.Both("begin with the task of this manifest; flags and a command change it; - is stdin", "以该清单中的任务为基础，由参数和命令修改；- 表示标准输入"))
	// Flags end at the first word of the command, so that its own flags are left alone.
	cmd.Flags().SetInterspersed(false)
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, args []string) error {
		task := &api.TrainingTask{Meta: api.Meta{Project: s.Project(api.KindTrainingTask)}}
		if r.file != "" {
			var err error
			if task, err = taskIn(s, r.file); err != nil {
				return err
			}
		} else if len(args) == 0 && r.image == "" { // an image may bring a command
			return usage.Wrong(cmd, fault.T("Missing: %s.", "缺少参数：%s。", "-- COMMAND [ARG...]"))
		}
		return trainRun(ctx, s, r, task, args, task.Spec.Code == nil && (len(args) > 0 || r.file != ""))
	})
	return cmd
}

func trainRerunCommand(a *call.Shell) *cobra.Command {
	r := &runFlags{}
	cmd := &cobra.Command{
		Use:   "rerun NAME [flags] [-- COMMAND [ARG...]]",
		Short: speech.Both("Run a task again, also one that failed or is long over, with what the flags change", "再次运行任务（包括失败或早已结束的），可用参数修改"),
		Long: speech.Both(`Submits a new task like NAME, with the same code unless --code or --git brings another, and follows it. Only what flags
and a command say is changed.`,
			`提交一个与 NAME 相同的新任务并跟踪；除非用 --code 或 --git 提供新代码，否则使用相同代码。只有参数和命令指明的内容会改变。`),
		Example: "  fermi train rerun gpt-7x2k9\n  fermi train rerun gpt-7x2k9 --code . --hp lr=0.01 --gpus 4",
		Args:    usage.Need(1, -1, "NAME"),
	}
	r.add(cmd)
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, args []string) error {
		old, err := client.Get[*api.TrainingTask](ctx, s.Client, s.Project(api.KindTrainingTask), logs.Bare(args[0]))
		if err != nil {
			return err
		}
		return trainRun(ctx, s, r, again(old), args[1:], false)
	})
	return cmd
}

// again is a new task that is like an old one.
func again(old *api.TrainingTask) *api.TrainingTask {
	t := &api.TrainingTask{Meta: api.Meta{DisplayName: old.Meta.DisplayName, Project: old.Meta.Project, Labels: old.Meta.Labels}, Spec: old.Spec}
	t.Spec.Stop, t.Spec.Restore = false, nil
	if c := t.Spec.Checkpoint; c != nil && c.From != nil && c.From.Upload && old.Status.From != nil { // nobody need upload it again
		c.From = &api.CheckpointFrom{Task: old.Meta.ID, Step: old.Status.From.Step}
	}
	return t
}

// settle puts the flags over a task and reports all that is wrong at once: what can't be read here, and what the server
// refuses of the rest.
func settle(ctx context.Context, s *call.Session, r *runFlags, task *api.TrainingTask, argv []string, pack bool) error {
	fresh := len(task.Spec.Roles) == 0
	bad := r.over(s.Cmd, task, argv)
	if fresh && len(r.inside) == 0 && !s.Cmd.Flags().Changed("image") {
		if err := here.Take(ctx, s.Client, os.Getenv("FERMI_TOKEN") == "" && s.Flags.TokenFile == "" && here.Token(s.Server()) != "", task); err != nil {
			return err
		}
	}
	if r.noCode && r.code != "" && len(r.inside) == 0 {
		bad.Add("--no-code", fault.T("It contradicts --code.", "与 --code 互相矛盾。"))
	}
	if r.git.URL != "" {
		if r.noCode || r.code != "" {
			bad.Add("--git", fault.T("It brings the code; leave --code and --no-code out.", "已提供代码，请去掉 --code 和 --no-code。"))
		}
		task.Spec.Code = &api.Code{Git: &r.git}
	} else if r.git != (api.Git{}) {
		bad.Add("--git", fault.T("Missing: --revision, --submodules and --git-secret belong to it.", "缺少该参数：--revision、--submodules 和 --git-secret 需与它一起使用。"))
	}
	if r.noCode {
		task.Spec.Code = nil
	}
	r.require(task, pack, &bad)
	if len(bad) == 0 && r.packs(task, pack) == "" {
		return nil // it is sent at once
	}
	// What is wrong is said before anything is packed and sent.
	trial := *task
	if r.packs(task, pack) != "" {
		trial.Spec.Code = nil
	}
	_, err := s.Client.Submit(ctx, &trial, true)
	if err != nil && len(bad) == 0 {
		return asFlags(s, r, err)
	}
	if len(bad) == 0 {
		return nil
	}
	if fault.CodeOf(err) == fault.Invalid {
		for _, f := range fault.From(asFlags(s, r, err)).Fields {
			if !slices.ContainsFunc(bad, func(b fault.Field) bool { return b.Path == f.Path }) { // what can't be read is missing there too
				bad = append(bad, f)
			}
		}
	}
	return fault.From(usage.Wrong(s.Cmd, fault.T("The command line has %d [mistake|mistakes].", "命令行参数有 %d 处错误。", len(bad)))).WithFields(bad...)
}

// fieldFlags are the flags behind the fields of a task, as people gave them.
var fieldFlags = strings.NewReplacer(
	"spec.roles[0].resources.accelerators.count", "--gpus", "spec.roles[0].resources.accelerators.type", "--gpu-type",
	"spec.roles[0].resources.cpu", "--cpu", "spec.roles[0].resources.memory", "--memory", "spec.roles[0].resources.ephemeralDisk", "--ephemeral-disk", "spec.roles[0].resources.processes", "--processes", "spec.roles[0].replicas", "--replicas",
	"spec.roles[0].ranks", "--ranks", "spec.roles[0].spares", "--spares", "spec.roles[0].env", "--env", "spec.priorityClass", "--priority-class", "spec.priority", "--priority",
	"spec.queue", "--queue", "spec.framework", "--framework", "spec.image", "--image", "spec.zones.allow", "--zone", "spec.zones.split", "--split", "spec.zones.spot", "--spot", "spec.zones", "--zone", "metadata.name", "--name",
	"metadata.displayName", "--display-name", "metadata.project", "--project", "spec.timeouts.run", "--timeout", "spec.hyperParameters", "--hp",
	"spec.expectedTime", "--expected-time", "spec.credentials", "--credential", "spec.code.git.secret", "--git-secret", "spec.code.git.url", "--git",
	"spec.code.requirements", "--requirements", "spec.checkpoint.from", "--from", "spec.inside", "--inside", "spec.restartPolicy.maxRestarts", "--restarts", "spec.indexes", "--array", "spec.atOnce", "--array",
)

// asFlags is a refusal of the server in the words of the command line.
func asFlags(s *call.Session, r *runFlags, err error) error {
	var refused *fault.Error
	if r.file != "" || !errors.As(err, &refused) || len(refused.Fields) == 0 {
		return err
	}
	out := *refused
	out.Fields = make([]fault.Field, len(refused.Fields))
	for i, f := range refused.Fields {
		out.Fields[i] = fault.Field{Path: fieldFlags.Replace(f.Path), Message: f.Message}
	}
	out.Hint = fault.Text{EN: fieldFlags.Replace(refused.Hint.EN), ZH: fieldFlags.Replace(refused.Hint.ZH)}
	out.Message = fault.Text{EN: fieldFlags.Replace(refused.Message.EN), ZH: fieldFlags.Replace(refused.Message.ZH)}
	return &out
}

// trainRun submits a task with what the flags say and follows it. pack: the current folder is its code unless something
// else is said.
func trainRun(ctx context.Context, s *call.Session, r *runFlags, task *api.TrainingTask, argv []string, pack bool) error {
	if err := settle(ctx, s, r, task, argv, pack); err != nil {
		return err
	}
	if err := tellInside(ctx, s, task); err != nil {
		return err
	}
	if isFolder(r.saves.From) { // what is wrong with it is said before there is a task
		if _, err := slotsIn(r.saves.From); err != nil {
			return err
		}
	}
	if r.dryRun {
		// Without its code: a check uploads nothing.
		made, err := s.Client.Submit(ctx, task, true)
		if err != nil {
			return asFlags(s, r, err)
		}
		if made.Task == nil {
			made.Task = task
		}
		if s.Structured() {
			return s.Data(call.Manifest{Obj: made.Task})
		}
		object.Tell(s, object.Outcome{Kind: api.KindTrainingTask, Name: call.First(made.Name, made.Task.Meta.DisplayName), Result: "created", DryRun: true})
		if len(task.Spec.Inside) > 0 {
			return nil // its place is theirs, and is told
		}
		return preview(ctx, s, task)
	}
	if dir := r.packs(task, pack); dir != "" {
		code, err := ship.Ship(ctx, s, dir)
		if err != nil {
			return err
		}
		before := task.Spec.Code
		task.Spec.Code = &api.Code{Archive: code.Digest}
		if before != nil {
			task.Spec.Code.Requirements = before.Requirements
		}
		offerRequirements(s, task, dir)
	}
	// A Ctrl-C now must not leave us in doubt whether there is a task: the answer is awaited, and
	// follow asks what to do.
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if r.array != "" {
		a, err := client.Create(sending, s.Client, array.Of(task, r.array))
		if err != nil {
			return asFlags(s, r, err)
		}
		s.Say("Array %[1]s submitted: fermi array show %[1]s", "任务阵列 %[1]s 已提交：fermi array show %[1]s", a.Meta.Name)
		show.Line(s.Out, a.Meta.Name)
		return nil
	}
	made, err := s.Client.Submit(sending, task, false)
	if err != nil {
		return asFlags(s, r, err)
	}
	if made.Task != nil {
		task = made.Task
	} else {
		task.Meta.Name, task.Meta.ID = made.Name, made.TaskID
	}
	s.Say("Task %s submitted.", "任务 %s 已提交。", task.Meta.Name)
	tellNominal(ctx, s, task)
	if isFolder(r.saves.From) {
		if err := bringSlots(ctx, s, task.Meta.Name, r.saves.From); err != nil {
			s.Say("The task waits for its checkpoint: fermi train checkpoints %[1]s --import %[2]s; or delete it: fermi delete task %[1]s",
				"任务仍在等待检查点：fermi train checkpoints %[1]s --import %[2]s；或删除任务：fermi delete task %[1]s", task.Meta.Name, r.saves.From)
			return err
		}
	}
	if r.detach {
		if s.Structured() {
			return s.Data(call.Manifest{Obj: task})
		}
		show.Line(s.Out, task.Meta.Name)
		howTo(s, task)
		return nil
	}
	return follow(ctx, s, task)
}

// packs is the folder to send along; "": none.
func (r *runFlags) packs(task *api.TrainingTask, pack bool) string {
	switch {
	case r.noCode || r.git.URL != "":
		return ""
	case r.code != "":
		return r.code
	case pack && !object.HasCode(task):
		return "."
	}
	return ""
}

// require notes which packages the code needs.
func (r *runFlags) require(task *api.TrainingTask, pack bool, bad *usage.Faults) {
	if r.requirements == "" {
		return
	}
	const flag = "--requirements"
	dir := r.packs(task, pack)
	switch {
	case dir == "" && !object.HasCode(task):
		bad.Add(flag, fault.T("It names a file in the code, and there is none.", "它指代码中的文件，但任务没有代码。"))
		return
	case dir != "" && !filepath.IsLocal(r.requirements):
		bad.Add(flag, fault.T("It names a file in the code, relative to its folder.", "应为代码中的文件，相对于代码文件夹。"))
	case dir != "":
		if info, err := os.Stat(filepath.Join(dir, r.requirements)); err != nil || info.IsDir() {
			bad.Add(flag, fault.T("There is no file %s in the code.", "代码中没有文件 %s。", r.requirements))
		}
	}
	if role := task.Spec.Roles[0]; len(role.Command) > 0 && !isPython(role.Command[0]) {
		bad.Add(flag, fault.T("Packages are installed for commands that begin with python.", "仅为以 python 开头的命令安装。"))
	}
	if task.Spec.Image != "" {
		bad.Add(flag, fault.T("Packages are installed on the node's own system only; build them into the image.", "仅支持在节点自身系统上安装；请将包构建到镜像中。"))
	}
	code := api.Code{}
	if task.Spec.Code != nil {
		code = *task.Spec.Code
	}
	code.Requirements = filepath.ToSlash(filepath.Clean(r.requirements))
	task.Spec.Code = &code
}

func isPython(command string) bool {
	name := path.Base(command)
	return name == "python" || strings.HasPrefix(name, "python3")
}

// offerRequirements says how packages are installed, where the code names some and the task does not.
func offerRequirements(s *call.Session, t *api.TrainingTask, dir string) {
	role := t.Spec.Roles[0]
	if t.Spec.Code.Requirements != "" || t.Spec.Image != "" || len(role.Command) == 0 || !isPython(role.Command[0]) {
		return
	}
	for _, name := range []string{"requirements.txt", "pyproject.toml"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			s.Say("The code has a %[1]s: with --requirements %[1]s its packages are installed before the start.", "代码中有 %[1]s：加上 --requirements %[1]s 可在启动前安装其中的包。", name)
			return
		}
	}
}

// tellNominal says once that nothing stands behind what was asked for, where that is so.
func tellNominal(ctx context.Context, s *call.Session, t *api.TrainingTask) {
	if len(t.Spec.Inside) > 0 {
		return
	}
	found, virtual := 0, 0
	err := s.Client.Walk(ctx, api.KindZone, client.ListOptions{Limit: 500}, func(o api.Object) bool {
		z := o.(*api.Zone)
		if rules := t.Spec.Zones; rules == nil || len(rules.Allow) == 0 || slices.Contains(rules.Allow, z.Meta.Name) {
			if found++; z.Spec.Virtual {
				virtual++
			}
		}
		return true
	})
	if err == nil && found > 0 && found == virtual {
		s.Say("The nodes are virtual: cores, memory and devices are nominal; the work runs as processes of the server's machine.",
			"节点为虚拟节点：CPU、内存和加速卡均为名义值，任务以服务器所在机器的进程运行。")
	}
}

func howTo(s *call.Session, t *api.TrainingTask) {
	name := t.Meta.Name
	if s.Listed(api.KindTrainingTask) != "" && t.Meta.Project != api.DefaultProject {
		name = "--project " + t.Meta.Project + " " + name
	}
	s.Say("Follow it with: fermi logs -f %s", "跟踪日志：fermi logs -f %s", name)
	s.Say("Stop it with:   fermi train stop %s", "停止任务：fermi train stop %s", name)
}
