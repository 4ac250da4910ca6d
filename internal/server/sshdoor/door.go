package sshdoor

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	entry "github.com/fermi-cluster/fermi/api/v1/terminal"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/audit"
	"github.com/fermi-cluster/fermi/internal/server/limit"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/tenant"
	"github.com/fermi-cluster/fermi/internal/server/terminal"
)

const (
	// greetFor is how long a client may take to sign in.
	greetFor = 30 * time.Second
	// mostStrangers is how many connections may be signing in at a time.
	mostStrangers = 128
	// mostChannels is how many a connection may have at a time.
	mostChannels = 256
	// tries is how many keys a client may offer; agents often hold some. From an address with too many refusals it is triesFew.
	tries, triesFew = 20, 6
	// version is what clients see; OpenSSH looks for bugs of others in it.
	version = "SSH-2.0-Fermi"
)

// Door lets people in by SSH. Safe for concurrent use.
type Door struct {
	Rooms   *terminal.Terminals
	Rules   *access.Rules
	Auditor *audit.Auditor
	Limits  limit.Limits
	Counts  *limit.Counters
	Clock   clock.Clock
	Log     *slog.Logger
	// HostKey is who we are.
	HostKey func() ssh.Signer
}

// Run answers on l until ctx ends; it closes l, and returns when every connection has ended.
func (d *Door) Run(ctx context.Context, l net.Listener) error {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	defer l.Close()
	var all sync.WaitGroup
	defer all.Wait()
	strangers := make(chan struct{}, mostStrangers)
	for {
		raw, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return err
			}
			d.Log.Warn("an SSH connection could not be taken", "error", err)
			select {
			case <-ctx.Done():
			case <-d.Clock.After(100 * time.Millisecond): // out of descriptors: some will be free again
			}
			continue
		}
		select {
		case strangers <- struct{}{}:
		default:
			_ = raw.Close() // they may try again
			continue
		}
		all.Go(func() { d.serve(ctx, raw, func() { <-strangers }) })
	}
}

// serve is one connection's life; known is called once it is no stranger's any more.
func (d *Door) serve(ctx context.Context, raw net.Conn, known func()) {
	ip, _, _ := net.SplitHostPort(raw.RemoteAddr().String())
	near := limit.Neighbourhood(ip)
	isFew := d.Counts.Greetings.Open(near)
	greeted := sync.OnceFunc(func() {
		known()
		if isFew {
			d.Counts.Greetings.Close(near)
		}
	})
	defer greeted()
	defer raw.Close()
	if !isFew {
		return // they may try again
	}
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	_ = raw.SetDeadline(time.Now().Add(greetFor))
	// Somebody at the same address may have a key that is right: strangers' refusals leave them fewer tries, but never close the door.
	g := &greeting{door: d, ctx: ctx, ip: ip, tries: tries}
	if !d.Counts.Refused.Has(near) {
		g.tries = triesFew
	}
	conn, channels, requests, err := ssh.NewServerConn(raw, g.config())
	if err != nil {
		if g.asked && !g.proven { // neither who only looked whether anybody is here, nor a user in front of the wrong environment
			d.Counts.Refused.Take(near)
			g.refused()
		}
		d.Log.Debug("an SSH client was not let in", "ip", ip, "error", err)
		return
	}
	_ = raw.SetDeadline(time.Time{})
	greeted()
	v := conn.Permissions.ExtraData[visitKey{}].(*visit)
	if !d.Counts.Streams.Open(v.who.Payer()) {
		_ = conn.Close()
		return
	}
	defer d.Counts.Streams.Close(v.who.Payer())
	defer conn.Close()
	d.Auditor.RememberRead(v.call(ctx), "ssh "+v.key.Fingerprint)
	held, end := context.WithCancelCause(ctx)
	defer end(nil)
	var work sync.WaitGroup
	defer work.Wait()
	defer conn.Close() // so that all below end
	work.Go(func() { v.watch(held, func(why error) { end(why); _ = conn.Close() }) })
	ways := newRelay(held, v, conn, &work)
	defer end(nil)
	v.serve(held, channels, requests, ways)
}

