package cluster

import (
	"context"
	"io"
	"os"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/download"
	"github.com/fermi-cluster/fermi/internal/cli/lock"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
)

func BackupCommand(a *call.Shell) *cobra.Command {
	var lock lock.LockFlags
	cmd := &cobra.Command{
		Use: "backup FILE", Short: speech.Both("Save the server's whole state into a file", "将服务器全部状态备份到文件"),
		Args: usage.Need(1, 1, "FILE"), Example: "  fermi backup fermi-backup.tar\n  fermi backup --encrypt --recipient age1… fermi-backup.tar.age",
	}
	lock.Bind(cmd)
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, args []string) error {
		keys, err := lock.Keys(s)
		if err != nil {
			return err
		}
		body, err := s.Client.Backup(ctx)
		if err != nil {
			return err
		}
		defer body.Close()
		// The whole way is one pipe: nothing is on disk in the clear.
		send := func(w io.Writer) (int64, error) {
			if len(keys) == 0 {
				n, err := call.CopyProgress(ctx, s, w, body, -1, s.T("backup", "备份"))
				return n, download.CutShort(err)
			}
			locked, err := age.Encrypt(w, keys...)
			if err != nil {
				return 0, err
			}
			n, err := call.CopyProgress(ctx, s, locked, body, -1, s.T("backup", "备份"))
			if err != nil {
				return n, download.CutShort(err) // without its end nobody takes it for whole
			}
			return n, locked.Close()
		}
		if args[0] == "-" {
			_, err := send(s.Out)
			return err
		}
		// The state holds secrets: nobody else may read it.
		n, err := call.SaveFile(args[0], 0o600, func(f *os.File) (int64, error) { return send(f) })
		if err != nil {
			return err
		}
		if len(keys) > 0 {
			s.Say("Saved %s to %s, encrypted.", "已保存 %s 到 %s（已加密）。", show.Size(n), args[0])
		} else {
			s.Say("Saved %s to %s.", "已保存 %s 到 %s。", show.Size(n), args[0])
		}
		s.Say("It does not hold secret.key, which opens the secrets in it: keep a copy of that file from the server's data folder in another place. Without it they must be set again.",
			"备份不含 secret.key（用于解开其中的密钥）：请将服务器数据目录中的该文件另行妥善保存；缺少它，恢复后须重新设置密钥。")
		return nil
	})
	return cmd
}
