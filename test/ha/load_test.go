package ha

import (
	"context"
	"encoding/json"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/test/harness"
)

// load submits tasks through every server, and follows their logs through every server.
type load struct {
	w *world

	mu       sync.Mutex
	acked    map[string]int // task → lines it prints
	next     int
	followed int
	faults   []string        // what followers saw go wrong
	calm     atomic.Int64    // since when nothing is broken, so that lines must be quick; 0: something is
	late     []time.Duration // from a line's birth to every server's follower, while calm
}

func (l *load) name() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	return fmt.Sprintf("t%05d", l.next)
}

// task prints its lines with their time of birth, and writes to the journal outside of Fermi.
func (l *load) task(name string, lines int) *api.TrainingTask {
	script := fmt.Sprintf(`echo "S $FERMI_REPLICA $$" >> %[1]s
i=0; while [ $i -lt %[2]d ]; do echo "line $i $(date +%%s%%N)"; i=$((i+1)); sleep 0.3; done
echo "E $FERMI_REPLICA $$" >> %[1]s`, filepath.Base(l.w.journal), lines)
	return &api.TrainingTask{
		Meta: api.Meta{Name: name},
		// As the code folder the journal's is seen by the task, and nothing else of /tmp.
		Spec: api.TrainingTaskSpec{Code: &api.Code{Folder: filepath.Dir(l.w.journal)}, Roles: []api.Role{{
			Name: "worker", Replicas: 1, Command: []string{"/bin/sh", "-c", script},
			Resources: api.Resources{CPU: 1000, Memory: 1 << 28, Accelerators: api.Accelerators{Count: 1 + len(name)%2}},
		}}},
	}
}

// submit tries one server until it knows: the same name twice is refused, so a second try is safe.
func (l *load) submit(ctx context.Context, c *client.Client, name string, lines int) bool {
	for ctx.Err() == nil {
		try, cancel := context.WithTimeout(ctx, 3*time.Second)
		_, err := c.Submit(try, l.task(name, lines), false)
		cancel()
		if err == nil || fault.ReasonOf(err) == "NameTaken" {
			l.mu.Lock()
			l.acked[name] = lines
			l.mu.Unlock()
			return true
		}
		pause(ctx, 100*time.Millisecond)
	}
	return false
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// run submits through one server, about one task in two seconds.
func (l *load) run(ctx context.Context, i int) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for k := 0; ctx.Err() == nil; k++ {
		name, lines := l.name(), 4+(k*7)%23
		if l.submit(ctx, l.w.nodes[i].client, name, lines) {
			through := (i + k) % len(l.w.nodes)
			wg.Go(func() { l.follow(name, lines, through) })
		}
		pause(ctx, 1800*time.Millisecond)
	}
}

