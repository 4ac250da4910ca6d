package cli

import (
	"context"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/curve"
	"github.com/fermi-cluster/fermi/internal/cli/download"
	"github.com/fermi-cluster/fermi/internal/cli/pack"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func (a *app) trainCommand() *cobra.Command {
	return group("train", Both("Training tasks", "训练任务"),
		a.trainRunCommand(), a.trainRerunCommand(),
		a.listCommand(api.KindTrainingTask, "list", Both("List training tasks", "列出训练任务")),
		a.trainStopCommand(), a.trainMoveCommand(), a.trainCloneCommand(), a.trainOutputsCommand(), a.trainCheckpointsCommand(), a.trainRestoreCommand(), a.trainRecipeCommand(), a.trainFaultCommand(), a.trainProfileCommand(),
		curve.Command(Both, func(do func(context.Context, *curve.Shell, []string) error) func(*cobra.Command, []string) error {
			return a.online(func(ctx context.Context, s *session, args []string) error {
				args[0] = bare(args[0])
				return do(ctx, &curve.Shell{
					Read: s.client.Raw, Project: s.project(api.KindTrainingTask), Out: s.out, Output: s.flags.output, Width: screenOf(s.out).width, T: s.t, Data: s.data, Clean: clean,
				}, args)
			})
		}))
}

func (a *app) trainStopCommand() *cobra.Command {
	var sure insist
	cmd := &cobra.Command{Use: "stop NAME...", Short: Both("End tasks; their outputs are kept", "停止任务；输出会保留"), Args: needArgs(1, -1, "NAME...")}
	sure.add(cmd)
	cmd.RunE = a.online(func(ctx context.Context, s *session, args []string) error {
		for _, name := range args {
			name = bare(name)
			if err := sure.run(s, func(opts ...client.Option) error {
				return s.client.Stop(ctx, s.project(api.KindTrainingTask), name, opts...)
			}); err != nil {
				return err
			}
			putLine(s.out, "task/"+name+" "+s.t("is being stopped", "正在停止"))
		}
		return nil
	})
	return cmd
}

func (a *app) trainCloneCommand() *cobra.Command {
	var name, display string
	cmd := &cobra.Command{Use: "clone NAME", Short: Both("Submit the same work again", "以相同配置再次提交"), Args: needArgs(1, 1, "NAME")}
	cmd.Flags().StringVar(&name, "name", "", Both("name of the new task", "新任务名称"))
	cmd.Flags().StringVar(&display, "display-name", "", Both("name shown to people", "显示名"))
	cmd.RunE = a.online(func(ctx context.Context, s *session, args []string) error {
		made, err := s.client.Clone(ctx, s.project(api.KindTrainingTask), bare(args[0]), name, display)
		if err != nil {
			return err
		}
		if s.structured() && made.Task != nil {
			return s.data(manifest{made.Task})
		}
		s.tell(outcome{Kind: api.KindTrainingTask, Name: made.Name, Result: "created"})
		return nil
	})
	return cmd
}

var outputColumns = []column{col("PATH", "路径"), number("SIZE", "大小"), fixed("MODIFIED", "修改时间")}

func (a *app) trainOutputsCommand() *cobra.Command {
	var dir string
	var unverified bool
	cmd := &cobra.Command{
		Use: "outputs NAME", Short: Both("List or fetch what a task left", "列出或下载任务输出"), Args: needArgs(1, 1, "NAME"),
		Example: "  fermi train outputs gpt-7x2k9 --get ./results",
	}
	cmd.Flags().StringVar(&dir, "get", "", Both("fetch all files into this folder", "将全部文件下载到此文件夹"))
	cmd.Flags().BoolVar(&unverified, "unverified", false, Both("with --get: take files as they are on the server's disk, damaged or not", "配合 --get：按服务器磁盘上的原样取出，即使已损坏"))
	cmd.RunE = a.online(func(ctx context.Context, s *session, args []string) error {
		project := s.project(api.KindTrainingTask)
		args[0] = bare(args[0])
		outs, err := s.client.Outputs(ctx, project, args[0])
		if err != nil {
			return err
		}
		if dir != "" {
			return s.fetchOutputs(ctx, project, args[0], dir, outs, unverified)
		}
		if s.structured() {
			if outs == nil {
				outs = []client.Output{}
			}
			return s.data(map[string]any{"items": outs})
		}
		if len(outs) == 0 {
			s.say("The task left no files.", "任务没有输出文件。")
			return nil
		}
		rows := make([][]cell, len(outs))
		for i, o := range outs {
			if s.flags.output == "name" {
				putLine(s.out, clean(o.Path))
			}
			rows[i] = []cell{text(o.Path), text(size(o.Size)), text(s.ago(o.Modified))}
		}
		if s.flags.output == "name" {
			return nil
		}
		return writeTable(s.out, outputColumns, rows, s.lang, screenOf(s.out))
	})
	return cmd
}

// fetchOutputs writes every file below dir. The names come from elsewhere: nothing is written
// outside dir, whatever they say.
func (s *session) fetchOutputs(ctx context.Context, project, task, dir string, outs []client.Output, unverified bool) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return badFile(dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return badFile(dir, err)
	}
	defer root.Close()
	var total int64
	for _, o := range outs {
		total += o.Size
	}
	bar := s.progress(s.t("fetching", "下载"), total)
	defer bar.done()
	for _, o := range outs {
		if !filepath.IsLocal(filepath.FromSlash(o.Path)) || path.Clean(o.Path) != o.Path {
			return fault.New(fault.Internal, "BadOutputPath", fault.T(
				"The server names an output %q that lies outside the folder.", "服务器给出的输出路径 %q 超出目标文件夹。", o.Path))
		}
		if err := s.fetchOutput(ctx, root, project, task, o, unverified, bar); err != nil {
			return err
		}
		bar.done()
		putLine(s.out, filepath.Join(dir, filepath.FromSlash(o.Path)))
	}
	s.say("%d [file|files], %s, in %s.", "共 %d 个文件，%s，位于 %s。", len(outs), size(total), dir)
	return nil
}

func (s *session) fetchOutput(ctx context.Context, root *os.Root, project, task string, o client.Output, unverified bool, bar *progress) (err error) {
	name := filepath.FromSlash(o.Path)
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return badFile(name, err)
	}
	partial := name + ".part"
	f, err := root.OpenFile(partial, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return badFile(name, err)
	}
	defer func() {
		if err != nil {
			f.Close()
			_ = root.Remove(partial)
		}
	}()
	if err = download.File(ctx, f, o, unverified, func(part client.OutputPart) (io.ReadCloser, int64, error) {
		return s.client.OpenOutput(ctx, project, task, o.Path, part)
	}, func(r io.Reader) io.Reader { return &pack.Reader{Ctx: ctx, R: r, Add: bar.add} }); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return badFile(name, err)
	}
	if err = root.Rename(partial, name); err != nil {
		return badFile(name, err)
	}
	return nil
}
