package link

import (
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/hearing"
	"github.com/fermi-cluster/fermi/internal/link/ledger"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
)

// roll is who leads, who is attached, here or through followers, and what each launcher said last. One lock holds all of it: a
// stream counts only while it is the newest of its replica, whichever server it came to. Safe for concurrent use.
type roll struct {
	cfg    *HubConfig
	ears   *hearing.Ears
	probes *inquiries

	mu        sync.Mutex
	epoch     int64                 // of the newest leader we know; 0: launchers are not taken in
	since     time.Time             // when it became so
	leading   bool                  // it is us
	words     lastWords             // the last of each launcher
	peers     map[engine.Name]*peer // attached here or, while we lead, through a follower
	followers map[*follower]struct{}
	up        *uplink // to the leader; nil while we lead or know none
}

func newRoll(cfg *HubConfig, outputs *ledger.Ledger) *roll {
	r := &roll{
		cfg: cfg, probes: newInquiries(), words: lastWords{outputs: outputs, by: map[engine.Name]*known{}},
		peers: map[engine.Name]*peer{}, followers: map[*follower]struct{}{},
	}
	r.ears = hearing.New(cfg.Clock, r.beat)
	r.words.ears = r.ears
	return r
}

// lead says that we lead with this epoch; 0: not any more.
func (r *roll) lead(epoch int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if epoch != 0 {
		r.leading, r.up = true, nil
		r.ears.Wake()
		r.raise(epoch)
		return
	}
	r.leading = false
	for f := range r.followers {
		r.dropFollower(f, errNotLeading)
	}
	if !r.cfg.Peered {
		r.closeDoor()
	}
}

// newest is the epoch of the newest leader we know.
func (r *roll) newest() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.epoch
}

// has says whether a launcher is connected now.
func (r *roll) has(name engine.Name) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.peers[name] != nil
}

// said is what a launcher told last, and the epoch that it is to be read in; false: nothing.
func (r *roll) said(name engine.Name) (k known, epoch int64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.words.by[name] == nil {
		return known{}, 0, false
	}
	return *r.words.by[name], r.epoch, true
}

// raise makes epoch the one of every launcher attached here, mu held.
func (r *roll) raise(epoch int64) {
	r.epoch, r.since = epoch, r.cfg.Clock.Now()
	for _, p := range r.peers {
		if p.via == nil {
			p.post(func(out *outbox) { out.epoch, out.watermark = epoch, nil }) // the last leader's
		}
	}
}

// closeDoor hangs up on every launcher, which then looks for another server, mu held.
func (r *roll) closeDoor() {
	r.epoch = 0
	for _, p := range r.peers {
		p.hangUp(errNotLeading)
	}
}

// order has a launcher told something in our epoch, where it is attached and we lead.
func (r *roll) order(name engine.Name, give func(p *peer, epoch int64) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.peers[name]
	if p == nil || !r.leading {
		return fault.New(fault.Unavailable, "NotAttached",
			fault.T("The replica's launcher is not connected.", "该副本的启动器未连接。"))
	}
	return give(p, r.epoch)
}

// attach makes p the one stream of its replica, or says why not.
func (r *roll) attach(p *peer, state engine.State) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.epoch == 0 || r.epoch < p.epoch {
		return errNotLeading
	}
	if r.epoch > p.epoch { // a new leader since the launcher was asked
		p.post(func(out *outbox) { out.epoch = r.epoch })
	}
	if !r.place(p) {
		return errReplaced
	}
	k := r.words.of(p.name, r.cfg.Clock.Now(), r.peers)
	p.voice = r.ears.Attend(p.name)
	k.session = p.session
	k.ranks = nil // it says so again, and until then nobody acts on what it said elsewhere
	k.advance(state)
	r.mark(p.name)
	return nil
}

// place makes p the one of its replica; false when a newer stream of it is there. mu held.
func (r *roll) place(p *peer) bool {
	if old := r.peers[p.name]; old != nil {
		if old.session > p.session {
			return false
		}
		old.hangUp(errReplaced)
		if old.via != nil {
			delete(old.via.names, p.name)
		}
	}
	r.peers[p.name] = p
	return true
}

// mark says that the leader must hear of a replica, mu held.
func (r *roll) mark(name engine.Name) {
	if r.up != nil {
		r.up.mark(name)
	}
}

// detach forgets p unless a newer stream took its place.
func (r *roll) detach(p *peer) {
	r.mu.Lock()
	mine := r.peers[p.name] == p
	if mine {
		delete(r.peers, p.name)
		if k := r.words.by[p.name]; k != nil {
			k.seen = r.cfg.Clock.Now()
		}
		r.mark(p.name)
	}
	r.mu.Unlock()
	if mine {
		r.cfg.Notify(p.parts.TaskID, p.name)
	}
}

