package restore

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/cli/lock"
	"github.com/fermi-cluster/fermi/internal/conf"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// unlocking are the flags that open an encrypted backup.
type unlocking struct{ identity, passphrase string }

func (u *unlocking) bind(flags *pflag.FlagSet) {
	flags.StringVar(&u.identity, "identity", "", cli.Both("file with the secret key (age) of a backup that was encrypted to a --recipient", "age 私钥文件，用于以 --recipient 加密的备份"))
	flags.StringVar(&u.passphrase, "passphrase-file", "", cli.Both("file with the passphrase of an encrypted backup, or /dev/fd/N; asked for on a terminal otherwise", "加密备份的口令文件，或 /dev/fd/N；否则在终端询问"))
}

// open gives the backup in a file, decrypted; the caller closes the file.
func (u *unlocking) open(cmd *cobra.Command, path string) (*os.File, io.Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fault.New(fault.NotFound, "NoSuchFile", fault.T("Can't read %s.", "无法读取 %s。", path)).Because(err)
	}
	body, err := lock.Unlock(f, u.identity, func() (string, error) {
		return lock.Passphrase(cmd.InOrStdin(), cmd.ErrOrStderr(), u.passphrase, false, cli.Language(cmd))
	})
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, body, nil
}

// say writes a sentence for a person.
func say(cmd *cobra.Command, w io.Writer, en, zh string, args ...any) {
	fmt.Fprintln(w, fault.T(en, zh, args...).In(cli.Language(cmd)))
}

// Command is `fermi restore`.
func Command() *cobra.Command {
	var dir, secretKey, unfinished string
	var lock unlocking
	settings := pflag.NewFlagSet("", pflag.ContinueOnError)
	conf.Bind(settings)
	cmd := &cobra.Command{
		Use: "restore FILE", Short: cli.Both("Make a data folder from a backup", "从备份恢复数据目录"), Args: cobra.ExactArgs(1),
		Example: "  fermi restore fermi-backup.tar --data NEW_DIR\n  fermi restore fermi-backup.tar --data NEW_DIR --unfinished stop --secret-key secret.key",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := settings.Set("data", dir); err != nil {
				return err
			}
			s, err := conf.Load(settings, os.Environ())
			if err != nil {
				return err
			}
			how := Restoring{Dir: dir, Past: Past{s.HistoryURL, s.HistoryPasswordFile}}
			if secretKey != "" {
				if how.Key, err = readKey(secretKey); err != nil {
					return err
				}
			}
			asked := unfinished != ""
			if asked {
				if how.Work, err = parseAfter(unfinished); err != nil {
					return err
				}
			} else {
				how.Work, asked = askAfter(cmd.InOrStdin(), cmd.ErrOrStderr(), cli.Language(cmd))
			}
			f, body, err := lock.open(cmd, args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			sum, err := Make(cmd.Context(), body, how)
			if err != nil {
				return err
			}
			err1 := cmd.ErrOrStderr()
			if !sum.Sealed() {
				say(cmd, err1, "The backup was made by fermi %s, which wrote no checksums: whether it is as it was written is not known.", "该备份由 fermi %s 创建，不含校验和：无法确认与写入时一致。", sum.Version)
			}
			keep := filepath.Join(dir, keyFile)
			switch {
			case how.Key == nil && len(sum.SecretKeys) > 0:
				say(cmd, err1, "The backup holds no secret.key. Put the one of the old folder (fingerprint %s) to %s (mode 0600) before the first start, or set all secrets again.",
					"备份不含 secret.key。请在首次启动前将原目录中的该文件（指纹 %s）放到 %s（权限 0600），否则须重新设置全部密钥。", sum.SecretKeys[0], keep)
			case how.Key == nil:
				say(cmd, err1, "The backup holds no secret.key. Put the one of the old folder to %s (mode 0600) before the first start, or set all secrets again.",
					"备份不含 secret.key。请在首次启动前将原目录中的该文件放到 %s（权限 0600），否则须重新设置全部密钥。", keep)
			case OtherKey(how.Key, sum.SecretKeys):
				say(cmd, err1, "WARNING: %s (fingerprint %s) is not the key that sealed the secrets of this backup (%s): they will not open. Put the right one to %s before the first start.",
					"警告：%s（指纹 %s）不是加密该备份中密钥的 secret.key（%s），将无法解开。请在首次启动前将正确的文件放到 %s。", secretKey, Prints(how.Key)[0], sum.SecretKeys[0], keep)
			}
			if !asked {
				say(cmd, err1, "At the first start tasks that waited wait on, and tasks that ran go on from their last checkpoint. To stop them instead, restore with --unfinished stop-running or --unfinished stop.",
					"首次启动时，排队的任务继续排队，运行中的任务从最近的检查点继续。如需停止，请用 --unfinished stop-running 或 --unfinished stop 恢复。")
			}
			say(cmd, err1, "Restored into %[1]s. Start it with: fermi up --data %[1]s", "已恢复到 %[1]s。启动：fermi up --data %[1]s", dir)
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "data", "", cli.Both("folder to make; must not exist", "要创建的目录，必须不存在"))
	lock.bind(cmd.Flags())
	cmd.Flags().StringVar(&secretKey, "secret-key", "", cli.Both("secret.key of the old folder, which opens the secrets in the backup", "原目录的 secret.key，用于解开备份中的密钥"))
	cmd.Flags().StringVar(&unfinished, "unfinished", "", cli.Both("what becomes of tasks that ran or waited: go-on, stop-running or stop; asked for on a terminal otherwise", "当时运行或排队的任务如何处理：go-on、stop-running 或 stop；否则在终端询问"))
	_ = cmd.MarkFlagRequired("data")
	for _, name := range []string{"history-url", "history-password-file", "insecure"} { // of the settings, what matters here
		cmd.Flags().AddFlag(settings.Lookup(name))
	}
	return cmd
}

// VerifyCommand stands below `fermi backup`; it needs no server.
func VerifyCommand() *cobra.Command {
	var lock unlocking
	cmd := &cobra.Command{
		Use: "verify FILE", Short: cli.Both("Read a backup and say whether it is whole", "读取备份并检查是否完整"), Args: cobra.ExactArgs(1),
		Example: "  fermi backup verify fermi-backup.tar",
		RunE: func(cmd *cobra.Command, args []string) error {
			f, body, err := lock.open(cmd, args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			sum, err := verifyBackup(body)
			if err != nil {
				return err
			}
			key := "-"
			if len(sum.SecretKeys) > 0 {
				key = sum.SecretKeys[0]
			}
			say(cmd, cmd.OutOrStdout(), "Whole: %d entries, %d bytes, taken %s by fermi %s; secret.key has the fingerprint %s.", "完整：%d 个条目，%d 字节，于 %s 由 fermi %s 创建；secret.key 指纹为 %s。",
				sum.Entries, sum.Bytes, sum.Taken.UTC().Format(time.RFC3339), sum.Version, key)
			return nil
		},
	}
	lock.bind(cmd.Flags())
	return cmd
}
