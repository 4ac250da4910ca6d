package inventory

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestRDMAPorts: ports that are up, and of these the ones in a network that somebody named, where there are any.
func TestRDMAPorts(t *testing.T) {
	root := t.TempDir()
	put := func(path, text string) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("mlx5_0/ports/1/state", "4: ACTIVE\n")
	put("mlx5_0/ports/1/gid_attrs/ndevs/0", "fast0\n")
	put("mlx5_0/ports/1/gid_attrs/ndevs/1", "fast0\n")
	put("mlx5_0/ports/2/state", "1: DOWN\n")
	put("mlx5_1/ports/1/state", "4: ACTIVE\n")
	put("mlx5_1/device/net/ib0/address", "")
	put("mlx5_bond_0/ports/1/state", "4: ACTIVE\n")
	put("mlx5_bond_0/ports/1/gid_attrs/ndevs/0", "eth0\n")
	has := map[string]string{"fast0": "10.77.0.2", "ib0": "10.77.1.2", "eth0": "192.168.0.2"}
	addresses := func(name string) []netip.Addr { return []netip.Addr{netip.MustParseAddr(has[name])} }
	all := []string{"mlx5_0:1", "mlx5_1:1", "mlx5_bond_0:1"}
	for network, want := range map[string][]string{
		"": all, "10.77.0.0/24": {"mlx5_0:1"}, "10.77.0.0/16": {"mlx5_0:1", "mlx5_1:1"}, "172.16.0.0/12": all, // sockets go there, RDMA as ever
	} {
		within, _ := netip.ParsePrefix(network)
		if got := rdmaPorts(root, within, addresses); !slices.Equal(got, want) {
			t.Errorf("%q: %v, not %v", network, got, want)
		}
	}
	if got := rdmaPorts(filepath.Join(root, "none"), netip.Prefix{}, addresses); got != nil {
		t.Errorf("%v", got)
	}
}
