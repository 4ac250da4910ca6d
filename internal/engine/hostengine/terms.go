package hostengine

import (
	"cmp"
	"net"
	"net/netip"
	"path/filepath"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
)

// terms are what the machine adds to a replica.
func (c *Config) terms(r engine.Replica, lease record.Network) record.Link {
	ends := record.Link{
		Endpoints: c.Endpoints, Epochs: filepath.Join(c.Dir, record.DirEpochs), Tenant: c.tenant(r), Network: lease, Folders: c.granted(r),
		Images: filepath.Join(c.Dir, record.DirImages), ImageUID: c.Images.UID, Assets: filepath.Join(c.Dir, record.DirAssets),
	}
	if c.Images.Most != nil && r.Image != "" {
		ends.ImageMost = c.Images.Most(r.Project)
	}
	if r.HostNetwork {
		ends.Address = c.Advertise
		if r.Way != nil && r.Way.Network != "" {
			ends.Address = cmp.Or(AddressIn(r.Way.Network), c.Advertise)
		}
	}
	if c.Tiers != nil {
		ends.Tiers = c.Tiers(r.Node)
	}
	return ends
}

// AddressIn is this machine's address in a network, the lowest of several; "": it has none there.
func AddressIn(network string) string {
	within, err := netip.ParsePrefix(network)
	if err != nil {
		return ""
	}
	list, _ := net.InterfaceAddrs()
	var best netip.Addr
	for _, a := range list {
		n, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		if at, ok := netip.AddrFromSlice(n.IP); ok && within.Contains(at.Unmap()) && (!best.IsValid() || at.Unmap().Less(best)) {
			best = at.Unmap()
		}
	}
	if !best.IsValid() {
		return ""
	}
	return best.String()
}

// granted are the folders of this machine that the replica may use. On a machine of one owner that is all of them.
func (c *Config) granted(r engine.Replica) []api.NamedFolder {
	if c.Owner != "" {
		return c.Folders
	}
	return api.Granted(c.Folders, r.Folders)
}

// tenant says who the process will be.
func (c *Config) tenant(r engine.Replica) record.Tenant {
	t := record.Tenant{UID: r.UID, Refused: c.Owner != "" && r.Owner != c.Owner}
	if r.UID != 0 {
		t.Hide = c.Hide
	}
	if r.UID != 0 && (r.Image != "" && r.Home != "" && r.Inside == "" || r.Images == engine.ImageBuild) && c.Images.IDs != nil {
		t.IDs = c.Images.IDs(r.UID)
	}
	return t
}
