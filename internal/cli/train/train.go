package train

import (
	"context"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/curve"
	"github.com/fermi-cluster/fermi/internal/cli/download"
	"github.com/fermi-cluster/fermi/internal/cli/logs"
	"github.com/fermi-cluster/fermi/internal/cli/object"
	"github.com/fermi-cluster/fermi/internal/cli/pack"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func Command(a *call.Shell) *cobra.Command {
	return usage.Group("train", speech.Both("Training tasks", "训练任务"),
		trainRunCommand(a), trainRerunCommand(a),
		object.ListCommand(a, api.KindTrainingTask, "list", speech.Both("List training tasks", "列出训练任务")),
		trainStopCommand(a), trainMoveCommand(a), trainCloneCommand(a), trainOutputsCommand(a), trainCheckpointsCommand(a), trainRestoreCommand(a), trainRecipeCommand(a), trainFaultCommand(a), trainProfileCommand(a),
		curve.Command(speech.Both, func(do func(context.Context, *curve.Shell, []string) error) func(*cobra.Command, []string) error {
			return a.Online(func(ctx context.Context, s *call.Session, args []string) error {
				args[0] = logs.Bare(args[0])
				return do(ctx, &curve.Shell{
					Read: s.Client.Raw, Project: s.Project(api.KindTrainingTask), Out: s.Out, Output: s.Flags.Output, Width: show.ScreenOf(s.Out).Width, T: s.T, Data: s.Data, Clean: show.Clean,
				}, args)
			})
		}))
}

func trainStopCommand(a *call.Shell) *cobra.Command {
	var sure call.Insist
	cmd := &cobra.Command{Use: "stop NAME...", Short: speech.Both("End tasks; their outputs are kept", "停止任务；输出会保留"), Args: usage.Need(1, -1, "NAME...")}
	sure.Add(cmd)
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, args []string) error {
		for _, name := range args {
			name = logs.Bare(name)
			if err := sure.Run(s, func(opts ...client.Option) error {
				return s.Client.Stop(ctx, s.Project(api.KindTrainingTask), name, opts...)
			}); err != nil {
				return err
			}
			show.Line(s.Out, "task/"+name+" "+s.T("is being stopped", "正在停止"))
		}
		return nil
	})
	return cmd
}

func trainCloneCommand(a *call.Shell) *cobra.Command {
	var name, display string
	cmd := &cobra.Command{Use: "clone NAME", Short: speech.Both("Submit the same work again", "以相同配置再次提交"), Args: usage.Need(1, 1, "NAME")}
	cmd.Flags().StringVar(&name, "name", "", speech.Both("name of the new task", "新任务名称"))
	cmd.Flags().StringVar(&display, "display-name", "", speech.Both("name shown to people", "显示名"))
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, args []string) error {
		made, err := s.Client.Clone(ctx, s.Project(api.KindTrainingTask), logs.Bare(args[0]), name, display)
		if err != nil {
			return err
		}
		if s.Structured() && made.Task != nil {
			return s.Data(call.Manifest{Obj: made.Task})
		}
		object.Tell(s, object.Outcome{Kind: api.KindTrainingTask, Name: made.Name, Result: "created"})
		return nil
	})
	return cmd
}

var outputColumns = []show.Column{show.Col("PATH", "路径"), show.Number("SIZE", "大小"), show.Fixed("MODIFIED", "修改时间")}

func trainOutputsCommand(a *call.Shell) *cobra.Command {
	var dir string
	var unverified bool
	cmd := &cobra.Command{
		Use: "outputs NAME", Short: speech.Both("List or fetch what a task left", "列出或下载任务输出"), Args: usage.Need(1, 1, "NAME"),
		Example: "  fermi train outputs gpt-7x2k9 --get ./results",
	}
	cmd.Flags().StringVar(&dir, "get", "", speech.Both("fetch all files into this folder", "将全部文件下载到此文件夹"))
	cmd.Flags().BoolVar(&unverified, "unverified", false, speech.Both("with --get: take files as they are on the server's disk, damaged or not", "配合 --get：按服务器磁盘上的原样取出，即使已损坏"))
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, args []string) error {
		project := s.Project(api.KindTrainingTask)
		args[0] = logs.Bare(args[0])
		outs, err := s.Client.Outputs(ctx, project, args[0])
		if err != nil {
			return err
		}
		if dir != "" {
			return fetchOutputs(ctx, s, project, args[0], dir, outs, unverified)
		}
		if s.Structured() {
			if outs == nil {
				outs = []client.Output{}
			}
			return s.Data(map[string]any{"items": outs})
		}
		if len(outs) == 0 {
			s.Say("The task left no files.", "任务没有输出文件。")
			return nil
		}
		rows := make([][]show.Cell, len(outs))
		for i, o := range outs {
			if s.Flags.Output == "name" {
				show.Line(s.Out, show.Clean(o.Path))
			}
			rows[i] = []show.Cell{show.Text(o.Path), show.Text(show.Size(o.Size)), show.Text(s.Ago(o.Modified))}
		}
		if s.Flags.Output == "name" {
			return nil
		}
		return show.Write(s.Out, outputColumns, rows, s.Lang, show.ScreenOf(s.Out))
	})
	return cmd
}

// fetchOutputs writes every file below dir. The names come from elsewhere: nothing is written
// outside dir, whatever they say.
func fetchOutputs(ctx context.Context, s *call.Session, project, task, dir string, outs []client.Output, unverified bool) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return call.BadFile(dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return call.BadFile(dir, err)
	}
	defer root.Close()
	var total int64
	for _, o := range outs {
		total += o.Size
	}
	bar := s.Progress(s.T("fetching", "下载"), total)
	defer bar.Done()
	for _, o := range outs {
		if !filepath.IsLocal(filepath.FromSlash(o.Path)) || path.Clean(o.Path) != o.Path {
			return fault.New(fault.Internal, "BadOutputPath", fault.T(
				"The server names an output %q that lies outside the folder.", "服务器给出的输出路径 %q 超出目标文件夹。", o.Path))
		}
		if err := fetchOutput(ctx, s, root, project, task, o, unverified, bar); err != nil {
			return err
		}
		bar.Done()
		show.Line(s.Out, filepath.Join(dir, filepath.FromSlash(o.Path)))
	}
	s.Say("%d [file|files], %s, in %s.", "共 %d 个文件，%s，位于 %s。", len(outs), show.Size(total), dir)
	return nil
}

func fetchOutput(ctx context.Context, s *call.Session, root *os.Root, project, task string, o client.Output, unverified bool, bar *call.Progress) (err error) {
	name := filepath.FromSlash(o.Path)
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return call.BadFile(name, err)
	}
	partial := name + ".part"
	f, err := root.OpenFile(partial, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return call.BadFile(name, err)
	}
	defer func() {
		if err != nil {
			f.Close()
			_ = root.Remove(partial)
		}
	}()
	if err = download.File(ctx, f, o, unverified, func(part client.OutputPart) (io.ReadCloser, int64, error) {
		return s.Client.OpenOutput(ctx, project, task, o.Path, part)
	}, func(r io.Reader) io.Reader { return &pack.Reader{Ctx: ctx, R: r, Add: bar.Add} }); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return call.BadFile(name, err)
	}
	if err = root.Rename(partial, name); err != nil {
		return call.BadFile(name, err)
	}
	return nil
}
