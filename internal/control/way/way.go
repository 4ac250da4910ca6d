package way

import (
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/way"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// plan is what Between answers, of zones as they are.
func plan(zones map[string]*way.Roads, nodes []*api.Node) (map[string]engine.Way, error) {
	said := false
	for _, r := range zones {
		said = said || len(r.Ways) > 0
	}
	if !said {
		return nil, nil
	}
	sealed := map[[2]string]bool{} // pairs of zones, both ways round
	for a, ofA := range zones {
		for b, ofB := range zones {
			if way.Encrypted(a, ofA, b, ofB) {
				sealed[[2]string{a, b}] = true
			}
		}
	}
	out := map[string]engine.Way{}
	for _, n := range nodes {
		if n == nil {
			continue
		}
		w := engine.Way{Network: network(zones, n.Spec.Zone)}
		for _, other := range nodes {
			if len(sealed) == 0 {
				break
			}
			if other == nil || !sealed[[2]string{n.Spec.Zone, other.Spec.Zone}] {
				continue
			}
			for _, end := range []*api.Node{n, other} {
				if a := end.Status.Agent; a == nil || a.Tunnel == nil {
					return nil, fault.New(fault.Unavailable, "WayNotEncrypted", fault.T(
						"Traffic between %s and %s is to be encrypted, and node %s can't: that takes a machine that joined, whose agent is root and has a --tunnel-port. Work over both zones waits.",
						"%s 与 %s 之间的流量要求加密，而节点 %s 无法加密：需要以 root 运行代理并设有 --tunnel-port 的已加入机器。跨这两个可用区的任务需等待。", n.Spec.Zone, other.Spec.Zone, end.Meta.Name))
				}
			}
			if !slices.Contains(w.Sealed, other.Meta.Name) {
				w.Sealed = append(w.Sealed, other.Meta.Name)
			}
		}
		slices.Sort(w.Sealed)
		out[n.Meta.Name] = w
	}
	return out, nil
}

// network is the one that a member in a zone uses. It has one address for all: where the ways to several zones name different networks that is the one that everybody reaches.
func network(zones map[string]*way.Roads, own string) string {
	if len(zones) == 1 {
		return way.Network(own, zones[own], own, zones[own])
	}
	first, name := true, ""
	for zone, roads := range zones {
		if zone == own {
			continue
		}
		n := way.Network(own, zones[own], zone, roads)
		if !first && n != name {
			return ""
		}
		first, name = false, n
	}
	return name
}
