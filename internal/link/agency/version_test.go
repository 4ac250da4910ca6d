package agency

import (
	"testing"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// TestCompatible: an agent of the same version, or of the minor version before, is taken; another is told which of the two to update first.
func TestCompatible(t *testing.T) {
	for name, c := range map[string]struct{ server, agent, want string }{
		"the same":               {"v1.4.2", "v1.4.2", ""},
		"an older patch":         {"v1.4.2", "v1.4.0", ""},
		"a newer patch":          {"v1.4.2", "v1.4.9", ""},
		"the minor before":       {"v1.4.2", "v1.3.9-rc1", ""},
		"two minors before":      {"v1.4.2", "v1.2.0", "AgentTooOld"},
		"the major before":       {"v2.0.0", "v1.9.0", "AgentTooOld"},
		"a newer minor":          {"v1.4.2", "v1.5.0", "AgentTooNew"},
		"a newer major":          {"v1.4.2", "v2.0.0", "AgentTooNew"},
		"a developer's":          {"v1.4.2", "dev", ""},
		"a developer's server":   {"dev", "v9.0.0", ""},
		"no version":             {"v1.4.2", "", ""},
		"what is no number":      {"v1.4.2", "v1.x.2", ""},
		"what would be negative": {"v1.4.2", "v1.-4.2", ""},
	} {
		err := Compatible(c.server, c.agent)
		if got := fault.ReasonOf(err); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
			continue
		}
		if e := fault.From(err); c.want != "" && (e.Message.ZH == "" || e.Hint.EN == "" || e.Hint.ZH == "") {
			t.Errorf("%s: %+v", name, e)
		}
	}
}
