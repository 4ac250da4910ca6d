package tenant

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/object"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// each does something to every name, and says what became of it.
func each(a *call.Shell, use, short string, kind api.Kind, done fault.Text, do func(ctx context.Context, s *call.Session, name string) error) *cobra.Command {
	return &cobra.Command{
		Use: use + " NAME...", Short: short, Args: usage.Need(1, -1, "NAME..."),
		RunE: a.Online(func(ctx context.Context, s *call.Session, args []string) error {
			for _, name := range args {
				if err := do(ctx, s, name); err != nil {
					return err
				}
				show.Line(s.Out, api.MustInfo(kind).Singular+"/"+name+" "+done.In(s.Lang))
			}
			return nil
		}),
	}
}

func removeCommand(a *call.Shell, kind api.Kind, short string) *cobra.Command {
	return each(a, "delete", short, kind, fault.T("deleted", "已删除"), func(ctx context.Context, s *call.Session, name string) error {
		return s.Client.Delete(ctx, kind, "", name)
	})
}

func disableCommand(a *call.Shell, use string, disabled bool, short string) *cobra.Command {
	done := fault.T("enabled", "已启用")
	if disabled {
		done = fault.T("disabled", "已停用")
	}
	return each(a, use, short, api.KindUser, done, func(ctx context.Context, s *call.Session, name string) error {
		_, err := object.Change(ctx, s, name, func(u *api.User) { u.Spec.Disabled = disabled })
		return err
	})
}

func signOutCommand(a *call.Shell) *cobra.Command {
	return each(a, "sign-out", speech.Both("End all sessions of users", "结束用户的全部会话"), api.KindUser, fault.T("signed out everywhere", "已在所有设备上退出登录"),
		func(ctx context.Context, s *call.Session, name string) error { return s.Client.SignOut(ctx, name) })
}

func memberCommand(a *call.Shell, use string, in bool, short string) *cobra.Command {
	return &cobra.Command{
		Use: use + " PROJECT USER...", Short: short, Args: usage.Need(2, -1, "PROJECT USER..."),
		RunE: a.Online(func(ctx context.Context, s *call.Session, args []string) error {
			return members(ctx, s, args[0], args[1:], in)
		}),
	}
}

// members lets users into a project, or puts them out.
func members(ctx context.Context, s *call.Session, project string, users []string, in bool) error {
	_, err := object.Change(ctx, s, project, func(p *api.Project) {
		kept := slices.DeleteFunc(p.Spec.Members, func(m string) bool { return slices.Contains(users, m) })
		if p.Spec.Members = kept; in {
			slices.Sort(users)
			p.Spec.Members = append(kept, slices.Compact(users)...)
		}
	})
	if err != nil || s.Structured() {
		return err
	}
	for _, user := range users {
		if in {
			show.Line(s.Out, "project/"+project+" "+s.T("+ %s", "已加入 %s", user))
		} else {
			show.Line(s.Out, "project/"+project+" "+s.T("- %s", "已移出 %s", user))
		}
	}
	return nil
}

// SignInCommand prints an address that signs a browser in.
func SignInCommand(a *call.Shell) *cobra.Command {
	return &cobra.Command{
		Use: "signin", Short: speech.Both("Print an address that signs your browser in once, within five minutes", "显示一次性登录地址，五分钟内有效"), Args: usage.Need(0, 0, ""),
		RunE: a.Online(func(ctx context.Context, s *call.Session, _ []string) error {
			code, err := s.Client.SignInCode(ctx)
			if err != nil {
				return err
			}
			show.Line(s.Out, s.Client.Server()+"/#code="+code)
			return nil
		}),
	}
}

// passwdCommand asks for the password on the terminal, or reads it from stdin, a line each; the
// command line and the environment, which others can see, are no place for it.
func passwdCommand(a *call.Shell) *cobra.Command {
	return &cobra.Command{
		Use: "passwd [NAME]", Short: speech.Both("Set a password; it is asked for, or read from stdin", "设置密码；在终端输入或从标准输入读取"), Args: usage.Need(0, 1, "[NAME]"),
		Long: speech.Both("Set a password and end all sessions of the user. On a terminal it is asked for without being shown. Otherwise stdin holds the new password on its first line; for your own, the current one may follow on a second.",
			"设置密码并结束该用户的全部会话。在终端上以不回显方式输入；否则标准输入第一行为新密码，修改本人密码时第二行可为当前密码。"),
		RunE: a.Online(func(ctx context.Context, s *call.Session, args []string) error {
			me, err := s.Client.WhoAmI(ctx)
			if err != nil {
				return err
			}
			name := me.User
			if len(args) == 1 {
				name = args[0]
			}
			password, current, err := askPassword(s, name == me.User)
			if err != nil {
				return err
			}
			if err := s.Client.SetPassword(ctx, name, password, current); err != nil {
				return err
			}
			show.Line(s.Out, "user/"+name+" "+s.T("password set; all sessions ended", "密码已设置，所有会话已结束"))
			return nil
		}),
	}
}

