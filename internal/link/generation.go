package link

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
)

// The bounds of a generation.
const (
	MaxWorld    = 1 << 20 // ranks of one task
	MaxHeld     = 8       // steps a launcher names
	maxTable    = 64      // bytes of a table's hash
	maxLeadText = 300     // bytes of host:port
)

// Generation is one membership of a task, as one launcher needs to know it: nobody is sent the
// whole table of ranks.
type Generation struct {
	Number    int64  // only grows within a task
	FirstRank int    // of this launcher's
	World     int    // ranks in all
	Lead      string // host:port of rank 0
	Table     string // hash of who is which rank
	Restore   int64  // the step to go on from; 0: the beginning
	Hold      bool   // after a rank failed wait for the next generation instead of ending
	Frozen    bool   // with the running one: what is held stays until the next one
}

// Ranks is the newest a launcher said about its ranks.
type Ranks struct {
	Generation int64     // the last one that was started; 0: none
	Failed     *RankExit // the first rank of it that failed
	Held       []int64   // steps that all its ranks hold whole in memory, rising
	Port       int       // reserved for the next generation, should this launcher lead it
	Step       int64     // that the slowest of its ranks reported
	Prepared   bool      // a generation would start at once
	Frozen     bool      // Held stays until the next generation
}

// RankExit is how a rank failed.
type RankExit struct {
	Rank    int
	Code    int
	Signal  string
	Reason  string // of engine.Exit
	Message string
	At      time.Time
}

func (g Generation) order(epoch int64, attempt int) *linkpb.Go {
	return &linkpb.Go{
		Epoch: epoch, Attempt: int32(attempt), Generation: g.Number, FirstRank: int32(g.FirstRank), World: int32(g.World),
		Lead: g.Lead, Table: g.Table, Restore: g.Restore, Hold: g.Hold, Frozen: g.Frozen,
	}
}

func generationOf(m *linkpb.Go) Generation {
	return Generation{
		Number: m.GetGeneration(), FirstRank: int(m.GetFirstRank()), World: int(m.GetWorld()), Lead: m.GetLead(),
		Table: m.GetTable(), Restore: m.GetRestore(), Hold: m.GetHold(), Frozen: m.GetFrozen(),
	}
}

// checkGo is the launcher's check of an order to start.
func checkGo(g *linkpb.Go) error {
	switch {
	case g.GetEpoch() <= 0 || g.GetAttempt() < 0:
		return fmt.Errorf("go without an epoch")
	case g.GetGeneration() <= 0 || g.GetRestore() < 0:
		return fmt.Errorf("go for no generation")
	case g.GetWorld() < 1 || g.GetWorld() > MaxWorld || g.GetFirstRank() < 0 || g.GetFirstRank() >= g.GetWorld():
		return fmt.Errorf("go for rank %d of %d", g.GetFirstRank(), g.GetWorld())
	case len(g.GetTable()) > maxTable || len(g.GetLead()) > maxLeadText:
		return fmt.Errorf("go with overlong texts")
	}
	_, port, err := net.SplitHostPort(g.GetLead())
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("go without a lead: %w", err)
	}
	return nil
}

func checkRanks(r *linkpb.Ranks) error {
	if r.GetGeneration() < 0 || r.GetPort() < 0 || r.GetPort() > 65535 || r.GetStep() < 0 {
		return refuse("ranks have a number out of range")
	}
	held := r.GetHeld()
	if len(held) > MaxHeld || !slices.IsSorted(held) || (len(held) > 0 && held[0] <= 0) {
		return refuse("ranks hold steps that can't be")
	}
	f := r.GetFailed()
	switch {
	case f == nil:
	case f.GetRank() < 0 || f.GetRank() >= MaxWorld || f.GetCode() < -1 || f.GetCode() > 255:
		return refuse("a rank's end is out of range")
	case !exitReasons[f.GetReason()] || f.GetReason() == engine.ReasonSucceeded:
		return refuse("unknown reason of a rank's end")
	case len(f.GetSignal()) > 32 || len(f.GetMessage()) > maxText:
		return refuse("a rank's end has an overlong text")
	}
	return nil
}

func checkWatermark(w *linkpb.Watermark) error {
	if w.GetGeneration() <= 0 || w.GetStep() <= 0 {
		return fmt.Errorf("watermark of nothing")
	}
	return nil
}

func (r Ranks) message() *linkpb.Ranks {
	out := &linkpb.Ranks{Generation: r.Generation, Held: r.Held, Port: int32(r.Port), Step: r.Step, Prepared: r.Prepared, Frozen: r.Frozen}
	if f := r.Failed; f != nil {
		out.Failed = &linkpb.RankExit{
			Rank: int32(f.Rank), Code: int32(f.Code), Signal: f.Signal, Reason: f.Reason,
			Message: cutText(f.Message, maxText), AtUnixNano: f.At.UnixNano(),
		}
	}
	return out
}

func ranksOf(m *linkpb.Ranks) Ranks {
	out := Ranks{Generation: m.GetGeneration(), Held: m.GetHeld(), Port: int(m.GetPort()), Step: m.GetStep(), Prepared: m.GetPrepared(), Frozen: m.GetFrozen()}
	if f := m.GetFailed(); f != nil {
		out.Failed = &RankExit{
			Rank: int(f.GetRank()), Code: int(f.GetCode()), Signal: f.GetSignal(), Reason: f.GetReason(),
			Message: f.GetMessage(), At: time.Unix(0, f.GetAtUnixNano()).UTC(),
		}
	}
	return out
}

// Ranks is what the replica's launcher told last about its ranks.
func (h *Hub) Ranks(name engine.Name) (Ranks, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k := h.known[name]; k != nil && k.ranks != nil {
		return ranksOf(k.ranks), true
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
		p.post(func(out *outbox) { out.start = g.order(h.epoch, attempt) })
		return nil
	})
}

// Watermark tells the launcher the newest step that every rank of the generation holds.
func (h *Hub) Watermark(name engine.Name, generation, step int64) error {
	return h.order(name, func(p *peer) error {
		p.post(func(out *outbox) { out.watermark = &linkpb.Watermark{Generation: generation, Step: step} })
		return nil
	})
}

// noteRanks keeps the newest and says whether more changed than what is held and how far it is; mu held.
func (k *known) noteRanks(m *linkpb.Ranks) (changed bool) {
	old := k.ranks
	k.ranks = m
	return old == nil || old.GetGeneration() != m.GetGeneration() || old.GetPort() != m.GetPort() ||
		old.GetPrepared() != m.GetPrepared() || old.GetFrozen() != m.GetFrozen() ||
		(old.GetFailed() == nil) != (m.GetFailed() == nil)
}

// tellRanks passes on what a launcher said of its ranks: a change of members is the task's business,
// a saved step only the watermark's.
func (h *Hub) tellRanks(taskID string, name engine.Name, changed bool) {
	if changed {
		h.cfg.Notify(taskID, name)
	}
	h.cfg.Saved(taskID, changed)
}
