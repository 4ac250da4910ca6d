package way

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Roads are of a zone's spec: what is declared of the ways to other zones.
type Roads struct {
	// BandwidthGbps is what a gang over both zones can count on.
	BandwidthGbps map[string]float64 `json:"bandwidthGbps,omitempty" doc:"Bandwidth to other zones in Gbit/s, by zone name; no bound when absent."`
	Ways          map[string]Way     `json:"ways,omitempty" doc:"By which network machines that joined reach those of other zones, or, under its own name, each other; and whether that is encrypted."`
}

// Way is how machines of one zone reach those of another.
type Way struct {
	Network   string `json:"network,omitempty" doc:"Work over both zones uses the address that its machines have in this network, as 10.20.0.0/16; what the other zone says counts where this is absent, else the address that the agent gives."`
	Encrypted bool   `json:"encrypted,omitempty" doc:"What machines of the two zones send each other is encrypted. It is enough that one of the zones says so."`
}

const maxWays = 64

// Validate lists the refused ways of a zone of this name; isName says what may be a zone's.
func (r *Roads) Validate(self string, isName func(string) bool) (out []fault.Field) {
	add := func(path string, why fault.Text) { out = append(out, fault.Field{Path: path, Message: why}) }
	if len(r.Ways) > maxWays {
		add("spec.ways", fault.T("There are %d ways; at most %d are allowed.", "通路有 %d 条，最多允许 %d 条。", len(r.Ways), maxWays))
		return out
	}
	for _, zone := range slices.Sorted(maps.Keys(r.Ways)) {
		w, path := r.Ways[zone], "spec.ways."+zone
		if !isName(zone) {
			add("spec.ways", fault.T("%.63q is not the name of a zone.", "%.63q 不是合法的可用区名称。", zone))
			continue
		}
		if w.Network != "" {
			if p, err := netip.ParsePrefix(w.Network); err != nil || !p.Addr().Is4() || p != p.Masked() || p.Bits() == 0 {
				add(path+".network", fault.T("%.63q is no IPv4 network such as 10.20.0.0/16, with nothing behind its own bits.", "%.63q 不是合法的 IPv4 网段，例如 10.20.0.0/16（主机位必须为 0）。", w.Network))
			}
		}
		if w.Encrypted && zone == self {
			add(path+".encrypted", fault.T("This is the zone itself; what is encrypted goes between two zones.", "这是该可用区自身；加密只用于两个可用区之间。"))
		}
	}
	return out
}

// Encrypted says that what machines of zones a and b send each other has to be encrypted.
func Encrypted(a string, ofA *Roads, b string, ofB *Roads) bool {
	return a != b && (ofA.Ways[b].Encrypted || ofB.Ways[a].Encrypted)
}

// Network is the one whose address machines of zone a use towards those of zone b; "": that which their agents give.
func Network(a string, ofA *Roads, b string, ofB *Roads) string {
	return cmp.Or(ofA.Ways[b].Network, ofB.Ways[a].Network)
}
