package save

import (
	"fmt"
	"maps"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

// sight is everything known about a task's saves at one moment.
type sight struct {
	gang.Gang
	keeps    bool            // states may outlive memory
	tiers    map[string]tier // by name
	full     *bool           // the shared store takes no more; nil: nobody asked
	leftover []leftover      // replicas that are no members any more and wait
	anew     bool            // a launcher may have missed what was told
	ended    []outcome       // commits that have ended since the last turn
}

// tier is how it is with a tier right now.
type tier struct {
	there bool // it belongs to this installation
	open  bool // and can be written to
}

type leftover struct {
	name       engine.Name
	generation int64
}

// memory is what a leader remembers of a task from turn to turn; a new one learns it again from the launchers. A turn makes a
// new one and changes nothing in the old.
type memory struct {
	told    map[string]mark    // by unit: what was told last
	high    map[string]mark    // by unit: the newest step that was told in a generation
	copying map[string]copying // by unit
	saving  *saving            // of the main unit; nil: nothing yet
	ended   []outcome          // not yet looked at
}

func (m *memory) empty() bool {
	return len(m.told)+len(m.high)+len(m.copying)+len(m.ended) == 0 && m.saving == nil
}

// again is a copy to change.
func (m *memory) again() memory {
	out := memory{told: maps.Clone(m.told), high: maps.Clone(m.high), copying: maps.Clone(m.copying), saving: m.saving.clone(), ended: slices.Clone(m.ended)}
	if out.told == nil {
		out.told, out.high, out.copying = map[string]mark{}, map[string]mark{}, map[string]copying{}
	}
	return out
}

// plan is what to do, in the order apply does it.
type plan struct {
	askRoom bool // nothing of this counts: whether the shared store has room must be known first
	release []message
	wrote   []wrote
	vouch   *voucher
	commits []commit
	event   *event
	tell    []message
}

// message is a watermark for one launcher.
type message struct {
	name engine.Name
	mark link.Watermark
}

// wrote is how long it took until a tier had a step.
type wrote struct {
	tier string
	took time.Duration
}

// commit is a checkpoint to commit to a tier.
type commit struct {
	tier string
	ckpt.Proposal
}

// voucher says that a checkpoint was read whole.
type voucher struct {
	tier  string
	from  api.CheckpointOrigin
	world uint32
	at    time.Time
}

type event struct {
	warning bool
	reason  string
	message fault.Text
	once    string // within the task
}

// decision is one turn's judgement as it is made.
type decision struct {
	sight *sight
	now   time.Time
	plan  plan
	next  memory
}

// decide is the whole judgement: pure, and what it remembers it returns.
func decide(s sight, was memory, now time.Time) (plan, memory) {
	d := decision{sight: &s, now: now, next: was.again()}
	d.next.ended = append(d.next.ended, s.ended...)
	over := s.Task.Status.Phase.Finished()
	d.releaseOthers(over)
	if over {
		return d.plan, memory{}
	}
	if s.anew {
		clear(d.next.told)
	}
	units := s.Units(&s.Task.Status)
	for i := range units {
		d.tellUnit(&units[i])
	}
	return d.plan, d.next
}

// tellUnit tells the members of one unit what they all hold.
func (d *decision) tellUnit(u *gang.Unit) {
	generation := int64(u.Generation)
	say := link.Watermark{Generation: generation}
	var offers int64
	saver := u // whose parts make a checkpoint
	if files := u.Task.Spec.CheckpointFolder() != ""; files && u.Members.Lead() != nil {
		saver = filing(u)
		say.Step = filed(&saver.Members[0], generation)
	} else if !files && allIn(u.Members, generation) {
		say.Step, offers = watermark(u.Members)
		say.Step = d.rise(u.Role, generation, say.Step)
	}
	if say.Step > 0 && saver == u {
		say.Keep = d.keep(u, say.Step)
	}
	keeps := d.sight.keeps && u.Main()
	if say.Step > 0 && keeps && u.Rendezvous != nil {
		d.persist(saver, &say)
	} else {
		say.Last = unkept(saver, generation, keeps)
		if !keeps {
			say.Denied = denyAll(u.Members)
		}
	}
	d.say(u, say, offers)
}

// say has a unit's members told, if it is anything new.
func (d *decision) say(u *gang.Unit, say link.Watermark, offers int64) {
	if say.Step == 0 && !say.Last && len(say.Denied) == 0 && offers == 0 {
		return
	}
	now := markOf(say)
	if now.offers = offers; d.next.told[u.Role] == now {
		return
	}
	d.next.told[u.Role] = now
	for i := range u.Members {
		if say.Seen = 0; offers > 0 {
			say.Seen = u.Members[i].Said.Offer
		}
		if say.Step == 0 && say.Seen == 0 && !say.Last && len(say.Denied) == 0 {
			continue
		}
		d.plan.tell = append(d.plan.tell, message{u.Members[i].Name, say})
	}
}

// mark is what was told last: a step of a generation, the step to persist and the checkpoints there are,
// and what stays for copies in peers' memory.
type mark struct {
	generation, step, persist, local, shared, safe, next int64
	last                                                 bool
	denied                                               string
	offers                                               int64 // of all launchers together: each only grows
}

func markOf(w link.Watermark) mark {
	m := mark{generation: w.Generation, step: w.Step, last: w.Last}
	if w.Persist != nil {
		m.persist = w.Persist.Step
	}
	if n := len(w.Keep); n > 0 {
		m.safe, m.next = w.Keep[0], w.Keep[n-1]
	}
	for _, d := range w.Denied {
		m.denied += fmt.Sprint(d.Tier, d.Step, " ")
	}
	for _, c := range w.Committed {
		if c.Tier == link.TierLocal {
			m.local = c.Step
		} else {
			m.shared = c.Step
		}
	}
	return m
}

// rise is the step, or the newer one that was told before: whoever hears less of it may have given it up meanwhile, and
// would be let to.
func (d *decision) rise(unit string, generation, step int64) int64 {
	if was := d.next.high[unit]; was.generation == generation {
		step = max(step, was.step)
	}
	d.next.high[unit] = mark{generation: generation, step: step}
	return step
}

// allIn says that all launchers are of the generation.
func allIn(members gang.Members, generation int64) bool {
	return !members.Any(func(m *gang.Member) bool { return m.Said.Generation != generation })
}

// watermark is the newest step that all hold, and how many offers are known with it. One that anybody was told stays
// the least: who heard of it has overwritten what is older, and nobody was yet allowed to give it up. Nor is anybody
// as long as the last leader's word may still be on its way.
func watermark(members gang.Members) (step, offers int64) {
	step = members.HeldByAll()
	fresh := true
	for i := range members {
		said := &members[i].Said
		step, offers, fresh = max(step, said.Mark), offers+said.Offer, fresh && said.Fresh
	}
	if !fresh {
		return step, 0
	}
	return step, offers
}
