package process

import (
	"os/exec"
	"sync"
	"testing"
)

// TestAReaperIsAskedWhileItReaps: the watch for hangs looks for the process of a rank while the loop around the tree reaps others.
func TestAReaperIsAskedWhileItReaps(t *testing.T) {
	p := &Set{N: 8}
	for range p.N {
		cmd := exec.Command("true")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		p.PIDs = append(p.PIDs, cmd.Process.Pid)
	}
	r := NewReaper(p, nil, &Spent{})
	for i, pid := range p.PIDs {
		if r.PIDOf(i) != pid || !r.Knows(pid) {
			t.Fatalf("rank %d is not process %d", i, pid)
		}
	}
	stop := make(chan struct{})
	var asking sync.WaitGroup
	asking.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				r.PIDOf(p.N - 1)
			}
		}
	})
	eventually(t, "all have ended", func() bool { r.Reap(); return r.Left == 0 })
	close(stop)
	asking.Wait()
	if len(r.PIDs()) != 0 || len(r.Dead()) != p.N {
		t.Errorf("%v are left, %v are dead", r.PIDs(), r.Dead())
	}
}
