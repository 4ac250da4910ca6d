package sim

import (
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

const (
	podHead  = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
	nodeHead = "sn,cpu_milli,memory_mib,gpu,model\n"
)

func TestReadOpenB(t *testing.T) {
	trace, err := ReadOpenB(strings.NewReader(podHead+
		"p1,4000,8192,1,500,A|B,BE,Running,60,660,120\np0,2000,1024,0,0,,LS,Succeeded,0,60,0\np2,1000,1024,2,1000,,LS,Pending,5,6,\np3,1000,1024,2,1000,A,LS,Failed,5,65,5\n"), true)
	if err != nil || len(trace.Jobs) != 3 {
		t.Fatalf("%+v %v", trace, err)
	}
	share, cpuOnly := trace.Jobs[2], trace.Jobs[0]
	if share.At != time.Minute || share.Length != 9*time.Minute || share.Devices() != 500 || share.Task.Spec.Queue != "be" || *share.Task.Spec.Priority != api.PriorityClasses["preemptible"] {
		t.Errorf("%+v %+v", share, share.Task.Spec)
	}
	if cpuOnly.Devices() != 0 || trace.Jobs[1].Devices() != 2000 {
		t.Errorf("%+v", trace.Jobs)
	}
	list, err := ReadOpenBNodes(strings.NewReader(nodeHead + "n0,64000,262144,2,A\nn1,96000,393216,8,B\n"))
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	cfg := config(trace, 0)
	cfg.Nodes = OpenBNodes("z", list)
	r := mustRun(t, cfg)
	if r.Ended != 3 || r.Devices != 10 || r.Wait.Max != 0 {
		t.Errorf("%+v", r)
	}
	// 2 devices for a minute, half of one for nine, and the cores of all three.
	if want := (2*8.5*60 + 0.5*8.5*540 + 0.2*(2*60+1*60+4*540)) / 3600; r.Cost < want-1e-6 || r.Cost > want+1e-6 {
		t.Errorf("cost %v, want %v", r.Cost, want)
	}
	for _, bad := range []string{
		"", "x\n", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,1,1000\n", podHead + "p,1,1,2,500,,LS,R,0,1,0\n", podHead + "p,1,1,1,0,,LS,R,0,1,0\n",
		podHead + "p,1,1,1,1001,,LS,R,0,1,0\n", podHead + "p,-1,1,1,1000,,LS,R,0,1,0\n", podHead + "p,1,1,1,1000,,LS,R,5,1,0\n", podHead + "p,1,1,1,1000,,LS,R,0,,0\n",
		podHead + strings.Repeat("p", 300) + ",1,1,1,1000,,LS,R,0,1,0\n",
	} {
		if _, err := ReadOpenB(strings.NewReader(bad), false); err == nil {
			t.Errorf("taken: %.200q", bad)
		}
	}
}

func FuzzReadOpenB(f *testing.F) {
	f.Add(podHead+"p1,4000,8192,1,500,A|B,BE,Running,60,660,120\n", nodeHead+"n0,64000,262144,2,A\n")
	f.Fuzz(func(t *testing.T, pods, nodes string) {
		if trace, err := ReadOpenB(strings.NewReader(pods), true); err == nil {
			for _, j := range trace.Jobs {
				if j.At < 0 || j.Length < 0 || j.Devices() < 0 {
					t.Fatalf("%+v", j)
				}
			}
		}
		if list, err := ReadOpenBNodes(strings.NewReader(nodes)); err == nil {
			for _, n := range OpenBNodes("z", list) {
				if len(n.Spec.Devices) > 64 || n.Spec.CPU < 0 || n.Spec.Memory < 0 {
					t.Fatalf("%+v", n)
				}
			}
		}
	})
}
