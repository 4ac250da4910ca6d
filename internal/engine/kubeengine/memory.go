package kubeengine

import (
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/internal/clock"
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
	clock     clock.Clock

	mu    sync.Mutex
	open  bool      // the board is whole: before that nothing is written over what was noted
	fresh bool      // what is known has changed since it was noted
	next  time.Time // before that it is not noted again
}

// All of it is written each time: the pause after that is so many times as long as it took, and at most so long.
const (
	rarely  = 50
	longest = 10 * time.Second
)

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

// due says that what is known has changed and may be noted again.
func (n *notes) due(now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.fresh || !n.open || now.Before(n.next) {
		return false
	}
	n.fresh = false
	return true
}

// note writes down what is known, if that is due, or was not noted and this is the last time.
func (n *notes) note(last bool) {
	began := n.clock.Now()
	if last {
		began = began.Add(longest)
	}
	if !n.due(began) {
		return
	}
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		now := n.clock.Now()
		n.next = now.Add(min(rarely*max(now.Sub(began), 0), longest))
	}()
	err := os.MkdirAll(n.dir, 0o700)
	if err == nil {
		err = record.Write(n.dir, n.file(), n.board.Replicas(""))
	}
	if err != nil {
		n.log.Warn("what is known of a cluster can't be noted", "zone", n.zone, "error", err)
	}
}
