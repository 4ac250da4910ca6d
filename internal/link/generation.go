package link

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
	"github.com/fermi-cluster/fermi/internal/link/pace"
	"github.com/fermi-cluster/fermi/internal/preflight"
)

// The bounds of a generation.
const (
	MaxWorld    = 1 << 20 // ranks of one task
	MaxHeld     = 8       // steps a launcher names
	maxTable    = 64      // bytes of a table's hash
	maxLeadText = 300     // bytes of host:port
	MaxLine     = 400     // bytes of the words that decided
	maxHung     = 1024    // ranks of one launcher
	maxWaits    = 128     // bytes
	maxPorts    = 1 << 15 // of a whole table; recipes have no larger one
	maxKey      = 64      // bytes
)

// Generation is one membership of a task, as one launcher needs to know it: nobody is sent the
// whole table of ranks.
type Generation struct {
	Number    int64  // only grows within a task
	FirstRank int    // of this launcher's
	World     int    // ranks in all
	Group     int    // which launcher this is, in the order of ranks: they may have different numbers of them
	Groups    int    // launchers in all; 0: not told
	Lead      string // host:port of rank 0
	Table     string // hash of who is which rank
	Restore   int64  // the step to go on from; 0: the beginning
	Hold      bool   // after a rank failed wait for the next generation instead of ending
	Roles     []Role // of a task with several
	RoleTable string // their hash
	// Preflight is set where nothing shall be started, but this be done.
	Preflight *preflight.Round
	Ports     []int    // of all launchers, in rank order; none: nobody asks for them
	Hosts     []string // addresses of all launchers' ranks, in rank order; none: nobody asks, or they are all on the loopback
	Key       string   // that only the launchers of the attempt know; the hub gives it where there are ports
	Frozen    bool     // with the running one: what is held stays until the next one
	Save      bool     // with it: ranks are asked for a save before
	Peer      string   // host:port of who keeps a copy of what this launcher's ranks save; "": nobody
	PeerKey   string   // by which launchers of the attempt know each other; the hub gives it where there is a peer or a source
	Sources   []Source
	// Origin is the checkpoint that holds the step to restore; nil: ranks hold it in memory.
	Origin *Origin
	Every  int64 // steps between two saves that ranks are asked for; 0: they are not
}

// Pace and Course are how the ranks of a launcher get on.
type (
	Pace   = pace.Pace
	Course = pace.Course
)

// Ranks is the newest a launcher said about its ranks.
type Ranks struct {
	Generation int64     // the last one that was started; 0: none
	Failed     *RankExit // the first rank of it that failed
	Held       []int64   // steps that all its ranks hold whole in memory, rising
	Port       int       // reserved for the next generation, should this launcher lead it
	Step       int64     // that the slowest of its ranks reported
	SteppedAt  time.Time // when all its ranks had reported a step of this generation; zero: not yet
	Pace       pace.Pace
	Use        Use
	Saves      Saves
	Parameters float64 // of the model; 0: nobody says
	Watched    bool    // they tell their progress, so that a hang can be seen
	Hung       []RankState
	HungAt     time.Time
	engine.Reach
	RoleTable  string            // of Generation, the newest that it was told
	Facts      *preflight.Facts  // until it has started a generation; nil: it looks at none
	Preflight  *preflight.Report // likewise; of the newest round
	Ports      []int             // reserved for its processes for as long as it lives
	Own        []RankOwn         // of ranks that tell what they wait for others
	Printed    bool              // how far they are is read from what they print
	Prepared   bool              // a generation would start at once
	Warm       bool              // a spare's interpreter waits with its imports done
	Frozen     bool              // Held stays until the next generation
	Kept       int               // ranks that kept their process from the last generation
	PeerPort   int               // where other launchers hand it states; 0: nowhere
	Copies     []Copy            // states that it holds and keeps
	Missed     int64             // a step to restore that could not be had; 0: none
	Persisted  []Persisted       // the newest of each tier
	Restored   string            // the one tier that all its ranks were filled from for this generation; "": several, or none
	RestoredAt time.Time         // when that was done
	Refused    *Origin           // the last checkpoint that could not be restored here
	Keeping    Keeping
	Mark       int64 // the watermark that it was told in this generation
	Every      int64 // of Generation, as it was told last
	Offer      int64 // grows when a rank offers to give up steps, which Held then has no more
	Fresh      bool  // said to this leader, so that no word of an earlier one can still reach the launcher
}

