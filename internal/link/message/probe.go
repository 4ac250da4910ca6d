package message

import (
	"fmt"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
)

// MaxProbed bounds the text of an answer to a probe.
const MaxProbed = 64 << 10

// Probe asks a launcher for something about one of its ranks: to hurt it, or to look at it.
type Probe struct {
	ID         string // of this question; made by Ask
	Generation int64
	Rank       int
	Kind       string
}

// Probed is the answer.
type Probed struct {
	ID      string
	Refused fault.Text // zero: it was done
	Text    string     // what was seen
	At      time.Time
}

func CheckProbe(p *linkpb.Probe) error {
	if p.GetId() == "" || len(p.GetId()) > 64 || p.GetGeneration() <= 0 || p.GetRank() < 0 || p.GetRank() >= MaxWorld || len(p.GetKind()) > 32 {
		return fmt.Errorf("probe of nothing")
	}
	return nil
}

func CheckProbed(p *linkpb.Probed) error {
	if len(p.GetId()) > 64 || len(p.GetRefusedEn()) > MaxText || len(p.GetRefusedZh()) > MaxText || len(p.GetText()) > MaxProbed {
		return Refuse("the answer to a probe is too long")
	}
	return nil
}

func ProbeOf(m *linkpb.Probe) Probe {
	return Probe{ID: m.GetId(), Generation: m.GetGeneration(), Rank: int(m.GetRank()), Kind: m.GetKind()}
}
