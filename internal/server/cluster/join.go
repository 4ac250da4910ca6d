package cluster

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/door"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/truth"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Joining is a Live that lets machines join.
type Joining interface {
	// JoinPlace is where agents reach servers, and the key that those show; fault Conflict where there is no such address.
	JoinPlace(ctx context.Context) (addresses []string, pin string, err error)
}

// JoinWish asks for a token.
type JoinWish struct {
	Zone string       `json:"zone,omitempty" doc:"The zone that the machine will be in; the only one when absent."`
	TTL  api.Duration `json:"ttl,omitempty" doc:"How long the token may be used; 1h when absent, at most 7 days."`
}

// JoinToken lets one machine join, once.
type JoinToken struct {
	Token     string    `json:"token" doc:"Shown once."`
	ExpiresAt time.Time `json:"expiresAt"`
	Zone      string    `json:"zone"`
	Servers   []string  `json:"servers" doc:"Where agents reach this server; an address without a host means any of the server's."`
}

const (
	joinFor  = time.Hour
	joinMost = 7 * 24 * time.Hour
)

// Joins makes tokens for machines, and removes them.
type Joins struct {
	Truth  *truth.Truth
	Judge  *access.Judge
	Door   *door.Door
	Live   Live
	Clock  clock.Clock
	IDs    *id.Source
	Random io.Reader // of secrets
}

// Routes are how machines come and go.
func (s *Joins) Routes(reg *rest.Schemas) []*rest.Route {
	row := api.MustInfo(api.KindNode)
	return []*rest.Route{
		s.upgradeRoute(reg),
		{
			Method: http.MethodPost, Path: rest.Prefix + "/join-tokens", ID: "addNode", Tag: row.Plural, Kind: api.KindToken, Verb: "create",
			Summary: "A one-time token with which a machine joins: fermi agent --join ADDRESS --token-file FILE.",
			Body:    &rest.BodySpec{Schema: rest.SchemaOf[JoinWish](reg), Media: rest.JsonMedia, Required: true},
			Data:    rest.SchemaOf[JoinToken](reg), Handle: s.add,
		},
		{
			Method: http.MethodPost, Path: rest.Prefix + "/nodes/{name}/remove", ID: "removeNode", Tag: row.Plural, Kind: row.Kind, Verb: "delete",
			Summary: "Forget a machine that joined: its certificate counts no more. Refused while work stands there.",
			Data:    reg.Kind(row), Handle: s.remove,
		},
	}
}

