package cli

import (
	"context"
	"encoding/json"
	"path"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func (a *app) trainRunCommand() *cobra.Command {
	r := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARG...]",
		Short: Both("Run a command as a training task and follow it", "将命令作为训练任务运行并跟踪"),
		Long: Both(`Packs the current folder, submits the command as a training task, follows its log and ends with the
task's exit code. Ctrl-C asks whether to stop the task or to detach from it; a second Ctrl-C detaches
at once. Without a terminal Ctrl-C detaches. After a detach the exit code is 130.`,
			`打包当前文件夹，将命令提交为训练任务，跟踪其日志，并以任务的退出码结束。Ctrl-C 会询问停止任务还是
脱离跟踪；再按一次 Ctrl-C 立即脱离。没有终端时 Ctrl-C 直接脱离。脱离后的退出码为 130。`),
		Example: "  fermi train run -- python train.py\n  fermi train run --no-code --hp steps=500 -- fermi sample train",
		Args:    needArgs(1, -1, "-- COMMAND [ARG...]"),
	}
	r.add(cmd)
	// Flags end at the first word of the command, so that its own flags are left alone.
	cmd.Flags().SetInterspersed(false)
	cmd.RunE = a.online(func(ctx context.Context, s *session, args []string) error { return s.trainRun(ctx, r, args) })
	return cmd
}

func (s *session) trainRun(ctx context.Context, r *runFlags, argv []string) error {
	task, err := r.task(s.cmd, s.project(api.KindTrainingTask), argv)
	if err != nil {
		return err
	}
	if r.noCode && r.code != "" {
		return usage(s.cmd, fault.T("--code and --no-code contradict each other.", "--code 与 --no-code 互相矛盾。"))
	}
	if r.git.URL != "" {
		if r.noCode || r.code != "" {
			return usage(s.cmd, fault.T("--git brings the code; leave --code and --no-code out.", "--git 已提供代码，请去掉 --code 和 --no-code。"))
		}
		task.Spec.Code = &api.Code{Git: &r.git}
	} else if r.git != (api.Git{}) {
		return usage(s.cmd, fault.T("--revision, --submodules and --git-secret belong to --git.", "--revision、--submodules 和 --git-secret 需与 --git 一起使用。"))
	}
	if err := s.tellInside(ctx, task); err != nil {
		return err
	}
	if isFolder(r.from) { // what is wrong with it is said before there is a task
		if _, err := slotsIn(r.from); err != nil {
			return err
		}
	}
	if r.dryRun {
		// Without its code: a check uploads nothing.
		made, err := s.client.Submit(ctx, task, true)
		if err != nil {
			return err
		}
		if made.Task == nil {
			made.Task = task
		}
		if s.structured() {
			return s.data(manifest{made.Task})
		}
		s.tell(outcome{Kind: api.KindTrainingTask, Name: first(made.Name, made.Task.Meta.DisplayName), Result: "created", DryRun: true})
		if len(task.Spec.Inside) > 0 {
			return nil // its place is theirs, and is told
		}
		return s.preview(ctx, task)
	}
	if !r.noCode && task.Spec.Code == nil {
		// What is wrong is said before anything is packed and sent.
		if _, err := s.client.Submit(ctx, task, true); err != nil {
			return err
		}
		code, err := s.ship(ctx, first(r.code, "."))
		if err != nil {
			return err
		}
		task.Spec.Code = &api.Code{Archive: code.Digest}
	}
	// A Ctrl-C now must not leave us in doubt whether there is a task: the answer is awaited, and
	// follow asks what to do.
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	made, err := s.client.Submit(sending, task, false)
	if err != nil {
		return err
	}
	if made.Task != nil {
		task = made.Task
	} else {
		task.Meta.Name, task.Meta.ID = made.Name, made.TaskID
	}
	s.say("Task %s submitted.", "任务 %s 已提交。", task.Meta.Name)
	if isFolder(r.from) {
		if err := s.bring(ctx, task.Meta.Name, r.from); err != nil {
			s.say("The task waits for its checkpoint: fermi train checkpoints %[1]s --import %[2]s; or delete it: fermi delete task %[1]s",
				"任务仍在等待检查点：fermi train checkpoints %[1]s --import %[2]s；或删除任务：fermi delete task %[1]s", task.Meta.Name, r.from)
			return err
		}
	}
	if r.detach {
		if s.structured() {
			return s.data(manifest{task})
		}
		putLine(s.out, task.Meta.Name)
		s.howTo(task)
		return nil
	}
	return s.follow(ctx, task)
}

func (s *session) howTo(t *api.TrainingTask) {
	name := t.Meta.Name
	if t.Meta.Project != "" && t.Meta.Project != "default" {
		name = "--project " + t.Meta.Project + " " + name
	}
	s.say("Follow it with: fermi logs -f %s", "跟踪日志：fermi logs -f %s", name)
	s.say("Stop it with:   fermi train stop %s", "停止任务：fermi train stop %s", name)
}

// title makes a display name out of a command: at most 64 characters that are allowed in one.
func title(argv []string) string {
	words := append([]string{path.Base(argv[0])}, argv[1:]...)
	s := strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.Join(words, " "))), " ")
	if runes := []rune(s); len(runes) > 64 {
		s = strings.TrimSpace(string(runes[:63])) + "…"
	}
	return first(s, "task")
}

// scalar reads a hyper-parameter: a JSON number or boolean where it is one, otherwise text.
func scalar(v string) any {
	switch v {
	case "true":
		return true
	case "false":
		return false
	}
	if v == "" || !(v[0] == '-' || (v[0] >= '0' && v[0] <= '9')) {
		return v
	}
	var n json.Number
	if json.Unmarshal([]byte(v), &n) == nil {
		return n
	}
	return v
}
