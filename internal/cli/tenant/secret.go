package tenant

import (
	"context"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/object"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// maxSecretInput bounds what is read for one value; the server's own bound is smaller.
const maxSecretInput = 1 << 20

func SecretCommand(a *call.Shell) *cobra.Command {
	var given secretFlags
	set := &cobra.Command{
		Use:   "set NAME KEY[=FILE]...",
		Short: speech.Both("Make a secret or change some of its keys; values come from files or stdin, never from the command line", "创建密钥或修改其中的键；值来自文件或标准输入，不从命令行读取"),
		Args:  usage.Need(1, -1, "NAME KEY[=FILE]..."),
	}
	set.Flags().StringVar(&given.kind, "type", "", speech.Both("opaque, git, registry or s3; opaque when absent, and fixed once made", "类型：opaque、git、registry 或 s3；默认 opaque，创建后不可更改"))
	set.Flags().StringArrayVar(&given.plain, "plain", nil, speech.Both("KEY=TEXT that is no secret: server and username, endpoint and region; may be repeated", "非机密的 KEY=TEXT：server、username、endpoint、region；可重复"))
	set.RunE = a.Online(func(ctx context.Context, s *call.Session, args []string) error {
		if len(args) == 1 && len(given.plain) == 0 {
			return usage.Wrong(set, fault.T("Give at least one KEY or KEY=FILE.", "请至少给出一个 KEY 或 KEY=FILE。"))
		}
		data, err := secretValues(set, args[1:], os.Stdin)
		if err != nil {
			return err
		}
		return setSecret(ctx, s, args[0], given, data)
	})
	drop := &cobra.Command{
		Use: "delete NAME...", Short: speech.Both("Delete secrets", "删除密钥"), Args: usage.Need(1, -1, "NAME..."),
		RunE: a.Online(func(ctx context.Context, s *call.Session, args []string) error {
			for _, name := range args {
				if err := s.Client.Delete(ctx, api.KindSecret, s.Project(api.KindSecret), name); err != nil {
					return err
				}
				show.Line(s.Out, "secret/"+name+" "+s.T("deleted", "已删除"))
			}
			return nil
		}),
	}
	return usage.Group("secret", speech.Both("Secrets for tasks", "任务使用的密钥"),
		object.ListCommand(a, api.KindSecret, "list", speech.Both("List secrets and their keys", "列出密钥及其键")), set, drop)
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
			return nil, usage.Wrong(cmd, fault.T("Only one key can come from stdin; give the others as KEY=FILE.", "只能有一个键从标准输入读取，其余请写成 KEY=FILE。"))
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

// secretFlags are those of `secret set`.
type secretFlags struct {
	kind  string
	plain []string
}

// add puts the plain texts to the values, where the type says that they are no secrets: a command
// line is read by everybody on the machine.
func (f secretFlags) add(cmd *cobra.Command, kind api.SecretType, data map[string]string) error {
	for _, word := range f.plain {
		key, text, ok := strings.Cut(word, "=")
		switch _, twice := data[key]; {
		case !ok || twice:
			return usage.Wrong(cmd, fault.T("--plain takes KEY=TEXT, each key once.", "--plain 的格式为 KEY=TEXT，每个键只能出现一次。"))
		case !kind.Public(key):
			return usage.Wrong(cmd, fault.T("In a secret of type %s the value of %s does not belong on a command line, where everybody on the machine reads it; give it as KEY=FILE or on stdin.",
				"在 %s 类型的密钥中，%s 的值不应写在命令行上（本机所有人可见）；请写成 KEY=FILE 或从标准输入读取。", kind, key))
		}
		data[key] = text
	}
	return nil
}

// setSecret creates the secret, or changes the keys it names.
func setSecret(ctx context.Context, s *call.Session, name string, given secretFlags, data map[string]string) error {
	project, kind := s.Project(api.KindSecret), api.SecretType(given.kind)
	old, err := client.Get[*api.Secret](ctx, s.Client, project, name)
	switch {
	case fault.Is(err, fault.NotFound):
		if kind == "" {
			kind = api.SecretOpaque
		}
		if err := given.add(s.Cmd, kind, data); err != nil {
			return err
		}
		made := &api.Secret{Meta: api.Meta{Name: name, Project: project}, Spec: api.SecretSpec{Type: kind, Data: data}}
		if _, err := s.Client.Create(ctx, made, false); err != nil {
			return err
		}
		show.Line(s.Out, "secret/"+name+" "+s.T("created", "已创建"))
		return nil
	case err != nil:
		return err
	case kind != "":
		old.Spec.Type = kind // the server says that it never changes
	}
	if err := given.add(s.Cmd, old.Spec.Type, data); err != nil {
		return err
	}
	old.Spec.Data = data
	if _, err := s.Client.Update(ctx, old, false); err != nil {
		return err
	}
	show.Line(s.Out, "secret/"+name+" "+s.T("changed", "已修改"))
	return nil
}
