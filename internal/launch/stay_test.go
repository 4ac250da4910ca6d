package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
)

// stayScript steps until there is a file "end". A rank kills itself when a file says so, leaves as if a peer were lost, or
// hears nothing any more; each is said by a file GENERATION.RANK.WHAT.
const stayScript = `
import os, signal, subprocess, sys, time
import fermi

WHO = os.urandom(4).hex()
fermi.init()
mine = subprocess.Popen(["sleep", "1000"]) # goes with its rank, and stays with it

def told(what):
    return os.path.exists("%d.%d.%s" % (fermi.generation(), fermi.rank(), what))

def at(rank):
    try:
        with open("at.%d.%d" % (fermi.generation(), rank)) as file:
            return int(file.read() or 0)
    except FileNotFoundError:
        return 0

def meet(step):  # as a collective does, but for its failing
    with open("at.%d.%d" % (fermi.generation(), fermi.rank()), "w") as file:
        file.write(str(step))
    while min(at(rank) for rank in range(3)) < step and not os.path.exists("end"):
        fermi.report(step=step)
        time.sleep(0.005)

def train():
    got = fermi.checkpoint.restore()
    step = got.step if got else 0
    assert mine.poll() is None
    print(fermi.generation(), fermi.rank(), WHO, os.environ["MASTER_PORT"], step if not got else got.state["n"] == step, flush=True)
    while not os.path.exists("end"):
        step += 1
        fermi.checkpoint.save(step, {"n": step})
        fermi.report(step=step)
        meet(step)
        if told("die"):
            os.kill(os.getpid(), signal.SIGKILL)
        if told("lost"):
            raise RuntimeError("[gloo/transport/tcp/pair.cc:1] Connection closed by peer")
        if told("deaf"):
            print("deaf", flush=True)
            time.sleep(1000)
        time.sleep(0.01)

fermi.rejoin(train)
mine.kill()
mine.wait()
fermi.close()
`

// staying is a replica of three ranks that runs the script, in its first generation.
func staying(t *testing.T, make func(func(*engine.Replica), ...string) *replica, patience string) (r *replica, folder string, l *launched) {
	t.Helper()
	r, folder = scripted(t, func(change func(*engine.Replica), command ...string) *replica {
		return make(func(s *engine.Replica) { change(s); s.Ranks = 3 }, command...)
	}, &api.Standby{Preload: []string{"decimal"}})
	touch(t, r.dir, patience)
	if err := os.WriteFile(filepath.Join(folder, "train.py"), []byte(stayScript), 0o644); err != nil {
		t.Fatal(err)
	}
	l = r.launch()
	r.generation(1, true)
	r.logged("standby ready")
	return r, folder, l
}

func touch(t *testing.T, folder, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// finished ends the script and looks at how that was.
func (r *replica) finished(folder string, l *launched) {
	t := r.w.t
	t.Helper()
	touch(t, folder, "end")
	if err := l.wait(); err != nil {
		t.Fatal(err)
	}
	if e := r.exit(); e.Reason != engine.ReasonSucceeded {
		t.Errorf("%+v", e)
	}
	if left := r.marked(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestStay: healthy ranks keep their process through the deaths of others, and when a peer elsewhere was lost. From
// the second generation on they are behind two walls.
func TestStay(t *testing.T) {
	eachWay(t, func(t *testing.T, w *world, make func(func(*engine.Replica), ...string) *replica) {
		r, folder, l := staying(t, make, fileImpatient)
		for i, turn := range []struct {
			what string
			rank int
		}{{"die", 1}, {"die", 0}, {"die", 1}, {"lost", 2}} {
			fresh := r.turn(folder, int64(i+1), turn.rank, turn.what)
			if turn.what == "die" && !slices.Equal(fresh, []int{turn.rank}) || turn.what == "lost" && len(fresh) > 0 {
				t.Errorf("after %+v %v are new processes", turn, fresh)
			}
		}
		r.finished(folder, l)
	})
}

// TestStayTooLate: one that does not leave in time is replaced.
func TestStayTooLate(t *testing.T) {
	eachWay(t, func(t *testing.T, w *world, make func(func(*engine.Replica), ...string) *replica) {
		r, folder, l := staying(t, make, fileHurried)
		if fresh := r.turn(folder, 1, 2, "deaf"); !slices.Contains(fresh, 2) {
			t.Errorf("%v are new processes", fresh)
		}
		r.finished(folder, l)
	})
}

// turn has something happen to a rank of a generation; fresh are those of the next that are new processes.
func (r *replica) turn(folder string, n int64, rank int, what string) (fresh []int) {
	t := r.w.t
	t.Helper()
	eventually(t, fmt.Sprint("all of generation ", n), func() bool { return len(r.places(n)) == 3 })
	r.ranks("saved steps", func(s link.Ranks) bool { return s.Generation == n && len(s.Held) > 0 && !s.SteppedAt.IsZero() })
	touch(t, folder, fmt.Sprintf("%d.%d.%s", n, rank, what))
	g := r.first()
	g.Number, g.Hold, g.Lead = n+1, true, fmt.Sprint("127.0.0.1:", 4000+n)
	if what == "deaf" { // nobody else sees that: it is superseded
		eventually(t, "it is deaf", func() bool { return slices.Contains(r.lines(), "O:deaf") })
	} else {
		said := r.ranks("the failure", func(s link.Ranks) bool { return s.Generation == n && s.Failed != nil })
		if said.Failed.Rank != rank || (said.Failed.Signal == "SIGKILL") != (what == "die") {
			t.Errorf("%+v", said.Failed)
		}
		g.Restore = slices.Max(said.Held)
	}
	eventually(t, "go", func() bool { return r.w.server.hub.Go(r.spec.Name, r.spec.Attempt, g) == nil })
	eventually(t, fmt.Sprint("all of generation ", n+1), func() bool { return len(r.places(n+1)) == 3 })
	before, after := r.places(n), r.places(n+1)
	for rank := range 3 {
		if before[rank][0] != after[rank][0] {
			fresh = append(fresh, rank)
		}
		want := []string{fmt.Sprint(4000 + n), "True"} // its own state, of that step
		if g.Restore == 0 {
			want[1] = "0"
		}
		if d := cmp.Diff(want, after[rank][1:]); d != "" {
			t.Errorf("rank %d of generation %d: %s", rank, n+1, d)
		}
	}
	if kept := r.ranks("the next", func(s link.Ranks) bool { return s.Generation == n+1 }).Kept; kept != 3-len(fresh) {
		t.Errorf("%d ranks kept their process in generation %d, %v are new", kept, n+1, fresh)
	}
	return fresh
}

// places are what the ranks of a generation said when they began: who they are, and where they go on from.
func (r *replica) places(generation int64) map[int][]string {
	out := map[int][]string{}
	for _, line := range r.lines() {
		var g int64
		var rank int
		if n, _ := fmt.Sscanf(line, "O:%d %d", &g, &rank); n == 2 && g == generation {
			out[rank] = strings.Fields(line)[2:]
		}
	}
	return out
}
