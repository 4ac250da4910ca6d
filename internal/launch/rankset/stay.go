package rankset

import (
	"slices"

	"github.com/fermi-cluster/fermi/internal/launch/bell"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/launch/word"
)

// parting notes what a rank says of leaving.
func (r *Set) parting(c *rankConn, w word.Word) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case w.Can != nil:
		c.can = w.Can.Leave
	case w.Left != nil && c.can && w.Left.Generation == r.now.Number:
		c.left, c.why = true, w.Left.Why
		bell.Ring(r.Moved)
	}
}

// these are the local ranks of which one connection is so.
func (r *Set) these(is func(*rankConn) bool) map[int]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[int]bool{}
	for c := range r.conns {
		if is(c) {
			out[c.local] = true
		}
	}
	return out
}

func (r *Set) AbleToLeave() map[int]bool { return r.these(func(c *rankConn) bool { return c.can }) }
func (r *Set) HaveLeft() map[int]bool    { return r.these(func(c *rankConn) bool { return c.left }) }

// Hangs says that ranks make no progress: then none will leave either.
func (r *Set) Hangs() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.said.Hung) > 0
}

// Leave tells the ranks to leave their generation.
func (r *Set) Leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	word := &word.Leave{Generation: r.now.Number}
	for c := range r.conns {
		if c.can {
			c.post(func(out *rankOutbox) { out.leave = word })
		}
	}
}

// staying is who is of the next generation: the processes of the ranks that left. The connections of
// all others end; mu held.
func (r *Set) staying() map[int]int {
	pids := map[int]int{}
	for c := range r.conns {
		if c.stays = c.left; !c.left {
			c.close()
			continue
		}
		c.left = false
		pids[c.local] = r.stall.pulses[c.local].pid
	}
	return pids
}

// HangUp lets no rank stay.
func (r *Set) HangUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		c.left = false
	}
}

// Place gives those who stay their place; each is what their variables would be.
func (r *Set) Place(each [][]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		if !c.stays {
			continue
		}
		c.stays, c.of = false, r.now.Number
		word := &word.Place{
			Generation: r.now.Number, Rank: r.now.FirstRank + c.local, World: r.now.World,
			MasterAddr: process.Lookup(each[c.local], "MASTER_ADDR"), MasterPort: process.Lookup(each[c.local], "MASTER_PORT"),
			Group: process.Lookup(each[c.local], "GROUP_RANK"), Groups: process.Lookup(each[c.local], "GROUP_WORLD_SIZE"), Pin: slices.Clone(r.pinned),
		}
		if restore := r.now.Restore; restore > 0 {
			word.Restore = &restore
		}
		roles := r.roles
		c.post(func(out *rankOutbox) { out.place, out.roles = word, roles })
	}
}

// Dismiss hangs up on those that left: an SDK that is given no place raises what made it leave.
func (r *Set) Dismiss() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		if c.left {
			c.close()
		}
	}
}

// FirstLeft is the lowest local rank that left, and its last words.
func (r *Set) FirstLeft() (local int, why string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		if c.left && (!ok || c.local < local) {
			local, why, ok = c.local, c.why, true
		}
	}
	return local, why, ok
}
