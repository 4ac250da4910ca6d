package message

import (
	"fmt"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
)

// Keeping is what a launcher asks of the leader so that steps outlive their ranks.
type Keeping struct {
	Ended string // how all its ranks ended, if it waits for what they hold to be persisted; "": it does not
	Wants []Want // steps that ranks wait for
	File  int64  // the newest step that the script itself has saved in its folder; 0: none
}

// Want is a step that shall be committed at once.
type Want struct {
	Tier string // "": the nearest that the task uses
	Step int64
}

// Denied is the answer to a want that comes to nothing.
type Denied struct {
	Want
	Why fault.Text
}

// maxWants is every tier's, and those of none.
const maxWants = maxTiers + 1

func (k Keeping) message() *linkpb.Keeping {
	if k.Ended == "" && len(k.Wants) == 0 && k.File == 0 {
		return nil
	}
	m := &linkpb.Keeping{Ended: k.Ended, File: k.File}
	for _, w := range k.Wants {
		m.Wants = append(m.Wants, &linkpb.Want{Tier: w.Tier, Step: w.Step})
	}
	return m
}

func keepingOf(m *linkpb.Keeping) (k Keeping) {
	k.Ended, k.File = m.GetEnded(), m.GetFile()
	for _, w := range m.GetWants() {
		k.Wants = append(k.Wants, Want{w.GetTier(), w.GetStep()})
	}
	return k
}

// checkKeeping is the server's check of what a launcher asks.
func checkKeeping(m *linkpb.Keeping) error {
	if m.GetEnded() != "" && !ExitReasons[m.GetEnded()] {
		return Refuse("unknown reason of the end of ranks")
	}
	if m.GetFile() < 0 {
		return Refuse("a saved file of no step")
	}
	if len(m.GetWants()) > maxWants {
		return Refuse("more steps are wanted than there are tiers")
	}
	for _, w := range m.GetWants() {
		if w.GetStep() <= 0 || w.GetTier() != "" && !knownTier(w.GetTier()) {
			return Refuse("a step is wanted that can't be")
		}
	}
	return nil
}

func deniedMessages(list []Denied) (out []*linkpb.Denied) {
	for _, d := range list {
		out = append(out, &linkpb.Denied{Tier: d.Tier, Step: d.Step, En: CutText(d.Why.EN, MaxText), Zh: CutText(d.Why.ZH, MaxText)})
	}
	return out
}

func deniedOf(list []*linkpb.Denied) (out []Denied) {
	for _, m := range list {
		out = append(out, Denied{Want{m.GetTier(), m.GetStep()}, fault.Text{EN: m.GetEn(), ZH: m.GetZh()}})
	}
	return out
}

// checkDenied is the launcher's check of such answers.
func checkDenied(list []*linkpb.Denied) error {
	if len(list) > maxWants {
		return fmt.Errorf("watermark with too many answers")
	}
	for _, d := range list {
		if d.GetStep() <= 0 || d.GetTier() != "" && !knownTier(d.GetTier()) || len(d.GetEn()) > MaxText || len(d.GetZh()) > MaxText {
			return fmt.Errorf("watermark with an answer that can't be")
		}
	}
	return nil
}
