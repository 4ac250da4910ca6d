package kubeengine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Devices that a node offers by dynamic resource allocation alone, and by no device plugin, are not used: the node says so by their driver's name.

// claimers are the drivers of accelerators.
var claimers = []string{"gpu.nvidia.com", "gpu.amd.com", "gpu.intel.com", "gaudi.intel.com", "npu.huawei.com"}

// lookEvery is how often it is looked for such devices: drivers come with operators, not with work.
const lookEvery = 5 * time.Minute

// slices of devices that somebody could claim, as far as they are read.
type offered struct {
	Items []struct {
		Spec struct {
			Driver   string     `json:"driver"`
			NodeName string     `json:"nodeName"`
			Devices  []struct{} `json:"devices"`
		} `json:"spec"`
	} `json:"items"`
}

// claimed are the devices of a cluster's nodes that are there to be claimed, in words, by node.
func (c *Cluster) claimed(ctx context.Context) (map[string]string, error) {
	const group = "resource.k8s.io"
	version, err := c.Preferred(ctx, group)
	if err != nil {
		return nil, err
	}
	var list offered
	if err := c.Raw(ctx, "GET", "/apis/"+group+"/"+version+"/resourceslices", nil, &list); err != nil {
		return nil, err
	}
	return list.byNode(), nil
}

func (o *offered) byNode() map[string]string {
	counts := map[string]map[string]int{}
	for _, s := range o.Items {
		if s.Spec.NodeName == "" || !slices.Contains(claimers, s.Spec.Driver) {
			continue
		}
		if counts[s.Spec.NodeName] == nil {
			counts[s.Spec.NodeName] = map[string]int{}
		}
		counts[s.Spec.NodeName][s.Spec.Driver] += len(s.Spec.Devices)
	}
	out := map[string]string{}
	for node, drivers := range counts {
		var words []string
		for _, driver := range slices.Sorted(maps.Keys(drivers)) {
			words = append(words, fmt.Sprintf("%s: %d", driver, drivers[driver]))
		}
		out[node] = strings.Join(words, ", ")
	}
	return out
}

// unused says that a node's devices can't be had; nothing where it has others.
func unused(devices int, claimed string) fault.Text {
	if devices > 0 || claimed == "" {
		return fault.Text{}
	}
	return fault.T("It offers devices by dynamic resource allocation alone (%s), which Fermi does not use: run the device plugin of their maker beside it.",
		"该节点仅通过动态资源分配（DRA）提供加速卡（%s），Fermi 无法使用：请同时运行厂商的设备插件。", claimed)
}
