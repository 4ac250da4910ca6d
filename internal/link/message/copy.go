package message

import (
	"fmt"
	"slices"

	"github.com/fermi-cluster/fermi/internal/link/linkpb"
)

// MaxCopies bounds the stretches of ranks whose states one launcher holds, or is told where they are.
const MaxCopies = 64

// Copy is states that a launcher holds and keeps: of its own ranks, or of others' in its memory.
type Copy struct {
	First, Ranks int
	Steps        []int64 // rising
}

// Source is a launcher that holds the states of some ranks.
type Source struct {
	First, Ranks int
	Address      string // host:port
}

// badSteps: too many, none at all, or out of order.
func badSteps(steps []int64) bool {
	return len(steps) > MaxHeld || !slices.IsSorted(steps) || len(steps) > 0 && steps[0] <= 0
}

// noStretch: ranks that can't be.
func noStretch(first, ranks int32) bool {
	return first < 0 || ranks < 1 || first > MaxWorld || ranks > MaxWorld
}

func checkSources(g *linkpb.Go) error {
	if len(g.GetSources()) > MaxCopies || len(g.GetPeerKey()) > maxKey || len(g.GetPeer()) > maxLeadText {
		return fmt.Errorf("go with too many sources or a peer that can't be")
	}
	if g.GetPeer() != "" {
		if err := checkAddress(g.GetPeer()); err != nil {
			return fmt.Errorf("go with a peer that can't be: %w", err)
		}
	}
	for _, s := range g.GetSources() {
		if noStretch(s.GetFirst(), s.GetRanks()) || len(s.GetAddress()) > maxLeadText || checkAddress(s.GetAddress()) != nil {
			return fmt.Errorf("go with a source that can't be: %d+%d at %.100q", s.GetFirst(), s.GetRanks(), s.GetAddress())
		}
	}
	return nil
}

func checkCopies(r *linkpb.Ranks) error {
	if len(r.GetCopies()) > MaxCopies || r.GetPeerPort() < 0 || r.GetPeerPort() > 65535 || r.GetMissed() < 0 {
		return Refuse("ranks have copies or a port for them that can't be")
	}
	for _, c := range r.GetCopies() {
		if noStretch(c.GetFirst(), c.GetRanks()) || badSteps(c.GetSteps()) {
			return Refuse("ranks have a copy that can't be")
		}
	}
	return nil
}

func sourceMessages(list []Source) []*linkpb.Source {
	var out []*linkpb.Source
	for _, s := range list {
		out = append(out, &linkpb.Source{First: int32(s.First), Ranks: int32(s.Ranks), Address: s.Address})
	}
	return out
}

func sourcesOf(list []*linkpb.Source) []Source {
	var out []Source
	for _, s := range list {
		out = append(out, Source{First: int(s.GetFirst()), Ranks: int(s.GetRanks()), Address: s.GetAddress()})
	}
	return out
}

func copyMessages(list []Copy) []*linkpb.Copy {
	var out []*linkpb.Copy
	for _, c := range list[:min(len(list), MaxCopies)] {
		out = append(out, &linkpb.Copy{First: int32(c.First), Ranks: int32(c.Ranks), Steps: c.Steps})
	}
	return out
}

func copiesOf(list []*linkpb.Copy) []Copy {
	var out []Copy
	for _, c := range list {
		out = append(out, Copy{First: int(c.GetFirst()), Ranks: int(c.GetRanks()), Steps: c.GetSteps()})
	}
	return out
}
