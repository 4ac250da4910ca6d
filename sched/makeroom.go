package sched

import "time"

// A gang that waits although enough devices are free in all may start when others move together. Such moves are
// carried out, one set at a time, where they pay: what the movers lose at most is no more than the device time that
// the gang has waited for already, nor than what it is expected to wait for still. So waiting is never made good by
// a larger loss, whatever the forecast was worth. Who moves is known to save, has stood for a while, and has its
// second place from then on; what it leaves is kept for the gang by a claim.
const (
	// settled is how many quanta a gang stands before it is moved, again: nobody is sent around.
	settled = 6
	// looks is how often in a quantum moves are looked for, for one of those that have a reservation.
	looks = 10
)

// moves is what one turn leaves to the next of them.
type moves struct {
	next   time.Time
	looked int
}

// look asks gangs to move so that one that waits starts.
func (m *moves) look(t *turn) {
	q := t.q
	if t.p.Moves == nil || len(q.reserved) == 0 || t.now.Before(m.next) {
		return
	}
	for _, c := range q.claims {
		if c.moves {
			return
		}
	}
	r := q.reserved[m.looked%len(q.reserved)]
	m.next, m.looked = t.now.Add(t.p.Quantum/looks), m.looked+1
	e := q.waiting[r.ID]
	if past := q.past[r.ID]; e == nil || past != nil && past.claims >= maxClaims {
		return
	}
	found, ok := migrate(t.now, t.c, q, r.ID, func(r *run) bool {
		return t.now.Sub(r.Since) >= settled*t.p.Quantum && !r.Workload.LastCheckpoint.IsZero() && t.p.Moves(r.Workload)
	})
	if waits := min(t.now.Sub(e.since), r.Start.Sub(t.now)); ok && found.Lost <= time.Duration(r.devices)*waits {
		found.carryOut(t, e)
	}
}

// carryOut gives every mover its second place before anybody is asked.
func (m Migration) carryOut(t *turn, e *entry) {
	for i, mv := range m.Moves {
		if t.c.Reserve(mv.ID, mv.To) != nil { // it has one, for another reason
			for _, other := range m.Moves[:i] {
				t.c.Unreserve(other.ID)
			}
			return
		}
	}
	c := t.claim(e, smallest(e.w), m.At)
	c.moves = true
	for _, mv := range m.Moves {
		c.pending[mv.ID] = true
		t.q.running[mv.ID].leaving = true
		t.res.Evictions = append(t.res.Evictions, Eviction{
			ID: mv.ID, For: e.w.ID, Why: EvictMoved, AskCheckpoint: true, Grace: t.p.Grace, Lost: mv.Lost, To: mv.To,
		})
	}
}
