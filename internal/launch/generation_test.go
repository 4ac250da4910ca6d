package launch

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermi-cluster/fermi/internal/blob/logbook"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/link"
)

// generation tells the launcher to start one, as soon as it is attached.
func (r *replica) generation(number int64, hold bool) {
	r.w.t.Helper()
	g := r.first()
	g.Number, g.Hold = number, hold
	eventually(r.w.t, fmt.Sprint("go for generation ", number), func() bool {
		return r.w.server.hub.Go(r.spec.Name, r.spec.Attempt, g) == nil
	})
}

// ranks waits until the launcher has said so much about its ranks.
func (r *replica) ranks(what string, enough func(link.Ranks) bool) (said link.Ranks) {
	r.w.t.Helper()
	eventually(r.w.t, what, func() bool {
		said, _ = r.w.server.hub.Ranks(r.spec.Name)
		return enough(said)
	})
	return said
}

// eachWay runs a test without a wall and behind one.
func eachWay(t *testing.T, test func(t *testing.T, w *world, make func(func(*engine.Replica), ...string) *replica)) {
	t.Run("plain", func(t *testing.T) { w := newWorld(t); test(t, w, w.replica) })
	t.Run("walled", func(t *testing.T) { w := newWorld(t); test(t, w, w.walled) })
}

func several(n int) func(*engine.Replica) { return func(r *engine.Replica) { r.Ranks = n } }

// TestRanks: every rank knows its place, and its lines carry it.
func TestRanks(t *testing.T) { eachWay(t, testRanks) }

func testRanks(t *testing.T, w *world, make func(func(*engine.Replica), ...string) *replica) {
	r := make(several(3), "sh", "-c", `echo $RANK $LOCAL_RANK/$LOCAL_WORLD_SIZE $FERMI_RANK/$WORLD_SIZE $FERMI_GENERATION $MASTER_ADDR $MASTER_PORT; test -S $FERMI_SOCKET && test -d $FERMI_SHM`)
	if e := r.run(); e.Reason != engine.ReasonSucceeded {
		t.Fatalf("%+v", e)
	}
	got := map[int]string{}
	if err := w.server.book.Read(t.Context(), r.spec.TaskID, logbook.ReadOptions{}, func(_ string, l logbook.Line) error {
		got[l.Rank] = string(l.Text)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	want := map[int]string{}
	for i := range 3 {
		want[i] = fmt.Sprintf("%[1]d %[1]d/3 %[1]d/3 1 127.0.0.1 4000", i)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestNextGeneration: a failed rank is told, the others are killed without being asked, and the next
// generation runs in the same life; an older order is no order any more.
func TestNextGeneration(t *testing.T) { eachWay(t, testNextGeneration) }

func testNextGeneration(t *testing.T, w *world, make func(func(*engine.Replica), ...string) *replica) {
	r := make(several(2), "sh", "-c", `trap "" TERM
		case $FERMI_GENERATION.$RANK in
		1.1) exit 7;;
		1.0) while :; do sleep 1000; done;;
		*) echo $FERMI_GENERATION.$RANK on port $MASTER_PORT;;
		esac`)
	l := r.launch()
	port := r.ranks("a port", func(s link.Ranks) bool { return s.Port > 0 }).Port
	r.generation(1, true)
	said := r.ranks("the failure", func(s link.Ranks) bool { return s.Failed != nil })
	if f := said.Failed; said.Generation != 1 || f.Rank != 1 || f.Code != 7 || f.Reason != engine.ReasonNonZero {
		t.Errorf("%+v %+v", said, f)
	}
	if said.Port == port || said.Port == 0 {
		t.Errorf("the next generation has port %d, this one has %d", said.Port, port)
	}
	eventually(t, "rank 0 is gone", func() bool { return len(r.marked()) == 0 })
	if r.has(record.FileExit)() {
		t.Fatal("the launcher did not wait")
	}
	r.generation(1, true)
	r.generation(2, true)
	if err := l.wait(); err != nil {
		t.Fatal(err)
	}
	if e := r.exit(); e.Reason != engine.ReasonSucceeded {
		t.Errorf("%+v", e)
	}
	got := r.lines()
	slices.Sort(got)
	if d := cmp.Diff([]string{"O:2.0 on port 4000", "O:2.1 on port 4000"}, got); d != "" {
		t.Error(d)
	}
	var last record.Go
	if ok, err := record.Read(r.dir, record.FileGo, &last); !ok || err != nil || last.Generation != 2 || last.Epoch != w.epoch {
		t.Errorf("%+v %v", last, err)
	}
}

// TestSuperseded: a newer generation ends a running one at once.
func TestSuperseded(t *testing.T) { eachWay(t, testSuperseded) }

func testSuperseded(t *testing.T, w *world, make func(func(*engine.Replica), ...string) *replica) {
	r := make(several(2), "sh", "-c", `trap "" TERM; test $FERMI_GENERATION = 3 || while :; do sleep 1000; done`)
	l := r.launch()
	r.generation(1, true)
	r.ranks("generation 1", func(s link.Ranks) bool { return s.Generation == 1 })
	r.generation(3, true)
	if err := l.wait(); err != nil {
		t.Fatal(err)
	}
	if e := r.exit(); e.Reason != engine.ReasonSucceeded {
		t.Errorf("%+v", e)
	}
}

// TestFailureEnds: without restarts left, and when nobody wants another generation, the replica ends
// as its first failed rank did; nobody is left behind.
func TestFailureEnds(t *testing.T) { eachWay(t, testFailureEnds) }

func testFailureEnds(t *testing.T, w *world, make func(func(*engine.Replica), ...string) *replica) {
	for _, hold := range []bool{false, true} {
		t.Run(strconv.FormatBool(hold), func(t *testing.T) {
			r := make(several(3), "sh", "-c", `trap "" TERM; test $RANK = 2 && exit 9; while :; do sleep 1000; done`)
			l := r.launch()
			r.generation(1, hold)
			if hold {
				r.ranks("the failure", func(s link.Ranks) bool { return s.Failed != nil })
				if err := w.server.hub.Stop(r.spec.Name, time.Second); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.wait(); err != nil {
				t.Fatal(err)
			}
			if e := r.exit(); e.Code != 9 || e.Reason != engine.ReasonNonZero {
				t.Errorf("%+v", e)
			}
			if left := r.marked(); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}
