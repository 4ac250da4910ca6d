package agent

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/agentengine"
	"github.com/fermi-cluster/fermi/internal/engine/hostengine"
	"github.com/fermi-cluster/fermi/internal/engine/tunnel"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/recipe"
)

// mostAddresses is how many addresses a machine tells.
const mostAddresses = 32

// tunnelCommand is what the agent starts where the kernel has no WireGuard.
func tunnelCommand() *cobra.Command {
	return &cobra.Command{
		Use: tunnel.CommandName, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return tunnel.Serve(cmd.Context(), slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)))
		},
	}
}

// sealer is what this machine does about traffic that is to be encrypted.
type sealer struct {
	tunnel *tunnel.Tunnel // nil: it can't
	port   int
	peers  *atomic.Pointer[map[string][]netip.Addr] // machines that are reached encrypted, by node
}

func openSealer(cfg Config) (s sealer, err error) {
	s.peers = &atomic.Pointer[map[string][]netip.Addr]{}
	at, err := netip.ParseAddr(cfg.Address)
	if cfg.Tunnel == 0 || os.Geteuid() != 0 || err != nil || !at.Is4() {
		return s, nil
	}
	s.port = cfg.Tunnel
	s.tunnel, err = tunnel.Open(tunnel.Config{Dir: cfg.Data, Exe: cfg.Exe, Port: cfg.Tunnel, Address: at, Log: cfg.Log.With("part", "tunnel")})
	return s, err
}

func (s sealer) keep(ctx context.Context, changed func()) error {
	if s.tunnel == nil {
		<-ctx.Done()
		return nil
	}
	return s.tunnel.Keep(ctx, changed)
}

// say is how others reach this machine encrypted.
func (s sealer) say() *joined.Tunnel {
	if s.tunnel == nil {
		return nil
	}
	return &joined.Tunnel{Key: s.tunnel.Key(), Port: s.port}
}

// problem is what people are told of a tunnel that is not there.
func (s sealer) problem() fault.Text {
	if s.tunnel == nil || s.tunnel.Problem() == nil {
		return fault.Text{}
	}
	return fault.T("Traffic to zones that is to be encrypted can't be now, and is held back: %v.", "发往其他可用区、要求加密的流量目前无法加密，已被阻断：%v。", s.tunnel.Problem())
}

// want takes what a server says.
func (s sealer) want(set agentengine.Settings, node, zone string, log *slog.Logger) {
	wish, peers := wished(set, node, zone)
	s.peers.Store(&peers)
	if s.tunnel != nil {
		s.tunnel.Want(wish)
	} else if len(peers) > 0 {
		log.Warn("traffic to other zones is to be encrypted, which this agent can't: work over them is refused here")
	}
}

// wished are the machines of zones that this one reaches encrypted.
func wished(set agentengine.Settings, node, zone string) (w tunnel.Wish, peers map[string][]netip.Addr) {
	peers = map[string][]netip.Addr{}
	if set.Sealing == nil {
		return w, peers
	}
	for _, m := range set.Sealing.Machines {
		apart := slices.ContainsFunc(set.Sealing.Pairs, func(p [2]string) bool {
			return p == [2]string{zone, m.Zone} || p == [2]string{m.Zone, zone}
		})
		if m.Node == node || !apart {
			continue
		}
		p := tunnel.Peer{Key: m.Key}
		for _, text := range m.Addresses {
			if a, err := netip.ParseAddr(text); err == nil && a.Is4() {
				p.Addresses = append(p.Addresses, a)
			}
		}
		var err error
		if p.At, err = netip.ParseAddrPort(m.At); err != nil {
			p.Key = ""
		}
		w.Peers = append(w.Peers, p)
		peers[m.Node] = p.Addresses
	}
	for _, t := range set.Targets {
		at, _, _ := strings.Cut(strings.TrimPrefix(t, "tls://"), "#")
		if s, err := netip.ParseAddrPort(at); err == nil && s.Addr().Is4() && !s.Addr().IsUnspecified() {
			w.Servers = append(w.Servers, s)
		}
	}
	return w, peers
}

// fits refuses what would reach the others by another way than it is to. Conflict: never; Unavailable: not now.
func (s sealer) fits(r *engine.Replica) error {
	if r.Way == nil || !r.HostNetwork {
		return nil
	}
	if r.Way.Network != "" && hostengine.AddressIn(r.Way.Network) == "" {
		return fault.New(fault.Conflict, "NoAddressInNetwork", fault.T(
			"This machine has no address in %s, the network that its zone names for work over these zones (spec.ways).", "本机在网段 %s 中没有地址；该网段由可用区为此类任务指定（spec.ways）。", r.Way.Network))
	}
	if device := recipe.TorchDevice(r.Devices); len(r.Way.Sealed) > 0 && device != "" && device != "cpu" && device != "cuda" {
		return fault.New(fault.Conflict, "DevicesNotEncrypted", fault.T(
			"Traffic to nodes %s is to be encrypted, and these accelerators send by ports of their own, which nothing here encrypts. Run the task in one zone.",
			"与节点 %s 的通信要求加密，而这类加速卡通过自带网口直接通信，无法加密。请在单个可用区内运行该任务。", strings.Join(r.Way.Sealed, ", ")))
	}
	for _, node := range r.Way.Sealed {
		var addresses []netip.Addr
		if known := s.peers.Load(); known != nil {
			addresses = (*known)[node]
		}
		carried := s.tunnel != nil && len(addresses) > 0 && !slices.ContainsFunc(addresses, func(a netip.Addr) bool { return !s.tunnel.Carries(a) })
		if !carried {
			return fault.New(fault.Unavailable, "WayNotEncrypted", fault.T(
				"Traffic to node %s is to be encrypted, and is not yet; work over both waits.", "与节点 %s 的通信要求加密，但加密通道尚未就绪；跨两者的任务需等待。", node))
		}
	}
	return nil
}

// ownAddresses are the machine's on its interfaces.
func ownAddresses() (out []string) {
	list, _ := net.Interfaces()
	for _, i := range list {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 || i.Name == tunnel.Interface || strings.HasPrefix(i.Name, "fermi") {
			continue
		}
		addresses, _ := i.Addrs()
		for _, a := range addresses {
			if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() && len(out) < mostAddresses {
				out = append(out, n.IP.String())
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