// RankState is what a rank that makes no progress does.
type RankState struct {
	Rank       int
	Step       int64
	State      byte // of the process, as the kernel names it
	Collective bool // it waits for other ranks
	Backward   bool // it computes gradients, or waits there for those of other ranks
	Silent     time.Duration
	Waits      string // what the kernel says it waits in
}

// RankExit is how a rank failed.
type RankExit struct {
	Rank    int
	Code    int
	Signal  string
	Reason  string // of engine.Exit
	Message string
	At      time.Time
	engine.Diagnosis
}

func (g Generation) order(epoch int64, attempt int) *linkpb.Go {
	return &linkpb.Go{
		Epoch: epoch, Attempt: int32(attempt), Generation: g.Number, FirstRank: int32(g.FirstRank), World: int32(g.World), Group: int32(g.Group), Groups: int32(g.Groups),
		Lead: g.Lead, Table: g.Table, Restore: g.Restore, Hold: g.Hold, Roles: roleMessages(g.Roles), RoleTable: g.RoleTable, Ports: fewer(g.Ports), Hosts: g.Hosts, Key: g.Key,
		Preflight: preflightMessage(g.Preflight), Frozen: g.Frozen, Save: g.Save, Origin: g.Origin.message(), Peer: g.Peer, PeerKey: g.PeerKey, Sources: sourceMessages(g.Sources), Every: g.Every,
	}
}

func generationOf(m *linkpb.Go) Generation {
	return Generation{
		Number: m.GetGeneration(), FirstRank: int(m.GetFirstRank()), World: int(m.GetWorld()), Group: int(m.GetGroup()), Groups: int(m.GetGroups()), Lead: m.GetLead(),
		Table: m.GetTable(), Restore: m.GetRestore(), Hold: m.GetHold(), Roles: rolesOf(m.GetRoles()), RoleTable: m.GetRoleTable(), Ports: wider(m.GetPorts()), Hosts: m.GetHosts(), Key: m.GetKey(),
		Preflight: preflightOf(m.GetPreflight()), Frozen: m.GetFrozen(), Save: m.GetSave(), Origin: originOf(m.GetOrigin()), Peer: m.GetPeer(), PeerKey: m.GetPeerKey(), Sources: sourcesOf(m.GetSources()), Every: m.GetEvery(),
	}
}

func fewer(ports []int) []int32 {
	var out []int32
	for _, p := range ports {
		out = append(out, int32(p))
	}
	return out
}

func wider(ports []int32) []int {
	var out []int
	for _, p := range ports {
		out = append(out, int(p))
	}
	return out
}

// badPorts: too many, or some that is none.
func badPorts(ports []int32) bool {
	return len(ports) > maxPorts || slices.ContainsFunc(ports, func(p int32) bool { return p < 1 || p > 65535 })
}

// checkGo is the launcher's check of an order to start.
func checkGo(g *linkpb.Go) error {
	switch {
	case g.GetEpoch() <= 0 || g.GetAttempt() < 0:
		return fmt.Errorf("go without an epoch")
	case g.GetGeneration() <= 0 || g.GetRestore() < 0 || g.GetEvery() < 0:
		return fmt.Errorf("go for no generation")
	case g.GetWorld() < 1 || g.GetWorld() > MaxWorld || g.GetFirstRank() < 0 || g.GetFirstRank() >= g.GetWorld():
		return fmt.Errorf("go for rank %d of %d", g.GetFirstRank(), g.GetWorld())
	case g.GetGroup() < 0 || g.GetGroup() > max(g.GetGroups()-1, 0) || g.GetGroups() > MaxWorld:
		return fmt.Errorf("go for launcher %d of %d", g.GetGroup(), g.GetGroups())
	case len(g.GetTable()) > maxTable || len(g.GetRoleTable()) > maxTable || len(g.GetLead()) > maxLeadText:
		return fmt.Errorf("go with overlong texts")
	case badPorts(g.GetPorts()) || len(g.GetKey()) > maxKey:
		return fmt.Errorf("go with ports or a key that can't be")
	case len(g.GetHosts()) > maxPorts || slices.ContainsFunc(g.GetHosts(), badHost):
		return fmt.Errorf("go with addresses that can't be")
	}
	if err := errors.Join(checkRoles(g.GetRoles()), checkPreflight(g.GetPreflight()), checkOrigin(g.GetOrigin()), checkSources(g)); err != nil {
		return err
	}
	if err := checkAddress(g.GetLead()); err != nil {
		return fmt.Errorf("go without a lead: %w", err)
	}
	return nil
}

