package door

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/terminal"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/pass"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/limit"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/truth"
	"github.com/fermi-cluster/fermi/internal/store"
)

// A secret is "fermi_<token name>_<43 base64url characters>": the name finds the Token, the 256
// random bits prove it. Names hold no '_', so the first two cut it apart.
const secretPrefix = "fermi"

// NewSecret makes the secret of a token and what is stored of it.
func NewSecret(name string, random io.Reader) (secret, hash string, err error) {
	var buf [32]byte
	if _, err := io.ReadFull(random, buf[:]); err != nil {
		return "", "", err
	}
	secret = secretPrefix + "_" + name + "_" + base64.RawURLEncoding.EncodeToString(buf[:])
	return secret, HashSecret(secret), nil
}

// HashSecret is what a Token keeps: hex SHA-256 of the whole secret.
func HashSecret(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

func tokenName(secret string) (string, bool) {
	parts := strings.SplitN(secret, "_", 3)
	if len(secret) > 256 || len(parts) != 3 || parts[0] != secretPrefix || !api.IsName(parts[1]) || len(parts[2]) != 43 {
		return "", false
	}
	return parts[1], true
}

// Door lets callers in: by token, session or code. Safe for concurrent use.
type Door struct {
	truth  *truth.Truth
	rules  *access.Rules
	limits limit.Limits
	counts *limit.Counters
	clock  clock.Clock
	log    *slog.Logger
	// Replicas, where it is there, lets processes of replicas in; set before the first call.
	Replicas Replicas
}

func New(t *truth.Truth, r *access.Rules, l limit.Limits, counts *limit.Counters, c clock.Clock, log *slog.Logger) *Door {
	return &Door{truth: t, rules: r, limits: l, counts: counts, clock: c, log: log}
}

// present finds the caller by its bearer token or, for browsers, its cookie.
func (d *Door) present(ctx context.Context, c *rest.Call) (*access.Caller, error) {
	if header := c.R.Header.Get("Authorization"); header != "" {
		return d.authenticate(ctx, bearer(header), "")
	}
	if secret := spoken(c.R); secret != "" {
		return d.authenticate(ctx, secret, "")
	}
	secret := cookieOf(c.R)
	if secret == "" {
		return nil, ErrWho
	}
	if err := sameOrigin(c.R, !reads(c.R.Method) || c.R.Header.Get("Upgrade") != ""); err != nil {
		return nil, err
	}
	who, err := d.authenticate(ctx, secret, api.UseSession)
	if fault.Is(err, fault.Unauthenticated) {
		return nil, errNoSession
	} else if err != nil {
		return nil, err
	}
	d.touch(ctx, who)
	return who, nil
}

// spoken is the token of a WebSocket whose client can't send a header: a browser's page that has no cookie. "": it brings none.
func spoken(r *http.Request) string {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return ""
	}
	for _, header := range r.Header.Values("Sec-WebSocket-Protocol") {
		for word := range strings.SplitSeq(header, ",") {
			if secret, ok := strings.CutPrefix(strings.TrimSpace(word), terminal.Bearer); ok {
				return secret
			}
		}
	}
	return ""
}

// presented is the name of the token that the caller came with, which is no secret; "" without one.
func presented(r *http.Request) string {
	secret := cmp.Or(spoken(r), cookieOf(r))
	if header := r.Header.Get("Authorization"); header != "" {
		secret = bearer(header)
	}
	name, _ := tokenName(secret)
	return name
}

// Admit finds the caller, counts the call against its user, and looks into the table of access.
func (d *Door) Admit(ctx context.Context, c *rest.Call) error {
	who, err := d.present(ctx, c)
	if err != nil {
		if !fault.Is(err, fault.Unauthenticated) {
			return err
		}
		c.Tried = presented(c.R)
		if enough := d.Count(c.IP); enough != nil {
			return enough
		}
		return err
	}
	c.Who = who
	if ok, wait := d.counts.Calls.Take(who.Payer()); !ok {
		return refuse.TooMany("TooManyRequests", wait, fault.T(
			"You make more than %v requests a second, with all your tokens and sessions together.", "您的请求超过每秒 %v 次（所有令牌与会话合计）。", d.limits.Rate))
	}
	return who.MayCall(c.Route.ID)
}

// Count counts a refused token of an address; an error says that there were too many.
func (d *Door) Count(ip string) error {
	if ok, wait := d.counts.Refused.Take(limit.Neighbourhood(ip)); !ok {
		return refuse.TooMany("TooManyRefusals", wait, fault.T("Too many bad tokens from this address.", "来自该地址的无效令牌过多。"))
	}
	return nil
}

