package ha

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/test/harness"
)

// harm is something that breaks and is mended.
type harm struct {
	name string
	mute bool // the servers it hurts can be reached, and must refuse to answer
	// do breaks something and gives the servers that suffer from it, and how to mend it.
	do func(w *world) (hurt []int, mend func())
}

func (w *world) span(from, to time.Duration) time.Duration {
	return from + time.Duration(w.rnd.Int64N(int64(to-from)))
}

func (w *world) killNode(i int) func() {
	w.nodes[i].Kill()
	return func() { must(w.t, w.nodes[i].Spawn()) }
}

var harms = []harm{
	{"leader killed", false, func(w *world) ([]int, func()) {
		i := w.waitLeader()
		return []int{i}, w.killNode(i)
	}},
	{"leader paused", false, func(w *world) ([]int, func()) {
		i := w.waitLeader()
		must(w.t, w.nodes[i].Signal(syscall.SIGSTOP))
		return []int{i}, func() { must(w.t, w.nodes[i].Signal(syscall.SIGCONT)) }
	}},
	{"leader cut off from etcd", true, func(w *world) ([]int, func()) {
		i := w.waitLeader()
		for _, m := range w.members {
			cut(w.nodes[i].host, m.host)
		}
		return []int{i}, func() {
			for _, m := range w.members {
				heal(w.nodes[i].host, m.host)
			}
		}
	}},
	{"leader cut off from everything", false, func(w *world) ([]int, func()) {
		i := w.waitLeader()
		w.nodes[i].host.unplug()
		return []int{i}, w.nodes[i].host.plug
	}},
	{"follower killed", false, func(w *world) ([]int, func()) {
		i := (w.waitLeader() + 1 + w.rnd.IntN(2)) % 3
		return []int{i}, w.killNode(i)
	}},
	{"etcd member killed", false, func(w *world) ([]int, func()) {
		m := w.members[w.rnd.IntN(3)]
		m.kill()
		return nil, func() { must(w.t, m.start()) }
	}},
	{"etcd leader cut off from everything", false, func(w *world) ([]int, func()) {
		m := w.members[w.etcdLeader()]
		m.host.unplug()
		return nil, m.host.plug
	}},
}

// gaps measures how long a sort of call found nobody.
type gaps struct {
	mu    sync.Mutex
	last  time.Time
	worst time.Duration
}

func (g *gaps) good() {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if !g.last.IsZero() {
		g.worst = max(g.worst, now.Sub(g.last))
	}
	g.last = now
}

// take gives the worst since the last take, the one that is still open included.
func (g *gaps) take() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := g.worst
	if !g.last.IsZero() {
		out = max(out, time.Since(g.last))
	}
	g.worst = 0
	g.last = time.Now()
	return out
}

// probes are clients that do nothing but try.
type probes struct {
	reads, writes gaps // through whichever server answers
	each          [3]gaps
}

func (p *probes) run(ctx context.Context, w *world, wg *sync.WaitGroup) {
	loop := func(g *gaps, try func(context.Context, int) bool) {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				short, cancel := context.WithTimeout(ctx, time.Second)
				if try(short, n) {
					g.good()
				}
				cancel()
				pause(ctx, 50*time.Millisecond)
			}
		})
	}
	c := newObjectClient(w)
	at := [2]int{} // each sticks to its server until that fails
	turn := func(which int, ok bool) bool {
		if !ok {
			at[which] = (at[which] + 1) % 3
		}
		return ok
	}
	loop(&p.reads, func(ctx context.Context, _ int) bool {
		return turn(0, c.call(ctx, at[0], http.MethodGet, "/default", false, nil).status == http.StatusOK)
	})
	loop(&p.writes, func(ctx context.Context, n int) bool {
		name := fmt.Sprintf("probe-%d", n)
		return turn(1, c.call(ctx, at[1], http.MethodPost, "", false, queueOf(name, "", 0)).status == http.StatusOK)
	})
	for i := range p.each {
		loop(&p.each[i], func(ctx context.Context, _ int) bool {
			return c.call(ctx, i, http.MethodGet, "/default", false, nil).status == http.StatusOK
		})
	}
}

