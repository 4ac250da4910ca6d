package hosts

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/way"
	"github.com/fermi-cluster/fermi/internal/engine/agentengine"
)

// sealing is what goes between zones encrypted, as zones and agents say now; nil: nothing does.
func (h *Hosts) sealing(ctx context.Context) *agentengine.Sealing {
	snap, err := h.cfg.Store.List(ctx, api.KindZone, "", 0)
	if err != nil {
		return nil
	}
	roads := map[string]*way.Roads{}
	var names []string
	snap.Ascend("", func(o api.Object) bool {
		z := o.(*api.Zone)
		names = append(names, z.Meta.Name)
		roads[z.Meta.Name] = &z.Spec.Roads
		return true
	})
	slices.Sort(names)
	out := &agentengine.Sealing{}
	networks := map[string][]netip.Prefix{} // of a zone, towards those that it reaches encrypted
	for i, a := range names {
		for _, b := range names[i+1:] {
			if !way.Encrypted(a, roads[a], b, roads[b]) {
				continue
			}
			out.Pairs = append(out.Pairs, [2]string{a, b})
			networks[a] = append(networks[a], prefix(way.Network(a, roads[a], b, roads[b])))
			networks[b] = append(networks[b], prefix(way.Network(b, roads[b], a, roads[a])))
		}
	}
	if len(out.Pairs) == 0 {
		return nil
	}
	if err := h.each(ctx, func(n *api.Node) {
		if m, ok := machine(n, networks[n.Spec.Zone]); ok && networks[n.Spec.Zone] != nil {
			out.Machines = append(out.Machines, m)
		}
	}); err != nil {
		return nil
	}
	slices.SortFunc(out.Machines, func(a, b agentengine.Machine) int { return cmp.Compare(a.Node, b.Node) })
	unshared(out.Machines)
	return out
}

func prefix(text string) netip.Prefix {
	p, _ := netip.ParsePrefix(text) // checked when the zone was written; "" is none
	return p
}

// machine is how a node is reached encrypted: at the address that its agent gives, and at those that it has in these networks.
func machine(n *api.Node, networks []netip.Prefix) (m agentengine.Machine, ok bool) {
	a := n.Status.Agent
	if n.Spec.Agent == nil || a == nil || a.Address == "" {
		return m, false
	}
	m = agentengine.Machine{Node: n.Meta.Name, Zone: n.Spec.Zone, Addresses: []string{a.Address}}
	for _, text := range a.Addresses {
		at, err := netip.ParseAddr(text)
		within := func(p netip.Prefix) bool { return p.IsValid() && p.Contains(at) }
		if err == nil && text != a.Address && slices.ContainsFunc(networks, within) {
			m.Addresses = append(m.Addresses, text)
		}
	}
	if a.Tunnel != nil {
		m.Key, m.At = a.Tunnel.Key, net.JoinHostPort(a.Address, strconv.Itoa(a.Tunnel.Port))
	}
	return m, true
}

// unshared takes away addresses that two machines say are theirs, as those of bridges are: nobody knows whom such a one leads to.
func unshared(list []agentengine.Machine) {
	count := map[string]int{}
	for _, m := range list {
		for _, a := range m.Addresses {
			count[a]++
		}
	}
	for i := range list {
		list[i].Addresses = slices.DeleteFunc(list[i].Addresses, func(a string) bool { return count[a] > 1 })
	}
}
