package where

import (
	"strconv"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Split is the flag --split: how many replicas go to each zone. It is a pflag.Value.
type Split struct {
	zones  []string
	counts map[string]int // nil: evenly
}

// Set reads it.
func (s *Split) Set(text string) error {
	*s = Split{}
	wrong := fault.New(fault.Invalid, "BadSplit", fault.T("%q is no split: write ZONE=REPLICAS,… or only ZONE,…, each zone once.", "%q 不是有效的分配：请写 可用区=副本数,… 或只写 可用区,…，每个可用区一次。", text))
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
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 {
			*s = Split{}
			return wrong
		}
		if s.counts == nil {
			s.counts = map[string]int{}
		}
		s.counts[zone] = n
	}
	return nil
}

// String is for the help: nothing when absent.
func (*Split) String() string { return "" }

// Type is for the help.
func (*Split) Type() string { return "ZONE[=N],..." }

// of is the split of a task. What does not divide goes to the zones that were named first.
func (s *Split) of(t *api.TrainingTask) map[string]int {
	if s.counts != nil {
		return s.counts
	}
	left := 0
	for _, r := range t.Spec.Roles {
		left += r.Replicas
	}
	out := map[string]int{}
	for i, zone := range s.zones {
		among := len(s.zones) - i
		out[zone] = (left + among - 1) / among
		left -= out[zone]
	}
	return out
}
