package message

import (
	"fmt"
	"math"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
	"github.com/fermi-cluster/fermi/internal/pattern"
)

// The tiers that steps are persisted to.
const (
	TierLocal  = "local"  // a disk of the node
	TierShared = "shared" // a store that all nodes reach
)

// Tiers are all there are, the nearest first.
var Tiers = []string{TierLocal, TierShared}

const (
	maxTiers    = 2
	maxParts    = 256 << 10 // bytes of what names the parts of one launcher
	MaxMetrics  = 64        // numbers of one step
	MaxManifest = 256 << 20 // bytes of a checkpoint's record
)

// Origin names a checkpoint.
type Origin struct {
	TaskID string
	Name   string // within the task
}

// Persisted is what a launcher's ranks have of a step in a tier.
type Persisted struct {
	Tier             string
	Generation, Step int64
	Parts            []byte             // JSON of what names them; not looked into here
	Error            string             // why there are none
	Metrics          map[string]float64 // what rank 0 had reported by the step; nil where it is not here
}

// Persist asks for a step in tiers. A launcher that has all ranks may take a newer one.
type Persist struct {
	Step  int64
	Tiers []string
	Full  bool // rely on nothing older
}

// Committed is the newest checkpoint that a tier has.
type Committed struct {
	Tier             string
	Generation, Step int64
}

// Watermark is what the leader tells all launchers of a generation.
type Watermark struct {
	Generation int64
	Step       int64 // newest that every rank holds
	// Persist is said with every watermark until it is done: as long as that, nobody gives the step up.
	Persist   *Persist
	Committed []Committed
	Keep      []int64 // steps that stay besides, rising: a peer's memory has them, or gets them
	Last      bool    // who waits after the end of its ranks need not any more; then Step may be 0, as with Denied and Seen
	Denied    []Denied
	Seen      int64 // the newest offer of the launcher that it knows of: what was offered can't become the watermark any more
}

var checkpointName = pattern.New(`^[0-9]{19}-[0-9]{19}$`)

func (o *Origin) Message() *linkpb.Origin {
	if o == nil {
		return nil
	}
	return &linkpb.Origin{TaskId: o.TaskID, Name: o.Name}
}

func OriginOf(m *linkpb.Origin) *Origin {
	if m == nil {
		return nil
	}
	return &Origin{TaskID: m.GetTaskId(), Name: m.GetName()}
}

func CheckOrigin(m *linkpb.Origin) error {
	if m != nil && (m.GetTaskId() == "" || len(m.GetTaskId()) > MaxText || !checkpointName.MatchString(m.GetName())) {
		return fmt.Errorf("a checkpoint that can't be")
	}
	return nil
}

func knownTier(tier string) bool { return tier == TierLocal || tier == TierShared }

func persistedMessages(list []Persisted) []*linkpb.Persisted {
	var out []*linkpb.Persisted
	for _, p := range list {
		out = append(out, &linkpb.Persisted{Tier: p.Tier, Generation: p.Generation, Step: p.Step, Parts: p.Parts, Error: CutText(p.Error, MaxText), Metrics: p.Metrics})
	}
	return out
}

func persistedOf(list []*linkpb.Persisted) []Persisted {
	var out []Persisted
	for _, m := range list {
		out = append(out, Persisted{m.GetTier(), m.GetGeneration(), m.GetStep(), m.GetParts(), m.GetError(), m.GetMetrics()})
	}
	return out
}

// checkPersisted is the server's check of what a launcher says it persisted, or can't restore.
func checkPersisted(r *linkpb.Ranks) error {
	if len(r.GetPersisted()) > maxTiers {
		return Refuse("steps in more tiers than there are")
	}
	for _, p := range r.GetPersisted() {
		switch {
		case !knownTier(p.GetTier()) || p.GetGeneration() <= 0 || p.GetStep() <= 0:
			return Refuse("a persisted step that can't be")
		case len(p.GetParts()) > maxParts || len(p.GetError()) > MaxText:
			return Refuse("a persisted step has an overlong text")
		case len(p.GetMetrics()) > MaxMetrics:
			return Refuse("a persisted step has too many metrics")
		}
		for name, v := range p.GetMetrics() {
			if name == "" || len(name) > api.MaxMetricName || math.IsNaN(v) || math.IsInf(v, 0) {
				return Refuse("a persisted step has a metric that can't be")
			}
		}
	}
	if tier := r.GetRestored(); tier != "" && tier != "folder" && tier != "peer" && !knownTier(tier) || r.GetRestoredAtUnixNano() < 0 {
		return Refuse("ranks were restored from a tier that can't be")
	}
	if CheckOrigin(r.GetRefused()) != nil {
		return Refuse("a refused checkpoint that can't be")
	}
	return nil
}

func (w Watermark) Message() *linkpb.Watermark {
	m := &linkpb.Watermark{Generation: w.Generation, Step: w.Step, Keep: w.Keep, Last: w.Last, Denied: deniedMessages(w.Denied), Seen: w.Seen}
	if p := w.Persist; p != nil {
		m.Persist = &linkpb.Persist{Step: p.Step, Tiers: p.Tiers, Full: p.Full}
	}
	for _, c := range w.Committed {
		m.Committed = append(m.Committed, &linkpb.Committed{Tier: c.Tier, Generation: c.Generation, Step: c.Step})
	}
	return m
}

func WatermarkOf(m *linkpb.Watermark) Watermark {
	w := Watermark{Generation: m.GetGeneration(), Step: m.GetStep(), Keep: m.GetKeep(), Last: m.GetLast(), Denied: deniedOf(m.GetDenied()), Seen: m.GetSeen()}
	if p := m.GetPersist(); p != nil {
		w.Persist = &Persist{Step: p.GetStep(), Tiers: p.GetTiers(), Full: p.GetFull()}
	}
	for _, c := range m.GetCommitted() {
		w.Committed = append(w.Committed, Committed{c.GetTier(), c.GetGeneration(), c.GetStep()})
	}
	return w
}

func CheckWatermark(w *linkpb.Watermark) error {
	p := w.GetPersist()
	if w.GetGeneration() <= 0 || w.GetStep() < 0 || w.GetSeen() < 0 || w.GetStep() == 0 && !w.GetLast() && len(w.GetDenied()) == 0 && w.GetSeen() == 0 || badSteps(w.GetKeep()) {
		return fmt.Errorf("watermark of nothing")
	}
	if p != nil && (p.GetStep() <= 0 || len(p.GetTiers()) == 0 || len(p.GetTiers()) > maxTiers) || len(w.GetCommitted()) > maxTiers {
		return fmt.Errorf("watermark with a step to persist that can't be")
	}
	for _, tier := range p.GetTiers() {
		if !knownTier(tier) {
			return fmt.Errorf("watermark with an unknown tier")
		}
	}
	if err := checkDenied(w.GetDenied()); err != nil {
		return err
	}
	for _, c := range w.GetCommitted() {
		if !knownTier(c.GetTier()) || c.GetGeneration() <= 0 || c.GetStep() <= 0 {
			return fmt.Errorf("watermark with a checkpoint that can't be")
		}
	}
	return nil
}
