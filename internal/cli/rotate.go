package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// rotateCommand replaces keys of the server while everything runs.
func (a *app) rotateCommand() *cobra.Command {
	one := func(key, short string) *cobra.Command {
		return &cobra.Command{
			Use: key, Short: short, Args: needArgs(0, 0, ""),
			RunE: a.online(func(ctx context.Context, s *session, _ []string) error {
				done, err := s.client.Rotate(ctx, key)
				if err != nil {
					return err
				}
				if s.structured() {
					return s.data(map[string]any{"items": done})
				}
				for _, d := range done {
					putLine(s.out, d.Key+": "+fault.Text(d.Message).In(s.lang))
				}
				return nil
			}),
		}
	}
	cmd := group("rotate", Both("Replace keys of the server while everything runs; for admins", "在线更换服务器密钥；限管理员"),
		one("secret-key", Both("secret.key: every secret is sealed anew", "secret.key：重新加密全部密钥")),
		one("link-key", Both("link.key, by which launchers know their server; running tasks go on", "link.key（启动器与服务器互认）；运行中的任务不受影响")),
		one("admin-token", Both("admin.token: a new one in the file, the old one ends", "admin.token：写入新令牌，旧令牌失效")),
		one("tls", Both("the self-signed certificate", "自签名证书")), one("ssh-key", Both("the host key of SSH", "SSH 主机密钥")),
		one("all", Both("all of them", "以上全部")))
	cmd.Example = "  fermi rotate secret-key"
	return cmd
}
