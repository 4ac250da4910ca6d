package network

import (
	"encoding/binary"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// closed are addresses that no replica reaches although they are not of this machine: link-local ones
// and those at which clouds tell a machine its secrets.
var closed = []netip.Prefix{
	netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("100.100.100.200/32"), netip.MustParsePrefix("192.0.0.192/32"),
}

// The sets of the table, and the chain of its own.
const (
	chainRefuse = "refuse"

	setSame  = "same"  // pairs of bridges of one project, each with itself too
	setPorts = "ports" // at which the API listens
)

var pairType = nftables.MustConcatSetType(nftables.TypeIFName, nftables.TypeIFName)

func (p plan) table() *nftables.Table {
	return &nftables.Table{Name: p.tableName(), Family: nftables.TableFamilyINet}
}

func (p plan) same() *nftables.Set {
	return &nftables.Set{Table: p.table(), Name: setSame, KeyType: pairType, Concatenation: true}
}

func (p plan) ports() *nftables.Set {
	return &nftables.Set{Table: p.table(), Name: setPorts, KeyType: nftables.TypeInetService}
}

// ensureRules makes the table anew if it is not there or not whole.
func (p plan) ensureRules(blocks map[int]int, doors []uint16) error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	there, err := p.rulesThere(c)
	if err == nil && !there {
		err = p.writeRules(c, blocks, doors)
	}
	if err != nil {
		return err
	}
	return p.admit(c)
}

// ruleCount is how many rules the table has.
const ruleCount = 19

func (p plan) rulesThere(c *nftables.Conn) (bool, error) {
	tables, err := c.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return false, err
	}
	found := false
	for _, t := range tables {
		found = found || t.Name == p.tableName()
	}
	if !found {
		return false, nil
	}
	rules := 0
	for _, name := range []string{"input", "forward", "nat", chainRefuse} {
		list, err := c.GetRules(p.table(), &nftables.Chain{Name: name, Table: p.table()})
		if err != nil {
			return false, nil
		}
		rules += len(list)
	}
	return rules == ruleCount, nil
}

// writeRules replaces the table at once. In words:
//
//	input:   of what comes over our bridges: what is not of the pool is dropped; answers come in; the API is
//	         open at its address and ports; the rest is refused. From elsewhere the pool's addresses are closed.
//	forward: from our bridges: what is not of the pool is dropped; answers and what stays within the project pass;
//	         other bridges, the pool and closed addresses are refused; the world is open.
//	         To our bridges: answers only.
//	nat:     what leaves for the world has the machine's address.
func (p plan) writeRules(c *nftables.Conn, blocks map[int]int, doors []uint16) error {
	c.AddTable(p.table())
	c.DelTable(p.table())
	t := c.AddTable(p.table())
	same, ports := p.same(), p.ports()
	var pairs []nftables.SetElement
	for i, a := range blocks {
		for k, b := range blocks {
			if a == b {
				pairs = append(pairs, p.pair(i, k))
			}
		}
	}
	if err := c.AddSet(same, pairs); err != nil {
		return err
	}
	var open []nftables.SetElement
	for _, port := range doors {
		open = append(open, door(port))
	}
	if err := c.AddSet(ports, open); err != nil {
		return err
	}
	chain := func(name string, kind nftables.ChainType, hook *nftables.ChainHook, priority nftables.ChainPriority) *nftables.Chain {
		return c.AddChain(&nftables.Chain{Name: name, Table: t, Type: kind, Hooknum: hook, Priority: &priority})
	}
	input := chain("input", nftables.ChainTypeFilter, nftables.ChainHookInput, -10)
	forward := chain("forward", nftables.ChainTypeFilter, nftables.ChainHookForward, -10)
	nat := chain("nat", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, 90)
	refusal := c.AddChain(&nftables.Chain{Name: chainRefuse, Table: t})
	add := func(chain *nftables.Chain, parts ...[]expr.Any) {
		var all []expr.Any
		for _, one := range parts {
			all = append(all, one...)
		}
		c.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: all})
	}
	ours := p.bridgePrefix()
	from, to, notTo := named(expr.MetaKeyIIFNAME, ours, true), named(expr.MetaKeyOIFNAME, ours, true), named(expr.MetaKeyOIFNAME, ours, false)
	fromElsewhere := append(named(expr.MetaKeyIIFNAME, ours, false), notLoopback()...)

	add(input, fromElsewhere, toAddress(p.pool, true), drop())
	add(input, from, onlyIPv4(), drop())
	add(input, from, fromAddress(p.pool, false), drop())
	add(input, from, answers(), accept())
	add(input, from, toAddress(netip.PrefixFrom(p.API(), 32), true), tcpPort(ports), accept())
	add(input, from, refuse())

	add(forward, from, onlyIPv4(), drop())
	add(forward, from, fromAddress(p.pool, false), drop())
	add(forward, from, answers(), accept())
	add(forward, from, within(same), accept())
	add(forward, from, named(expr.MetaKeyOIFNAME, namePrefix, true), refuse())
	add(forward, from, toAddress(p.pool, true), refuse())
	for _, p := range closed {
		add(forward, from, toAddress(p, true), refuse())
	}
	add(forward, named(expr.MetaKeyIIFNAME, ours, false), to, notAnswers(), drop())

	// Said at once, so that a program does not wait: of TCP with a reset, because the kernel sends few other messages a second.
	add(refusal, tcp(), []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}})
	add(refusal, []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_ADMIN_PROHIBITED}})

	add(nat, fromAddress(p.pool, true), notTo, []expr.Any{&expr.Masq{}})
	return c.Flush()
}