// badHost: replicas are told by address, not by name.
func badHost(text string) bool {
	a, err := netip.ParseAddr(text)
	return err != nil || a.Zone() != "" || a.IsUnspecified() || a.IsMulticast()
}

func checkAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	return err
}

func checkRanks(r *linkpb.Ranks) error {
	if r.GetGeneration() < 0 || r.GetPort() < 0 || r.GetPort() > 65535 || r.GetStep() < 0 || r.GetSteppedAtUnixNano() < 0 || r.GetServe() < 0 || r.GetServe() > 65535 {
		return refuse("ranks have a number out of range")
	}
	if p := pace.Of(r); !p.Sane() {
		return refuse("the pace of ranks is out of range")
	}
	if !pace.SaneCourse(r.GetCourse()) {
		return refuse("the course of ranks is out of range")
	}
	if len(r.GetRoleTable()) > maxTable {
		return refuse("ranks have an overlong text")
	}
	if err := checkUse(r); err != nil {
		return err
	}
	if err := checkFacts(r.GetFacts(), r.GetPreflight()); err != nil {
		return err
	}
	if r.GetKept() < 0 || r.GetKept() > MaxWorld {
		return refuse("more ranks kept their process than can be")
	}
	if r.GetAddress() != "" && badHost(r.GetAddress()) || !r.GetServing().IsSane() || !r.GetBringing().IsSane() {
		return refuse("ranks have an address that can't be")
	}
	if badPorts(r.GetPorts()) {
		return refuse("ranks have ports that can't be")
	}
	if r.GetMark() < 0 || r.GetOffer() < 0 || r.GetEpoch() < 0 || r.GetEvery() < 0 {
		return refuse("a watermark, an offer, an epoch or an interval that can't be")
	}
	if badSteps(r.GetHeld()) {
		return refuse("ranks hold steps that can't be")
	}
	if err := errors.Join(checkHung(r), checkOwn(r), checkPersisted(r), checkCopies(r), checkKeeping(r.GetKeeping())); err != nil {
		return err
	}
	f := r.GetFailed()
	switch {
	case f == nil:
	case f.GetRank() < 0 || f.GetRank() >= MaxWorld || f.GetCode() < -1 || f.GetCode() > 255:
		return refuse("a rank's end is out of range")
	case !exitReasons[f.GetReason()] || f.GetReason() == engine.ReasonSucceeded:
		return refuse("unknown reason of a rank's end")
	case len(f.GetSignal()) > 32 || len(f.GetMessage()) > maxText || len(f.GetCause()) > 64 || len(f.GetFingerprint()) > 64 || len(f.GetLine()) > MaxLine:
		return refuse("a rank's end has an overlong text")
	case f.GetStep() < 0:
		return refuse("a rank's end has a step below zero")
	}
	return nil
}

func checkHung(r *linkpb.Ranks) error {
	if len(r.GetHung()) > maxHung {
		return refuse("more than %d ranks hang on one launcher", maxHung)
	}
	for _, s := range r.GetHung() {
		if s.GetRank() < 0 || s.GetRank() >= MaxWorld || s.GetStep() < 0 || len(s.GetState()) != 1 || s.GetSilentNanos() < 0 || len(s.GetWaits()) > maxWaits {
			return refuse("the state of a rank that hangs can't be")
		}
	}
	return nil
}