// follow reads a task's log as it grows, through one server whatever happens to it.
func (l *load) follow(name string, lines, through int) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	next := 0
	var lost atomic.Int64 // until when lines may be late because this client has to find back
	opts := client.LogOptions{Follow: true, Lost: func(error) { lost.Store(time.Now().Add(4 * time.Second).UnixNano()) }}
	err := l.w.nodes[through].client.Logs(ctx, "", name, opts, func(line client.LogLine) error {
		at, born := parseLine(line.Text)
		if at != next {
			return fmt.Errorf("line %d came where %d was due", at, next)
		}
		next++
		if since := l.calm.Load(); since > 0 && born.UnixNano() > max(since, lost.Load()) {
			l.mu.Lock()
			l.late = append(l.late, time.Since(born))
			l.mu.Unlock()
		}
		return nil
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.followed++
	if err != nil || next != lines {
		l.faults = append(l.faults, fmt.Sprintf("%s followed through server %d: %d of %d lines, %v", name, through, next, lines, err))
	}
}

func parseLine(text string) (int, time.Time) {
	f := strings.Fields(text)
	if len(f) != 3 || f[0] != "line" {
		return -1, time.Time{}
	}
	n, _ := strconv.Atoi(f[1])
	ns, _ := strconv.ParseInt(f[2], 10, 64)
	return n, time.Unix(0, ns)
}

// settle waits until everything has finished.
func (l *load) settle(t *testing.T) map[string]*api.TrainingTask {
	t.Helper()
	var found map[string]*api.TrainingTask
	harness.Eventually(l.w.t, "every task has finished", func() bool {
		found = map[string]*api.TrainingTask{}
		open := 0
		err := l.w.any.Walk(t.Context(), api.KindTrainingTask, client.ListOptions{Limit: 500}, func(o api.Object) bool {
			task := o.(*api.TrainingTask)
			found[task.Meta.Name] = task
			if !task.Status.Phase.Finished() {
				open++
			}
			return true
		})
		return err == nil && open == 0
	})
	return found
}

// check holds the promises about tasks.
func (l *load) check(t *testing.T, found map[string]*api.TrainingTask) {
	t.Helper()
	starts, ends, err := harness.Journal{Path: l.w.journal}.Lives()
	must(t, err)
	for name := range l.acked {
		switch task := found[name]; {
		case task == nil:
			t.Errorf("%s was acknowledged and is lost", name)
		case task.Status.Phase != api.PhaseCompleted || task.Status.Attempt != 1:
			t.Errorf("%s ended %s (%s) after %d attempts: %+v", name, task.Status.Phase, task.Status.Reason, task.Status.Attempt, task.Status.Failure)
		}
	}
	for replica, n := range starts {
		if n > 1 || ends[replica] != 1 {
			t.Errorf("%s was started %d times and ended by itself %d times", replica, n, ends[replica])
		}
	}
	for _, f := range l.faults {
		t.Error(f)
	}
	if len(l.acked) == 0 || len(starts) < len(l.acked) || l.followed == 0 {
		t.Errorf("%d tasks, %d starts, %d followed: the test proves nothing", len(l.acked), len(starts), l.followed)
	}
	t.Logf("tasks: %d acknowledged, %d process starts, none twice; %d logs followed to the end", len(l.acked), len(starts), l.followed)
}

// checkLogs reads every log from every server.
func (l *load) checkLogs(t *testing.T) {
	t.Helper()
	total := 0
	for name, lines := range l.acked {
		for i, n := range l.w.nodes {
			next := 0
			err := n.client.Logs(t.Context(), "", name, client.LogOptions{}, func(line client.LogLine) error {
				if at, _ := parseLine(line.Text); at != next {
					return fmt.Errorf("line %d came where %d was due", at, next)
				}
				next++
				return nil
			})
			if err != nil || next != lines {
				t.Errorf("%s read from server %d: %d of %d lines, %v", name, i, next, lines, err)
			}
			total += next
		}
	}
	t.Logf("logs: %d lines read, complete and in order from every server", total)
}

// unattached are the replicas that run without their launcher being attached to any server, by the
// word of whoever leads; false: nobody could say.
func (l *load) unattached(ctx context.Context) (int, bool) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	page, err := l.w.any.List(ctx, api.KindTrainingTask, client.ListOptions{Limit: 100, Phase: []string{string(api.PhaseRunning)}})
	if err != nil {
		return 0, false
	}
	loose := 0
	for _, o := range page.Items {
		views, err := l.w.any.Replicas(ctx, "", o.GetMeta().Name)
		if err != nil {
			return 0, false
		}
		for _, v := range views {
			if v.State == "Running" && !v.Attached {
				loose++
			}
		}
	}
	return loose, len(page.Items) > 0
}

// placements follows etcd's own history of who has which device.
type placements struct {
	mu     sync.Mutex
	by     map[string]map[uint32]uint64 // placement → node → devices
	events int
	double []string
}

func watchPlacements(ctx context.Context, c *clientv3.Client) *placements {
	p := &placements{by: map[string]map[uint32]uint64{}}
	ch := c.Watch(ctx, "/fermi/v1/placements/", clientv3.WithPrefix(), clientv3.WithRev(1))
	go func() {
		for resp := range ch {
			for _, ev := range resp.Events {
				p.take(string(ev.Kv.Key), ev.Type == clientv3.EventTypeDelete, ev.Kv.Value)
			}
			if err := resp.Err(); err != nil {
				p.mu.Lock()
				p.double = append(p.double, "the history has a gap: "+err.Error())
				p.mu.Unlock()
			}
		}
	}()
	return p
}

func (p *placements) take(key string, deleted bool, value []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events++
	delete(p.by, key)
	if deleted {
		return
	}
	var o api.Placement
	if err := json.Unmarshal(value, &o); err != nil {
		p.double = append(p.double, fmt.Sprintf("%s can't be read: %v", key, err))
		return
	}
	mine := map[uint32]uint64{}
	for _, r := range o.Spec.Roles {
		for _, s := range r.Slots {
			if mine[s.Node]&s.Devices != 0 {
				p.double = append(p.double, fmt.Sprintf("%s has a device twice", key))
			}
			mine[s.Node] |= s.Devices
		}
	}
	for other, has := range p.by {
		for node, mask := range mine {
			if both := has[node] & mask; both != 0 {
				p.double = append(p.double, fmt.Sprintf("%d devices of node %d are held by %s and %s", bits.OnesCount64(both), node, other, key))
			}
		}
	}
	p.by[key] = mine
}

func (p *placements) check(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.double {
		t.Error(d)
	}
	if p.events == 0 {
		t.Error("no placement was seen: the test proves nothing")
	}
	t.Logf("placements: %d changes walked in etcd's history, no device held twice", p.events)
}

func percentile(list []time.Duration, p float64) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[min(len(list)-1, int(float64(len(list))*p))]
}

func envInt(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}
