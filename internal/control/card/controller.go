package card

import (
	"context"
	"log/slog"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/card"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/reconcile"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Events is what people read.
type Events interface {
	AddEvents(ctx context.Context, events ...history.Event) error
}

// Config makes a Controller.
type Config struct {
	Store  store.ReadWriter
	Events Events
	Clock  clock.Clock
	Log    *slog.Logger
	// Boot is the id of the kernel that Read and Follow are about: nodes that report it are this machine.
	Boot string
	// Read says what is known of devices of this machine now, by index; it is bounded. nil: nobody can be asked.
	Read func(ctx context.Context, devices []api.Device) map[int]*card.DeviceReading
	// Follow tells the kernel's lines about devices until ctx ends; nil: nobody does.
	Follow func(ctx context.Context, take func(card.KernelLine)) error
	// Test tries a device on which nothing stands; it is bounded.
	Test func(ctx context.Context, node *api.Node, device int) card.DeviceTest
	// Every is the pause between readings; 15 s when 0.
	Every time.Duration
}

// Controller keeps the health of devices while its server leads. Make one for each leadership.
type Controller struct {
	cfg   Config
	epoch store.Epoch
	book  *book
	loop  *reconcile.Loop
	jobs  chan job // to Run: devices to test
}

// job is a device that waits for its test.
type job struct {
	node   *api.Node
	device int
}

// New makes a controller; it starts nothing.
func New(cfg Config, epoch store.Epoch) *Controller {
	if cfg.Every == 0 {
		cfg.Every = 15 * time.Second
	}
	c := &Controller{cfg: cfg, epoch: epoch, book: newBook(), jobs: make(chan job)}
	c.loop = reconcile.New(reconcile.Config{Name: "card", Reconciler: c, Workers: 2, Clock: cfg.Clock, Log: cfg.Log})
	return c
}

// Run works until ctx, which ends with the leadership, ends. Call it once.
func (c *Controller) Run(ctx context.Context) error {
	feed := c.cfg.Store.Subscribe(api.KindNode, api.KindPlacement)
	defer feed.Close()
	if err := store.Fill(ctx, c.cfg.Store, c.change, api.KindNode); err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { feed.Each(ctx, c.change) })
	wg.Go(func() { c.runTests(ctx) })
	wg.Go(func() { c.read(ctx) })
	if c.cfg.Follow != nil {
		wg.Go(func() {
			_ = c.cfg.Follow(ctx, func(l card.KernelLine) {
				c.book.heard(l)
				c.addLocal(ctx)
			})
		})
	}
	return c.loop.Run(ctx)
}

// change asks for a turn of every node that a change is about.
func (c *Controller) change(ch store.Change) {
	if ch.Key.Kind == api.KindNode {
		old, _ := ch.Old.(*api.Node)
		now, _ := ch.New.(*api.Node)
		c.changed(old, now)
		return
	}
	old, _ := ch.Old.(*api.Placement)
	now, _ := ch.New.(*api.Placement)
	for _, node := range c.book.touched(old, now) {
		c.loop.Add(api.Key{Kind: api.KindNode, Name: node})
	}
}

// changed asks for a turn of a node that has something to judge.
func (c *Controller) changed(old, now *api.Node) {
	switch {
	case now == nil && old != nil:
		c.book.forget(old.Meta.Name)
	case now != nil && (len(now.Spec.DeviceOrders) > 0 || len(now.Status.Devices) > 0 || c.isLocal(now)):
		c.loop.Add(api.KeyOf(now))
	}
}

// isLocal says that a node's real devices are this machine's.
func (c *Controller) isLocal(n *api.Node) bool {
	return !n.Spec.Virtual && c.cfg.Boot != "" && n.Status.BootID == c.cfg.Boot && len(n.Spec.Devices) > 0
}

