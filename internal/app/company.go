package app

import (
	"context"
	"encoding/json"
	"net"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/app/apart"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/control/probe"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/run"
	"github.com/fermi-cluster/fermi/internal/store"
)

// outsideLease is the leader's with an etcd outside: another server waits to take over. The store's
// own is for one server alone, which gains nothing from losing it early.
const outsideLease = 3

// outside says that there is an etcd outside, and so perhaps other servers.
func (c Config) outside() bool { return len(c.Etcd.Endpoints) > 0 }

func (c Config) leaseSeconds() int {
	if c.outside() {
		return outsideLease
	}
	return 0
}

// company is the other servers of the cluster, and what this one may know only through them.
type company struct {
	cfg      Config
	store    *store.Store
	leads    func() bool
	peers    *link.Peers // nil with an embedded etcd: there are no others
	listener net.Listener
	keys     func() [][]byte // of the link
}

// open opens the door for the other servers.
func (c *company) open(hub *link.Hub, keys func() [][]byte) (err error) {
	if c.keys = keys; !c.cfg.outside() {
		return nil
	}
	if c.listener, err = net.Listen("tcp", c.cfg.Doors.Peers); err != nil {
		return fault.New(fault.Conflict, "AddressInUse", fault.T("Can't listen on %s for the other servers.", "无法在 %s 上监听其他服务。", c.cfg.Doors.Peers)).
			WithHint(fault.T("Choose another address with --peer-listen.", "可用 --peer-listen 换一个地址。")).Because(err)
	}
	c.peers, err = link.NewPeers(link.PeersConfig{
		Hub: hub, Keys: keys, Name: c.cfg.Name, Self: c.listener.Addr().String(), Zone: c.cfg.Zone, Contact: c.store.Contact,
		Log: c.cfg.Log.With("part", "peers"), Clock: clock.Real,
	})
	return err
}

// member is what a server is called in the election: its name and where its peers dial it.
func (c *company) member() string {
	if c.peers == nil {
		return c.cfg.Name
	}
	at := ""
	if isApart(c.cfg) {
		at = c.cfg.Doors.Launchers
	}
	return apart.Name(c.cfg.Name, at, c.listener.Addr().String())
}

// run answers the other servers, and knows who they are.
func (c *company) run(ctx context.Context) error {
	var g run.Group
	g.Add("serve", func(ctx context.Context) error { return c.peers.Serve(ctx, c.listener) })
	g.Add("forward", c.peers.Run)
	roster := apart.NewRoster()
	g.Add("members", func(ctx context.Context) error {
		c.store.WatchMembers(ctx, func(list []store.Member) { c.peers.Set(roster.Read(list)) })
		return nil
	})
	if isApart(c.cfg) {
		g.Add("targets", func(ctx context.Context) error {
			return roster.Tell(ctx, remoteFile(c.cfg), c.keys, c.cfg.Log.With("part", "agents"))
		})
	}
	if c.cfg.Zone != "" {
		g.Add("probe", func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return nil
			case <-c.store.Ready():
			}
			return probe.New(probe.Config{
				Zone: c.cfg.Zone, Peers: c.peers, Store: c.store, Clock: clock.Real, Log: c.cfg.Log.With("part", "probe"),
			}).Run(ctx)
		})
	}
	return g.Run(ctx)
}

// workByID finds work for its launcher, also when another server knew of it first.
func (c *company) workByID(ctx context.Context, id string) (api.Work, error) {
	o, err := store.WorkByID(ctx, c.store, id, 0)
	if fault.Is(err, fault.NotFound) && c.peers != nil {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		var now int64
		if now, err = c.store.Now(ctx); err == nil {
			o, err = store.WorkByID(ctx, c.store, id, now)
		}
	}
	return o, err
}

// current refuses code and secrets to replicas of an attempt that is over. What this server
// has not heard of yet may come any moment.
func (c *company) current(ctx context.Context, r link.Parts) error {
	work, err := store.WorkByID(ctx, c.store, r.TaskID, 0)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	var now api.Workload
	if err == nil {
		now = work.Workload()
	}
	newest := now.AttemptOf(r.Role)
	switch {
	case r.Attempt > newest:
		return fault.New(fault.Unavailable, "NotYet", fault.T("This server does not know of this attempt yet.", "本服务尚未获知该次尝试。")).Because(err)
	case r.Attempt < newest || now.Phase.Finished():
		return fault.New(fault.Forbidden, "AttemptOver", fault.T("This attempt is over.", "该次尝试已结束。"))
	}
	return nil
}

// ask puts a question to the leader; false: we lead ourselves, or there is nobody else.
func (c *company) ask(ctx context.Context, kind, about string, into any) (asked bool, err error) {
	return c.askWith(ctx, kind, about, nil, into)
}

// askWith is ask with something that the name alone does not say.
func (c *company) askWith(ctx context.Context, kind, about string, body, into any) (asked bool, err error) {
	if c.peers == nil || c.leads() {
		return false, nil
	}
	var data []byte
	if body != nil {
		if data, err = json.Marshal(body); err != nil {
			return true, err
		}
	}
	data, err = c.peers.Ask(ctx, kind, about, data)
	if err != nil {
		return true, err
	}
	return true, json.Unmarshal(data, into)
}
