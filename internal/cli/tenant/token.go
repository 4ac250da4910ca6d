package tenant

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/object"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func TokenCommand(a *call.Shell) *cobra.Command {
	var user, scope string
	var projects []string
	var expires time.Duration
	var limits api.KeyLimits
	create := &cobra.Command{Use: "create [NAME]", Short: speech.Both("Make a token; its secret is printed once", "创建令牌；密钥只显示一次"), Args: usage.Need(0, 1, "[NAME]")}
	create.Flags().StringVar(&user, "user", "", speech.Both("for whom it speaks; yourself when absent", "所属用户；默认本人"))
	create.Flags().StringVar(&scope, "scope", "", speech.Both("inference (asks services, and nothing else), read, tasks (also writes tasks) or admin (all that the user may, the default)", "权限范围：inference（仅调用推理服务）、read、tasks（可写任务）或 admin（用户的全部权限，默认）"))
	create.Flags().IntVar(&limits.RequestsPerMinute, "requests-per-minute", 0, speech.Both("of services, at each gateway; no limit when absent", "每分钟推理请求数上限（每个网关）；默认不限"))
	create.Flags().IntVar(&limits.TokensPerMinute, "tokens-per-minute", 0, speech.Both("that answers of services take, at each gateway; no limit when absent", "每分钟推理词元数上限（每个网关）；默认不限"))
	create.Flags().Int64Var(&limits.RequestsPerMonth, "requests-per-month", 0, speech.Both("its budget of requests to services in a calendar month, at all gateways together; no limit when absent", "每自然月的推理请求预算（全部网关合计）；默认不限"))
	create.Flags().Int64Var(&limits.TokensPerMonth, "tokens-per-month", 0, speech.Both("its budget of tokens that answers of services take in a calendar month; no limit when absent", "每自然月的推理词元预算（全部网关合计）；默认不限"))
	create.Flags().StringSliceVar(&projects, "only-project", nil, speech.Both("limit it to this project; may be repeated", "仅限该项目；可重复"))
	create.Flags().DurationVar(&expires, "expires", 0, speech.Both("how long it works, such as 720h; for ever when absent", "有效期，如 720h；默认永久"))
	create.RunE = a.Online(func(ctx context.Context, s *call.Session, args []string) error {
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
			return usage.Wrong(create, fault.T("A token can't end in the past.", "有效期不能为负。"))
		}
		if expires > 0 {
			at := s.Clock.Now().Add(expires).UTC().Truncate(time.Second)
			token.Spec.ExpiresAt = &at
		}
		if token.Spec.User == "" {
			me, err := s.Client.WhoAmI(ctx)
			if err != nil {
				return err
			}
			token.Spec.User = me.User
		}
		made, err := s.Client.CreateToken(ctx, token, false)
		if err != nil {
			return err
		}
		if s.Structured() {
			return s.Data(made)
		}
		if made.Object != nil {
			s.Say("Token %s of user %s. Keep the secret: it is not shown again.", "令牌 %s（用户 %s）。请保存密钥，之后不再显示。", made.Object.Meta.Name, made.Object.Spec.User)
		}
		show.Line(s.Out, made.Secret)
		return nil
	})
	revoke := &cobra.Command{
		Use: "revoke NAME...", Short: speech.Both("End tokens at once", "立即吊销令牌"), Args: usage.Need(1, -1, "NAME..."),
		RunE: a.Online(func(ctx context.Context, s *call.Session, args []string) error {
			for _, name := range args {
				if err := s.Client.Delete(ctx, api.KindToken, "", name); err != nil {
					return err
				}
				show.Line(s.Out, "token/"+name+" "+s.T("revoked", "已吊销"))
			}
			return nil
		}),
	}
	return usage.Group("token", speech.Both("Tokens for programs", "访问令牌"),
		object.ListCommand(a, api.KindToken, "list", speech.Both("List tokens", "列出令牌")), create, revoke)
}
