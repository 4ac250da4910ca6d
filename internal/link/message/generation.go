package message

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/fermi-cluster/fermi/internal/engine"
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
	Number int64 // only grows within a task
	Membership
	States
	Hold bool // after a rank failed wait for the next generation instead of ending
	// Preflight is set where nothing shall be started, but this be done.
	Preflight *preflight.Round
	Frozen    bool  // with the running one: what is held stays until the next one
	Save      bool  // with it: ranks are asked for a save before
	Every     int64 // steps between two saves that ranks are asked for; 0: they are not
}

// Membership is who takes part, and where the others are.
type Membership struct {
	FirstRank int      // of this launcher's
	World     int      // ranks in all
	Group     int      // which launcher this is, in the order of ranks: they may have different numbers of them
	Groups    int      // launchers in all; 0: not told
	Lead      string   // host:port of rank 0
	Table     string   // hash of who is which rank
	Roles     []Role   // of a task with several
	RoleTable string   // their hash
	Ports     []int    // of all launchers, in rank order; none: nobody asks for them
	Hosts     []string // addresses of all launchers' ranks, in rank order; none: nobody asks, or they are all on the loopback
	Key       string   // that only the launchers of the attempt know; the hub gives it where there are ports
}

// States is where ranks get the states from that they begin with, and who keeps copies of theirs.
type States struct {
	Restore int64 // the step to go on from; 0: the beginning
	// Origin is the checkpoint that holds the step to restore; nil: ranks hold it in memory.
	Origin  *Origin
	Peer    string // host:port of who keeps a copy of what this launcher's ranks save; "": nobody
	PeerKey string // by which launchers of the attempt know each other; the hub gives it where there is a peer or a source
	Sources []Source
}

