package message

import (
	"time"

	"github.com/fermi-cluster/fermi/internal/link/linkpb"
	"github.com/fermi-cluster/fermi/internal/link/pace"
)

// Progress is how far the ranks of a launcher are, how fast they go, and what they use.
type Progress struct {
	Step       int64     // that the slowest of its ranks reported
	SteppedAt  time.Time // when all its ranks had reported a step of this generation; zero: not yet
	Pace       pace.Pace
	Use        Use
	Saves      Saves
	Parameters float64 // of the model; 0: nobody says
	Watched    bool    // they tell their progress, so that a hang can be seen
	Hung       []RankState
	HungAt     time.Time
	Own        []RankOwn // of ranks that tell what they wait for others
	Printed    bool      // how far they are is read from what they print
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

func checkHung(r *linkpb.Ranks) error {
	if len(r.GetHung()) > maxHung {
		return Refuse("more than %d ranks hang on one launcher", maxHung)
	}
	for _, s := range r.GetHung() {
		if s.GetRank() < 0 || s.GetRank() >= MaxWorld || s.GetStep() < 0 || len(s.GetState()) != 1 || s.GetSilentNanos() < 0 || len(s.GetWaits()) > maxWaits {
			return Refuse("the state of a rank that hangs can't be")
		}
	}
	return nil
}

func (p Progress) into(out *linkpb.Ranks) {
	for _, s := range p.Hung[:min(len(p.Hung), maxHung)] {
		out.Hung = append(out.Hung, &linkpb.RankState{
			Rank: int32(s.Rank), Step: s.Step, State: string(rune(s.State)), Collective: s.Collective, Backward: s.Backward,
			SilentNanos: int64(s.Silent), Waits: CutText(s.Waits, maxWaits),
		})
		out.HungAtUnixNano = p.HungAt.UnixNano()
	}
	out.Step, out.Watched = p.Step, p.Watched
	out.Use, out.Saves, out.Parameters = p.Use.message(), p.Saves.message(), p.Parameters
	out.Pace, out.Course, out.Own, out.Printed = p.Pace.Message(), p.Pace.Course.Message(), ownMessage(p.Own), p.Printed
	if !p.SteppedAt.IsZero() {
		out.SteppedAtUnixNano = p.SteppedAt.UnixNano()
	}
}

func progressOf(m *linkpb.Ranks) Progress {
	p := Progress{
		Step: m.GetStep(), Watched: m.GetWatched(), Use: useOf(m.GetUse()), Saves: savesOf(m.GetSaves()), Parameters: m.GetParameters(),
		Pace: pace.Of(m), Own: ownOf(m.GetOwn()), Printed: m.GetPrinted(),
	}
	for _, s := range m.GetHung() {
		p.Hung = append(p.Hung, RankState{
			Rank: int(s.GetRank()), Step: s.GetStep(), State: s.GetState()[0], Collective: s.GetCollective(), Backward: s.GetBackward(),
			Silent: time.Duration(s.GetSilentNanos()), Waits: s.GetWaits(),
		})
		p.HungAt = time.Unix(0, m.GetHungAtUnixNano()).UTC()
	}
	if at := m.GetSteppedAtUnixNano(); at != 0 {
		p.SteppedAt = time.Unix(0, at).UTC()
	}
	return p
}