const maxPasswordLine = 4096

func askPassword(s *call.Session, mine bool) (password, current string, err error) {
	if f, ok := s.In.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return promptPassword(s, int(f.Fd()), mine)
	}
	in := bufio.NewReader(io.LimitReader(s.In, maxPasswordLine))
	if password, err = passwordLine(in); err == nil && password == "" {
		err = fault.New(fault.Invalid, "NoPassword", fault.T("There is no password on stdin.", "标准输入中没有密码。"))
	}
	if err == nil {
		current, err = passwordLine(in)
	}
	return password, current, err
}

// passwordLine is the next line without its end; "" when there is none.
func passwordLine(in *bufio.Reader) (string, error) {
	line, err := in.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fault.From(err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}

func promptPassword(s *call.Session, fd int, mine bool) (password, current string, err error) {
	ask := func(en, zh string) (text string) {
		if err != nil {
			return ""
		}
		fmt.Fprint(s.Err, fault.Text{EN: en, ZH: zh}.In(s.Lang))
		var raw []byte
		raw, err = term.ReadPassword(fd)
		fmt.Fprintln(s.Err)
		return string(raw)
	}
	if mine {
		current = ask("Current password (empty if there is none): ", "当前密码（没有则留空）：")
	}
	password = ask("New password: ", "新密码：")
	again := ask("Once more: ", "再次输入：")
	if err == nil && password != again {
		err = fault.New(fault.Invalid, "PasswordsDiffer", fault.T("The two are not the same; nothing was changed.", "两次输入不一致，未作修改。"))
	}
	return password, current, err
}

func UserCommand(a *call.Shell) *cobra.Command {
	var role, display string
	create := &cobra.Command{
		Use: "create NAME", Short: speech.Both("Create a user, in a project where one is named (--project)", "创建用户；指定 --project 时同时加入该项目"), Args: usage.Need(1, 1, "NAME"),
		Example: "  fermi user create ann --project lab",
	}
	create.Flags().StringVar(&role, "role", "member", speech.Both("admin, operator, member or viewer", "角色：admin、operator、member 或 viewer"))
	create.Flags().StringVar(&display, "display-name", "", speech.Both("name shown to people", "显示名"))
	create.RunE = a.Online(func(ctx context.Context, s *call.Session, args []string) error {
		project := s.Flags.Project
		if project != "" { // before there is a user who is in none
			if _, err := client.Get[*api.Project](ctx, s.Client, "", project); err != nil {
				return err
			}
		}
		err := object.Create(ctx, s, &api.User{
			Meta: api.Meta{Name: args[0], DisplayName: display}, Spec: api.UserSpec{Role: api.UserRole(role)},
		})
		if err != nil || project == "" {
			return err
		}
		return members(ctx, s, project, args[:1], true)
	})
	return usage.Group("user", speech.Both("Users", "用户"), object.ListCommand(a, api.KindUser, "list", speech.Both("List users", "列出用户")), create,
		removeCommand(a, api.KindUser, speech.Both("Delete users", "删除用户")), passwdCommand(a), signOutCommand(a),
		disableCommand(a, "disable", true, speech.Both("Close the door to users; tokens and sessions stop at once", "停用用户；其令牌和会话立即失效")),
		disableCommand(a, "enable", false, speech.Both("Let users in again", "重新启用用户")))
}

func WhoamiCommand(a *call.Shell) *cobra.Command {
	return &cobra.Command{
		Use: "whoami", Short: speech.Both("Who the server takes you for", "查看当前身份"), Args: usage.Need(0, 0, ""),
		RunE: a.Online(func(ctx context.Context, s *call.Session, _ []string) error {
			me, err := s.Client.WhoAmI(ctx)
			if err != nil {
				return err
			}
			if s.Structured() {
				return s.Data(me)
			}
			show.Line(s.Out, show.Clean(me.User)+" ("+show.Clean(string(me.Role))+")")
			return nil
		}),
	}
}