// Ranks is the newest a launcher said about its ranks.
type Ranks struct {
	Generation int64     // the last one that was started; 0: none
	Failed     *RankExit // the first rank of it that failed
	Port       int       // reserved for the next generation, should this launcher lead it
	Progress
	Holding
	engine.Reach
	RoleTable string            // of Generation, the newest that it was told
	Facts     *preflight.Facts  // until it has started a generation; nil: it looks at none
	Preflight *preflight.Report // likewise; of the newest round
	Ports     []int             // reserved for its processes for as long as it lives
	Prepared  bool              // a generation would start at once
	Warm      bool              // a spare's interpreter waits with its imports done
	Kept      int               // ranks that kept their process from the last generation
	Fresh     bool              // said to this leader, so that no word of an earlier one can still reach the launcher
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

func (g Generation) Order(epoch int64, attempt int) *linkpb.Go {
	return &linkpb.Go{
		Epoch: epoch, Attempt: int32(attempt), Generation: g.Number, FirstRank: int32(g.FirstRank), World: int32(g.World), Group: int32(g.Group), Groups: int32(g.Groups),
		Lead: g.Lead, Table: g.Table, Restore: g.Restore, Hold: g.Hold, Roles: roleMessages(g.Roles), RoleTable: g.RoleTable, Ports: fewer(g.Ports), Hosts: g.Hosts, Key: g.Key,
		Preflight: preflightMessage(g.Preflight), Frozen: g.Frozen, Save: g.Save, Origin: g.Origin.Message(), Peer: g.Peer, PeerKey: g.PeerKey, Sources: sourceMessages(g.Sources), Every: g.Every,
	}
}

func GenerationOf(m *linkpb.Go) Generation {
	return Generation{
		Number:     m.GetGeneration(),
		Hold:       m.GetHold(),
		Preflight:  preflightOf(m.GetPreflight()),
		Frozen:     m.GetFrozen(),
		Save:       m.GetSave(),
		Every:      m.GetEvery(),
		Membership: Membership{FirstRank: int(m.GetFirstRank()), World: int(m.GetWorld()), Group: int(m.GetGroup()), Groups: int(m.GetGroups()), Lead: m.GetLead(), Table: m.GetTable(), Roles: rolesOf(m.GetRoles()), RoleTable: m.GetRoleTable(), Ports: wider(m.GetPorts()), Hosts: m.GetHosts(), Key: m.GetKey()},
		States:     States{Restore: m.GetRestore(), Origin: OriginOf(m.GetOrigin()), Peer: m.GetPeer(), PeerKey: m.GetPeerKey(), Sources: sourcesOf(m.GetSources())},
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

// CheckGo is the launcher's check of an order to start.
func CheckGo(g *linkpb.Go) error {
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
	if err := errors.Join(checkRoles(g.GetRoles()), checkPreflight(g.GetPreflight()), CheckOrigin(g.GetOrigin()), checkSources(g)); err != nil {
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

func CheckRanks(r *linkpb.Ranks) error {
	if r.GetGeneration() < 0 || r.GetPort() < 0 || r.GetPort() > 65535 || r.GetStep() < 0 || r.GetSteppedAtUnixNano() < 0 || r.GetServe() < 0 || r.GetServe() > 65535 {
		return Refuse("ranks have a number out of range")
	}
	if p := pace.Of(r); !p.Sane() {
		return Refuse("the pace of ranks is out of range")
	}
	if !pace.SaneCourse(r.GetCourse()) {
		return Refuse("the course of ranks is out of range")
	}
	if len(r.GetRoleTable()) > maxTable {
		return Refuse("ranks have an overlong text")
	}
	if err := checkUse(r); err != nil {
		return err
	}
	if err := checkFacts(r.GetFacts(), r.GetPreflight()); err != nil {
		return err
	}
	if r.GetKept() < 0 || r.GetKept() > MaxWorld {
		return Refuse("more ranks kept their process than can be")
	}
	if r.GetAddress() != "" && badHost(r.GetAddress()) || !r.GetServing().IsSane() || !r.GetBringing().IsSane() {
		return Refuse("ranks have an address that can't be")
	}
	if badPorts(r.GetPorts()) {
		return Refuse("ranks have ports that can't be")
	}
	if r.GetMark() < 0 || r.GetOffer() < 0 || r.GetEpoch() < 0 || r.GetEvery() < 0 {
		return Refuse("a watermark, an offer, an epoch or an interval that can't be")
	}
	if badSteps(r.GetHeld()) {
		return Refuse("ranks hold steps that can't be")
	}
	if err := errors.Join(checkHung(r), checkOwn(r), checkPersisted(r), checkCopies(r), checkKeeping(r.GetKeeping())); err != nil {
		return err
	}
	f := r.GetFailed()
	switch {
	case f == nil:
	case f.GetRank() < 0 || f.GetRank() >= MaxWorld || f.GetCode() < -1 || f.GetCode() > 255:
		return Refuse("a rank's end is out of range")
	case !ExitReasons[f.GetReason()] || f.GetReason() == engine.ReasonSucceeded:
		return Refuse("unknown reason of a rank's end")
	case len(f.GetSignal()) > 32 || len(f.GetMessage()) > MaxText || len(f.GetCause()) > 64 || len(f.GetFingerprint()) > 64 || len(f.GetLine()) > MaxLine:
		return Refuse("a rank's end has an overlong text")
	case f.GetStep() < 0:
		return Refuse("a rank's end has a step below zero")
	}
	return nil
}

func (r Ranks) Message() *linkpb.Ranks {
	out := &linkpb.Ranks{
		Generation: r.Generation, Port: int32(r.Port), Serve: int32(r.Serve), RoleTable: r.RoleTable, Ports: fewer(r.Ports), Prepared: r.Prepared, Kept: int32(r.Kept), Warm: r.Warm,
		Address: r.Address, Serving: linkpb.ServingOf(r.Serving), Bringing: linkpb.BringingOf(r.Bringing), Facts: factsMessage(r.Facts), Preflight: reportMessage(r.Preflight),
	}
	r.Progress.into(out)
	r.Holding.into(out)
	if f := r.Failed; f != nil {
		out.Failed = &linkpb.RankExit{
			Rank: int32(f.Rank), Code: int32(f.Code), Signal: f.Signal, Reason: f.Reason,
			Message: CutText(f.Message, MaxText), AtUnixNano: f.At.UnixNano(),
			Cause: f.Cause, Fingerprint: f.Fingerprint, Line: CutText(f.Line, MaxLine), Step: f.Step,
		}
	}
	return out
}

func RanksOf(m *linkpb.Ranks) Ranks {
	out := Ranks{
		Generation: m.GetGeneration(), Port: int(m.GetPort()), RoleTable: m.GetRoleTable(), Ports: wider(m.GetPorts()), Prepared: m.GetPrepared(), Kept: int(m.GetKept()), Warm: m.GetWarm(),
		Facts: factsOf(m.GetFacts()), Preflight: reportOf(m.GetPreflight()), Progress: progressOf(m), Holding: holdingOf(m),
	}
	out.Serve, out.Address, out.Serving, out.Bringing = int(m.GetServe()), m.GetAddress(), m.GetServing().Engine(), m.GetBringing().Engine()
	if f := m.GetFailed(); f != nil {
		out.Failed = &RankExit{
			Rank: int(f.GetRank()), Code: int(f.GetCode()), Signal: f.GetSignal(), Reason: f.GetReason(),
			Message: f.GetMessage(), At: time.Unix(0, f.GetAtUnixNano()).UTC(),
			Diagnosis: engine.Diagnosis{Cause: f.GetCause(), Fingerprint: f.GetFingerprint(), Line: f.GetLine(), Step: f.GetStep()},
		}
	}
	return out
}