// greeting is a client that signs in.
type greeting struct {
	door  *Door
	ctx   context.Context //nolint:containedctx // of one handshake, whose callbacks take none
	ip    string
	tries int
	asked bool   // a key was shown, or a word asked for
	tried string // the fingerprint of the last key
	// proven: a user's key is its own.
	proven bool
	told   bool
}

type visitKey struct{}

func (g *greeting) config() *ssh.ServerConfig {
	cfg := &ssh.ServerConfig{
		MaxAuthTries: g.tries, ServerVersion: version,
		PublicKeyCallback: g.known, VerifiedPublicKeyCallback: g.enter, KeyboardInteractiveCallback: g.explain,
	}
	cfg.AddHostKey(g.door.HostKey())
	return cfg
}

// errUnknown says nothing that a stranger could use.
var errUnknown = errors.New("this key is not registered")

// known says whether a key is somebody's. It is not proven yet that the client has it: nothing more is said.
func (g *greeting) known(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
	g.asked, g.tried = true, ssh.FingerprintSHA256(key)
	if _, is := key.(*ssh.Certificate); is {
		return nil, errUnknown
	}
	v, err := g.door.visitor(g.ctx, g.ip, key)
	if err != nil {
		return nil, err
	}
	return &ssh.Permissions{ExtraData: map[any]any{visitKey{}: v}}, nil
}

// enter is asked when the client has proven that the key is its own: now it may hear why it gets nowhere.
func (g *greeting) enter(conn ssh.ConnMetadata, _ ssh.PublicKey, given *ssh.Permissions, _ string) (*ssh.Permissions, error) {
	v := given.ExtraData[visitKey{}].(*visit)
	g.proven = true
	var err error
	if ok, wait := g.door.Counts.Calls.Take(v.who.Payer()); ok {
		err = v.find(g.ctx, conn.User())
	} else {
		err = refuse.TooMany("TooManyRequests", wait, fault.T("You come too often.", "您的连接过于频繁。"))
	}
	if err != nil {
		g.told = true
		return nil, &ssh.BannerError{Err: err, Message: words(err)}
	}
	return given, nil
}

// explain is where clients come when no key was right: it tells them so, and lets nobody in.
func (g *greeting) explain(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
	if !g.told {
		g.told = true
		_, _ = ask("", words(errNoKey), nil, nil)
	}
	return nil, errUnknown
}

var errNoKey = fault.New(fault.Unauthenticated, "UnknownKey", fault.T("None of your keys is registered with Fermi.", "您的公钥均未在 Fermi 登记。")).WithHint(
	fault.T("Register one: fermi user key add ~/.ssh/id_ed25519.pub", "请登记：fermi user key add ~/.ssh/id_ed25519.pub"))

// words are a refusal as people read it in their terminal, where nobody knows their language.
func words(err error) string {
	e := fault.From(err)
	text := "fermi: " + e.Message.EN
	if !e.Hint.IsZero() {
		text += " " + e.Hint.EN
	}
	return text + "\n       " + e.Message.ZH + e.Hint.ZH + "\n"
}

// refused writes that a stranger was.
func (g *greeting) refused() {
	if g.tried == "" {
		return
	}
	c := &rest.Call{R: (&http.Request{}).WithContext(g.ctx), Route: routeSignIn, IP: g.ip, Request: requestID(), Tried: g.tried}
	g.door.Auditor.RememberRefusal(c, errNoKey)
}

// The audit's words.
var (
	routeSignIn = &rest.Route{ID: "sshSignIn", Open: true, Verb: "signIn", Kind: api.KindUser}
	routeEnter  = &rest.Route{ID: "sshEnter", Verb: "ssh", Look: true, Kind: devenv.Kind}
)

func requestID() string { return strings.ToLower(rand.Text()[:16]) }

