package gateway

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// pass is whom a request speaks for.
type pass struct {
	user  *api.User
	token *api.Token
}

var (
	errWho = fault.New(fault.Unauthenticated, "NoToken", fault.T("This needs a token: send Authorization: Bearer <token>.", "请提供令牌：Authorization: Bearer <令牌>。")).
		WithHint(fault.T("Make one for this: fermi token create NAME --scope inference --only-project PROJECT.", "创建方法：fermi token create NAME --scope inference --only-project PROJECT。"))
	errToken  = fault.New(fault.Unauthenticated, "BadToken", fault.T("The token is not valid: unknown, revoked, expired, or its user was disabled.", "令牌无效：不存在、已吊销、已过期，或其用户已停用。"))
	errOrigin = fault.New(fault.Forbidden, "BadOrigin", fault.T("The request comes from a page of another origin.", "请求来自其他来源的页面。"))
)

// The cookies of the console's sessions: the first over HTTPS.
const (
	secureCookie = "__Host-fermi_session"
	plainCookie  = "fermi_session"
)

// present finds who asks: by bearer token, by an API key's header or, where browsers come from the console, by its session.
func (g *Gateway) present(ctx context.Context, r *http.Request) (*pass, error) {
	p, secret, err := g.bringer(ctx, r)
	if g.cfg.Refused != nil && fault.ReasonOf(err) == errToken.Reason {
		tried := ""
		if parts := strings.SplitN(secret, "_", 3); len(parts) == 3 && api.IsName(parts[1]) {
			tried = parts[1]
		}
		if enough := g.cfg.Refused(r, tried, errToken); enough != nil {
			return nil, enough
		}
	}
	return p, err
}

// bringer finds who asks, and the secret that was brought.
func (g *Gateway) bringer(ctx context.Context, r *http.Request) (p *pass, secret string, err error) {
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, given, _ := strings.Cut(header, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return nil, "", errWho
		}
		secret = strings.TrimSpace(given)
		p, err = g.check(ctx, secret, "")
		return p, secret, err
	}
	if key := r.Header.Get("X-Api-Key"); key != "" {
		p, err = g.check(ctx, key, "")
		return p, key, err
	}
	if !g.cfg.Cookies || g.IsHost(r) { // a page there is the service's, and no session is its to use
		return nil, "", errWho
	}
	name := plainCookie
	if r.TLS != nil {
		name = secureCookie
	}
	cookie, err := r.Cookie(name)
	if err != nil {
		return nil, "", errWho
	}
	if !sameOrigin(r) {
		return nil, "", errOrigin
	}
	p, err = g.check(ctx, cookie.Value, api.UseSession)
	return p, cookie.Value, err
}

// sameOrigin says that no page of another origin made a browser send this. Whatever could change something, and every
// WebSocket, must say where it comes from: browsers always do.
func sameOrigin(r *http.Request) bool {
	origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
	if site != "" && site != "same-origin" {
		return false
	}
	if origin == "" {
		return site != "" && r.Header.Get("Upgrade") == ""
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && r.TLS == nil
}

// check finds who a secret speaks for. Its form is door.NewSecret's: fermi_<name>_<43 characters>.
func (g *Gateway) check(ctx context.Context, secret string, use api.TokenUse) (*pass, error) {
	rest, ours := strings.CutPrefix(secret, "fermi_")
	name, _, whole := strings.Cut(rest, "_")
	if len(secret) > 256 || !ours || !whole || !api.IsName(name) {
		return nil, errToken
	}
	o, err := g.cfg.Store.Get(ctx, api.Key{Kind: api.KindToken, Name: name}, 0)
	if fault.Is(err, fault.NotFound) {
		return nil, errToken
	} else if err != nil {
		return nil, err
	}
	token := o.(*api.Token)
	sum := sha256.Sum256([]byte(secret))
	var hash [2 * sha256.Size]byte
	hex.Encode(hash[:], sum[:])
	if token.Spec.Use != use || subtle.ConstantTimeCompare(hash[:], []byte(token.Spec.Hash)) != 1 {
		return nil, errToken
	}
	now := g.cfg.Clock.Now()
	for _, at := range []*time.Time{token.Spec.ExpiresAt, token.Spec.IdleAt} {
		if at != nil && !at.After(now) {
			return nil, errToken
		}
	}
	u, err := g.cfg.Store.Get(ctx, api.Key{Kind: api.KindUser, Name: token.Spec.User}, 0)
	if fault.Is(err, fault.NotFound) {
		return nil, errToken
	} else if err != nil {
		return nil, err
	}
	user := u.(*api.User)
	if user.Spec.Disabled || token.Spec.Use != "" && token.Spec.Epoch != fmt.Sprintf("%s.%d", user.Meta.ID, user.Status.SignOuts) {
		return nil, errToken
	}
	return &pass{user, token}, nil
}

// reaches says whether a service of a project is there for whom the pass is. A token never has more than its user; one for
// a task's own calls asks no service.
func (g *Gateway) reaches(ctx context.Context, p *pass, project string) (bool, error) {
	t := &p.token.Spec
	if t.Task != "" {
		return false, nil
	}
	limited := len(t.Projects) > 0
	if limited && !slices.Contains(t.Projects, project) {
		return false, nil
	}
	if role := p.user.Spec.Role; role == api.RoleAdmin || role == api.RoleOperator {
		return true, nil
	}
	o, err := g.cfg.Store.Get(ctx, api.Key{Kind: api.KindProject, Name: project}, 0)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	return slices.Contains(o.(*api.Project).Spec.Members, p.user.Meta.Name), nil
}

// Operators lets only those in who look after the cluster.
func (g *Gateway) Operators(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := g.present(r.Context(), r)
		if err != nil {
			refuse(w, r, err)
			return
		}
		t := &who.token.Spec
		if role := who.user.Spec.Role; role != api.RoleAdmin && role != api.RoleOperator || t.Task != "" || len(t.Projects) > 0 || t.Scope == serving.ScopeInference {
			refuse(w, r, fault.New(fault.Forbidden, "NotAllowed", fault.T("Only admins and operators may read this.", "仅管理员和运维人员可查看。")))
			return
		}
		next.ServeHTTP(w, r)
	})
}