// TestHA is the whole of it.
func TestHA(t *testing.T) {
	seed := uint64(envInt("FERMI_HA_SEED", int(time.Now().UnixNano()&0xffff)))
	rounds := envInt("FERMI_HA_ROUNDS", 1)
	t.Logf("seed %d (FERMI_HA_SEED=%d repeats it), %d rounds of %d faults", seed, seed, rounds, len(harms))
	rnd := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t, rnd)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	history := watchPlacements(ctx, w.etcd)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	l := &load{w: w, acked: map[string]int{}}
	l.calm.Store(time.Now().UnixNano())
	for i := range w.nodes {
		wg.Go(func() { l.run(ctx, i) })
	}
	var phase atomic.Int64
	rec := &recorder{begin: time.Now(), revision: map[string]int64{}}
	for id := range 4 {
		keys := rand.New(rand.NewPCG(seed, uint64(100+id)))
		wg.Go(func() {
			rec.linear(ctx, w, id, seed, func() string { return fmt.Sprintf("lin-%d-%d", phase.Load(), keys.IntN(3)) })
		})
	}
	for id := range 2 {
		wg.Go(func() { rec.session(ctx, w, 10+id, seed) })
	}
	w.watchEtcd(ctx, &wg)
	var p probes
	p.run(ctx, w, &wg)
	w.sameEverywhere(l)
	pause(ctx, 5*time.Second)
	calm := worstOf(&p)
	t.Logf("calm: worst gap of reads %v, of writes %v", calm.reads, calm.writes)
	var worst report
	for round := range rounds {
		order := slices.Clone(harms)
		rnd.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, h := range order {
			phase.Add(1)
			r := w.suffer(l, &p, h)
			t.Logf("%s round %d: %s", time.Now().Format("15:04:05.000"), round, r)
			worst.merge(r)
		}
	}
	w.checkMeasured()
	cancel()
	wg.Wait()
	found := l.settle(t)
	l.check(t, found)
	l.checkLogs(t)
	history.check(t)
	rec.check(t)
	late := slices.Clone(l.late)
	t.Logf("lines: %d seen by followers in calm times, %v after their birth at the median, %v at 99 %%", len(late), percentile(late, 0.5), percentile(late, 0.99))
	if len(late) == 0 {
		t.Error("no line was followed in calm times")
	}
	t.Logf("%d faults; worst: %s", rounds*len(harms), worst)
	worst.line = percentile(late, 0.99)
	worst.write(t)
}

// report is what one fault cost.
type report struct {
	name                  string
	reads, writes, others time.Duration // gaps: in turn, and of servers that were not hurt
	taken, placed         time.Duration // a submit was answered, and its task ran
	attached, healed      time.Duration
	headless              time.Duration // etcd had no leader
	line                  time.Duration // from its birth to every server, 99 %
}

// write leaves the times, in seconds, to `make bench-ha`, which holds them to their bounds: a test on a
// busy machine says what is right, a benchmark how fast it is.
func (r report) write(t *testing.T) {
	path := os.Getenv("FERMI_HA_REPORT")
	if path == "" {
		return
	}
	data, err := json.Marshal(map[string]float64{
		"reads": r.reads.Seconds(), "writes": r.writes.Seconds(), "others": r.others.Seconds(), "line": r.line.Seconds(),
		"placed": r.placed.Seconds(), "headless": r.headless.Seconds(),
	})
	must(t, err)
	must(t, os.WriteFile(path, data, 0o600))
}

