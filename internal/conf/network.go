package conf

import (
	"net/netip"
	"strconv"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// The values of network that are no addresses.
const (
	NetworkAuto = "auto" // addresses are chosen that nothing on the machine uses
	NetworkHost = "host" // replicas use the machine's own network
)

// The lengths of the prefix that network may have: names of interfaces are made from addresses and have an end, and a
// project has at least a sixty-fourth of them.
const minNetworkBits, maxNetworkBits = 12, 22

var carrierNAT = netip.MustParsePrefix("100.64.0.0/10")

// ParseNetwork reads the addresses that network gives; false: it is none that replicas may have.
func ParseNetwork(text string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(text)
	return p, err == nil && p.Addr().Is4() && p.Bits() >= minNetworkBits && p.Bits() <= maxNetworkBits && p == p.Masked() &&
		(p.Addr().IsPrivate() || carrierNAT.Contains(p.Addr()))
}

func (s *Settings) network() []fault.Field {
	if _, ok := ParseNetwork(s.Network); ok || s.Network == NetworkAuto || s.Network == NetworkHost {
		return nil
	}
	return []fault.Field{{Path: "network", Message: fault.T(
		"%s is no network for replicas; give auto, host, or private IPv4 addresses from /%d to /%d such as 100.64.0.0/14.",
		"%s 不能用作副本网络；请使用 auto、host，或 /%d 到 /%d 的私有 IPv4 网段，例如 100.64.0.0/14。", strconv.Quote(s.Network), minNetworkBits, maxNetworkBits)}}
}
