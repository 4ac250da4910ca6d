package rankset

import (
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/preflight"
)

// Report is what the leader is told of the launcher itself, beside its ranks. Its lock is taken after that of the Set, never before it.
type Report struct {
	send     func(pause time.Duration) // has it told, after a pause or at once; not called with mu held
	usePause time.Duration             // how long what is used may wait
	mu       sync.Mutex
	facts    facts
}

// facts are the fields of link.Ranks that a Report has.
type facts struct {
	address           string
	port, serve, peer int
	ports             []int
	found             *preflight.Facts
	checked           *preflight.Report
	prepared, warm    bool
	restored          string
	restoredAt        time.Time
	refused           *link.Origin
	use               link.Use
	copies            []link.Copy // what is held for other launchers' ranks
	readiness         readiness
}

// readiness is whether the processes answer, and what is waited for before they start.
type readiness struct {
	serving  *engine.Serving
	bringing *engine.Bringing
}

// change changes what is told.
func (r *Report) change(pause time.Duration, how func(*facts)) {
	r.mu.Lock()
	how(&r.facts)
	r.mu.Unlock()
	r.send(pause)
}

// fill puts it into a report.
func (r *Report) fill(said *link.Ranks) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := &r.facts
	said.Address, said.Port, said.Serve, said.PeerPort, said.Ports = f.address, f.port, f.serve, f.peer, f.ports
	said.Facts, said.Preflight, said.Prepared, said.Warm = f.found, f.checked, f.prepared, f.warm
	said.Restored, said.RestoredAt, said.Refused, said.Use, said.Copies = f.restored, f.restoredAt, f.refused, f.use, f.copies
	said.Serving, said.Bringing = f.readiness.serving, f.readiness.bringing
}

// begin is a new generation, which has used nothing yet.
func (r *Report) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.facts.use = link.Use{}
}

// started: the ranks run; port is for the next generation. What was found before is of no use any more.
func (r *Report) started(port int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.facts.port, r.facts.found, r.facts.checked = port, nil, nil
}

// Ready tells the address and the ports to a leader that has opened no generation yet.
func (r *Report) Ready(address string, port, serve, peer int, own []int, found *preflight.Facts) {
	r.change(0, func(f *facts) {
		f.address, f.port, f.serve, f.peer, f.found = address, port, serve, peer, found
		f.ports = append(f.ports, own...)
	})
}

// Preflighted tells what the connections to others were like.
func (r *Report) Preflighted(checked *preflight.Report) {
	r.change(0, func(f *facts) { f.checked = checked })
}

// Prepared tells the leader that nothing has to be brought any more.
func (r *Report) Prepared() { r.change(0, func(f *facts) { f.prepared = true }) }

// Warm tells the leader whether ranks could be forked here at once.
func (r *Report) Warm(is bool) { r.change(0, func(f *facts) { f.warm = is }) }

// Drained tells the leader at once how far the ranks came: they have ended, and all that they printed was read.
func (r *Report) Drained() { r.change(0, func(*facts) {}) }

// Restored is where all of the ranks' states were read, which the leader hears with the generation that begins from them.
func (r *Report) Restored(tier string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.facts.restored, r.facts.restoredAt = tier, at
}

// Refuse tells the leader that a checkpoint can't be had here.
func (r *Report) Refuse(from link.Origin) { r.change(0, func(f *facts) { f.refused = &from }) }

// Serves tells the leader whether the processes answer requests; nil: none of them runs.
func (r *Report) Serves(s *engine.Serving) { r.change(0, func(f *facts) { f.readiness.serving = s }) }

// Brings tells the leader how far something is that ranks wait for; nil: nothing is.
func (r *Report) Brings(b *engine.Bringing) { r.change(0, func(f *facts) { f.readiness.bringing = b }) }

// Uses changes what is told of use.
func (r *Report) Uses(change func(*link.Use)) {
	r.change(r.usePause, func(f *facts) { change(&f.use) })
}

// Copied tells the leader what is held for others.
func (r *Report) Copied(list []link.Copy) {
	r.change(savedPause, func(f *facts) { f.copies = list })
}
