// Package rotate has `fermi rotate`: keys of the server are replaced while everything runs.
//
// Place: layer 5, on cli. Promise: what is replaced is named. Enemies: a key that is shown.
package rotate

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/cli/online"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Add puts `fermi rotate` under root.
func Add(root *cobra.Command) {
	c := &cobra.Command{
		Use: "rotate", Short: cli.Both("Replace keys of the server while everything runs; for admins", "在线更换服务器密钥；限管理员"), GroupID: cli.GroupCluster,
		Example: "  fermi rotate secret-key", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(
		one("secret-key", cli.Both("secret.key: every secret is sealed anew", "secret.key：重新加密全部密钥")),
		one("link-key", cli.Both("link.key, by which launchers know their server; running tasks go on", "link.key（启动器与服务器互认）；运行中的任务不受影响")),
		one("admin-token", cli.Both("admin.token: a new one in the file, the old one ends", "admin.token：写入新令牌，旧令牌失效")),
		one("tls", cli.Both("the self-signed certificate", "自签名证书")), one("ssh-key", cli.Both("the host key of SSH", "SSH 主机密钥")),
		one("all", cli.Both("all of them", "以上全部")))
	root.AddCommand(c)
}

func one(key, short string) *cobra.Command {
	return &cobra.Command{
		Use: key, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w, err := online.Dial(cmd)
			if err != nil {
				return err
			}
			done, err := w.Rotate(cmd.Context(), key)
			if err != nil {
				return err
			}
			if w.JSON() {
				return w.Answer(map[string]any{"items": done})
			}
			for _, d := range done {
				fmt.Fprintln(cmd.OutOrStdout(), d.Key+": "+fault.Text(d.Message).In(w.Lang))
			}
			return nil
		},
	}
}
