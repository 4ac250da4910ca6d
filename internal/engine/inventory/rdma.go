package inventory

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// rdmaFolder is where the kernel tells of RDMA devices.
const rdmaFolder = "/sys/class/infiniband"

// RDMAPorts are the active ports of this machine's RDMA devices, as DEVICE:PORT. Where ports belong to interfaces with an address in network they are
// these alone: the machine may stand in several networks; the zero prefix asks for all.
func RDMAPorts(network netip.Prefix) []string { return rdmaPorts(rdmaFolder, network, addressesOf) }

func rdmaPorts(root string, network netip.Prefix, addresses func(name string) []netip.Addr) (ports []string) {
	states, _ := filepath.Glob(filepath.Join(root, "*", "ports", "*", "state"))
	var within []string
	for _, file := range states {
		raw, err := os.ReadFile(file)
		if err != nil || !strings.HasPrefix(string(raw), "4:") { // "4: ACTIVE"
			continue
		}
		port := filepath.Dir(file)
		device := filepath.Dir(filepath.Dir(port))
		name := filepath.Base(device) + ":" + filepath.Base(port)
		ports = append(ports, name)
		if slices.ContainsFunc(interfacesOf(device, port), func(i string) bool {
			return slices.ContainsFunc(addresses(i), network.Contains)
		}) {
			within = append(within, name)
		}
	}
	if len(within) > 0 {
		ports = within
	}
	slices.Sort(ports)
	return ports
}

// interfacesOf are a port's: of Ethernet, by its addresses; else those of its device.
func interfacesOf(device, port string) (names []string) {
	files, _ := filepath.Glob(filepath.Join(port, "gid_attrs", "ndevs", "*"))
	for _, file := range files {
		if raw, err := os.ReadFile(file); err == nil && len(raw) > 0 { // an unused one can't be read
			names = append(names, strings.TrimSpace(string(raw)))
		}
	}
	if len(names) == 0 {
		files, _ := filepath.Glob(filepath.Join(device, "device", "net", "*"))
		for _, file := range files {
			names = append(names, filepath.Base(file))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func addressesOf(name string) (out []netip.Addr) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return nil
	}
	list, _ := i.Addrs()
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if at, ok := netip.AddrFromSlice(n.IP); ok {
				out = append(out, at.Unmap())
			}
		}
	}
	return out
}
