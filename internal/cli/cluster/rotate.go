package cluster

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// RotateCommand replaces keys of the server while everything runs.
func RotateCommand(a *call.Shell) *cobra.Command {
	one := func(key, short string) *cobra.Command {
		return &cobra.Command{
			Use: key, Short: short, Args: usage.Need(0, 0, ""),
			RunE: a.Online(func(ctx context.Context, s *call.Session, _ []string) error {
				done, err := s.Client.Rotate(ctx, key)
				if err != nil {
					return err
				}
				if s.Structured() {
					return s.Data(map[string]any{"items": done})
				}
				for _, d := range done {
					show.Line(s.Out, d.Key+": "+fault.Text(d.Message).In(s.Lang))
				}
				return nil
			}),
		}
	}
	cmd := usage.Group("rotate", speech.Both("Replace keys of the server while everything runs; for admins", "在线更换服务器密钥；限管理员"),
		one("secret-key", speech.Both("secret.key: every secret is sealed anew", "secret.key：重新加密全部密钥")),
		one("link-key", speech.Both("link.key, by which launchers know their server; running tasks go on", "link.key（启动器与服务器互认）；运行中的任务不受影响")),
		one("admin-token", speech.Both("admin.token: a new one in the file, the old one ends", "admin.token：写入新令牌，旧令牌失效")),
		one("tls", speech.Both("the self-signed certificate", "自签名证书")), one("ssh-key", speech.Both("the host key of SSH", "SSH 主机密钥")),
		one("all", speech.Both("all of them", "以上全部")))
	cmd.Example = "  fermi rotate secret-key"
	return cmd
}
