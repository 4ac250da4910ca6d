package env

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/fault"
)

const maxKeyFile = 64 << 10

// keys are the commands about public keys.
func keys() *cobra.Command {
	c := &cobra.Command{
		Use: "key", Short: cli.Both("Public keys that open environments over SSH", "用于 SSH 登录环境的公钥"), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var user, name string
	add := &cobra.Command{
		Use: "add FILE", Short: cli.Both("Register a public key; - reads standard input", "登记公钥；- 表示从标准输入读取"), Args: cobra.ExactArgs(1),
		Example: "  fermi user key add ~/.ssh/id_ed25519.pub",
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			text, err := readKey(cmd, args[0])
			if err != nil {
				return err
			}
			who, err := w.whose(cmd.Context(), user)
			if err != nil {
				return err
			}
			key, err := client.AddKey(cmd.Context(), w.Client, who, text, name)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), key.ID, key.Fingerprint, key.Name)
			return nil
		},
	}
	add.Flags().StringVar(&name, "name", "", cli.Both("what you call it; its comment when absent", "名称；默认使用公钥中的备注"))
	list := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: cli.Both("List public keys", "列出公钥"), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			who, err := w.whose(cmd.Context(), user)
			if err != nil {
				return err
			}
			u, err := client.Get[*api.User](cmd.Context(), w.Client, "", who)
			if err != nil {
				return err
			}
			heads := []string{"ID", fault.T("NAME", "名称").In(w.Lang), fault.T("FINGERPRINT", "指纹").In(w.Lang), fault.T("ADDED", "添加时间").In(w.Lang)}
			var rows [][]string
			for _, k := range u.Status.SSHKeys {
				rows = append(rows, []string{k.ID, k.Name, k.Fingerprint, k.AddedAt.Local().Format("2006-01-02 15:04")})
			}
			return cli.Table(cmd.OutOrStdout(), heads, rows)
		},
	}
	remove := &cobra.Command{
		Use: "remove KEY", Aliases: []string{"rm", "delete"}, Short: cli.Both("Remove a public key, by its id or name; connections made with it end", "按 ID 或名称删除公钥；用它建立的连接随即结束"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			who, err := w.whose(cmd.Context(), user)
			if err != nil {
				return err
			}
			return client.RemoveKey(cmd.Context(), w.Client, who, args[0])
		},
	}
	for _, each := range []*cobra.Command{add, list, remove} {
		each.Flags().StringVar(&user, "user", "", cli.Both("whose; yourself when absent", "所属用户；默认本人"))
		c.AddCommand(each)
	}
	return c
}

// whose is a user's name, or our own.
func (w *where) whose(ctx context.Context, user string) (string, error) {
	if user != "" {
		return user, nil
	}
	me, err := w.WhoAmI(ctx)
	if err != nil {
		return "", err
	}
	return me.User, nil
}

func readKey(cmd *cobra.Command, file string) (string, error) {
	in := cmd.InOrStdin()
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", fault.New(fault.Invalid, "NoKeyFile", fault.T("The file %s can't be read.", "无法读取文件 %s。", file)).WithHint(
				fault.T("Make a key with ssh-keygen -t ed25519; the file to give ends in .pub.", "可用 ssh-keygen -t ed25519 生成密钥；请提供以 .pub 结尾的文件。")).Because(err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxKeyFile))
	return string(text), err
}
