package network

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Lease gives a replica of a project, which is known by its uid, an address, and sees to it that the
// bridge for it is there. The same replica gets another one each time: who leases keeps what it got.
func (n *Network) Lease(uid int, replica string) (record.Network, error) {
	var out record.Network
	err := n.locked(func() error {
		blocks, err := n.blocks()
		if err != nil {
			return err
		}
		var own []int
		for i, of := range blocks {
			if of == uid {
				own = append(own, i)
			}
		}
		slices.Sort(own)
		for _, i := range own {
			a, err := n.take(i, replica)
			if err != nil {
				return err
			}
			if a.IsValid() {
				out = n.describe(a)
				return nil
			}
		}
		i, err := n.takeBlock(uid, blocks, own)
		if err != nil {
			return err
		}
		a, err := n.take(i, replica)
		out = n.describe(a)
		return err
	})
	return out, err
}

// describe is what a launcher needs to know of an address.
func (n *Network) describe(a netip.Addr) record.Network {
	if !a.IsValid() {
		return record.Network{}
	}
	i := n.blockOf(a)
	return record.Network{
		Address: netip.PrefixFrom(a, n.shape.bits), Gateway: n.gateway(i), Bridge: n.bridgeName(i), Link: n.vethName(a), Server: n.server(),
	}
}

// take leases an address of a block; none: it is full. The search goes on from the last one, so that an
// address comes back as late as possible.
func (n *Network) take(block int, replica string) (netip.Addr, error) {
	first := number(n.gateway(block)) + 1
	for k := range n.shape.hosts {
		at := (n.cursor[block] + k) % n.shape.hosts
		a := address(first + uint32(at))
		err := os.Symlink(replica, n.leaseFile(a))
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			n.cursor[block] = at + 1
		}
		return a, err
	}
	return netip.Addr{}, nil
}

func (p plan) leaseFile(a netip.Addr) string {
	return filepath.Join(p.dir, dirAddresses, a.String())
}
func (p plan) blockFile(i int) string {
	return filepath.Join(p.dir, dirBlocks, strconv.Itoa(i))
}

// takeBlock gives a project one more block, with its bridge, joined to those that it has.
func (n *Network) takeBlock(uid int, blocks map[int]int, own []int) (int, error) {
	for i := 1; i < n.shape.blocks; i++ {
		if _, taken := blocks[i]; taken {
			continue
		}
		if err := n.ensureBridge(i); err != nil {
			return 0, err
		}
		if err := n.join(i, own); err != nil {
			return 0, fmt.Errorf("rules: %w", err)
		}
		return i, os.Symlink(strconv.Itoa(uid), n.blockFile(i))
	}
	return 0, fault.New(fault.Full, "NetworkFull", fault.T("The network %s has no room for another project on this machine.", "网络 %s 在本机已没有空间容纳更多项目。", n.pool)).
		WithHint(fault.T("Give a larger network, such as 10.0.0.0/12, when no replica runs.", "请在没有副本运行时配置更大的 network，例如 10.0.0.0/12。"))
}

// Release ends a lease, if it is the replica's.
func (n *Network) Release(replica string, lease record.Network) error {
	if !lease.Address.IsValid() {
		return nil
	}
	return n.locked(func() error {
		file := n.leaseFile(lease.Address.Addr())
		if to, err := os.Readlink(file); err != nil || to != replica {
			return nil
		}
		return os.Remove(file)
	})
}

// Renew makes a lease be there that was granted before: after the machine was cut off it may be lost.
func (n *Network) Renew(uid int, replica string, lease record.Network) error {
	a := lease.Address.Addr()
	if !a.IsValid() || !n.pool.Contains(a) {
		return nil
	}
	return n.locked(func() error {
		i := n.blockOf(a)
		blocks, err := n.blocks()
		if err != nil {
			return err
		}
		if _, taken := blocks[i]; !taken {
			var own []int
			for k, of := range blocks {
				if of == uid {
					own = append(own, k)
				}
			}
			if err := errors.Join(n.ensureBridge(i), n.join(i, own), os.Symlink(strconv.Itoa(uid), n.blockFile(i))); err != nil {
				return err
			}
		}
		if err := os.Symlink(replica, n.leaseFile(a)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return n.ensureBridge(i)
	})
}

// fresh is how young a lease is not looked at: its replica's folder may be on its way.
const fresh = time.Minute

// Sweep ends the leases of replicas that are gone, and gives up the blocks without any.
func (n *Network) Sweep() error {
	return n.locked(func() error {
		dir := filepath.Join(n.cfg.Dir, dirAddresses)
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		used := map[int]bool{}
		for _, e := range entries {
			a, err := netip.ParseAddr(e.Name())
			if err != nil || !n.pool.Contains(a) {
				_ = os.Remove(filepath.Join(dir, e.Name()))
				continue
			}
			info, ierr := e.Info()
			to, lerr := os.Readlink(n.leaseFile(a))
			// File times are the kernel's, so is the clock they are compared with.
			if ierr == nil && lerr == nil && n.cfg.Alive != nil && time.Since(info.ModTime()) > fresh && !n.cfg.Alive(to) {
				if err := os.Remove(n.leaseFile(a)); err != nil {
					return err
				}
				continue
			}
			used[n.blockOf(a)] = true
		}
		blocks, err := n.blocks()
		if err != nil {
			return err
		}
		for i := range blocks {
			if used[i] {
				continue
			}
			if err := n.giveUp(i, blocks); err != nil {
				return err
			}
			delete(blocks, i)
		}
		return nil
	})
}

// giveUp removes a block's bridge and rules, then the block.
func (n *Network) giveUp(i int, blocks map[int]int) error {
	if err := n.part(i, blocks); err != nil {
		return err
	}
	if l, err := n.kernel.LinkByName(n.bridgeName(i)); err == nil {
		if err := n.kernel.LinkDel(l); err != nil {
			return err
		}
	}
	return os.Remove(n.blockFile(i))
}

// Leave removes everything from the machine if no lease is left; the next Open makes it again.
func (n *Network) Leave() error {
	if err := n.Sweep(); err != nil {
		return err
	}
	return n.locked(func() error {
		leases, err := os.ReadDir(filepath.Join(n.cfg.Dir, dirAddresses))
		if err != nil || len(leases) > 0 {
			return err
		}
		return n.kernel.remove(n.prefix(), n.tableName())
	})
}
