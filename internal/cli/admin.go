package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/farewell"
	"github.com/fermi-cluster/fermi/internal/cli/roundtrip"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func (a *app) zoneCommand() *cobra.Command {
	apart := roundtrip.Commands(roundtrip.Shell{Both: Both, Need: needArgs, Online: func(run func(context.Context, *roundtrip.Session, []string) error) func(*cobra.Command, []string) error {
		return a.online(func(ctx context.Context, s *session, args []string) error {
			call := &roundtrip.Session{Client: s.client, Lang: s.lang, Ago: s.ago, Describe: s.describe, Line: func(line string) { putLine(s.out, line) }}
			if s.structured() {
				call.Data = s.data
			}
			call.Table = func(heads []fault.Text, rows [][]string) error {
				columns, table := make([]column, len(heads)), make([][]cell, len(rows))
				for i, h := range heads {
					columns[i] = column{head: h, fixed: i < len(heads)-1, right: i > 1 && i < len(heads)-1}
				}
				for i, row := range rows {
					for _, one := range row {
						table[i] = append(table[i], text(one))
					}
				}
				return writeTable(s.out, columns, table, s.lang, screenOf(s.out))
			}
			return run(ctx, call, args)
		})
	}})
	return group("zone", Both("Availability zones", "可用区"), append(apart,
		a.listCommand(api.KindZone, "list", Both("List zones", "列出可用区")), farewell.Outage(a.farewells()), farewell.Recover(a.farewells()))...)
}

func (a *app) queueCommand() *cobra.Command {
	return group("queue", Both("Queues", "队列"),
		a.queueListCommand(), a.queueDescribeCommand(), a.queueCreateCommand(), a.shareCommand(),
		a.pauseCommand("pause", true, Both("Let everything in the queue wait", "暂停队列，其中任务保持等待")),
		a.pauseCommand("resume", false, Both("Let the queue go on", "恢复队列")))
}

func (a *app) pauseCommand(use string, paused bool, short string) *cobra.Command {
	return &cobra.Command{
		Use: use + " NAME", Short: short, Args: needArgs(1, 1, "NAME"),
		RunE: a.online(func(ctx context.Context, s *session, args []string) error {
			_, err := change(ctx, s, args[0], func(q *api.Queue) { q.Spec.Paused = paused })
			if err != nil {
				return err
			}
			if paused {
				putLine(s.out, "queue/"+args[0]+" "+s.t("paused", "已暂停"))
			} else {
				putLine(s.out, "queue/"+args[0]+" "+s.t("resumed", "已恢复"))
			}
			return nil
		}),
	}
}

// change reads, edits and writes an object of the whole cluster, again when somebody was faster.
func change[T api.Object](ctx context.Context, s *session, name string, edit func(T)) (T, error) {
	for try := 0; ; try++ {
		obj, err := client.Get[T](ctx, s.client, "", name)
		if err != nil {
			return obj, err
		}
		edit(obj)
		made, err := client.Update(ctx, s.client, obj)
		if fault.Is(err, fault.Conflict) && try < 5 {
			continue
		}
		return made, err
	}
}

func (a *app) userCommand() *cobra.Command {
	var role, display string
	create := &cobra.Command{Use: "create NAME", Short: Both("Create a user", "创建用户"), Args: needArgs(1, 1, "NAME")}
	create.Flags().StringVar(&role, "role", "member", Both("admin, operator, member or viewer", "角色：admin、operator、member 或 viewer"))
	create.Flags().StringVar(&display, "display-name", "", Both("name shown to people", "显示名"))
	create.RunE = a.online(func(ctx context.Context, s *session, args []string) error {
		return s.create(ctx, &api.User{
			Meta: api.Meta{Name: args[0], DisplayName: display}, Spec: api.UserSpec{Role: api.UserRole(role)},
		})
	})
	return group("user", Both("Users", "用户"), a.listCommand(api.KindUser, "list", Both("List users", "列出用户")), create,
		a.removeCommand(api.KindUser, Both("Delete users", "删除用户")), a.passwdCommand(), a.signOutCommand(),
		a.disableCommand("disable", true, Both("Close the door to users; tokens and sessions stop at once", "停用用户；其令牌和会话立即失效")),
		a.disableCommand("enable", false, Both("Let users in again", "重新启用用户")))
}

