package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func (a *app) trainRecipeCommand() *cobra.Command {
	var file, dir string
	cmd := &cobra.Command{
		Use: "recipe -f FILE", Short: Both("Show what a framework makes of a task", "查看框架为任务生成的内容"), Args: needArgs(0, 0, ""),
		Long:    Both("Shows environment, files and commands of a task without submitting it.", "查看任务的环境变量、文件与命令，不提交任务。"),
		Example: "  fermi train recipe -f task.yaml\n  fermi train recipe -f task.yaml --download ./recipe",
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", Both("manifest of the task, - for stdin", "任务清单，- 表示标准输入"))
	cmd.Flags().StringVar(&dir, "download", "", Both("write the files into this folder", "将文件写入此文件夹"))
	cmd.RunE = a.online(func(ctx context.Context, s *session, _ []string) error {
		task, err := s.taskIn(file)
		if err != nil {
			return err
		}
		made, err := s.client.Recipe(ctx, task)
		if err != nil {
			return err
		}
		if dir != "" {
			return s.saveRecipe(dir, made.Files)
		}
		if s.structured() {
			return s.data(made)
		}
		s.showRecipe(made)
		return nil
	})
	return cmd
}

// taskIn reads the one training task of a file.
func (s *session) taskIn(file string) (*api.TrainingTask, error) {
	if file == "" {
		return nil, usage(s.cmd, fault.T("Say which file holds the task: -f FILE.", "请用 -f FILE 指定任务清单。"))
	}
	objs, err := readManifests(s.cmd.InOrStdin(), []string{file})
	if err != nil {
		return nil, err
	}
	task, ok := objs[0].(*api.TrainingTask)
	if !ok || len(objs) != 1 {
		return nil, fault.New(fault.Invalid, "NotATask", fault.T("%s must hold one TrainingTask.", "%s 应只包含一个 TrainingTask。", file))
	}
	if task.Meta.Project == "" {
		task.Meta.Project = s.project(api.KindTrainingTask)
	}
	return task, nil
}

func (s *session) showRecipe(r api.Recipe) {
	z := r.Sizes
	putLine(s.out, s.t("%s: %d [process|processes] in %d [replica|replicas]", "%s：%d 个进程，%d 个副本", r.Framework, r.RankCount, z.Nodes))
	if r.Strategy != "" {
		putLine(s.out, s.t("strategy %s: data %d × pipeline %d × tensor %d", "策略 %s：data %d × pipeline %d × tensor %d", r.Strategy, z.Data, z.Pipeline, z.Tensor))
	}
	for _, w := range r.Warnings {
		putLine(s.out, clean(s.t("warning: ", "警告：")+w.In(s.lang)))
	}
	for _, rank := range r.Ranks {
		putLine(s.out, "")
		putLine(s.out, clean(fmt.Sprintf("%s-%d, %s %d, %s", rank.Role, rank.Replica, s.t("process", "进程"), rank.Rank, rank.Backend)))
		for _, e := range rank.Env {
			putLine(s.out, clean("  "+e.Name+"="+e.Value))
		}
		if len(rank.Command) > 0 {
			putLine(s.out, clean("  $ "+strings.Join(rank.Command, " ")))
		}
	}
	if more := r.RankCount - len(r.Ranks); more > 0 {
		putLine(s.out, s.t("… and %d more", "…… 另有 %d 个", more))
	}
	for _, f := range r.Files {
		putLine(s.out, "")
		putLine(s.out, clean("── "+f.Name))
		for line := range strings.Lines(f.Text) {
			putLine(s.out, clean(strings.TrimSuffix(line, "\n")))
		}
	}
}

// saveRecipe writes the files below dir and nowhere else, whatever they are called.
func (s *session) saveRecipe(dir string, files []api.RecipeFile) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return badFile(dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return badFile(dir, err)
	}
	defer root.Close()
	for _, f := range files {
		if err := root.WriteFile(f.Name, []byte(f.Text), 0o644); err != nil {
			return badFile(filepath.Join(dir, f.Name), err)
		}
		putLine(s.out, clean(filepath.Join(dir, f.Name)))
	}
	if len(files) == 0 {
		s.say("This recipe has no files.", "此启动方式没有文件。")
	}
	return nil
}