func (r report) String() string {
	ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	return fmt.Sprintf("%s: API gap reads %v, writes %v, on a server not hurt %v; a submit was taken after %v and ran after %v, launchers attached after %v; all servers ready %v after mending; etcd without a leader for %v",
		r.name, ms(r.reads), ms(r.writes), ms(r.others), ms(r.taken), ms(r.placed), ms(r.attached), ms(r.healed), ms(r.headless))
}

func (r *report) merge(o report) {
	r.name = "of all"
	r.reads, r.writes, r.others = max(r.reads, o.reads), max(r.writes, o.writes), max(r.others, o.others)
	r.taken, r.placed = max(r.taken, o.taken), max(r.placed, o.placed)
	r.attached, r.healed, r.headless = max(r.attached, o.attached), max(r.healed, o.healed), max(r.headless, o.headless)
}

func worstOf(p *probes) report {
	r := report{reads: p.reads.take(), writes: p.writes.take()}
	for i := range p.each {
		p.each[i].take()
	}
	return r
}

// suffer breaks one thing, measures, mends it, and waits until all is well again.
func (w *world) suffer(l *load, p *probes, h harm) report {
	w.t.Helper()
	l.calm.Store(0)
	worstOf(p)
	w.headless.take()
	begin := time.Now()
	hurt, mend := h.do(w)
	r := report{name: h.name}
	// A new task runs again: whoever leads places, and its launcher found a server.
	name := l.name()
	l.submit(w.t.Context(), w.any, name, 8)
	r.taken = time.Since(begin)
	harness.Eventually(w.t, "a task submitted after "+h.name+" runs", func() bool {
		task, err := client.Get[*api.TrainingTask](w.t.Context(), w.any, "", name)
		return err == nil && (task.Status.Phase == api.PhaseRunning || task.Status.Phase.Finished())
	})
	r.placed = time.Since(begin)
	if r.placed > 5*time.Second {
		w.explain(begin)
	}
	harness.Eventually(w.t, "launchers are attached after "+h.name, func() bool {
		loose, known := l.unattached(w.t.Context())
		return known && loose == 0
	})
	r.attached = time.Since(begin)
	if h.mute {
		w.mute(hurt)
	}
	pause(w.t.Context(), w.span(5*time.Second, 8*time.Second)-time.Since(begin))
	mend()
	mended := time.Now()
	for i := range w.nodes {
		w.waitReady(i)
	}
	r.healed = time.Since(mended)
	r.reads, r.writes, r.headless = p.reads.take(), p.writes.take(), w.headless.take()
	for i := range p.each {
		if gap := p.each[i].take(); !slices.Contains(hurt, i) {
			r.others = max(r.others, gap)
		}
	}
	l.calm.Store(time.Now().UnixNano())
	pause(w.t.Context(), w.span(2*time.Second, 4*time.Second))
	if len(hurt) == 0 {
		// An etcd member is back when it answers, but its connections to the others only with TCP's next
		// try, which comes as late as the cut was long. Until then a second fault would be a third.
		harness.Eventually(w.t, "every etcd member is part of the quorum", w.etcdWhole)
		pause(w.t.Context(), 6*time.Second)
	}
	return r
}

// mute: who is cut off from the truth tells nobody old news.
func (w *world) mute(hurt []int) {
	w.t.Helper()
	c := newObjectClient(w)
	for _, i := range hurt {
		for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
			harness.Eventually(w.t, fmt.Sprintf("server %d refuses %s", i, method), func() bool {
				a := c.call(w.t.Context(), i, method, "/no-such-queue", false, nil)
				return a.status == http.StatusServiceUnavailable && a.reason == "CutOff"
			})
		}
	}
}

