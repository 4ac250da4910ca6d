package gang

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// Members is a list of members, in the placement's order.
type Members []Member

// Any says that one of them is so.
func (l Members) Any(is func(m *Member) bool) bool {
	for i := range l {
		if is(&l[i]) {
			return true
		}
	}
	return false
}

// Zones are those that they are in, sorted.
func (l Members) Zones() []string {
	var names []string
	for _, m := range l {
		if !slices.Contains(names, m.Zone) {
			names = append(names, m.Zone)
		}
	}
	slices.Sort(names)
	return names
}

// Started is when the first process of this attempt started, nil when none did.
func (l Members) Started() *time.Time {
	var first *time.Time
	for i := range l {
		if at := &l[i].Observed.Started; !at.IsZero() && (first == nil || at.Before(*first)) {
			first = at
		}
	}
	return first
}

// HeldByAll is the newest step that every launcher's ranks hold; 0: none.
func (l Members) HeldByAll() int64 {
	held := make([][]int64, len(l))
	for i := range l {
		held[i] = l[i].Said.Held
	}
	return newestCommon(held)
}

// newestCommon is the newest step that is in all lists; 0: none.
func newestCommon(held [][]int64) int64 {
	count := map[int64]int{}
	var best int64
	for _, steps := range held {
		for _, step := range steps {
			if count[step]++; count[step] == len(held) {
				best = max(best, step)
			}
		}
	}
	return best
}

// Lead is the member of rank 0.
func (l Members) Lead() *Member {
	for i := range l {
		if l[i].First == 0 {
			return &l[i]
		}
	}
	return nil
}

// Hash is the same for the same table and no other.
func (l Members) Hash() string {
	h := sha256.New()
	for i := range l {
		fmt.Fprintf(h, "%s %d %d\n", l[i].Name, l[i].First, l[i].Ranks)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// AllReady says that every launcher is attached and has told what a generation needs to know.
func (l Members) AllReady() bool {
	return !l.Any(func(m *Member) bool { return !m.Attached || m.Said.Port == 0 })
}

// AnyEnded says that one has ended, or is about to: it can't be of another generation.
func (l Members) AnyEnded() bool {
	return l.Any(func(m *Member) bool { return m.Ended() || m.Waits() })
}

// held are the steps that each of them holds who holds any.
func (l Members) held() (out [][]int64) {
	for i := range l {
		if steps := l[i].Said.Held; len(steps) > 0 {
			out = append(out, steps)
		}
	}
	return out
}

// Ranks counts their processes.
func (l Members) Ranks() (n int) {
	for i := range l {
		n += l[i].Ranks
	}
	return n
}

// Nodes counts those that they are on.
func (l Members) Nodes() int {
	names := map[string]bool{}
	for i := range l {
		names[l[i].Node] = true
	}
	return len(names)
}

// DifferFrom says that they are not those who are of a generation of a task whose members come and go.
func (l Members) DifferFrom(r *api.Rendezvous) bool {
	return r.Below != nil && r.Members != l.Hash()
}

// Reachable says that every launcher has told where its ranks may be reached. A task of one role has
// nobody who asks.
func (l Members) Reachable(spec *api.TrainingTaskSpec) bool {
	return len(spec.Roles) < 2 || !l.Any(func(m *Member) bool { return m.Said.Serve == 0 && !m.Ended() })
}

// TooFew says that fewer take part than the task can do with.
func (l Members) TooFew(spec *api.TrainingTaskSpec) bool {
	count := map[string]int{}
	for i := range l {
		count[l[i].Role]++
	}
	return slices.ContainsFunc(spec.Roles, func(r api.Role) bool {
		low, _ := r.Range()
		return count[r.Name] < low
	})
}

// Below is what tells them from those that come later: by role, an index above all of theirs.
func (l Members) Below() map[string]int {
	out := map[string]int{}
	for i := range l {
		out[l[i].Role] = max(out[l[i].Role], l[i].Index+1)
	}
	return out
}
