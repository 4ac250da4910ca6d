package hosts

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/roundtrip"
	"github.com/fermi-cluster/fermi/test/harness"
	"github.com/fermi-cluster/fermi/test/hosts/world"
)

// TestMeasured: agents of two zones find how far these are apart, before any task runs there.
func TestMeasured(t *testing.T) {
	l := newLabOf(t, world.Config{Zones: []world.Zone{{Name: "a", Hosts: 2}, {Name: "b", Hosts: 1}}, Link: world.Link{RTT: 12 * time.Millisecond}})
	l.twoZones([]string{"a2", "b1"})
	var d roundtrip.ZoneDistance
	harness.Eventually(t, "the way between the zones is measured", func() bool {
		raw, err := l.cl.Raw(t.Context(), "/zone-matrix", nil)
		var m roundtrip.ZoneMatrix
		if err != nil || json.Unmarshal(raw, &m) != nil || len(m.Items) != 1 {
			return false
		}
		d = m.Items[0]
		return d.Measured != nil
	})
	if m := d.Measured; m.P50Ms < 12 || m.P50Ms > 40 || m.Samples < 5 || m.FromNode+m.ToNode != "b1a2" && m.FromNode+m.ToNode != "a2b1" {
		t.Errorf("%+v", m)
	}
}
