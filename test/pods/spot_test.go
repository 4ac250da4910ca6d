package pods

import (
	"net/http"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

// TestSpotKinds: environments and services say like tasks whether they may stand on nodes that their cloud may take away.
func TestSpotKinds(t *testing.T) {
	w := up(t)
	w.onlyPods()
	spot := "s-" + w.namespace
	w.s.Node(t, spot, "nvidia.com/gpu", 8, map[string]string{"karpenter.sh/capacity-type": "spot"})
	harness.Eventually(t, "there is a spot node", func() bool {
		n, err := client.Get[*api.Node](t.Context(), w.cl, "", "k1-"+spot)
		return err == nil && n.Status.Ready && n.Spec.Spot
	})
	ann := w.member("ann", "lab")
	ann.must("env", "create", "cheap", "--spot", "only", "--cpu", "500m")
	ann.must("env", "create", "safe", "--spot", "never", "--cpu", "500m")
	ann.must("service", "create", "echo", "--replicas", "2", "--spot", "only", "--cpu", "500m", "--engine", "custom", "--", "sh", "-c", "exec python3 -m http.server $PORT")
	where := map[string]string{}
	for _, p := range w.pods() {
		where[p.Annotations["fermi.io/task-name"]] = p.Spec.NodeName
		if p.Labels["fermi.io/service"] == "echo" && p.Spec.NodeName != spot {
			t.Errorf("a replica of the service is on %s", p.Spec.NodeName)
		}
	}
	if where["cheap"] != spot || where["safe"] != "n-"+w.namespace {
		t.Errorf("%v", where)
	}
	if code, _ := ann.get("/inference/echo/"); code != http.StatusOK {
		t.Errorf("the service answers %d", code)
	}
	ann.must("service", "update", "echo", "--spot", "never")
	harness.Eventually(t, "its replicas have moved", func() bool {
		there := 0
		for _, p := range w.pods() {
			if p.Labels["fermi.io/service"] == "echo" && p.DeletionTimestamp == nil {
				if p.Spec.NodeName == spot {
					return false
				}
				there++
			}
		}
		return there == 2
	})
	ann.must("service", "delete", "echo", "--yes")
	for _, name := range []string{"cheap", "safe"} {
		ann.must("env", "delete", name, "--yes")
	}
	w.noPods()
}
