package env

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/api/v1/terminal"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func snapshot() *cobra.Command {
	var noWait bool
	c := &cobra.Command{
		Use: "snapshot NAME", Short: cli.Both("Keep the home of an environment as it is now; another one can begin with it", "保存环境主目录的快照，可作为其他环境的起点"), Args: cobra.ExactArgs(1),
		Long: cli.Both("Keep the home of an environment as it is now. Stop it first where programs write in it all the time.\n\nOnly what no snapshot had before is sent and counted. You alone see it, unless the environment is shared. What was installed over its image is no part of it: fermi env save keeps that.",
			"保存环境主目录的快照。若有程序持续写入，请先停止环境。\n\n只发送并计入此前快照没有的内容。除非环境已共享，快照仅自己可见。在镜像之上安装的内容不在其中，可用 fermi env save 保存。"),
		Example: "  fermi env stop lab && fermi env snapshot lab\n  fermi env create lab2 --from lab",
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			if noWait {
				return client.Verb(cmd.Context(), w.Client, devenv.Kind, w.Project, args[0], "snapshot", nil)
			}
			s, err := w.snapshot(cmd.Context(), args[0])
			if fault.ReasonOf(err) == "Running" {
				return w.snapshotInside(cmd, args[0])
			}
			if err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "%s@%d\n", s.Dataset, s.Version)
			}
			return err
		},
	}
	c.Flags().BoolVar(&noWait, "no-wait", false, cli.Both("don't wait until it is made", "不等待其完成"))
	return c
}

// snapshotInside keeps the home of an environment that runs, by a process in it.
func (w *where) snapshotInside(cmd *cobra.Command, name string) error {
	e, err := w.get(cmd.Context(), name)
	if err != nil {
		return err
	}
	w.Say("%s runs: what is written meanwhile is in it or not, and a file that changes while it is read keeps it from being made.", "%s 正在运行：期间写入的内容可能在快照中，也可能不在；若有文件在读取时发生变化，则无法创建。", name)
	return run(cmd, client.TerminalOptions{Kind: devenv.Kind, Name: name, Wish: terminal.Wish{Command: devenv.Snapshots{Of: e}.Command()}})
}

// snapshot makes one, and waits for it.
func (w *where) snapshot(ctx context.Context, name string) (made *devenv.Snapshot, err error) {
	if err := client.Verb(ctx, w.Client, devenv.Kind, w.Project, name, "snapshot", nil); err != nil {
		return nil, err
	}
	told := ""
	err = w.until(ctx, name, func(e *devenv.DevEnvironment) (bool, error) {
		if e.Saves() || (devenv.Snapshots{Of: e}).Due() {
			if e.Status.Reason != told && told != "" {
				w.Say("%s: %s", "%s：%s", name, e.Status.Message.In(w.Lang))
			}
			told = e.Status.Reason
			return false, nil
		}
		made = e.Status.Snapshot
		return true, nil
	})
	if err == nil && (made == nil || made.Version == 0) {
		message := fault.T("No snapshot was made.", "未创建快照。")
		if made != nil {
			message = made.Message
		}
		err = fault.New(fault.Conflict, "SnapshotFailed", message)
	}
	return made, err
}

func snapshots() *cobra.Command {
	return &cobra.Command{
		Use: "snapshots NAME", Short: cli.Both("List the snapshots of an environment's home, newest first", "列出环境主目录的快照（从新到旧）"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			e, err := w.get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			all, err := client.AssetOf(asset.DatasetKind, w.Client, e.Meta.Project, devenv.SnapshotsOf(e)).Versions(cmd.Context())
			if fault.Is(err, fault.NotFound) {
				w.Say("There are none yet: fermi env snapshot %s", "还没有快照：fermi env snapshot %s", e.Meta.Name)
				return nil
			}
			if err != nil {
				return err
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 4, 2, ' ', 0)
			fmt.Fprintln(t, fault.T("SNAPSHOT\tFILES\tSIZE\tNEW\tMADE", "快照\t文件\t大小\t新增\t创建时间").In(w.Lang))
			for _, v := range all {
				fmt.Fprintf(t, "%s@%d\t%d\t%s\t%s\t%s\n", e.Meta.Name, v.Spec.Number, v.Spec.Files, v.Spec.Size, v.Spec.New, v.Meta.CreatedAt.Local().Format("2006-01-02 15:04"))
			}
			return t.Flush()
		},
	}
}

// snapshotOf reads NAME or NAME@VERSION: of an environment, or of the dataset that keeps the snapshots of one that may be gone. The newest is made where a
// stopped environment has none.
func (w *where) snapshotOf(ctx context.Context, text string) (*mount.AssetRef, error) {
	name, version, _ := strings.Cut(text, "@")
	e, err := w.get(ctx, name)
	if fault.Is(err, fault.NotFound) {
		return &mount.AssetRef{Name: name, Version: version}, nil
	}
	if err != nil {
		return nil, err
	}
	ref := &mount.AssetRef{Name: devenv.SnapshotsOf(e), Version: version}
	if version != "" {
		return ref, nil
	}
	all, err := client.AssetOf(asset.DatasetKind, w.Client, e.Meta.Project, ref.Name).Versions(ctx)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	if len(all) > 0 {
		ref.Version = strconv.Itoa(all[0].Spec.Number)
		w.Say("It begins with the snapshot %s@%s of %s.", "以 %[3]s 的快照 %[1]s@%[2]s 为起点。", name, ref.Version, all[0].Meta.CreatedAt.Local().Format("2006-01-02 15:04"))
		return ref, nil
	}
	w.Say("%s has no snapshot yet; one is made.", "%s 还没有快照，正在创建。", name)
	s, err := w.snapshot(ctx, name)
	if err != nil {
		return nil, err
	}
	ref.Name, ref.Version = s.Dataset, strconv.Itoa(s.Version)
	return ref, nil
}