func (s *Joins) add(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	var wish JoinWish
	if err := c.ReadJSON(&wish, "zone, ttl"); err != nil {
		return nil, err
	}
	if err := s.Judge.MayWrite(ctx, c.Who, &api.Node{}); err != nil {
		return nil, err
	}
	lasts := wish.TTL.Std()
	if lasts == 0 {
		lasts = joinFor
	}
	if lasts < time.Minute || lasts > joinMost {
		return nil, refuse.Invalid("ttl", fault.T("Between 1m and 168h.", "必须介于 1m 与 168h 之间。"))
	}
	zone, err := s.zone(ctx, wish.Zone)
	if err != nil {
		return nil, err
	}
	joining, ok := s.Live.(Joining)
	if !ok {
		return nil, refuse.NoPlanner
	}
	servers, pin, err := joining.JoinPlace(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.Door.RoomForToken(ctx, c.Who.Name()); err != nil {
		return nil, err
	}
	now := s.Clock.Now().UTC()
	ends := now.Add(lasts)
	name := joined.Use + "-" + s.IDs.Random(16)
	secret, hash, err := door.NewSecret(name, s.Random)
	if err != nil {
		return nil, err
	}
	t := &api.Token{
		Meta: api.Meta{ID: s.IDs.New(api.MustInfo(api.KindToken).IDPrefix), Name: name, DisplayName: "join " + zone, Owner: c.Who.Name(), Labels: map[string]string{joined.LabelZone: zone}, CreatedAt: now, UpdatedAt: now},
		Spec: api.TokenSpec{User: c.Who.Name(), Hash: hash, ExpiresAt: &ends, Use: joined.Use},
	}
	rev, err := s.Truth.Write(ctx, store.Create(t))
	if err != nil {
		return nil, err
	}
	c.Note.After(t)
	return &rest.Reply{Data: JoinToken{secret + "." + pin, ends, zone, servers}, Revision: rev}, nil
}

// zone is the one that is meant.
func (s *Joins) zone(ctx context.Context, name string) (string, error) {
	snap, err := s.Truth.Store.List(ctx, api.KindZone, "", 0)
	if err != nil {
		return "", err
	}
	var all []string
	found := false
	snap.Ascend("", func(o api.Object) bool {
		all = append(all, o.GetMeta().Name)
		found = found || o.GetMeta().Name == name
		return true
	})
	switch {
	case found:
		return name, nil
	case name == "" && len(all) == 1:
		return all[0], nil
	case name == "":
		return "", refuse.Invalid("zone", fault.T("Say which zone the machine is in: %s.", "请指定机器所在的可用区：%s。", strings.Join(all, ", ")))
	}
	return "", refuse.Invalid("zone", fault.T("There is no zone %s; there are: %s.", "不存在可用区 %s；现有：%s。", refuse.Clip(name, 64), strings.Join(all, ", ")))
}

func (s *Joins) remove(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	row, name := api.MustInfo(api.KindNode), c.R.PathValue("name")
	key := api.Key{Kind: row.Kind, Name: name}
	c.Note.Names(row.Kind, name)
	var err error
	var minimum int64
	for range truth.Retries {
		var o api.Object
		if o, err = s.Truth.Find(ctx, key, minimum); fault.Is(err, fault.NotFound) {
			return nil, refuse.Missing(row, name)
		} else if err != nil {
			return nil, err
		}
		node := o.(*api.Node)
		c.Note.Before(node)
		if err := s.Judge.MayWrite(ctx, c.Who, node); err != nil {
			return nil, err
		}
		if node.Spec.Agent == nil {
			return nil, fault.New(fault.Conflict, "NotJoined", fault.T("%s did not join: a server reports it, and would again.", "%s 不是加入的节点：它由服务器上报，移除后会再次出现。", name)).
				WithHint(fault.T("Keep work away with: fermi node cordon %s.", "停止调度：fermi node cordon %s。", name))
		}
		if !node.Spec.Cordoned { // so that nothing comes while we look
			next := store.Clone(node)
			next.Spec.Cordoned, next.Meta.UpdatedAt = true, s.Clock.Now().UTC()
			if minimum, err = s.Truth.Write(ctx, store.Update(next)); err == nil || fault.ReasonOf(err) == "Stale" {
				minimum = max(minimum, node.Meta.Revision+1)
				continue
			}
			return nil, err
		}
		if err = s.empty(ctx, node); err != nil {
			return nil, err
		}
		var rev int64
		if rev, err = s.Truth.Write(ctx, store.Delete(key, node.Meta.Revision)); err == nil {
			c.Tell(node, "NodeRemoved", fault.T("The machine was removed; its agent's certificate counts no more.", "机器已移除，其代理的证书已失效。"))
			return &rest.Reply{Data: node, Revision: rev}, nil
		}
		if fault.ReasonOf(err) != "Stale" {
			return nil, err
		}
		minimum = node.Meta.Revision + 1
	}
	return nil, err
}

// empty refuses a node that work stands on, or whose devices are held.
func (s *Joins) empty(ctx context.Context, node *api.Node) error {
	now, err := s.Truth.Store.Now(ctx)
	if err != nil {
		return err
	}
	snap, err := s.Truth.Store.List(ctx, api.KindPlacement, "", now)
	if err != nil {
		return err
	}
	var stands []string
	snap.Ascend("", func(o api.Object) bool {
		p := o.(*api.Placement)
		for _, r := range p.Spec.Roles {
			for _, slot := range r.Slots {
				if slot.Node == node.Spec.Number {
					stands = append(stands, p.Meta.Name)
					return len(stands) < 5
				}
			}
		}
		return true
	})
	if len(stands) == 0 {
		return nil
	}
	return fault.New(fault.Conflict, "NodeInUse", fault.T("Work stands on %s: %s. It is cordoned now.", "%s 上仍有任务：%s。该节点已停止调度。", node.Meta.Name, strings.Join(stands, ", "))).
		WithHint(fault.T("Make it leave with `fermi node drain %[1]s`; if the machine is gone: `fermi node remove %[1]s --force`.", "迁出任务：fermi node drain %[1]s；若机器已不在：fermi node remove %[1]s --force。", node.Meta.Name))
}