// removeRules deletes a table, if it is there.
func removeRules(table string) error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	t := c.AddTable(&nftables.Table{Name: table, Family: nftables.TableFamilyINet})
	c.DelTable(t)
	if err := c.Flush(); err != nil {
		return err
	}
	return dismiss(c, table)
}

// join lets a block's bridge and those of the same project reach each other.
func (p plan) join(block int, own []int) error {
	pairs := []nftables.SetElement{p.pair(block, block)}
	for _, i := range own {
		pairs = append(pairs, p.pair(block, i), p.pair(i, block))
	}
	c, err := nftables.New()
	if err != nil {
		return err
	}
	if err := c.SetAddElements(p.same(), pairs); err != nil {
		return err
	}
	return c.Flush()
}

// part takes a block's bridge out of its project.
func (p plan) part(block int, blocks map[int]int) error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	same := p.same()
	there, err := c.GetSetElements(same)
	if err != nil {
		return err
	}
	name := string(ifName(p.bridgeName(block)))
	var gone []nftables.SetElement
	for _, e := range there {
		if len(e.Key) == 2*unix.IFNAMSIZ && (string(e.Key[:unix.IFNAMSIZ]) == name || string(e.Key[unix.IFNAMSIZ:]) == name) {
			gone = append(gone, nftables.SetElement{Key: e.Key})
		}
	}
	if len(gone) == 0 {
		return nil
	}
	if err := c.SetDeleteElements(same, gone); err != nil {
		return err
	}
	return c.Flush()
}

// Admit opens the API's address at a port, to replicas alone.
func (n *Network) Admit(port uint16) error {
	return n.locked(func() error {
		n.doors = append(n.doors, port)
		c, err := nftables.New()
		if err != nil {
			return err
		}
		if err := c.SetAddElements(n.ports(), []nftables.SetElement{door(port)}); err != nil {
			return err
		}
		return c.Flush()
	})
}

// server is where replicas find the API; "": nowhere yet.
func (n *Network) server() string {
	if len(n.doors) == 0 {
		return ""
	}
	return "http://" + netip.AddrPortFrom(n.API(), n.doors[len(n.doors)-1]).String()
}

func door(port uint16) nftables.SetElement {
	return nftables.SetElement{Key: binary.BigEndian.AppendUint16(nil, port)}
}

func (p plan) pair(a, b int) nftables.SetElement {
	return nftables.SetElement{Key: append(ifName(p.bridgeName(a)), ifName(p.bridgeName(b))...)}
}

func ifName(name string) []byte {
	b := make([]byte, unix.IFNAMSIZ)
	copy(b, name)
	return b
}

// named compares the beginning of an interface's name.
func named(key expr.MetaKey, prefix string, is bool) []expr.Any {
	return []expr.Any{&expr.Meta{Key: key, Register: 1}, compare(is, []byte(prefix))}
}

func notLoopback() []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}, compare(false, ifName("lo"))}
}

func compare(is bool, data []byte) *expr.Cmp {
	op := expr.CmpOpNeq
	if is {
		op = expr.CmpOpEq
	}
	return &expr.Cmp{Op: op, Register: 1, Data: data}
}

func fromAddress(p netip.Prefix, is bool) []expr.Any { return onAddress(12, p, is) }
func toAddress(p netip.Prefix, is bool) []expr.Any   { return onAddress(16, p, is) }

func onAddress(offset uint32, p netip.Prefix, is bool) []expr.Any {
	mask := binary.BigEndian.AppendUint32(nil, ^uint32(0)<<(32-p.Bits()))
	want := p.Masked().Addr().As4()
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1}, compare(true, []byte{unix.NFPROTO_IPV4}),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: mask, Xor: make([]byte, 4)},
		compare(is, want[:]),
	}
}

// onlyIPv4 matches what is not IPv4: replicas have no other addresses.
func onlyIPv4() []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1}, compare(false, []byte{unix.NFPROTO_IPV4})}
}

func answers() []expr.Any    { return state(expr.CmpOpNeq) }
func notAnswers() []expr.Any { return state(expr.CmpOpEq) }

func state(op expr.CmpOp) []expr.Any {
	bits := make([]byte, 4)
	binary.NativeEndian.PutUint32(bits, expr.CtStateBitESTABLISHED|expr.CtStateBitRELATED)
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: bits, Xor: make([]byte, 4)},
		&expr.Cmp{Op: op, Register: 1, Data: make([]byte, 4)},
	}
}

func tcpPort(set *nftables.Set) []expr.Any {
	return append(tcp(),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Lookup{SourceRegister: 1, SetName: set.Name, SetID: set.ID})
}

func within(set *nftables.Set) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}, &expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 2},
		&expr.Lookup{SourceRegister: 1, SetName: set.Name, SetID: set.ID},
	}
}

func accept() []expr.Any { return []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}} }
func drop() []expr.Any   { return []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}} }

func refuse() []expr.Any {
	return []expr.Any{&expr.Verdict{Kind: expr.VerdictJump, Chain: chainRefuse}}
}

func tcp() []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, compare(true, []byte{unix.IPPROTO_TCP})}
}