func (r Ranks) message() *linkpb.Ranks {
	out := &linkpb.Ranks{Generation: r.Generation, Held: r.Held, Port: int32(r.Port), Step: r.Step, Watched: r.Watched, Serve: int32(r.Serve), RoleTable: r.RoleTable, Ports: fewer(r.Ports)}
	for _, s := range r.Hung[:min(len(r.Hung), maxHung)] {
		out.Hung = append(out.Hung, &linkpb.RankState{
			Rank: int32(s.Rank), Step: s.Step, State: string(rune(s.State)), Collective: s.Collective, Backward: s.Backward,
			SilentNanos: int64(s.Silent), Waits: cutText(s.Waits, maxWaits),
		})
		out.HungAtUnixNano = r.HungAt.UnixNano()
	}
	out.Facts, out.Preflight = factsMessage(r.Facts), reportMessage(r.Preflight)
	out.Use, out.Saves, out.Parameters = r.Use.message(), r.Saves.message(), r.Parameters
	out.Pace, out.Course, out.Own, out.Printed = r.Pace.Message(), r.Pace.Course.Message(), ownMessage(r.Own), r.Printed
	if !r.SteppedAt.IsZero() {
		out.SteppedAtUnixNano = r.SteppedAt.UnixNano()
	}
	out.Prepared, out.Frozen, out.Kept, out.Warm = r.Prepared, r.Frozen, int32(r.Kept), r.Warm
	out.Address, out.Serving, out.Bringing = r.Address, linkpb.ServingOf(r.Serving), linkpb.BringingOf(r.Bringing)
	out.PeerPort, out.Copies, out.Missed = int32(r.PeerPort), copyMessages(r.Copies), r.Missed
	out.Mark, out.Offer, out.Every = r.Mark, r.Offer, r.Every
	out.Persisted, out.Refused, out.Restored, out.Keeping = persistedMessages(r.Persisted), r.Refused.message(), r.Restored, r.Keeping.message()
	if r.Restored != "" {
		out.RestoredAtUnixNano = r.RestoredAt.UnixNano()
	}
	if f := r.Failed; f != nil {
		out.Failed = &linkpb.RankExit{
			Rank: int32(f.Rank), Code: int32(f.Code), Signal: f.Signal, Reason: f.Reason,
			Message: cutText(f.Message, maxText), AtUnixNano: f.At.UnixNano(),
			Cause: f.Cause, Fingerprint: f.Fingerprint, Line: cutText(f.Line, MaxLine), Step: f.Step,
		}
	}
	return out
}

func ranksOf(m *linkpb.Ranks) Ranks {
	out := Ranks{Generation: m.GetGeneration(), Held: m.GetHeld(), Port: int(m.GetPort()), Step: m.GetStep(), Watched: m.GetWatched(), RoleTable: m.GetRoleTable(), Ports: wider(m.GetPorts())}
	for _, s := range m.GetHung() {
		out.Hung = append(out.Hung, RankState{
			Rank: int(s.GetRank()), Step: s.GetStep(), State: s.GetState()[0], Collective: s.GetCollective(), Backward: s.GetBackward(),
			Silent: time.Duration(s.GetSilentNanos()), Waits: s.GetWaits(),
		})
		out.HungAt = time.Unix(0, m.GetHungAtUnixNano()).UTC()
	}
	out.Facts, out.Preflight = factsOf(m.GetFacts()), reportOf(m.GetPreflight())
	out.Use, out.Saves, out.Parameters = useOf(m.GetUse()), savesOf(m.GetSaves()), m.GetParameters()
	out.Pace, out.Own, out.Printed = pace.Of(m), ownOf(m.GetOwn()), m.GetPrinted()
	if at := m.GetSteppedAtUnixNano(); at != 0 {
		out.SteppedAt = time.Unix(0, at).UTC()
	}
	out.Prepared, out.Frozen, out.Kept, out.Warm = m.GetPrepared(), m.GetFrozen(), int(m.GetKept()), m.GetWarm()
	out.Serve, out.Address, out.Serving, out.Bringing = int(m.GetServe()), m.GetAddress(), m.GetServing().Engine(), m.GetBringing().Engine()
	out.PeerPort, out.Copies, out.Missed = int(m.GetPeerPort()), copiesOf(m.GetCopies()), m.GetMissed()
	out.Mark, out.Offer, out.Every = m.GetMark(), m.GetOffer(), m.GetEvery()
	out.Persisted, out.Refused, out.Restored, out.Keeping = persistedOf(m.GetPersisted()), originOf(m.GetRefused()), m.GetRestored(), keepingOf(m.GetKeeping())
	if out.Restored != "" {
		out.RestoredAt = time.Unix(0, m.GetRestoredAtUnixNano()).UTC()
	}
	if f := m.GetFailed(); f != nil {
		out.Failed = &RankExit{
			Rank: int(f.GetRank()), Code: int(f.GetCode()), Signal: f.GetSignal(), Reason: f.GetReason(),
			Message: f.GetMessage(), At: time.Unix(0, f.GetAtUnixNano()).UTC(),
			Diagnosis: engine.Diagnosis{Cause: f.GetCause(), Fingerprint: f.GetFingerprint(), Line: f.GetLine(), Step: f.GetStep()},
		}
	}
	return out
}