// tell notes what p's launcher said; a stream that was replaced has no say any more.
func (r *roll) tell(p *peer, note func(*known)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.words.by[p.name]; k != nil && r.peers[p.name] == p {
		note(k)
		r.mark(p.name)
	}
}

// silence is how long a launcher may say nothing. While launchers come back to a new leader all of them are
// late, and who is hung up on comes a second time.
func (r *roll) silence(every time.Duration, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.since) < 2*patience {
		return max(hearing.SilenceAfter(every), patience)
	}
	return hearing.SilenceAfter(every)
}

// beat is how often a launcher is asked now.
func (r *roll) beat() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return hearing.BeatPace(len(r.peers))
}

func (r *roll) addFollower(f *follower, epoch int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.leading || r.epoch != epoch {
		return errNotLeading
	}
	r.followers[f] = struct{}{}
	return nil
}

// dropFollower forgets it and what came through it, and gives the names. mu held.
func (r *roll) dropFollower(f *follower, why error) []engine.Name {
	f.cancel(why)
	delete(r.followers, f)
	var gone []engine.Name
	for name := range f.names {
		if p := r.peers[name]; p != nil && p.via == f {
			delete(r.peers, name)
			r.ears.Bereave(name)
			gone = append(gone, name)
		}
	}
	f.names = map[engine.Name]struct{}{}
	return gone
}

func (r *roll) removeFollower(f *follower) {
	r.mu.Lock()
	gone := r.dropFollower(f, errHungUp)
	r.mu.Unlock()
	for _, name := range gone {
		if parts, err := ParseName(name); err == nil {
			r.cfg.Notify(parts.TaskID, name)
		}
	}
}

func (r *roll) noteFacts(f *follower, name engine.Name, parts Parts, m *linkpb.Facts) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, here := r.followers[f]; !here {
		return false // dropped meanwhile
	}
	p := r.peers[name]
	mine := p != nil && p.via == f && p.session == m.GetSession()
	switch {
	case !m.GetAttached():
		if !mine {
			return false // it is attached elsewhere already
		}
		delete(r.peers, name)
		delete(f.names, name)
		r.ears.Trust(name, false)
		changed = true
	case !mine:
		if len(f.names) >= maxForwarded || !r.place(&peer{name: name, parts: parts, epoch: r.epoch, session: m.GetSession(), via: f}) {
			return false
		}
		f.names[name] = struct{}{}
		r.ears.Trust(name, true)
		changed = true
	}
	k := r.words.of(name, r.cfg.Clock.Now(), r.peers)
	if !mine {
		k.ranks = nil // as attach does
	}
	before := k.state
	k.advance(engine.State(m.GetState()))
	if u := m.GetUsage(); u != nil {
		k.usage = usageOf(u, time.Unix(0, m.GetUsageAtUnixNano()))
	}
	if m.GetProbed() != nil {
		r.probes.answered(m.GetProbed())
	}
	if r := m.GetRanks(); r != nil && k.noteRanks(r) {
		changed = true
	}
	return changed || k.state != before
}

// connect makes u the way to the leader: everybody attached here is announced.
func (r *roll) connect(u *uplink) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leading || r.epoch > u.epoch {
		return false
	}
	r.up = u
	for name, p := range r.peers {
		if p.via == nil {
			u.dirty[name] = struct{}{}
		}
	}
	poke(u.wake)
	if r.epoch != u.epoch {
		r.raise(u.epoch)
	}
	return true
}

// pass changes what a launcher attached here is told next, by the word of this leader. One that went elsewhere is not told: the
// leader hears of it.
func (r *roll) pass(u *uplink, name engine.Name, change func(*outbox)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.peers[name]; r.up == u && p != nil && p.via == nil {
		p.post(change)
	}
}

func (r *roll) disconnect(u *uplink) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.up == u {
		r.up = nil
	}
}

// giveUp hangs up on all launchers: no leader was found for too long, perhaps others can find one.
func (r *roll) giveUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.leading && r.up == nil {
		r.closeDoor()
	}
}

func (r *roll) factsOf(name engine.Name) *linkpb.Facts {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.words.by[name]
	if k == nil {
		return nil
	}
	p := r.peers[name]
	out := &linkpb.Facts{Replica: string(name), Attached: p != nil && p.via == nil, Session: k.session, State: string(k.state)}
	out.Ranks, out.Probed = k.ranks, k.probed
	if u := k.usage; !u.At.IsZero() {
		out.Usage = &linkpb.Usage{CpuNanos: int64(u.CPU), RssBytes: u.RSS, PeakBytes: u.Peak, Processes: int32(u.Processes)}
		out.UsageAtUnixNano = u.At.UnixNano()
	}
	return out
}

func (r *roll) isLeading() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leading
}
