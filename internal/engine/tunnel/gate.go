package tunnel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// The gate refuses what comes from chosen machines and is not encrypted, before anything else looks at it: routing only decides where packets go.

const (
	gateTable  = "fermi-tunnel"
	gateChain  = "plain"
	setPeers   = "peers"   // their addresses
	setServers = "servers" // address and port of the link
	gateRules  = 4
	beforeAll  = -310 // before connections are tracked
)

// pairOf is how a set has an address and a port together: each takes whole words.
func pairOf(address []byte, port uint16) []byte {
	return append(slices.Clone(address), byte(port>>8), byte(port), 0, 0)
}

// gate makes the table as it is wished, in one transaction, where it is not so already.
func gate(w Wish, port int) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("the machine's packet filter: %w", err)
	}
	t := &nftables.Table{Name: gateTable, Family: nftables.TableFamilyIPv4}
	peers := &nftables.Set{Table: t, Name: setPeers, KeyType: nftables.TypeIPAddr}
	servers := &nftables.Set{Table: t, Name: setServers, KeyType: nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetService), Concatenation: true}
	var from, of [][]byte
	for _, p := range w.Peers {
		for _, a := range p.Addresses {
			from = append(from, a.AsSlice())
		}
	}
	for _, s := range w.Servers {
		of = append(of, pairOf(s.Addr().AsSlice(), s.Port()))
	}
	if len(from) == 0 {
		c.AddTable(t)
		c.DelTable(t)
		return named("open", c.Flush())
	}
	if is, err := gateIs(c, t, peers, servers, from, of); err != nil || is {
		return named("read", err)
	}
	c.AddTable(t)
	c.DelTable(t)
	c.AddTable(t)
	if err := errors.Join(c.AddSet(peers, elements(from)), c.AddSet(servers, elements(of))); err != nil {
		return named("make", err)
	}
	policy, first := nftables.ChainPolicyAccept, nftables.ChainPriority(beforeAll)
	chain := c.AddChain(&nftables.Chain{Name: gateChain, Table: t, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookPrerouting, Priority: &first, Policy: &policy})
	name := make([]byte, unix.IFNAMSIZ)
	copy(name, Interface)
	outside := []expr.Any{ // from such a machine, and not through the tunnel
		&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}, &expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: name},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4},
		&expr.Lookup{SourceRegister: 1, SetName: peers.Name, SetID: peers.ID},
	}
	protocol := func(p byte) []expr.Any {
		return []expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{p}}}
	}
	link := func(address, port uint32) []expr.Any { // a server's link, at this end of the packet
		return append(protocol(unix.IPPROTO_TCP),
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: address, Len: 4},
			&expr.Payload{DestRegister: 9, Base: expr.PayloadBaseTransportHeader, Offset: port, Len: 2}, // 9 is the word behind 1
			&expr.Lookup{SourceRegister: 1, SetName: servers.Name, SetID: servers.ID})
	}
	add := func(verdict expr.VerdictKind, more ...expr.Any) {
		c.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: append(append(slices.Clone(outside), more...), &expr.Verdict{Kind: verdict})})
	}
	add(expr.VerdictAccept, append(protocol(unix.IPPROTO_UDP),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint16(nil, uint16(port))})...)
	add(expr.VerdictAccept, link(12, 0)...)
	add(expr.VerdictAccept, link(16, 2)...)
	add(expr.VerdictDrop)
	return named("close", c.Flush())
}

func named(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s the gate for what is not encrypted: %w", what, err)
}

func elements(keys [][]byte) (out []nftables.SetElement) {
	for _, k := range unique(keys) {
		out = append(out, nftables.SetElement{Key: k})
	}
	return out
}

func unique(keys [][]byte) [][]byte {
	sorted := slices.SortedFunc(slices.Values(keys), bytes.Compare)
	return slices.CompactFunc(sorted, bytes.Equal)
}

// gateIs says that the table is there with these peers and servers.
func gateIs(c *nftables.Conn, t *nftables.Table, peers, servers *nftables.Set, from, of [][]byte) (bool, error) {
	tables, err := c.ListTablesOfFamily(t.Family)
	if err != nil || !slices.ContainsFunc(tables, func(have *nftables.Table) bool { return have.Name == t.Name }) {
		return false, err
	}
	rules, err := c.GetRules(t, &nftables.Chain{Name: gateChain, Table: t})
	if err != nil || len(rules) != gateRules {
		return false, nil // somebody took it apart: it is made anew
	}
	has := func(s *nftables.Set, want [][]byte) bool {
		have, err := c.GetSetElements(s)
		var keys [][]byte
		for _, e := range have {
			keys = append(keys, e.Key)
		}
		return err == nil && slices.EqualFunc(unique(keys), unique(want), bytes.Equal)
	}
	return has(peers, from) && has(servers, of), nil
}