// local are the nodes that are this machine.
func (c *Controller) local(ctx context.Context) (out []*api.Node) {
	snap, err := c.cfg.Store.List(ctx, api.KindNode, "", 0)
	if err != nil {
		return nil
	}
	snap.Ascend("", func(o api.Object) bool {
		if n := o.(*api.Node); c.isLocal(n) {
			out = append(out, n)
		}
		return true
	})
	return out
}

func (c *Controller) addLocal(ctx context.Context) {
	for _, n := range c.local(ctx) {
		c.loop.Add(api.KeyOf(n))
	}
}

// read takes readings now and then.
func (c *Controller) read(ctx context.Context) {
	if c.cfg.Read == nil {
		return
	}
	for {
		for _, n := range c.local(ctx) {
			if c.readNode(ctx, n) {
				c.loop.Add(api.KeyOf(n))
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-c.cfg.Clock.After(c.cfg.Every):
		}
	}
}

// readNode takes readings of a node that is this machine; false: there were none.
func (c *Controller) readNode(ctx context.Context, n *api.Node) bool {
	if c.cfg.Read == nil || !c.isLocal(n) {
		return false
	}
	list := c.cfg.Read(ctx, numbered(n.Spec.Devices))
	if list != nil {
		c.book.saw(n.Meta.Name, list)
	}
	return list != nil
}

// numbered gives devices their place in the list as their number.
func numbered(list []api.Device) []api.Device {
	out := make([]api.Device, len(list))
	for i, d := range list {
		d.Index = i
		out[i] = d
	}
	return out
}

// Reconcile is one turn for one node.
func (c *Controller) Reconcile(ctx context.Context, key api.Key) (reconcile.Result, error) {
	o, err := c.cfg.Store.Get(ctx, key, c.book.least(key.Name))
	if fault.Is(err, fault.NotFound) {
		c.book.forget(key.Name)
		return reconcile.Result{}, nil
	} else if err != nil {
		return reconcile.Result{}, err
	}
	n := o.(*api.Node)
	c.book.wrote(n, 0)
	s := c.book.observe(n, c.isLocal(n))
	if s.busy, err = c.busy(ctx, n); err != nil {
		return reconcile.Result{}, err
	}
	p := decide(s, c.cfg.Clock.Now().UTC())
	if err := c.apply(ctx, s, p); err != nil {
		return reconcile.Result{}, err
	}
	for _, device := range p.tests {
		if h := card.Of(p.devices, device); !c.book.begin(nodeAndDevice{n.Meta.Name, device}, h.Since) {
			continue
		}
		select {
		case c.jobs <- job{n, device}:
		case <-ctx.Done():
			return reconcile.Result{}, ctx.Err()
		}
	}
	return reconcile.Result{Wake: p.wake}, nil
}

// busy are the closed devices of a node on which something stands, as of the closing or later: what was placed before it is seen.
func (c *Controller) busy(ctx context.Context, n *api.Node) (mask uint64, err error) {
	if card.Closed(n.Status.Devices) == 0 {
		return 0, nil
	}
	snap, err := c.cfg.Store.List(ctx, api.KindPlacement, "", n.Meta.Revision)
	if err != nil {
		return 0, err
	}
	snap.Ascend("", func(o api.Object) bool {
		for _, r := range o.(*api.Placement).Spec.Roles {
			for _, s := range r.Slots {
				if s.Node == n.Spec.Number {
					mask |= s.Devices
				}
			}
		}
		return true
	})
	return mask, nil
}

// runTests has devices tried, each by itself: one that hangs holds up no other.
func (c *Controller) runTests(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case j := <-c.jobs:
			wg.Go(func() {
				result := c.cfg.Test(ctx, j.node, j.device)
				c.readNode(ctx, j.node) // what is judged with it must not be older
				if ctx.Err() != nil {
					return // the next leader tests it
				}
				result.At = c.cfg.Clock.Now().UTC()
				c.book.end(nodeAndDevice{j.node.Meta.Name, j.device}, &result)
				c.loop.Add(api.KeyOf(j.node))
			})
		}
	}
}