// Ranks is what the replica's launcher told last about its ranks.
func (h *Hub) Ranks(name engine.Name) (Ranks, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k := h.known[name]; k != nil && k.ranks != nil {
		r := ranksOf(k.ranks)
		r.Fresh = k.ranks.GetEpoch() == h.epoch
		return r, true
	}
	return Ranks{}, false
}

// Go tells the launcher that this generation of the attempt may start, with our epoch. It may be
// said again; the launcher starts each once. Fault Unavailable when the launcher is not attached:
// say it again when Notify tells that it is.
func (h *Hub) Go(name engine.Name, attempt int, g Generation) error {
	return h.order(name, func(p *peer) error {
		if p.parts.Attempt != attempt {
			return fault.New(fault.Conflict, "OtherAttempt",
				fault.T("The replica is of another attempt.", "该副本属于另一次尝试。"))
		}
		if len(g.Ports) > 0 {
			g.Key = h.cfg.Tokens.MintTask(p.parts.TaskID, attempt)
		}
		if g.Peer != "" || len(g.Sources) > 0 {
			g.PeerKey = h.cfg.Tokens.MintPeer(p.parts.TaskID, attempt)
		}
		order := g.order(h.epoch, attempt)
		if proto.Equal(order, p.told) {
			return nil // on its way already: what a stream took arrives, or the stream ends
		}
		p.told = order
		p.post(func(out *outbox) { out.start = order })
		return nil
	})
}

// Watermark tells the launcher the newest step that every rank of the generation holds, and which others
// stay besides.
func (h *Hub) Watermark(name engine.Name, w Watermark) error {
	return h.order(name, func(p *peer) error {
		p.post(func(out *outbox) { out.watermark = w.message() })
		return nil
	})
}

// noteRanks keeps the newest and says whether more changed than what is held and how far it is; mu held.
func (k *known) noteRanks(m *linkpb.Ranks) (changed bool) {
	old := k.ranks
	k.ranks = m
	return old == nil || old.GetGeneration() != m.GetGeneration() || old.GetPort() != m.GetPort() || old.GetAddress() != m.GetAddress() ||
		old.GetFailed().GetAtUnixNano() != m.GetFailed().GetAtUnixNano() || old.GetFailed().GetRank() != m.GetFailed().GetRank() ||
		(old.GetSteppedAtUnixNano() == 0) != (m.GetSteppedAtUnixNano() == 0) || old.GetHungAtUnixNano() != m.GetHungAtUnixNano() || old.GetPrepared() != m.GetPrepared() || old.GetFrozen() != m.GetFrozen() ||
		old.GetServe() != m.GetServe() || old.GetPeerPort() != m.GetPeerPort() || old.GetMissed() != m.GetMissed() || old.GetRoleTable() != m.GetRoleTable() || old.GetPreflight().GetRound() != m.GetPreflight().GetRound() ||
		(old.GetUse() == nil) != (m.GetUse() == nil) || !proto.Equal(old.GetRefused(), m.GetRefused()) || !proto.Equal(old.GetKeeping(), m.GetKeeping()) || old.GetWarm() != m.GetWarm() || !proto.Equal(old.GetServing(), m.GetServing())
}

// tellRanks passes on what a launcher said of its ranks: a change of members is the task's business,
// a saved step only the watermark's.
func (h *Hub) tellRanks(taskID string, name engine.Name, changed, held bool) {
	if changed {
		h.cfg.Notify(taskID, name)
	}
	if held {
		h.cfg.Saved(taskID, changed)
	}
}
