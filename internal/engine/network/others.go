package network

import (
	"errors"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"
)

// Other firewalls of the machine (Docker's, firewalld, ufw) may drop what they don't know, and a packet passes only when no
// chain drops it. So a rule of ours comes first in each such chain. It opens nothing that our own chains, which come
// before, have not let through. It is written as iptables writes its own, or that could not read its table any more.

// admit makes the rules that are missing; each is known by its comment.
func (p plan) admit(c *nftables.Conn) error {
	chains, err := dropping(c)
	if err != nil {
		return err
	}
	for _, chain := range chains {
		rules, err := c.GetRules(chain.Table, chain)
		if err != nil {
			continue // removed meanwhile
		}
		if len(ownRules(rules, p.tableName())) > 0 {
			continue
		}
		keys := []expr.MetaKey{expr.MetaKeyIIFNAME}
		if *chain.Hooknum == *nftables.ChainHookForward {
			keys = append(keys, expr.MetaKeyOIFNAME)
		}
		for _, key := range keys {
			c.InsertRule(&nftables.Rule{
				Table: chain.Table, Chain: chain, UserData: userdata.AppendString(nil, userdata.TypeComment, p.tableName()),
				Exprs: append(named(key, p.bridgePrefix(), true), &expr.Counter{}, &expr.Verdict{Kind: expr.VerdictAccept}),
			})
		}
		if err := c.Flush(); err != nil && !errors.Is(err, unix.ENOENT) { // or the chain was removed meanwhile
			return err
		}
	}
	return nil
}

// dropping are the chains of others at which what comes in or goes through may end.
func dropping(c *nftables.Conn) (out []*nftables.Chain, err error) {
	chains, err := c.ListChains()
	if err != nil {
		return nil, err
	}
	for _, chain := range chains {
		switch {
		case chain.Type != nftables.ChainTypeFilter || chain.Hooknum == nil:
		case *chain.Hooknum != *nftables.ChainHookInput && *chain.Hooknum != *nftables.ChainHookForward:
		case chain.Table.Family != nftables.TableFamilyIPv4 && chain.Table.Family != nftables.TableFamilyINet:
		case chain.Table.Name == "firewalld", chain.Policy != nil && *chain.Policy == nftables.ChainPolicyDrop:
			out = append(out, chain)
		}
	}
	return out, nil
}

func ownRules(rules []*nftables.Rule, table string) (own []*nftables.Rule) {
	for _, r := range rules {
		if text, ok := userdata.GetString(r.UserData, userdata.TypeComment); ok && text == table {
			own = append(own, r)
		}
	}
	return own
}

// dismiss removes the rules that admit made.
func dismiss(c *nftables.Conn, table string) error {
	chains, err := dropping(c)
	if err != nil {
		return err
	}
	for _, chain := range chains {
		rules, err := c.GetRules(chain.Table, chain)
		if err != nil {
			continue
		}
		for _, r := range ownRules(rules, table) {
			if err := c.DelRule(r); err != nil {
				return err
			}
		}
		if err := c.Flush(); err != nil && !errors.Is(err, unix.ENOENT) { // so is it with its chain
			return err
		}
	}
	return nil
}
