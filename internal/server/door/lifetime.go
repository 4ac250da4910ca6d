package door

import (
	"context"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/store"
)

// A token never lives longer than what made it. A token with an end hands that end on: to tokens that it
// makes or changes, and through a sign-in code to the session and to what that makes. A session that a
// password opened stands for the person; what it makes lasts a year at most.

const (
	MaxTokens    = 100 // of one user, for programs; sessions and codes have bounds of their own
	MaxCodes     = 10  // of one user that wait; a further one ends the oldest
	sessionToken = 366 * 24 * time.Hour
)

// lasts is until when what this caller makes may work; nil: for ever.
func (d *Door) lasts(w *access.Caller) *time.Time {
	t := &w.Token.Spec
	switch {
	case t.Use == "":
		return t.ExpiresAt
	case t.Until != nil:
		return t.Until
	}
	at := d.clock.Now().UTC().Add(sessionToken).Truncate(time.Second)
	return &at
}

// BoundLife settles the end of a token that the caller makes or changes: none asked for is the latest
// that there may be, a later one is refused.
func (d *Door) BoundLife(w *access.Caller, t *api.Token) error {
	most := d.lasts(w)
	at := t.Spec.ExpiresAt
	switch {
	case most == nil, at != nil && !at.After(*most):
		return nil
	case at == nil:
		t.Spec.ExpiresAt = most
		return nil
	}
	return fault.New(fault.Forbidden, "OutlivesMaker", fault.T(
		"A token does not live longer than what made it.", "令牌的有效期不能超过创建它的令牌或会话。")).WithFields(fault.Field{Path: "spec.expiresAt", Message: fault.T(
		"At the latest %s, the end of what you speak with.", "最晚 %s，即您当前凭据的到期时间。", most.Format(time.RFC3339))})
}

// Endless refuses, of somebody who speaks with something that has an end, what would go on opening doors after it: a password, a key.
func (d *Door) Endless(w *access.Caller) error {
	if t := &w.Token.Spec; t.Use == "" && t.ExpiresAt == nil || t.Use != "" && t.Until == nil {
		return nil
	}
	return fault.New(fault.Forbidden, "OutlivesMaker", fault.T(
		"A password or key would live longer than the token you speak with.", "密码或公钥的有效期会超过您当前使用的令牌。")).WithHint(
		fault.T("Sign in with your password, or use a token without an end.", "请用密码登录，或使用长期有效的令牌。"))
}

// BoundLink is until when a link that the caller makes may work at most.
func (d *Door) BoundLink(w *access.Caller, ends time.Time) time.Time {
	if most := d.lasts(w); most != nil && most.Before(ends) {
		return *most
	}
	return ends
}

// endBy hands the end of what a session or code came from on to it; nil: that has none.
func endBy(t *api.Token, until *time.Time) {
	t.Spec.Until = until
	for _, at := range []**time.Time{&t.Spec.ExpiresAt, &t.Spec.IdleAt} {
		if until != nil && *at != nil && (*at).After(*until) {
			*at = until
		}
	}
}

// RoomForToken refuses one more token of a user who has as many as there may be. Ended ones count: they
// take room until somebody deletes them.
func (d *Door) RoomForToken(ctx context.Context, user string) error {
	snap, err := d.truth.List(ctx, api.KindToken, "", d.truth.Newest())
	if err != nil {
		return err
	}
	n := 0
	snap.Ascend("", func(o api.Object) bool {
		if t := o.(*api.Token); t.Spec.User == user && t.Spec.Use == "" && t.Spec.Task == "" {
			n++
		}
		return n < MaxTokens
	})
	if n < MaxTokens {
		return nil
	}
	return fault.New(fault.Full, "TooManyTokens", fault.T(
		"The user %q has %d tokens, which is the most.", "用户 %q 已有 %d 个令牌，达到上限。", user, MaxTokens)).WithHint(fault.T(
		"Revoke some that are not needed or have expired: fermi token list, fermi token revoke NAME.", "请吊销不再需要或已过期的令牌：fermi token list、fermi token revoke NAME。"))
}

// surplusOf deletes the oldest sessions or codes of a user who is about to have more than most.
func (s *Sessions) surplusOf(ctx context.Context, user string, use api.TokenUse, most int) ([]store.Op, error) {
	snap, err := s.truth.List(ctx, api.KindToken, "", 0)
	if err != nil {
		return nil, err
	}
	var held []*api.Token // oldest first
	snap.Ascend("", func(o api.Object) bool {
		if t := o.(*api.Token); t.Spec.Use == use && t.Spec.User == user {
			held = append(held, t)
		}
		return true
	})
	var ops []store.Op
	for i := 0; i <= len(held)-most && len(ops) < 50; i++ {
		ops = append(ops, store.Delete(api.KeyOf(held[i]), 0))
	}
	return ops, nil
}
