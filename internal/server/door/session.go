package door

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/limit"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/truth"
	"github.com/fermi-cluster/fermi/internal/store"
)

// A session is a Token of use "session": its hash is in the store, so every replica knows it and a
// restart forgets nothing; the browser holds the secret in a cookie. A sign-in code is a Token of
// use "code": the same commit deletes it and makes the session, so that it works once.
//
// Both carry the epoch of their user, which a changed password and a sign-out everywhere move on:
// one write ends all sessions. What has ended is swept away later.

const (
	maxSignIn   = 8 << 10 // bytes of a body with a password
	MaxSessions = 32      // of one user; a further one ends the oldest
	sweepEvery  = 10 * time.Minute
)

type signInBody struct {
	Code     string `json:"code,omitempty" doc:"A one-time code, alone."`
	User     string `json:"user,omitempty"`
	Password string `json:"password,omitempty"`
}

type passwordBody struct {
	Password string `json:"password" doc:"The new one: 8 to 256 characters."`
	Current  string `json:"current,omitempty" doc:"Your own one of now; admins need none for others."`
}

type CodeInfo struct {
	Code      string    `json:"code" doc:"Works once. Put it into the fragment of the console's address: /#code=…"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// SessionInfo is who is signed in, and for how long.
type SessionInfo struct {
	Identity
	IdleAt *time.Time `json:"idleAt,omitempty" doc:"When the session ends unless it is used."`
}

// Sessions serves signing in and out, and passwords.
type Sessions struct {
	door      *Door
	truth     *truth.Truth
	Passwords *Passwords
	ids       *id.Source
	random    io.Reader // of secrets
}

func NewSessions(d *Door, ids *id.Source, random io.Reader) *Sessions {
	return &Sessions{door: d, truth: d.truth, Passwords: newPasswords(random), ids: ids, random: random}
}

func (s *Sessions) Routes(reg *rest.Schemas) []*rest.Route {
	return []*rest.Route{
		{
			Method: http.MethodGet, Path: rest.Prefix + "/whoami", ID: "whoami", Summary: "Whom the token speaks for.", Tag: "system",
			Data: rest.SchemaOf[Identity](reg), Handle: s.whoami,
		},
		{
			Method: http.MethodPost, Path: rest.Prefix + "/session", ID: "signIn", Summary: "Sign in with a one-time code, or with user and password; sets the cookie.", Tag: "sessions",
			Open: true, Verb: "sign-in", Kind: api.KindToken, Data: rest.SchemaOf[SessionInfo](reg),
			Body:   &rest.BodySpec{Schema: rest.SchemaOf[signInBody](reg), Media: rest.JsonMedia, Required: true},
			Handle: s.signIn,
		},
		{
			Method: http.MethodGet, Path: rest.Prefix + "/session", ID: "getSession", Summary: "Who is signed in, and for how long.", Tag: "sessions",
			Data: rest.SchemaOf[SessionInfo](reg), Handle: s.getSession,
		},
		{
			Method: http.MethodDelete, Path: rest.Prefix + "/session", ID: "signOut", Summary: "End this session.", Tag: "sessions",
			Verb: "sign-out", Kind: api.KindToken, Handle: s.signOut,
		},
		{
			Method: http.MethodDelete, Path: rest.Prefix + "/sessions", ID: "signOutEverywhere", Summary: "End all sessions of a user.", Tag: "sessions",
			Verb: "sign-out-everywhere", Kind: api.KindUser, Query: []rest.Param{{Name: "user", Doc: "Another user, for admins; yourself when absent."}},
			Data: reg.Kind(api.MustInfo(api.KindUser)), Handle: s.signOutEverywhere,
		},
		{
			Method: http.MethodPost, Path: rest.Prefix + "/session/code", ID: "makeSignInCode", Summary: "A one-time code that signs you in within five minutes.", Tag: "sessions",
			Verb: "create", Kind: api.KindToken, Data: rest.SchemaOf[CodeInfo](reg), Handle: s.makeCode,
		},
		{
			Method: http.MethodPut, Path: rest.Prefix + "/users/{name}/password", ID: "setPassword", Summary: "Set a password; ends all sessions of the user.", Tag: "users",
			Verb: "set-password", Kind: api.KindUser, Data: reg.Kind(api.MustInfo(api.KindUser)),
			Body:   &rest.BodySpec{Schema: rest.SchemaOf[passwordBody](reg), Media: rest.JsonMedia, Required: true},
			Handle: s.setPassword,
		},
	}
}

// strictJSON reads a small body whose fields are all known.
func strictJSON(c *rest.Call, into any) error {
	data, err := c.ReadBody(maxSignIn)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return badJSON()
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return badJSON()
	}
	return nil
}

// badJSON says nothing about the body and keeps no cause: the body may hold a password.
func badJSON() error {
	return fault.New(fault.Invalid, "BadSyntax", fault.T(
		"The body is not one JSON object with the fields of this route.", "请求体不是该接口所需字段组成的 JSON 对象。"))
}

// WithoutPassword is a user as others see it, without touching the shared object.
func WithoutPassword(u *api.User) *api.User {
	private := *u
	private.Status.PasswordHash = ""
	return &private
}

// epochOf is what a session must carry to count. It names the user's id: a user made again under
// the same name inherits nothing.
func epochOf(u *api.User) string { return fmt.Sprintf("%s.%d", u.Meta.ID, u.Status.SignOuts) }

// issue makes a token of some use for a user; it is not written yet.
func (s *Sessions) issue(u *api.User, use api.TokenUse, lasts time.Duration) (*api.Token, string, error) {
	now := s.door.clock.Now().UTC()
	name := string(use) + "-" + s.ids.Random(16)
	secret, hash, err := NewSecret(name, s.random)
	if err != nil {
		return nil, "", err
	}
	ends := now.Add(lasts)
	t := &api.Token{
		Meta: api.Meta{ID: s.ids.New(api.MustInfo(api.KindToken).IDPrefix), Name: name, DisplayName: string(use), Owner: u.Meta.Name, CreatedAt: now, UpdatedAt: now},
		Spec: api.TokenSpec{User: u.Meta.Name, Hash: hash, ExpiresAt: &ends, Use: use, Epoch: epochOf(u)},
	}
	if use == api.UseSession {
		idle := now.Add(min(s.door.limits.Idle, lasts))
		t.Spec.IdleAt = &idle
	}
	return t, secret, nil
}

// SignInCode makes a one-time code that signs a user in; for whoever starts the server.
func (s *Sessions) SignInCode(ctx context.Context, user string) (string, error) {
	o, err := s.truth.Find(ctx, api.Key{Kind: api.KindUser, Name: user}, 0)
	if err != nil {
		return "", err
	}
	t, secret, err := s.issue(o.(*api.User), api.UseCode, s.door.limits.Code)
	if err != nil {
		return "", err
	}
	_, err = s.truth.Write(ctx, store.Create(t))
	return secret, err
}

func (s *Sessions) makeCode(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	end := c.Who.Token.Spec.Until
	if c.Who.Token.Spec.Use == "" {
		end = c.Who.Token.Spec.ExpiresAt
	}
	t, secret, err := s.issue(c.Who.User, api.UseCode, s.door.limits.Code)
	if err != nil {
		return nil, err
	}
	endBy(t, end)
	oldest, err := s.surplusOf(ctx, c.Who.Name(), api.UseCode, MaxCodes)
	if err != nil {
		return nil, err
	}
	rev, err := s.truth.Write(ctx, append(oldest, store.Create(t))...)
	if err != nil {
		return nil, err
	}
	c.Note.After(t)
	return &rest.Reply{Data: CodeInfo{secret, *t.Spec.ExpiresAt}, Revision: rev}, nil
}

var errBadCode = fault.New(fault.Unauthenticated, "BadCode", fault.T(
	"The sign-in code is not valid: unknown, used, or older than five minutes.", "登录码无效：不存在、已使用或已超过五分钟。")).WithHint(fault.T(
	"`fermi signin` makes a new one.", "可用 `fermi signin` 获取新的登录码。"))

var errBadSignIn = fault.New(fault.Unauthenticated, "BadSignIn", fault.T(
	"The user or the password is wrong.", "用户名或密码错误。"))

func (s *Sessions) signIn(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	if err := sameOrigin(c.R, false); err != nil { // nobody is signed in by a stranger's page
		return nil, err
	}
	var in signInBody
	if err := strictJSON(c, &in); err != nil {
		return nil, err
	}
	byCode := in.Code != ""
	if byCode == (in.User != "" || in.Password != "") || !byCode && (in.User == "" || in.Password == "") {
		return nil, fault.New(fault.Invalid, "InvalidField", fault.T("Give either code, or user and password.", "请给出 code，或者 user 和 password。"))
	}
	if c.Tried, _ = tokenName(in.Code); api.IsName(in.User) {
		c.Tried = in.User
	}
	near := limit.Neighbourhood(c.IP)
	if wait := s.door.counts.Addresses.Try(near); wait > 0 {
		return nil, tooManyGuesses(wait)
	}
	var err error
	for range truth.Retries {
		var user *api.User
		var until *time.Time
		var ops []store.Op
		if byCode {
			user, until, ops, err = s.redeem(ctx, in.Code)
		} else {
			user, err = s.passwordOf(ctx, in.User, in.Password)
		}
		if err != nil {
			return nil, err
		}
		var rep *rest.Reply
		if rep, err = s.openSession(ctx, c, user, until, ops); fault.ReasonOf(err) != "Stale" {
			if err == nil {
				s.door.counts.Addresses.Forgive(near, false)
			}
			return rep, err
		}
	}
	return nil, err
}

func tooManyGuesses(wait time.Duration) error {
	seconds := int((wait + time.Second - 1) / time.Second)
	return refuse.TooMany("TooManySignIns", wait, fault.T(
		"Too many failed attempts to sign in. Try again in %d s.", "登录失败次数过多，请在 %d 秒后再试。", seconds))
}

// redeem finds whom a code signs in; the operations use it up.
func (s *Sessions) redeem(ctx context.Context, code string) (*api.User, *time.Time, []store.Op, error) {
	who, err := s.door.authenticate(ctx, code, api.UseCode)
	if fault.Is(err, fault.Unauthenticated) {
		return nil, nil, nil, errBadCode
	} else if err != nil {
		return nil, nil, nil, err
	}
	// Used a moment ago and the cache has not heard of it: that is no code any more, not a conflict.
	if _, err := s.truth.Find(ctx, api.KeyOf(who.Token), s.truth.Newest()); fault.Is(err, fault.NotFound) {
		return nil, nil, nil, errBadCode
	} else if err != nil {
		return nil, nil, nil, err
	}
	return who.User, who.Token.Spec.Until, []store.Op{store.Delete(api.KeyOf(who.Token), who.Token.Meta.Revision)}, nil
}

// passwordOf is the user with this password. Nobody learns which of the two was wrong.
func (s *Sessions) passwordOf(ctx context.Context, name, password string) (*api.User, error) {
	if !api.IsName(name) || len(password) > maxPassword {
		return nil, errBadSignIn
	}
	if wait := s.door.counts.Guesses.Try(name); wait > 0 {
		return nil, tooManyGuesses(wait)
	}
	user := &api.User{}
	// As new as the last write here: who was just let in again, or has a new password, is not refused.
	o, err := s.truth.Find(ctx, api.Key{Kind: api.KindUser, Name: name}, s.truth.Newest())
	if err == nil {
		user = o.(*api.User)
	} else if !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	ok, err := s.Passwords.matches(ctx, password, user.Status.PasswordHash)
	if err != nil {
		return nil, err
	}
	if !ok || user.Spec.Disabled {
		return nil, errBadSignIn
	}
	s.door.counts.Guesses.Forgive(name, true)
	return user, nil
}

// openSession writes the session; the user must not have changed since it was looked at.
// until, if any, is the end of the token that its code came from.
func (s *Sessions) openSession(ctx context.Context, c *rest.Call, user *api.User, until *time.Time, ops []store.Op) (*rest.Reply, error) {
	token, secret, err := s.issue(user, api.UseSession, s.door.limits.Session)
	if err != nil {
		return nil, err
	}
	endBy(token, until)
	oldest, err := s.surplusOf(ctx, user.Meta.Name, api.UseSession, MaxSessions)
	if err != nil {
		return nil, err
	}
	ops = append(ops, store.Create(token), store.Unchanged(api.KeyOf(user), user.Meta.Revision))
	rev, err := s.truth.Write(ctx, append(ops, oldest...)...)
	if err != nil {
		return nil, err
	}
	c.Who = &access.Caller{User: user, Token: token, Rules: s.door.rules}
	c.Note.After(token)
	info, err := s.sessionInfo(ctx, c.Who)
	if err != nil {
		return nil, err
	}
	setCookie(c, secret, int(token.Spec.ExpiresAt.Sub(token.Meta.CreatedAt)/time.Second))
	return &rest.Reply{Message: fault.T("Signed in", "登录成功"), Data: info, Revision: rev}, nil
}

func (s *Sessions) sessionInfo(ctx context.Context, w *access.Caller) (SessionInfo, error) {
	id, err := s.door.identify(ctx, w)
	return SessionInfo{Identity: id, IdleAt: w.Token.Spec.IdleAt}, err
}

func (s *Sessions) getSession(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	info, err := s.sessionInfo(ctx, c.Who)
	if err != nil {
		return nil, err
	}
	return &rest.Reply{Data: info}, nil
}

func (s *Sessions) signOut(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	if c.Who.Token.Spec.Use != api.UseSession {
		return nil, fault.New(fault.Invalid, "NoSession", fault.T(
			"A token is no session; revoke it with `fermi token revoke`.", "令牌不是会话；请用 `fermi token revoke` 吊销。"))
	}
	c.Note.Before(c.Who.Token)
	rev, err := s.truth.Write(ctx, store.Delete(api.KeyOf(c.Who.Token), 0))
	if err != nil {
		return nil, err
	}
	setCookie(c, "", -1)
	return &rest.Reply{Message: fault.T("Signed out", "已退出登录"), Revision: rev}, nil
}

func (s *Sessions) signOutEverywhere(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	name := c.Query.Text("user")
	if name == "" {
		name = c.Who.Name()
	}
	next, rev, err := s.editUser(ctx, c, name, func(*api.User) error { return nil })
	if err != nil {
		return nil, err
	}
	if name == c.Who.Name() && c.Who.Token.Spec.Use == api.UseSession {
		setCookie(c, "", -1)
	}
	return &rest.Reply{Message: fault.T("Signed out everywhere", "已在所有设备上退出登录"), Data: WithoutPassword(next), Revision: rev}, nil
}

func (s *Sessions) setPassword(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	var in passwordBody
	if err := strictJSON(c, &in); err != nil {
		return nil, err
	}
	name := c.R.PathValue("name")
	if err := checkPassword(name, in.Password); err != nil {
		return nil, err
	}
	hash, err := s.Passwords.hash(ctx, in.Password)
	if err != nil {
		return nil, err
	}
	next, rev, err := s.editUser(ctx, c, name, func(u *api.User) error {
		if err := s.provesCurrent(ctx, c, u, in.Current); err != nil {
			return err
		}
		now := s.door.clock.Now().UTC()
		u.Status.PasswordHash, u.Status.PasswordSetAt = hash, &now
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.door.counts.Guesses.Forgive(name, true)
	c.Tell(next, "PasswordChanged", fault.T("The password was changed; all sessions ended.", "密码已修改，所有会话已结束。"))
	return &rest.Reply{Message: fault.T("Password set; all sessions ended", "密码已设置，所有会话已结束"), Data: WithoutPassword(next), Revision: rev}, nil
}

// provesCurrent: who found an open screen, or a token that ends soon, must not be able to keep the account.
func (s *Sessions) provesCurrent(ctx context.Context, c *rest.Call, u *api.User, current string) error {
	if u.Meta.Name != c.Who.Name() || u.Status.PasswordHash == "" {
		return s.door.Endless(c.Who)
	}
	if current == "" || len(current) > maxPassword {
		return refuse.Invalid("current", fault.T("Give your current password too.", "请同时给出当前密码。"))
	}
	if wait := s.door.counts.Guesses.Try(u.Meta.Name); wait > 0 {
		return tooManyGuesses(wait)
	}
	ok, err := s.Passwords.matches(ctx, current, u.Status.PasswordHash)
	if err == nil && !ok {
		err = fault.New(fault.Forbidden, "WrongPassword", fault.T("The current password is wrong.", "当前密码错误。"))
	}
	return err
}

// editUser changes how a user signs in, and ends all sessions of it, in one write.
func (s *Sessions) editUser(ctx context.Context, c *rest.Call, name string, change func(*api.User) error) (*api.User, int64, error) {
	row := api.MustInfo(api.KindUser)
	c.Note.Names(row.Kind, name)
	if !api.IsName(name) || c.Who.Reach(c.Route.ID) != access.All && name != c.Who.Name() {
		return nil, 0, refuse.Missing(row, name)
	}
	var err error
	var minimum int64
	for range truth.Retries {
		var o api.Object
		if o, err = s.truth.Find(ctx, api.Key{Kind: row.Kind, Name: name}, minimum); fault.Is(err, fault.NotFound) {
			return nil, 0, refuse.Missing(row, name)
		} else if err != nil {
			return nil, 0, err
		}
		c.Note.Before(o)
		next := store.Clone(o.(*api.User))
		if err = change(next); err != nil {
			return nil, 0, err
		}
		next.Status.SignOuts++
		next.Meta.UpdatedAt = s.door.clock.Now().UTC()
		var rev int64
		if rev, err = s.truth.Write(ctx, store.Update(next)); err == nil {
			c.Note.After(next)
			return next, rev, nil
		}
		if fault.ReasonOf(err) != "Stale" {
			return nil, 0, err
		}
		minimum = o.GetMeta().Revision + 1
	}
	return nil, 0, err
}

// spent says that a session or code can never work again.
func (s *Sessions) spent(ctx context.Context, t *api.Token) bool {
	if t.Spec.Use == "" {
		return false // people delete these
	}
	_, err := s.door.callerOf(ctx, t)
	return fault.Is(err, fault.Unauthenticated)
}

// Run deletes sessions and codes that have ended, until ctx does. Every replica does it;
// deleting twice harms nobody.
func (s *Sessions) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.door.clock.After(sweepEvery):
		}
		if n, err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.door.log.Warn("ended sessions were not swept away; trying again", "error", err)
		} else if n > 0 {
			s.door.log.Debug("ended sessions were swept away", "count", n)
		}
	}
}

func (s *Sessions) Sweep(ctx context.Context) (int, error) {
	snap, err := s.truth.List(ctx, api.KindToken, "", 0)
	if err != nil {
		return 0, err
	}
	var ops []store.Op
	snap.Ascend("", func(o api.Object) bool {
		if t := o.(*api.Token); s.spent(ctx, t) {
			ops = append(ops, store.Delete(api.KeyOf(t), 0))
		}
		return true
	})
	for rest := ops; len(rest) > 0; {
		n := min(len(rest), 100)
		if _, err := s.truth.Commit(ctx, store.Txn{Ops: rest[:n]}); err != nil {
			return 0, err
		}
		rest = rest[n:]
	}
	return len(ops), nil
}
