package port

import (
	"context"
	"net"
	"net/http"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/audit"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/truth"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Links to ports. A link is an entry in the environment's spec, and an address that a server sealed: without the entry, which its owner sees and takes
// away, the address opens nothing.

// links are the routes about them.
type links struct{ ports *Ports }

var paramFor = rest.Param{Name: "for", Doc: "How long it works, such as 2h; 24h when absent, at most 720h."}

// Shared is a link, and the address that it has.
type Shared struct {
	devenv.Link
	URL string `json:"url" doc:"Told once; its fragment, which no server sees, is what opens the port."`
}

// mayShare refuses who may not let others in: that is its owner's.
func mayShare(who *access.Caller, e *devenv.DevEnvironment) error {
	if !who.Owns(e) || who.Replica != "" {
		return fault.New(fault.Forbidden, "NotOwner", fault.T("It belongs to %s; only its owner shares its ports.", "该对象属于 %s，只有其所有者可以分享端口。", e.Meta.Owner))
	}
	return nil
}

func (p *links) share(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	_, e, err := p.ports.find(ctx, c)
	if err != nil {
		return nil, err
	}
	n, err := number(c)
	if err == nil {
		err = p.ports.Rooms.Finder.Judge.MayWrite(ctx, c.Who, e)
	}
	if err == nil {
		err = mayShare(c.Who, e)
	}
	if err == nil {
		err = declared(e, n)
	}
	if err != nil {
		return nil, err
	}
	lasts, err := lastsFor(c.Query.Text("for"))
	if err != nil {
		return nil, err
	}
	at := p.ports.urlOf(c.R, e, n)
	if at == "" || p.ports.Box == nil {
		return nil, fault.New(fault.Conflict, "NoContentHost", fault.T("This server has no host for pages of environments at the name you use.", "以您所用的地址访问时，该服务器没有可用于环境页面的主机名。")).WithHint(
			fault.T("Its operator sets --content-domain.", "请管理员配置 --content-domain。"))
	}
	now := p.ports.Clock.Now().UTC()
	l := devenv.Link{ID: id.Default.New("link"), Port: n, By: c.Who.Name(), CreatedAt: now, EndsAt: p.ports.Door.BoundLink(c.Who, now.Add(lasts))}
	_, err = p.editLinks(ctx, c, e, func(list []devenv.Link) ([]devenv.Link, error) {
		if len(list) >= devenv.MostLinks {
			return nil, fault.New(fault.Conflict, "TooManyLinks", fault.T("The environment has %d links already; take one back first.", "该环境已有 %d 个链接，请先撤销其中之一。", len(list)))
		}
		return append(list, l), nil
	})
	if err != nil {
		return nil, err
	}
	code := p.ports.Box.Seal(pass{Link: l.ID, Env: e.Meta.ID, Port: n, Ends: l.EndsAt}.text(), contextLink)
	return &rest.Reply{Message: fault.T("Anybody who has this link reaches the port until it ends", "任何拥有此链接的人在其到期前均可访问该端口"), Data: Shared{l, at + enterPath[1:] + "#" + code}}, nil
}

// lastsFor reads how long a link works.
func lastsFor(text string) (time.Duration, error) {
	if text == "" {
		return devenv.UsualLink, nil
	}
	d, err := api.ParseDuration(text)
	if err != nil || d.Std() < devenv.ShortestLink || d.Std() > devenv.LongestLink {
		return 0, refuse.Invalid("for", fault.T("A link works from 1m to 720h, such as 24h.", "链接有效期为 1m 到 720h，例如 24h。"))
	}
	return d.Std(), nil
}

func (p *links) unshare(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	_, e, err := p.ports.find(ctx, c)
	if err == nil {
		err = p.ports.Rooms.Finder.Judge.MayWrite(ctx, c.Who, e)
	}
	if err == nil {
		err = mayShare(c.Who, e)
	}
	if err != nil {
		return nil, err
	}
	link := c.R.PathValue("link")
	next, err := p.editLinks(ctx, c, e, func(list []devenv.Link) ([]devenv.Link, error) {
		rest := slices.DeleteFunc(slices.Clone(list), func(l devenv.Link) bool { return l.ID == link })
		if len(rest) == len(list) {
			return nil, fault.New(fault.NotFound, "NotFound", fault.T("The environment has no link %q.", "该环境没有链接 %q。", refuse.Clip(link, 64)))
		}
		return rest, nil
	})
	if err != nil {
		return nil, err
	}
	return &rest.Reply{Message: fault.T("The link is taken back", "链接已撤销"), Data: next, Revision: next.Meta.Revision}, nil
}

// editLinks changes the links of an environment; those that have ended go.
func (p *links) editLinks(ctx context.Context, c *rest.Call, e *devenv.DevEnvironment, change func([]devenv.Link) ([]devenv.Link, error)) (*devenv.DevEnvironment, error) {
	c.Note.Before(e)
	for range truth.Retries {
		now := p.ports.Clock.Now().UTC()
		next := store.Clone(e)
		list, err := change(slices.DeleteFunc(slices.Clone(e.Spec.Links), func(l devenv.Link) bool { return !now.Before(l.EndsAt) }))
		if err != nil {
			return nil, err
		}
		next.Spec.Links, next.Meta.UpdatedAt = list, now
		rev, err := p.ports.Rooms.Finder.Truth.Write(ctx, store.Update(next))
		if err == nil {
			next.Meta.Revision = rev
			c.Note.After(next)
			return next, nil
		}
		if fault.ReasonOf(err) != "Stale" {
			return nil, err
		}
		o, err := p.ports.Rooms.Finder.Truth.Get(ctx, api.KeyOf(e), e.Meta.Revision+1)
		if err != nil {
			return nil, err
		}
		if e = o.(*devenv.DevEnvironment); e.Meta.DeletedAt != nil {
			return nil, refuse.Missing(devenv.Row, e.Meta.Name)
		}
	}
	return nil, fault.New(fault.Conflict, "Stale", fault.T("It changes all the time; try again.", "该对象频繁变化，请重试。"))
}

// remember notes in the audit that a link was used.
func remember(r *http.Request, to *audit.Auditor, e *devenv.DevEnvironment, l *devenv.Link) {
	ip, _, _ := net.SplitHostPort(r.RemoteAddr)
	c := &rest.Call{R: r, IP: ip, Route: &rest.Route{ID: "usePortLink", Kind: devenv.Kind, Verb: "usePortLink"}}
	c.Note.About(e)
	to.RememberVisit(c, "link "+l.ID+" of "+l.By)
}
