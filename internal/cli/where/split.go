package where

import (
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/where"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Split is the flag --split: how many replicas go to each zone. It is a pflag.Value.
type Split struct {
	zones  []string
	counts where.Split // nil: evenly
}

// Set reads it.
func (s *Split) Set(text string) error {
	*s = Split{}
	wrong := fault.New(fault.Invalid, "BadSplit", fault.T("%q is no split: write ZONE=REPLICAS,… (4, or 2..6 for two to six) or only ZONE,…, each zone once.", "%q 不是有效的分配：请写 可用区=副本数,…（4，或 2..6 表示二至六个）或只写 可用区,…，每个可用区一次。", text))
	seen := map[string]bool{}
	for i, part := range strings.Split(text, ",") {
		zone, number, counted := strings.Cut(strings.TrimSpace(part), "=")
		if zone == "" || seen[zone] || i > 0 && counted != (s.counts != nil) {
			*s = Split{}
			return wrong
		}
		seen[zone] = true
		s.zones = append(s.zones, zone)
		if !counted {
			continue
		}
		span, err := where.ParseSpan(number)
		if err != nil {
			*s = Split{}
			return wrong
		}
		if s.counts == nil {
			s.counts = where.Split{}
		}
		s.counts[zone] = span
	}
	return nil
}

// String is for the help: nothing when absent.
func (*Split) String() string { return "" }

// Type is for the help.
func (*Split) Type() string { return "ZONE[=N|=MIN..MAX],..." }

// of is the split of a task. What does not divide goes to the zones that were named first.
func (s *Split) of(t *api.TrainingTask) where.Split {
	if s.counts != nil {
		return s.counts
	}
	left := 0
	for _, r := range t.Spec.Roles {
		left += r.Replicas
	}
	out := where.Split{}
	for i, zone := range s.zones {
		among := len(s.zones) - i
		n := (left + among - 1) / among
		out[zone] = where.Exactly(n)
		left -= n
	}
	return out
}
