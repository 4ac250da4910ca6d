package kubeengine

import (
	"log/slog"
	"os"
	"sync"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
)

// What was known last is noted, so that a server which starts while a cluster is away does not take what runs there for lost. It is
// no second truth: as soon as the cluster answers, its pods count and nothing else.

// notes are what is noted, of what a board says. Safe for concurrent use.
type notes struct {
	dir, zone string
	board     *engine.Board
	log       *slog.Logger

	mu    sync.Mutex
	open  bool // the board is whole: before that nothing is written over what was noted
	fresh bool // what is known has changed since it was noted
}

func (n *notes) file() string { return n.zone + ".json" }

// remember takes up what was noted.
func (n *notes) remember() {
	var list []engine.Observation
	if _, err := record.Read(n.dir, n.file(), &list); err != nil {
		n.log.Warn("what was known of a cluster can't be read", "zone", n.zone, "error", err)
	}
	for _, o := range list {
		n.board.Put(o)
	}
}

// touch says that what is known has changed; whole that it is all there is.
func (n *notes) touch(whole bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fresh, n.open = true, n.open || whole
}

// note writes down what is known, if that has changed.
func (n *notes) note() {
	n.mu.Lock()
	if !n.fresh || !n.open {
		n.mu.Unlock()
		return
	}
	n.fresh = false
	n.mu.Unlock()
	err := os.MkdirAll(n.dir, 0o700)
	if err == nil {
		err = record.Write(n.dir, n.file(), n.board.Replicas(""))
	}
	if err != nil {
		n.log.Warn("what is known of a cluster can't be noted", "zone", n.zone, "error", err)
	}
}
