package fence

import (
	"context"
	"sync"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Book knows who was given up and has not handed over yet. Every server has one, fed from its own cache; it reads what has changed when
// it is asked. Safe for concurrent use.
type Book struct {
	store store.Reader

	mu   sync.Mutex
	feed *store.Feed         // nil before it was first asked
	held map[string]string   // replica: its node
	on   map[string][]string // node: its replicas
}

// NewBook makes one; it starts nothing.
func NewBook(s store.Reader) *Book { return &Book{store: s} }

// Refuse is nil, or the fault Forbidden of a replica that was given up: others have taken its place, and nothing that it hands over counts.
func (b *Book) Refuse(ctx context.Context, of link.Parts) error {
	name := of.LogKey()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.catchUp(ctx); err != nil {
		return err
	}
	if _, held := b.held[name]; !held {
		return nil
	}
	return fault.New(fault.Forbidden, "GivenUp", fault.T("%s was given up: nothing that it hands over counts any more.", "%s 已被放弃：其提交的任何内容均不再有效。", name))
}

// Close ends the subscription; of nil it does nothing.
func (b *Book) Close() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.feed != nil {
		b.feed.Close()
	}
}

// catchUp brings what the cache has seen into the book.
func (b *Book) catchUp(ctx context.Context) error {
	if b.feed == nil {
		feed := b.store.Subscribe(api.KindNode)
		snap, err := b.store.List(ctx, api.KindNode, "", 0)
		if err != nil {
			feed.Close()
			return err
		}
		b.feed, b.held, b.on = feed, map[string]string{}, map[string][]string{}
		snap.Ascend("", func(o api.Object) bool {
			b.note(o.GetMeta().Name, o.(*api.Node))
			return true
		})
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	changes, err := b.feed.Next(ended) // what there is, without waiting
	if err != nil && ended.Err() != err {
		return err
	}
	for _, ch := range changes {
		n, _ := ch.New.(*api.Node)
		b.note(ch.Key.Name, n)
	}
	return nil
}

// note takes over the holds of a node; nil: it is gone.
func (b *Book) note(node string, n *api.Node) {
	for _, name := range b.on[node] {
		delete(b.held, name)
	}
	delete(b.on, node)
	if n == nil {
		return
	}
	for i := range n.Status.Holds {
		name := n.Status.Holds[i].Replica
		b.held[name], b.on[node] = node, append(b.on[node], name)
	}
}
