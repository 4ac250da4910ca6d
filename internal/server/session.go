package server

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
	maxSessions = 32      // of one user; a further one ends the oldest
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

type codeInfo struct {
	Code      string    `json:"code" doc:"Works once. Put it into the fragment of the console's address: /#code=…"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// sessionInfo is who is signed in, and for how long.
type sessionInfo struct {
	Identity
	IdleAt *time.Time `json:"idleAt,omitempty" doc:"When the session ends unless it is used."`
}

// sessions serves signing in and out, and passwords.
type sessions struct {
	door      *door
	truth     *truth
	passwords *passwords
	ids       *id.Source
	random    io.Reader // of secrets
}

func newSessions(d *door, ids *id.Source, random io.Reader) *sessions {
	return &sessions{door: d, truth: d.truth, passwords: newPasswords(random), ids: ids, random: random}
}

func (s *sessions) routes(reg *schemas) []*route {
	return []*route{
		{
			method: http.MethodGet, path: prefix + "/whoami", id: "whoami", summary: "Whom the token speaks for.", tag: "system",
			data: schemaOf[Identity](reg), handle: s.whoami,
		},
		{
			method: http.MethodPost, path: prefix + "/session", id: "signIn", summary: "Sign in with a one-time code, or with user and password; sets the cookie.", tag: "sessions",
			open: true, verb: "sign-in", kind: api.KindToken, data: schemaOf[sessionInfo](reg),
			body:   &bodySpec{schema: schemaOf[signInBody](reg), media: jsonMedia, required: true},
			handle: s.signIn,
		},
		{
			method: http.MethodGet, path: prefix + "/session", id: "getSession", summary: "Who is signed in, and for how long.", tag: "sessions",
			data: schemaOf[sessionInfo](reg), handle: s.getSession,
		},
		{
			method: http.MethodDelete, path: prefix + "/session", id: "signOut", summary: "End this session.", tag: "sessions",
			verb: "sign-out", kind: api.KindToken, handle: s.signOut,
		},
		{
			method: http.MethodDelete, path: prefix + "/sessions", id: "signOutEverywhere", summary: "End all sessions of a user.", tag: "sessions",
			verb: "sign-out-everywhere", kind: api.KindUser, query: []param{{name: "user", doc: "Another user, for admins; yourself when absent."}},
			data: reg.kind(api.MustInfo(api.KindUser)), handle: s.signOutEverywhere,
		},
		{
			method: http.MethodPost, path: prefix + "/session/code", id: "makeSignInCode", summary: "A one-time code that signs you in within five minutes.", tag: "sessions",
			verb: "create", kind: api.KindToken, data: schemaOf[codeInfo](reg), handle: s.makeCode,
		},
		{
			method: http.MethodPut, path: prefix + "/users/{name}/password", id: "setPassword", summary: "Set a password; ends all sessions of the user.", tag: "users",
			verb: "set-password", kind: api.KindUser, data: reg.kind(api.MustInfo(api.KindUser)),
			body:   &bodySpec{schema: schemaOf[passwordBody](reg), media: jsonMedia, required: true},
			handle: s.setPassword,
		},
	}
}

// strictJSON reads a small body whose fields are all known.
func strictJSON(c *call, into any) error {
	data, err := c.readBody(maxSignIn)
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

// withoutPassword is a user as others see it, without touching the shared object.
func withoutPassword(u *api.User) *api.User {
	private := *u
	private.Status.PasswordHash = ""
	return &private
}

// epochOf is what a session must carry to count. It names the user's id: a user made again under
// the same name inherits nothing.
func epochOf(u *api.User) string { return fmt.Sprintf("%s.%d", u.Meta.ID, u.Status.SignOuts) }

// issue makes a token of some use for a user; it is not written yet.
func (s *sessions) issue(u *api.User, use api.TokenUse, lasts time.Duration) (*api.Token, string, error) {
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

// signInCode makes a one-time code that signs a user in; for whoever starts the server.
func (s *sessions) signInCode(ctx context.Context, user string) (string, error) {
	o, err := s.truth.find(ctx, api.Key{Kind: api.KindUser, Name: user}, 0)
	if err != nil {
		return "", err
	}
	t, secret, err := s.issue(o.(*api.User), api.UseCode, s.door.limits.Code)
	if err != nil {
		return "", err
	}
	_, err = s.truth.write(ctx, store.Create(t))
	return secret, err
}

func (s *sessions) makeCode(ctx context.Context, c *call) (*reply, error) {
	end := c.who.token.Spec.Until
	if c.who.token.Spec.Use == "" {
		end = c.who.token.Spec.ExpiresAt
	}
	t, secret, err := s.issue(c.who.user, api.UseCode, s.door.limits.Code)
	if err != nil {
		return nil, err
	}
	endBy(t, end)
	oldest, err := s.surplusOf(ctx, c.who.name(), api.UseCode, maxCodes)
	if err != nil {
		return nil, err
	}
	rev, err := s.truth.write(ctx, append(oldest, store.Create(t))...)
	if err != nil {
		return nil, err
	}
	c.note.after(t)
	return &reply{data: codeInfo{secret, *t.Spec.ExpiresAt}, revision: rev}, nil
}

var errBadCode = fault.New(fault.Unauthenticated, "BadCode", fault.T(
	"The sign-in code is not valid: unknown, used, or older than five minutes.", "登录码无效：不存在、已使用或已超过五分钟。")).WithHint(fault.T(
	"`fermi signin` makes a new one.", "可用 `fermi signin` 获取新的登录码。"))

var errBadSignIn = fault.New(fault.Unauthenticated, "BadSignIn", fault.T(
	"The user or the password is wrong.", "用户名或密码错误。"))

func (s *sessions) signIn(ctx context.Context, c *call) (*reply, error) {
	if err := sameOrigin(c.r, false); err != nil { // nobody is signed in by a stranger's page
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
	if c.tried, _ = tokenName(in.Code); api.IsName(in.User) {
		c.tried = in.User
	}
	near := neighbourhood(c.ip)
	if wait := s.door.counts.addresses.try(near); wait > 0 {
		return nil, tooManyGuesses(wait)
	}
	var err error
	for range retries {
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
		var rep *reply
		if rep, err = s.openSession(ctx, c, user, until, ops); fault.ReasonOf(err) != "Stale" {
			if err == nil {
				s.door.counts.addresses.forgive(near, false)
			}
			return rep, err
		}
	}
	return nil, err
}

func tooManyGuesses(wait time.Duration) error {
	seconds := int((wait + time.Second - 1) / time.Second)
	return tooMany("TooManySignIns", wait, fault.T(
		"Too many failed attempts to sign in. Try again in %d s.", "登录失败次数过多，请在 %d 秒后再试。", seconds))
}

// redeem finds whom a code signs in; the operations use it up.
func (s *sessions) redeem(ctx context.Context, code string) (*api.User, *time.Time, []store.Op, error) {
	who, err := s.door.authenticate(ctx, code, api.UseCode)
	if fault.Is(err, fault.Unauthenticated) {
		return nil, nil, nil, errBadCode
	} else if err != nil {
		return nil, nil, nil, err
	}
	// Used a moment ago and the cache has not heard of it: that is no code any more, not a conflict.
	if _, err := s.truth.find(ctx, api.KeyOf(who.token), s.truth.newest()); fault.Is(err, fault.NotFound) {
		return nil, nil, nil, errBadCode
	} else if err != nil {
		return nil, nil, nil, err
	}
	return who.user, who.token.Spec.Until, []store.Op{store.Delete(api.KeyOf(who.token), who.token.Meta.Revision)}, nil
}

// passwordOf is the user with this password. Nobody learns which of the two was wrong.
func (s *sessions) passwordOf(ctx context.Context, name, password string) (*api.User, error) {
	if !api.IsName(name) || len(password) > maxPassword {
		return nil, errBadSignIn
	}
	if wait := s.door.counts.guesses.try(name); wait > 0 {
		return nil, tooManyGuesses(wait)
	}
	user := &api.User{}
	// As new as the last write here: who was just let in again, or has a new password, is not refused.
	o, err := s.truth.find(ctx, api.Key{Kind: api.KindUser, Name: name}, s.truth.newest())
	if err == nil {
		user = o.(*api.User)
	} else if !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	ok, err := s.passwords.matches(ctx, password, user.Status.PasswordHash)
	if err != nil {
		return nil, err
	}
	if !ok || user.Spec.Disabled {
		return nil, errBadSignIn
	}
	s.door.counts.guesses.forgive(name, true)
	return user, nil
}

// openSession writes the session; the user must not have changed since it was looked at.
// until, if any, is the end of the token that its code came from.
func (s *sessions) openSession(ctx context.Context, c *call, user *api.User, until *time.Time, ops []store.Op) (*reply, error) {
	token, secret, err := s.issue(user, api.UseSession, s.door.limits.Session)
	if err != nil {
		return nil, err
	}
	endBy(token, until)
	oldest, err := s.surplusOf(ctx, user.Meta.Name, api.UseSession, maxSessions)
	if err != nil {
		return nil, err
	}
	ops = append(ops, store.Create(token), store.Unchanged(api.KeyOf(user), user.Meta.Revision))
	rev, err := s.truth.write(ctx, append(ops, oldest...)...)
	if err != nil {
		return nil, err
	}
	c.who = &caller{user: user, token: token, rules: s.door.rules}
	c.note.after(token)
	info, err := s.sessionInfo(ctx, c.who)
	if err != nil {
		return nil, err
	}
	setCookie(c, secret, int(token.Spec.ExpiresAt.Sub(token.Meta.CreatedAt)/time.Second))
	return &reply{message: fault.T("Signed in", "登录成功"), data: info, revision: rev}, nil
}

func (s *sessions) sessionInfo(ctx context.Context, w *caller) (sessionInfo, error) {
	id, err := s.door.identify(ctx, w)
	return sessionInfo{Identity: id, IdleAt: w.token.Spec.IdleAt}, err
}

func (s *sessions) getSession(ctx context.Context, c *call) (*reply, error) {
	info, err := s.sessionInfo(ctx, c.who)
	if err != nil {
		return nil, err
	}
	return &reply{data: info}, nil
}

func (s *sessions) signOut(ctx context.Context, c *call) (*reply, error) {
	if c.who.token.Spec.Use != api.UseSession {
		return nil, fault.New(fault.Invalid, "NoSession", fault.T(
			"A token is no session; revoke it with `fermi token revoke`.", "令牌不是会话；请用 `fermi token revoke` 吊销。"))
	}
	c.note.before(c.who.token)
	rev, err := s.truth.write(ctx, store.Delete(api.KeyOf(c.who.token), 0))
	if err != nil {
		return nil, err
	}
	setCookie(c, "", -1)
	return &reply{message: fault.T("Signed out", "已退出登录"), revision: rev}, nil
}

func (s *sessions) signOutEverywhere(ctx context.Context, c *call) (*reply, error) {
	name := c.q.text("user")
	if name == "" {
		name = c.who.name()
	}
	next, rev, err := s.editUser(ctx, c, name, func(*api.User) error { return nil })
	if err != nil {
		return nil, err
	}
	if name == c.who.name() && c.who.token.Spec.Use == api.UseSession {
		setCookie(c, "", -1)
	}
	return &reply{message: fault.T("Signed out everywhere", "已在所有设备上退出登录"), data: withoutPassword(next), revision: rev}, nil
}

func (s *sessions) setPassword(ctx context.Context, c *call) (*reply, error) {
	var in passwordBody
	if err := strictJSON(c, &in); err != nil {
		return nil, err
	}
	name := c.r.PathValue("name")
	if err := checkPassword(name, in.Password); err != nil {
		return nil, err
	}
	hash, err := s.passwords.hash(ctx, in.Password)
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
	s.door.counts.guesses.forgive(name, true)
	c.tell(next, "PasswordChanged", fault.T("The password was changed; all sessions ended.", "密码已修改，所有会话已结束。"))
	return &reply{message: fault.T("Password set; all sessions ended", "密码已设置，所有会话已结束"), data: withoutPassword(next), revision: rev}, nil
}

// provesCurrent: who found an open screen must not be able to keep the account.
func (s *sessions) provesCurrent(ctx context.Context, c *call, u *api.User, current string) error {
	if u.Meta.Name != c.who.name() || u.Status.PasswordHash == "" {
		return nil
	}
	if current == "" || len(current) > maxPassword {
		return invalid("current", fault.T("Give your current password too.", "请同时给出当前密码。"))
	}
	if wait := s.door.counts.guesses.try(u.Meta.Name); wait > 0 {
		return tooManyGuesses(wait)
	}
	ok, err := s.passwords.matches(ctx, current, u.Status.PasswordHash)
	if err == nil && !ok {
		err = fault.New(fault.Forbidden, "WrongPassword", fault.T("The current password is wrong.", "当前密码错误。"))
	}
	return err
}

// editUser changes how a user signs in, and ends all sessions of it, in one write.
func (s *sessions) editUser(ctx context.Context, c *call, name string, change func(*api.User) error) (*api.User, int64, error) {
	row := api.MustInfo(api.KindUser)
	c.note.names(row.Kind, name)
	if !api.IsName(name) || c.who.reach(c.route.id) != all && name != c.who.name() {
		return nil, 0, missing(row, name)
	}
	var err error
	var minimum int64
	for range retries {
		var o api.Object
		if o, err = s.truth.find(ctx, api.Key{Kind: row.Kind, Name: name}, minimum); fault.Is(err, fault.NotFound) {
			return nil, 0, missing(row, name)
		} else if err != nil {
			return nil, 0, err
		}
		c.note.before(o)
		next := store.Clone(o.(*api.User))
		if err = change(next); err != nil {
			return nil, 0, err
		}
		next.Status.SignOuts++
		next.Meta.UpdatedAt = s.door.clock.Now().UTC()
		var rev int64
		if rev, err = s.truth.write(ctx, store.Update(next)); err == nil {
			c.note.after(next)
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
func (s *sessions) spent(ctx context.Context, t *api.Token) bool {
	if t.Spec.Use == "" {
		return false // people delete these
	}
	_, err := s.door.callerOf(ctx, t)
	return fault.Is(err, fault.Unauthenticated)
}

// run deletes sessions and codes that have ended, until ctx does. Every replica does it;
// deleting twice harms nobody.
func (s *sessions) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.door.clock.After(sweepEvery):
		}
		if n, err := s.sweepOnce(ctx); err != nil && ctx.Err() == nil {
			s.door.log.Warn("ended sessions were not swept away; trying again", "error", err)
		} else if n > 0 {
			s.door.log.Debug("ended sessions were swept away", "count", n)
		}
	}
}

func (s *sessions) sweepOnce(ctx context.Context) (int, error) {
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