func (a *app) projectCommand() *cobra.Command {
	var queue, display string
	var members, folders []string
	create := &cobra.Command{Use: "create NAME", Short: Both("Create a project", "创建项目"), Args: needArgs(1, 1, "NAME")}
	create.Flags().StringVar(&queue, "queue", "", Both("queue of its tasks", "任务使用的队列"))
	create.Flags().StringVar(&display, "display-name", "", Both("name shown to people", "显示名"))
	create.Flags().StringSliceVar(&members, "member", nil, Both("user who belongs to it; may be repeated", "成员用户；可重复"))
	create.Flags().StringSliceVar(&folders, "folder", nil, Both("folder of the machines that its tasks may use, by its name; may be repeated", "任务可用的主机目录（名称）；可重复"))
	create.RunE = a.online(func(ctx context.Context, s *session, args []string) error {
		return s.create(ctx, &api.Project{
			Meta: api.Meta{Name: args[0], DisplayName: display}, Spec: api.ProjectSpec{Queue: queue, Members: members, Folders: folders},
		})
	})
	return group("project", Both("Projects", "项目"), a.listCommand(api.KindProject, "list", Both("List projects", "列出项目")), create, a.projectSetCommand(),
		a.projectUseCommand(), a.removeCommand(api.KindProject, Both("Delete projects that hold no tasks", "删除没有任务的项目")),
		a.memberCommand("add-member", true, Both("Let users into a project", "将用户加入项目")),
		a.memberCommand("remove-member", false, Both("Put users out of a project; their open streams end within seconds", "将用户移出项目；其打开的流数秒内结束")))
}

func (s *session) create(ctx context.Context, obj api.Object) error {
	made, err := s.client.Create(ctx, obj, false)
	if err != nil {
		return err
	}
	if s.structured() {
		return s.data(manifest{made})
	}
	s.tell(outcome{Kind: made.Kind(), Name: made.GetMeta().Name, Result: "created"})
	return nil
}

func (a *app) tokenCommand() *cobra.Command {
	var user, scope string
	var projects []string
	var expires time.Duration
	var limits api.KeyLimits
	create := &cobra.Command{Use: "create [NAME]", Short: Both("Make a token; its secret is printed once", "创建令牌；密钥只显示一次"), Args: needArgs(0, 1, "[NAME]")}
	create.Flags().StringVar(&user, "user", "", Both("for whom it speaks; yourself when absent", "所属用户；默认本人"))
	create.Flags().StringVar(&scope, "scope", "", Both("inference (asks services, and nothing else), read, tasks (also writes tasks) or admin (all that the user may, the default)", "权限范围：inference（仅调用推理服务）、read、tasks（可写任务）或 admin（用户的全部权限，默认）"))
	create.Flags().IntVar(&limits.RequestsPerMinute, "requests-per-minute", 0, Both("of services, at each gateway; no limit when absent", "每分钟推理请求数上限（每个网关）；默认不限"))
	create.Flags().IntVar(&limits.TokensPerMinute, "tokens-per-minute", 0, Both("that answers of services take, at each gateway; no limit when absent", "每分钟推理词元数上限（每个网关）；默认不限"))
	create.Flags().Int64Var(&limits.RequestsPerMonth, "requests-per-month", 0, Both("its budget of requests to services in a calendar month, at all gateways together; no limit when absent", "每自然月的推理请求预算（全部网关合计）；默认不限"))
	create.Flags().Int64Var(&limits.TokensPerMonth, "tokens-per-month", 0, Both("its budget of tokens that answers of services take in a calendar month; no limit when absent", "每自然月的推理词元预算（全部网关合计）；默认不限"))
	create.Flags().StringSliceVar(&projects, "only-project", nil, Both("limit it to this project; may be repeated", "仅限该项目；可重复"))
	create.Flags().DurationVar(&expires, "expires", 0, Both("how long it works, such as 720h; for ever when absent", "有效期，如 720h；默认永久"))
	create.RunE = a.online(func(ctx context.Context, s *session, args []string) error {
		token := &api.Token{Spec: api.TokenSpec{User: user, Scope: api.TokenScope(scope), Projects: projects}}
		if limits != (api.KeyLimits{}) {
			token.Spec.Limits = &limits
		}
		if len(args) == 1 {
			token.Meta.Name = args[0]
		} else {
			token.Meta.DisplayName = "token"
		}
		if expires < 0 {
			return usage(create, fault.T("A token can't end in the past.", "有效期不能为负。"))
		}
		if expires > 0 {
			at := s.clock.Now().Add(expires).UTC().Truncate(time.Second)
			token.Spec.ExpiresAt = &at
		}
		if token.Spec.User == "" {
			me, err := s.client.WhoAmI(ctx)
			if err != nil {
				return err
			}
			token.Spec.User = me.User
		}
		made, err := s.client.CreateToken(ctx, token, false)
		if err != nil {
			return err
		}
		if s.structured() {
			return s.data(made)
		}
		if made.Object != nil {
			s.say("Token %s of user %s. Keep the secret: it is not shown again.", "令牌 %s（用户 %s）。请保存密钥，之后不再显示。", made.Object.Meta.Name, made.Object.Spec.User)
		}
		putLine(s.out, made.Secret)
		return nil
	})
	revoke := &cobra.Command{
		Use: "revoke NAME...", Short: Both("End tokens at once", "立即吊销令牌"), Args: needArgs(1, -1, "NAME..."),
		RunE: a.online(func(ctx context.Context, s *session, args []string) error {
			for _, name := range args {
				if err := s.client.Delete(ctx, api.KindToken, "", name); err != nil {
					return err
				}
				putLine(s.out, "token/"+name+" "+s.t("revoked", "已吊销"))
			}
			return nil
		}),
	}
	return group("token", Both("Tokens for programs", "访问令牌"),
		a.listCommand(api.KindToken, "list", Both("List tokens", "列出令牌")), create, revoke)
}

