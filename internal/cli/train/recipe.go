package train

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/object"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func trainRecipeCommand(a *call.Shell) *cobra.Command {
	var file, dir string
	cmd := &cobra.Command{
		Use: "recipe -f FILE", Short: speech.Both("Show what a framework makes of a task", "查看框架为任务生成的内容"), Args: usage.Need(0, 0, ""),
		Long:    speech.Both("Shows environment, files and commands of a task without submitting it.", "查看任务的环境变量、文件与命令，不提交任务。"),
		Example: "  fermi train recipe -f task.yaml\n  fermi train recipe -f task.yaml --download ./recipe",
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", speech.Both("manifest of the task, - for stdin", "任务清单，- 表示标准输入"))
	cmd.Flags().StringVar(&dir, "download", "", speech.Both("write the files into this folder", "将文件写入此文件夹"))
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, _ []string) error {
		task, err := taskIn(s, file)
		if err != nil {
			return err
		}
		made, err := s.Client.Recipe(ctx, task)
		if err != nil {
			return err
		}
		if dir != "" {
			return saveRecipe(s, dir, made.Files)
		}
		if s.Structured() {
			return s.Data(made)
		}
		showRecipe(s, made)
		return nil
	})
	return cmd
}

// taskIn reads the one training task of a file.
func taskIn(s *call.Session, file string) (*api.TrainingTask, error) {
	if file == "" {
		return nil, usage.Wrong(s.Cmd, fault.T("Say which file holds the task: -f FILE.", "请用 -f FILE 指定任务清单。"))
	}
	objs, err := object.ReadManifests(s.Cmd.InOrStdin(), []string{file})
	if err != nil {
		return nil, err
	}
	task, ok := objs[0].(*api.TrainingTask)
	if !ok || len(objs) != 1 {
		return nil, fault.New(fault.Invalid, "NotATask", fault.T("%s must hold one TrainingTask.", "%s 应只包含一个 TrainingTask。", file))
	}
	if task.Meta.Project == "" {
		task.Meta.Project = s.Project(api.KindTrainingTask)
	}
	return task, nil
}

func showRecipe(s *call.Session, r api.Recipe) {
	z := r.Sizes
	show.Line(s.Out, s.T("%s: %d [process|processes] in %d [replica|replicas]", "%s：%d 个进程，%d 个副本", r.Framework, r.RankCount, z.Nodes))
	if r.Strategy != "" {
		show.Line(s.Out, s.T("strategy %s: data %d × pipeline %d × tensor %d", "策略 %s：data %d × pipeline %d × tensor %d", r.Strategy, z.Data, z.Pipeline, z.Tensor))
	}
	for _, w := range r.Warnings {
		show.Line(s.Out, show.Clean(s.T("warning: ", "警告：")+w.In(s.Lang)))
	}
	for _, rank := range r.Ranks {
		show.Line(s.Out, "")
		show.Line(s.Out, show.Clean(fmt.Sprintf("%s-%d, %s %d, %s", rank.Role, rank.Replica, s.T("process", "进程"), rank.Rank, rank.Backend)))
		for _, e := range rank.Env {
			show.Line(s.Out, show.Clean("  "+e.Name+"="+e.Value))
		}
		if len(rank.Command) > 0 {
			show.Line(s.Out, show.Clean("  $ "+strings.Join(rank.Command, " ")))
		}
	}
	if more := r.RankCount - len(r.Ranks); more > 0 {
		show.Line(s.Out, s.T("… and %d more", "…… 另有 %d 个", more))
	}
	for _, f := range r.Files {
		show.Line(s.Out, "")
		show.Line(s.Out, show.Clean("── "+f.Name))
		for line := range strings.Lines(f.Text) {
			show.Line(s.Out, show.Clean(strings.TrimSuffix(line, "\n")))
		}
	}
}

// saveRecipe writes the files below dir and nowhere else, whatever they are called.
func saveRecipe(s *call.Session, dir string, files []api.RecipeFile) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return call.BadFile(dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return call.BadFile(dir, err)
	}
	defer root.Close()
	for _, f := range files {
		if err := root.WriteFile(f.Name, []byte(f.Text), 0o644); err != nil {
			return call.BadFile(filepath.Join(dir, f.Name), err)
		}
		show.Line(s.Out, show.Clean(filepath.Join(dir, f.Name)))
	}
	if len(files) == 0 {
		s.Say("This recipe has no files.", "此启动方式没有文件。")
	}
	return nil
}