func bearer(header string) string {
	scheme, secret, ok := strings.Cut(header, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(secret)
}

var ErrWho = fault.New(fault.Unauthenticated, "NoToken", fault.T(
	"This needs a token: send Authorization: Bearer <token>.", "请提供令牌：Authorization: Bearer <令牌>。")).WithHint(fault.T(
	"fermi up writes the first one to admin.token in its data folder; more are made with `fermi token create`.",
	"fermi up 会把首个令牌写入数据目录的 admin.token；其余令牌用 `fermi token create` 创建。"))

var errBadToken = fault.New(fault.Unauthenticated, "BadToken", fault.T(
	"The token is not valid: unknown, revoked, or its user was disabled.", "令牌无效：不存在、已吊销，或其用户已停用。"))

var errExpired = fault.New(fault.Unauthenticated, "TokenExpired", fault.T(
	"The token has expired.", "令牌已过期。"))

var errNoSession = fault.New(fault.Unauthenticated, "NoSession", fault.T(
	"You are not signed in, or your session has ended.", "尚未登录，或会话已结束。"))

// authenticate finds who a secret speaks for. Each use of tokens has its own door: a code signs in,
// a session comes by cookie, and neither is a bearer token.
func (d *Door) authenticate(ctx context.Context, secret string, use api.TokenUse) (*access.Caller, error) {
	if secret == "" {
		return nil, ErrWho
	}
	if replica, ok := pass.Read(secret); ok && use == "" && d.Replicas != nil {
		return d.enter(ctx, replica, func(token string) bool { return pass.Fits(secret, replica, token) })
	}
	name, ok := tokenName(secret)
	if !ok {
		return nil, errBadToken
	}
	key := api.Key{Kind: api.KindToken, Name: name}
	o, err := d.truth.FindAnywhere(ctx, key) // perhaps another server made it a moment ago
	if fault.Is(err, fault.NotFound) {
		return nil, errBadToken
	} else if err != nil {
		return nil, err
	}
	token := o.(*api.Token)
	if token.Spec.Use != use || subtle.ConstantTimeCompare([]byte(HashSecret(secret)), []byte(token.Spec.Hash)) != 1 {
		return nil, errBadToken
	}
	return d.callerOf(ctx, token)
}

// Bearer is who a token for programs speaks for.
func (d *Door) Bearer(ctx context.Context, secret string) (*access.Caller, error) {
	return d.authenticate(ctx, secret, "")
}

// Again is who a token or session speaks for that was let in before, as it is now.
func (d *Door) Again(ctx context.Context, name, id string) (*access.Caller, error) {
	o, err := d.truth.FindAnywhere(ctx, api.Key{Kind: api.KindToken, Name: name})
	if fault.Is(err, fault.NotFound) || err == nil && o.GetMeta().ID != id {
		return nil, errNoSession
	} else if err != nil {
		return nil, err
	}
	token := o.(*api.Token)
	if token.Spec.Use == api.UseCode {
		return nil, errNoSession
	}
	who, err := d.callerOf(ctx, token)
	if err == nil {
		d.touch(ctx, who)
	}
	return who, err
}

// Recheck says whether the caller of a stream may still be here.
func (d *Door) Recheck(ctx context.Context, w *access.Caller) (*access.Caller, error) {
	if w.Replica != "" {
		return d.enter(ctx, w.Replica, func(string) bool { return true })
	}
	o, err := d.truth.Get(ctx, api.KeyOf(w.Token), 0)
	if fault.Is(err, fault.NotFound) {
		return nil, errBadToken
	} else if err != nil {
		return nil, err
	}
	token := o.(*api.Token)
	if token.Meta.ID != w.Token.Meta.ID || token.Spec.Hash != w.Token.Spec.Hash {
		return nil, errBadToken
	}
	return d.callerOf(ctx, token)
}

func (d *Door) callerOf(ctx context.Context, token *api.Token) (*access.Caller, error) {
	for _, at := range []*time.Time{token.Spec.ExpiresAt, token.Spec.IdleAt} {
		if at != nil && !at.After(d.clock.Now()) {
			return nil, errExpired
		}
	}
	o, err := d.truth.Find(ctx, api.Key{Kind: api.KindUser, Name: token.Spec.User}, 0)
	if fault.Is(err, fault.NotFound) {
		return nil, errBadToken
	} else if err != nil {
		return nil, err
	}
	user := o.(*api.User)
	if user.Spec.Disabled || token.Spec.Use != "" && token.Spec.Epoch != epochOf(user) {
		return nil, errBadToken
	}
	return &access.Caller{User: user, Token: token, Rules: d.rules}, nil
}

// touch moves a session's idle end forward, with a write at most every sixteenth of it.
func (d *Door) touch(ctx context.Context, w *access.Caller) {
	at := w.Token.Spec.IdleAt
	if at == nil {
		return
	}
	idle := d.clock.Now().UTC().Add(d.limits.Idle)
	if end := w.Token.Spec.ExpiresAt; end != nil && idle.After(*end) {
		idle = *end
	}
	if idle.Sub(*at) < d.limits.Idle/16 {
		return
	}
	next := store.Clone(w.Token)
	next.Spec.IdleAt = &idle
	if _, err := d.truth.Write(ctx, store.Update(next)); err != nil && fault.ReasonOf(err) != "Stale" {
		d.log.Warn("a session's use was not noted", "user", w.Name(), "error", err)
	}
}