// createToken is for apply: the secret goes to stderr, because stdout tells what happened.
func (s *session) createToken(ctx context.Context, token *api.Token) (api.Object, string, error) {
	made, err := s.client.CreateToken(ctx, token, false)
	if err != nil {
		return token, "", err
	}
	if made.Object == nil {
		made.Object = token
	}
	s.say("The secret of token %s, shown only now: %s", "令牌 %s 的密钥（仅此一次显示）：%s", made.Object.Meta.Name, made.Secret)
	return made.Object, "created", nil
}

func (a *app) whoamiCommand() *cobra.Command {
	return &cobra.Command{
		Use: "whoami", Short: Both("Who the server takes you for", "查看当前身份"), Args: needArgs(0, 0, ""),
		RunE: a.online(func(ctx context.Context, s *session, _ []string) error {
			me, err := s.client.WhoAmI(ctx)
			if err != nil {
				return err
			}
			if s.structured() {
				return s.data(me)
			}
			putLine(s.out, clean(me.User)+" ("+clean(string(me.Role))+")")
			return nil
		}),
	}
}

func (a *app) versionCommand() *cobra.Command {
	var onlyClient bool
	cmd := &cobra.Command{Use: "version", Short: Both("Versions of this binary and the server", "查看客户端与服务器版本"), Args: needArgs(0, 0, "")}
	cmd.Flags().BoolVar(&onlyClient, "client", false, Both("don't ask the server", "不查询服务器"))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, err := a.session(cmd)
		if err != nil {
			return err
		}
		info := map[string]string{"client": first(a.build.Version, "dev"), "commit": a.build.Commit, "date": a.build.Date}
		if !onlyClient {
			info["server"] = s.serverVersion(cmd.Context())
		}
		if s.structured() {
			return s.data(info)
		}
		line := "fermi " + info["client"]
		if a.build.Commit != "" {
			line += " (" + a.build.Commit + ")"
		}
		putLine(s.out, line)
		if v := info["server"]; v != "" {
			putLine(s.out, s.t("server %s", "服务器 %s", clean(v)))
		}
		return nil
	}
	return cmd
}

// serverVersion is "" when the server isn't there: the version of the binary is answer enough.
func (s *session) serverVersion(ctx context.Context) string {
	c, err := s.dial()
	if err != nil {
		return ""
	}
	defer c.CloseIdle()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	v, err := c.Version(ctx)
	if err != nil {
		return ""
	}
	return v.Version
}
