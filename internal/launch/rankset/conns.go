package rankset

import (
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/launch/bell"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

// Conns are the connections of the ranks that speak to us, who of them leaves its generation, and what all of them are told.
// Its lock is taken after that of the Set, never before it.
type Conns struct {
	// Moved has one after a rank said that it left, Gone after a connection ended.
	Moved, Gone chan struct{}

	mu     sync.Mutex
	ranks  int   // local ones
	number int64 // the generation that runs
	list   map[*rankConn]struct{}
	news
}

// news is the newest that ranks are told, also those that come later.
type news struct {
	stopped *word.Stop
	roles   map[string]word.Role // nil: never told
	table   string               // of roles
	every   int64                // steps between two saves; 0: they are not asked for any
}

func newConns(ranks int) *Conns {
	return &Conns{Moved: make(chan struct{}, 1), Gone: make(chan struct{}, 1), ranks: ranks, list: map[*rankConn]struct{}{}}
}

// add lets one in; false: there are too many.
func (s *Conns) add(c *rankConn, local int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) >= 4*s.ranks {
		return false
	}
	s.list[c], c.local, c.of = struct{}{}, local, s.number
	return true
}

func (s *Conns) remove(c *rankConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.list, c)
	bell.Ring(s.Gone)
}

// greet tells one that came what the others know; table is that of the roles it was started with.
func (s *Conns) greet(c *rankConn, table string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.news
	c.post(func(out *rankOutbox) {
		if now.stopped != nil {
			out.stop = now.stopped
		}
		if now.every > 0 {
			out.interval = &word.Interval{Steps: now.every}
		}
		if now.roles != nil && now.table != table {
			out.roles = now.roles
		}
	})
}

// post tells all ranks; local < 0, or one of them.
func (s *Conns) post(local int, change func(*rankOutbox)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.list {
		if local < 0 || c.local == local {
			c.post(change)
		}
	}
}

// everybody is for post.
const everybody = -1

// current says that a connection is of the generation that runs: what it says counts in no other.
func (s *Conns) current(c *rankConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.of == s.number
}

// Stop tells the ranks that they are about to be ended.
func (s *Conns) Stop(grace time.Duration, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stopped := &word.Stop{Grace: grace.Seconds(), Reason: reason}
	s.stopped = stopped
	for c := range s.list {
		c.post(func(out *rankOutbox) { out.stop = stopped })
	}
}

// tellRoles is the leader's newest word about where the roles are: ranks that run hear of it if it
// differs from what they heard before. It says whether it does.
func (s *Conns) tellRoles(g link.Generation) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.Number < s.number || g.RoleTable == s.table {
		return false
	}
	s.table, s.roles = g.RoleTable, map[string]word.Role{}
	for _, role := range g.Roles {
		s.roles[role.Name] = word.Role{Ranks: role.Ranks, Replicas: role.Replicas, Addresses: slices.Clone(role.Addresses)}
	}
	if g.Number == s.number { // those of an earlier one are about to end
		roles := s.roles
		for c := range s.list {
			c.post(func(out *rankOutbox) { out.roles = roles })
		}
	}
	return true
}

// tellInterval is the leader's newest word about how often ranks save; it says whether it is news.
func (s *Conns) tellInterval(g link.Generation) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.Number < s.number || g.Every == s.every {
		return false
	}
	s.every = g.Every
	for c := range s.list {
		c.post(func(out *rankOutbox) { out.interval = &word.Interval{Steps: g.Every} })
	}
	return true
}

// fill puts what ranks were told into a report.
func (s *Conns) fill(said *link.Ranks) {
	s.mu.Lock()
	defer s.mu.Unlock()
	said.RoleTable, said.Every = s.table, s.every
}

// parting notes what a rank says of leaving.
func (s *Conns) parting(c *rankConn, w word.Word) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case w.Can != nil:
		c.can = w.Can.Leave
	case w.Left != nil && c.can && w.Left.Generation == s.number:
		c.left, c.why = true, w.Left.Why
		bell.Ring(s.Moved)
	}
}

// these are the local ranks of which one connection is so.
func (s *Conns) these(is func(*rankConn) bool) map[int]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[int]bool{}
	for c := range s.list {
		if is(c) {
			out[c.local] = true
		}
	}
	return out
}

// AbleToLeave are the local ranks that can leave their generation and join the next in the same process.
func (s *Conns) AbleToLeave() map[int]bool { return s.these(func(c *rankConn) bool { return c.can }) }

// HaveLeft are those that did, and have no place in another yet.
func (s *Conns) HaveLeft() map[int]bool { return s.these(func(c *rankConn) bool { return c.left }) }

// Talking says that a rank is connected.
func (s *Conns) Talking() bool { return len(s.these(func(*rankConn) bool { return true })) > 0 }

// Newcomers are the local ranks of the generation that begins whose processes do not stay from the one before.
func (s *Conns) Newcomers() (list []int) {
	staying := s.these(func(c *rankConn) bool { return c.stays })
	for local := range s.ranks {
		if !staying[local] {
			list = append(list, local)
		}
	}
	return list
}

// Leave tells the ranks to leave their generation.
func (s *Conns) Leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	leave := &word.Leave{Generation: s.number}
	for c := range s.list {
		if c.can {
			c.post(func(out *rankOutbox) { out.leave = leave })
		}
	}
}

// begin is a new generation: the ranks that left are of it, and are given. The connections of all others end.
func (s *Conns) begin(number int64) (staying map[int]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number, staying = number, map[int]bool{}
	for c := range s.list {
		if c.stays = c.left; !c.left {
			c.close()
			continue
		}
		c.left = false
		staying[c.local] = true
	}
	return staying
}

// HangUp lets no rank stay.
func (s *Conns) HangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.list {
		c.left = false
	}
}

// Dismiss hangs up on those that left: an SDK that is given no place raises what made it leave.
func (s *Conns) Dismiss() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.list {
		if c.left {
			c.close()
		}
	}
}

// FirstLeft is the lowest local rank that left, and its last words.
func (s *Conns) FirstLeft() (local int, why string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.list {
		if c.left && (!ok || c.local < local) {
			local, why, ok = c.local, c.why, true
		}
	}
	return local, why, ok
}

// place gives those who stay their place in a generation; each is what their variables would be, and pinned what stays.
func (s *Conns) place(g link.Generation, each [][]string, pinned []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.list {
		if !c.stays {
			continue
		}
		c.stays, c.of = false, s.number
		at := &word.Place{
			Generation: g.Number, Rank: g.FirstRank + c.local, World: g.World,
			MasterAddr: process.Lookup(each[c.local], "MASTER_ADDR"), MasterPort: process.Lookup(each[c.local], "MASTER_PORT"),
			Group: process.Lookup(each[c.local], "GROUP_RANK"), Groups: process.Lookup(each[c.local], "GROUP_WORLD_SIZE"), Pin: slices.Clone(pinned),
		}
		if restore := g.Restore; restore > 0 {
			at.Restore = &restore
		}
		roles := s.roles
		c.post(func(out *rankOutbox) { out.place, out.roles = at, roles })
	}
}

// pidOf is who connected, as this launcher's namespace numbers it; 0 where that is not known.
func pidOf(conn net.Conn) (pid int) {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return 0
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	return pid
}
