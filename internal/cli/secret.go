package cli

import (
	"context"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// maxSecretInput bounds what is read for one value; the server's own bound is smaller.
const maxSecretInput = 1 << 20

func (a *app) secretCommand() *cobra.Command {
	set := &cobra.Command{
		Use:   "set NAME KEY[=FILE]...",
		Short: Both("Make a secret or change some of its keys; values come from files or stdin, never from the command line", "创建密钥或修改其中的键；值来自文件或标准输入，不从命令行读取"),
		Args:  needArgs(2, -1, "NAME KEY[=FILE]..."),
	}
	set.RunE = a.online(func(ctx context.Context, s *session, args []string) error {
		data, err := secretValues(set, args[1:], os.Stdin)
		if err != nil {
			return err
		}
		return s.setSecret(ctx, args[0], data)
	})
	drop := &cobra.Command{
		Use: "delete NAME...", Short: Both("Delete secrets", "删除密钥"), Args: needArgs(1, -1, "NAME..."),
		RunE: a.online(func(ctx context.Context, s *session, args []string) error {
			for _, name := range args {
				if err := s.client.Delete(ctx, api.KindSecret, s.project(api.KindSecret), name); err != nil {
					return err
				}
				putLine(s.out, "secret/"+name+" "+s.t("deleted", "已删除"))
			}
			return nil
		}),
	}
	return group("secret", Both("Secrets for tasks", "任务使用的密钥"),
		a.listCommand(api.KindSecret, "list", Both("List secrets and their keys", "列出密钥及其键")), set, drop)
}

// secretValues reads KEY=FILE from files and a bare KEY (at most one) from stdin, where one line end
// at the end is not part of the value.
func secretValues(cmd *cobra.Command, words []string, stdin io.Reader) (map[string]string, error) {
	data, fromStdin := map[string]string{}, false
	for _, word := range words {
		key, path, file := strings.Cut(word, "=")
		var r io.Reader = stdin
		if file {
			f, err := os.Open(path)
			if err != nil {
				return nil, fault.New(fault.Invalid, "NoSuchFile", fault.T("Can't read %s.", "无法读取 %s。", path)).Because(err)
			}
			defer f.Close()
			r = f
		} else if fromStdin {
			return nil, usage(cmd, fault.T("Only one key can come from stdin; give the others as KEY=FILE.", "只能有一个键从标准输入读取，其余请写成 KEY=FILE。"))
		} else {
			fromStdin = true
		}
		raw, err := io.ReadAll(io.LimitReader(r, maxSecretInput))
		if err != nil {
			return nil, fault.New(fault.Invalid, "Unreadable", fault.T("The value of %s can't be read.", "无法读取 %s 的值。", key)).Because(err)
		}
		value := string(raw)
		if !file {
			value = strings.TrimSuffix(strings.TrimSuffix(value, "\n"), "\r")
		}
		data[key] = value
	}
	return data, nil
}

// setSecret creates the secret, or changes the keys it names.
func (s *session) setSecret(ctx context.Context, name string, data map[string]string) error {
	project := s.project(api.KindSecret)
	old, err := client.Get[*api.Secret](ctx, s.client, project, name)
	if fault.Is(err, fault.NotFound) {
		made := &api.Secret{Meta: api.Meta{Name: name, Project: project}, Spec: api.SecretSpec{Data: data}}
		if _, err := s.client.Create(ctx, made, false); err != nil {
			return err
		}
		putLine(s.out, "secret/"+name+" "+s.t("created", "已创建"))
		return nil
	}
	if err != nil {
		return err
	}
	old.Spec.Data = data
	if _, err := s.client.Update(ctx, old, false); err != nil {
		return err
	}
	putLine(s.out, "secret/"+name+" "+s.t("changed", "已修改"))
	return nil
}
