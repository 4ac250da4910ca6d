package agent

import (
	"net/netip"
	"slices"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/recipe"
)

// variableRDMA names the ports that NCCL, and RCCL, go by; with = in front exactly these.
const variableRDMA = "NCCL_IB_HCA"

// nameFast names the machine's RDMA ports for work over several machines, where its author did not and it may go by RDMA.
func nameFast(r *engine.Replica, portsIn func(netip.Prefix) []string) {
	if !r.HostNetwork || recipe.TorchDevice(r.Devices) != "cuda" || slices.ContainsFunc(r.Env, func(v api.EnvVar) bool { return v.Name == variableRDMA }) {
		return
	}
	var network netip.Prefix
	if r.Way != nil {
		if len(r.Way.Sealed) > 0 {
			return
		}
		network, _ = netip.ParsePrefix(r.Way.Network)
	}
	if ports := portsIn(network); len(ports) > 0 {
		r.Env = append(slices.Clone(r.Env), api.EnvVar{Name: variableRDMA, Value: "=" + strings.Join(ports, ",")})
	}
}