// visitor is whose key it is.
func (d *Door) visitor(ctx context.Context, ip string, key ssh.PublicKey) (*visit, error) {
	users, err := d.Rooms.Finder.Truth.List(ctx, api.KindUser, "", 0)
	if err != nil {
		return nil, err
	}
	user, found := tenant.OwnerOf(users, tenant.KeyText(key))
	if user == nil || user.Spec.Disabled {
		return nil, errUnknown
	}
	return &visit{door: d, ip: ip, key: found, who: d.caller(user, found)}, nil
}

// caller is a user who came with a key: all that the user may, and the key's fingerprint in the audit in the place of a token.
func (d *Door) caller(u *api.User, k entry.Key) *access.Caller {
	return &access.Caller{User: u, Rules: d.Rules, Token: &api.Token{Meta: api.Meta{ID: k.Fingerprint, Name: k.ID}, Spec: api.TokenSpec{User: u.Meta.Name}}}
}

// visit is somebody who was let in, and where to.
type visit struct {
	door *Door
	ip   string
	key  entry.Key
	who  *access.Caller
	env  api.Object
}

// call is the visit as the rest of the server knows requests.
func (v *visit) call(ctx context.Context) *rest.Call {
	c := &rest.Call{R: (&http.Request{}).WithContext(ctx), Route: routeEnter, IP: v.ip, Request: requestID(), Who: v.who}
	if v.env != nil {
		c.Note.About(v.env)
	}
	return c
}

// find is the environment that a user name means: ENV.PROJECT, or ENV of the user's own project.
func (v *visit) find(ctx context.Context, user string) error {
	c := v.call(ctx)
	name, project, _ := strings.Cut(user, ".")
	err := func() (err error) {
		if !api.IsName(name) || project != "" && !api.IsName(project) {
			return fault.New(fault.NotFound, "NotFound", fault.T("%q names no environment: the user name of SSH is ENVIRONMENT.PROJECT.", "%q 不是环境名：SSH 用户名的格式为 环境.项目。", clip(user)))
		}
		query := ""
		if project != "" {
			query = "project=" + project
		}
		if c.Query, err = rest.ParseQuery(query, []rest.Param{rest.ParamProject, rest.ParamRevision}); err != nil {
			return err
		}
		c.Note.Names(devenv.Kind, name)
		f, err := v.door.Rooms.Finder.Resolve(ctx, c, devenv.Row, name)
		if err != nil {
			return err
		}
		v.env = f.Object
		c.Note.About(f.Object)
		if err := v.door.Rooms.May(ctx, v.who, f.Object); err != nil {
			return err
		}
		_, err = terminal.Running(f)
		if fault.Is(err, fault.Conflict) {
			err = fault.From(err).WithHint(fault.T("fermi env start %s", "fermi env start %s", name))
		}
		return err
	}()
	if err != nil {
		v.door.Auditor.RememberRefusal(c, fault.From(err))
	}
	return err
}

// clip keeps what a client says short and on its line.
func clip(s string) string {
	if len(s) > 64 {
		s = s[:64]
	}
	return strings.ToValidUTF8(s, "?")
}

// still says whether the visitor may stay.
func (v *visit) still(ctx context.Context) error {
	truth := v.door.Rooms.Finder.Truth
	o, err := truth.Find(ctx, api.KeyOf(v.who.User), 0)
	if err != nil {
		return err
	}
	user := o.(*api.User)
	has := false
	for _, k := range user.Status.SSHKeys {
		has = has || k.Key == v.key.Key
	}
	if user.Meta.ID != v.who.User.Meta.ID || user.Spec.Disabled || !has {
		return errNoKey
	}
	now, err := truth.Find(ctx, api.KeyOf(v.env), 0)
	if err != nil {
		return err
	}
	if now.GetMeta().ID != v.env.GetMeta().ID {
		return errNoKey
	}
	return v.door.Rooms.May(ctx, v.door.caller(user, v.key), now)
}

// watch ends the visit when its right has ended.
func (v *visit) watch(ctx context.Context, end func(error)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-v.door.Clock.After(v.door.Limits.Recheck):
		}
		if err := v.still(ctx); fault.Is(err, fault.Unauthenticated) || fault.Is(err, fault.Forbidden) || fault.Is(err, fault.NotFound) {
			end(err)
			return
		}
	}
}
