package tool

import (
	_ "embed"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Dir is where the launchers of this node look for tools.
const Dir = "/opt/fermi/tools"

// All are the tools that can be installed.
var All = []string{"vscode", "jupyter"}

//go:embed install.sh
var script string

// Add puts `fermi tools` under root.
func Add(root *cobra.Command) {
	c := &cobra.Command{
		Use: "tools", Short: cli.Both("Programs for environments, installed once on this node", "供本节点开发环境使用的程序，每个节点安装一次"),
		Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.GroupID = cli.GroupCluster
	c.AddCommand(install())
	root.AddCommand(c)
}

func install() *cobra.Command {
	return &cobra.Command{
		Use: "install [vscode] [jupyter]", Short: cli.Both("Install VS Code and JupyterLab for all environments of this node (root)", "为本节点的所有环境安装 VS Code 与 JupyterLab（需 root）"),
		Long: cli.Both("Bring code-server (from npm, with its own Node; about 800 MB, two minutes) and JupyterLab (from PyPI) to "+Dir+", which environments see read-only. Nothing is done for what is there already.",
			"将 code-server（来自 npm，自带 Node，约 800 MB，两分钟）与 JupyterLab（来自 PyPI）安装到 "+Dir+"，环境以只读方式使用。已安装的不再重复安装。"),
		Example: "  fermi tools install\n  fermi tools install vscode", ValidArgs: All,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range args {
				if !slices.Contains(All, name) {
					return fault.New(fault.Invalid, "NoSuchTool", fault.T("There is no tool %q; there are: %s.", "没有名为 %q 的工具；可用的有：%s。", name, strings.Join(All, ", ")))
				}
			}
			if os.Geteuid() != 0 {
				return fault.New(fault.Forbidden, "NotRoot", fault.T("Tools of a node are installed by root: environments use only what nobody else can change.", "节点工具须由 root 安装：环境只使用他人无法改动的程序。"))
			}
			if len(args) == 0 {
				args = All
			}
			return run(cmd, args)
		},
	}
}

// run installs one after the other; two who install at once wait for each other.
func run(cmd *cobra.Command, tools []string) error {
	if err := os.MkdirAll(Dir, 0o755); err != nil {
		return noFolder(err)
	}
	lock, err := os.OpenFile(filepath.Join(Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return noFolder(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	for _, name := range tools {
		sh := exec.CommandContext(cmd.Context(), "bash", "-c", script, "install.sh", name, Dir)
		sh.Stdout, sh.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
		if err := sh.Run(); err != nil {
			if errors.Is(err, exec.ErrNotFound) {
				return fault.New(fault.Conflict, "NoBash", fault.T("bash is missing on this machine.", "本机缺少 bash。"))
			}
			return fault.New(fault.Unavailable, "ToolNotInstalled", fault.T("%s could not be installed; what stands above says why.", "%s 安装失败，原因见上方输出。", name)).Because(err)
		}
	}
	return nil
}

func noFolder(err error) error {
	return fault.New(fault.Unavailable, "NoToolFolder", fault.T("The folder %s can't be made: %v.", "无法创建目录 %s：%v。", Dir, err)).Because(err)
}