// seesEverywhere: a change is told by every server's watch.
func (w *world) seesEverywhere(kind api.Kind, name string) (stop func() time.Duration) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	var wg, synced sync.WaitGroup
	synced.Add(len(w.nodes))
	for i, n := range w.nodes {
		wg.Go(func() {
			seen := false
			_ = n.client.Watch(ctx, kind, client.WatchOptions{}, func(ch client.Change) error {
				if ch.Type == client.Synced {
					synced.Done()
				}
				if ch.Object != nil && ch.Object.GetMeta().Name == name {
					seen = true
					return context.Canceled
				}
				return nil
			})
			if !seen {
				w.t.Errorf("the watch of server %d never told of %s", i, name)
			}
		})
	}
	synced.Wait()
	begin := time.Now()
	return func() time.Duration {
		wg.Wait()
		cancel()
		return time.Since(begin)
	}
}

// sameEverywhere: what only the leader knows is answered alike by every server.
func (w *world) sameEverywhere(l *load) {
	w.t.Helper()
	name := l.name()
	l.submit(w.t.Context(), w.any, name, 30)
	_, err := w.any.Create(w.t.Context(), &api.Queue{Meta: api.Meta{Name: "halted"}, Spec: api.QueueSpec{Paused: true, Projects: []string{api.AllProjects}}}, false)
	must(w.t, err)
	waits := &api.TrainingTask{Meta: api.Meta{Name: "waits"}, Spec: api.TrainingTaskSpec{Queue: "halted", Roles: []api.Role{{
		Name: "worker", Replicas: 1, Command: []string{"true"},
	}}}}
	never := &api.TrainingTask{Meta: api.Meta{Name: "never-fits"}, Spec: api.TrainingTaskSpec{Roles: []api.Role{{
		Name: "worker", Replicas: 1, Command: []string{"true"}, Resources: api.Resources{Accelerators: api.Accelerators{Count: 64}},
	}}}}
	told := w.seesEverywhere(api.KindTrainingTask, "waits")
	_, err = w.any.Submit(w.t.Context(), waits, false)
	must(w.t, err)
	w.t.Logf("watch: every server told of a new task within %v of its submit", told().Round(time.Millisecond))
	for i, n := range w.nodes {
		harness.Eventually(w.t, fmt.Sprintf("server %d shows the attached replica", i), func() bool {
			views, err := n.client.Replicas(w.t.Context(), "", name)
			return err == nil && len(views) == 1 && views[0].Attached && views[0].State == "Running"
		})
	}
	for i, n := range w.nodes { // the task may have ended by now
		harness.Eventually(w.t, fmt.Sprintf("server %d says why", i), func() bool {
			why, err := n.client.Why(w.t.Context(), "", "waits")
			return err == nil && why.Reason == "QueuePaused" && len(why.Evidence) > 0
		})
		harness.Eventually(w.t, fmt.Sprintf("server %d shows the queue", i), func() bool {
			share, err := n.client.Share(w.t.Context(), "halted")
			return err == nil && share.Waiting == 1 && len(share.Waits) == 1 && share.Waits[0].Name == "waits"
		})
		harness.Eventually(w.t, fmt.Sprintf("server %d previews", i), func() bool {
			p, err := n.client.Preview(w.t.Context(), waits)
			return err == nil && p.Reason == "QueuePaused"
		})
		harness.Eventually(w.t, fmt.Sprintf("server %d refuses what can never start", i), func() bool {
			_, err := n.client.Submit(w.t.Context(), never, true)
			return fault.ReasonOf(err) == "NeverFits"
		})
	}
	must(w.t, w.any.Delete(w.t.Context(), api.KindTrainingTask, "", "waits"))
}

// explain prints what the servers said since a moment.
func (w *world) explain(since time.Time) {
	from := since.UTC().Format("15:04:05.000")
	w.t.Logf("this took long; since %s the servers said:", from)
	for i, n := range w.nodes {
		for line := range strings.Lines(n.LogTail()) {
			if _, rest, ok := strings.Cut(line, "T"); ok && rest >= from && strings.HasPrefix(line, "time=") {
				w.t.Logf("server %d: %.300s", i, strings.TrimSpace(line))
			}
		}
	}
}
