package cli

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
	"github.com/fermi-cluster/fermi/internal/fault"
)

// tokenScope is what a token may, in one cell.
func tokenScope(t *api.Token) string {
	scope := first(string(t.Spec.Scope), string(api.ScopeAdmin))
	if len(t.Spec.Projects) > 0 {
		scope += " @ " + strings.Join(t.Spec.Projects, ",")
	}
	return scope
}

// each does something to every name, and says what became of it.
func (a *app) each(use, short string, kind api.Kind, done fault.Text, do func(ctx context.Context, s *session, name string) error) *cobra.Command {
	return &cobra.Command{
		Use: use + " NAME...", Short: short, Args: needArgs(1, -1, "NAME..."),
		RunE: a.online(func(ctx context.Context, s *session, args []string) error {
			for _, name := range args {
				if err := do(ctx, s, name); err != nil {
					return err
				}
				putLine(s.out, api.MustInfo(kind).Singular+"/"+name+" "+done.In(s.lang))
			}
			return nil
		}),
	}
}

func (a *app) removeCommand(kind api.Kind, short string) *cobra.Command {
	return a.each("delete", short, kind, fault.T("deleted", "已删除"), func(ctx context.Context, s *session, name string) error {
		return s.client.Delete(ctx, kind, "", name)
	})
}

func (a *app) disableCommand(use string, disabled bool, short string) *cobra.Command {
	done := fault.T("enabled", "已启用")
	if disabled {
		done = fault.T("disabled", "已停用")
	}
	return a.each(use, short, api.KindUser, done, func(ctx context.Context, s *session, name string) error {
		_, err := change(ctx, s, name, func(u *api.User) { u.Spec.Disabled = disabled })
		return err
	})
}

func (a *app) signOutCommand() *cobra.Command {
	return a.each("sign-out", Both("End all sessions of users", "结束用户的全部会话"), api.KindUser, fault.T("signed out everywhere", "已在所有设备上退出登录"),
		func(ctx context.Context, s *session, name string) error { return s.client.SignOut(ctx, name) })
}

func (a *app) memberCommand(use string, in bool, short string) *cobra.Command {
	return &cobra.Command{
		Use: use + " PROJECT USER...", Short: short, Args: needArgs(2, -1, "PROJECT USER..."),
		RunE: a.online(func(ctx context.Context, s *session, args []string) error {
			project, users := args[0], args[1:]
			_, err := change(ctx, s, project, func(p *api.Project) {
				kept := slices.DeleteFunc(p.Spec.Members, func(m string) bool { return slices.Contains(users, m) })
				if p.Spec.Members = kept; in {
					slices.Sort(users)
					p.Spec.Members = append(kept, slices.Compact(users)...)
				}
			})
			if err != nil {
				return err
			}
			for _, user := range users {
				if in {
					putLine(s.out, "project/"+project+" "+s.t("+ %s", "已加入 %s", user))
				} else {
					putLine(s.out, "project/"+project+" "+s.t("- %s", "已移出 %s", user))
				}
			}
			return nil
		}),
	}
}

// signInCommand prints an address that signs a browser in.
func (a *app) signInCommand() *cobra.Command {
	return &cobra.Command{
		Use: "signin", Short: Both("Print an address that signs your browser in once, within five minutes", "显示一次性登录地址，五分钟内有效"), Args: needArgs(0, 0, ""),
		RunE: a.online(func(ctx context.Context, s *session, _ []string) error {
			code, err := s.client.SignInCode(ctx)
			if err != nil {
				return err
			}
			putLine(s.out, s.client.Server()+"/#code="+code)
			return nil
		}),
	}
}

// passwdCommand asks for the password on the terminal, or reads it from stdin, a line each; the
// command line and the environment, which others can see, are no place for it.
func (a *app) passwdCommand() *cobra.Command {
	return &cobra.Command{
		Use: "passwd [NAME]", Short: Both("Set a password; it is asked for, or read from stdin", "设置密码；在终端输入或从标准输入读取"), Args: needArgs(0, 1, "[NAME]"),
		Long: Both("Set a password and end all sessions of the user. On a terminal it is asked for without being shown. Otherwise stdin holds the new password on its first line; for your own, the current one may follow on a second.",
			"设置密码并结束该用户的全部会话。在终端上以不回显方式输入；否则标准输入第一行为新密码，修改本人密码时第二行可为当前密码。"),
		RunE: a.online(func(ctx context.Context, s *session, args []string) error {
			me, err := s.client.WhoAmI(ctx)
			if err != nil {
				return err
			}
			name := me.User
			if len(args) == 1 {
				name = args[0]
			}
			password, current, err := s.askPassword(name == me.User)
			if err != nil {
				return err
			}
			if err := s.client.SetPassword(ctx, name, password, current); err != nil {
				return err
			}
			putLine(s.out, "user/"+name+" "+s.t("password set; all sessions ended", "密码已设置，所有会话已结束"))
			return nil
		}),
	}
}

const maxPasswordLine = 4096

func (s *session) askPassword(mine bool) (password, current string, err error) {
	if f, ok := s.in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return s.promptPassword(int(f.Fd()), mine)
	}
	in := bufio.NewReader(io.LimitReader(s.in, maxPasswordLine))
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

func (s *session) promptPassword(fd int, mine bool) (password, current string, err error) {
	ask := func(en, zh string) (text string) {
		if err != nil {
			return ""
		}
		fmt.Fprint(s.err, fault.Text{EN: en, ZH: zh}.In(s.lang))
		var raw []byte
		raw, err = term.ReadPassword(fd)
		fmt.Fprintln(s.err)
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
