package kubeengine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/kubeengine/kubetest"
)

// TestClaimed: a node whose devices can only be claimed says so by their driver; one that has a device plugin beside it says nothing, and neither does one whose driver is
// of something else.
func TestClaimed(t *testing.T) {
	s := kubetest.Get(t)
	z := &site{s: s, namespace: s.Namespace(t), dir: t.TempDir(), file: s.Kubeconfig(t, kubetest.Fermi)}
	for name, c := range map[string]struct {
		plugin int
		driver string
	}{"claimed": {0, "gpu.nvidia.com"}, "both": {2, "gpu.nvidia.com"}, "wires": {0, "dra.net"}} {
		s.Node(t, name, "nvidia.com/gpu", c.plugin, nil)
		var devices []kubetest.Object
		for i := range 2 {
			devices = append(devices, kubetest.Object{"name": fmt.Sprintf("d%d", i)})
		}
		at := "/apis/resource.k8s.io/v1/resourceslices"
		s.Must(t, "POST", at, kubetest.Object{"metadata": kubetest.Object{"name": name}, "spec": kubetest.Object{
			"driver": c.driver, "nodeName": name, "pool": kubetest.Object{"name": name, "generation": 1, "resourceSliceCount": 1}, "devices": devices,
		}}, nil)
		t.Cleanup(func() { _, _, _ = s.Do(kubetest.Admin, "DELETE", at+"/"+name, "", nil) })
	}
	e, stop := z.Open(t, 1)
	defer stop()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		said := map[string]string{}
		nodes, _ := e.Nodes()
		for _, n := range nodes {
			said[strings.TrimPrefix(n.Meta.Name, "z-")] = n.Status.Message.EN
			if !n.Status.Ready || (n.Status.Message.EN != "") != (n.Status.Reason == engine.DevicesUnused) {
				t.Fatalf("%+v", n.Status)
			}
		}
		if strings.Contains(said["claimed"], "(gpu.nvidia.com: 2)") && said["both"] == "" && said["wires"] == "" && len(said) >= 3 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%v", said)
		}
	}
}
