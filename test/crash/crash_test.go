package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/history/pgstore/pgtest"
	"github.com/fermi-cluster/fermi/test/harness"
)

// running is how many tasks are kept alive at a time.
const running = 20

func envInt(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

func seeded(t *testing.T) *rand.Rand {
	seed := uint64(envInt("FERMI_CRASH_SEED", int(time.Now().UnixNano()&0xffff)))
	t.Logf("seed %d (FERMI_CRASH_SEED=%d repeats it)", seed, seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// load submits tasks without pause through kills and keeps what was acknowledged.
type load struct {
	j       harness.Journal
	mu      sync.Mutex
	acked   map[string]bool
	rnd     *rand.Rand
	restart int
	next    int
}

func (l *load) run(ctx context.Context, clients ...*client.Client) {
	for ctx.Err() == nil {
		l.mu.Lock()
		l.next++
		name, to := fmt.Sprintf("t%05d", l.next), clients[l.next%len(clients)]
		seconds := 0.3 + l.rnd.Float64()*2
		l.mu.Unlock()
		task := l.j.Task(name, seconds, l.restart)
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		_, err := to.Submit(short, task, false)
		cancel()
		if err == nil {
			l.mu.Lock()
			l.acked[name] = true
			l.mu.Unlock()
		}
		select { // 20 alive of about 1.3 s each
		case <-ctx.Done():
		case <-time.After(1300 * time.Millisecond / running):
		}
	}
}

// settle waits until every acknowledged task has finished.
func (l *load) settle(t *testing.T, c *client.Client, data string) map[string]*api.TrainingTask {
	t.Helper()
	deadline := time.Now().Add(harness.Patience)
	for {
		found, open := map[string]*api.TrainingTask{}, 0
		err := c.Walk(t.Context(), api.KindTrainingTask, client.ListOptions{Limit: 500}, func(o api.Object) bool {
			task := o.(*api.TrainingTask)
			found[task.Meta.Name] = task
			if !task.Status.Phase.Finished() {
				open++
			}
			return true
		})
		if err == nil && open == 0 {
			return found
		}
		if time.Now().After(deadline) {
			for _, task := range found {
				if !task.Status.Phase.Finished() {
					t.Logf("%s %s: %s (%s) attempt %d generation %d %+v", task.Meta.Name, task.Meta.ID, task.Status.Phase, task.Status.Reason, task.Status.Attempt, task.Status.Generation, task.Status.Replicas)
					t.Log(folders(data, task.Meta.ID))
				}
			}
			t.Fatalf("%d tasks have not finished; %v", open, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// folders shows what is on disk of a task that did not finish.
func folders(data, taskID string) string {
	var b strings.Builder
	dirs, _ := filepath.Glob(filepath.Join(data, "engine", "replicas", taskID+"-*"))
	for _, dir := range dirs {
		fmt.Fprintln(&b, dir)
		files, _ := os.ReadDir(dir)
		for _, f := range files {
			raw, _ := os.ReadFile(filepath.Join(dir, f.Name()))
			fmt.Fprintf(&b, "  %s: %.2000s\n", f.Name(), raw)
		}
	}
	return b.String()
}

// checkUsage: every stay is charged once and to its end, whatever was killed.
func (l *load) checkUsage(t *testing.T, c *client.Client, found map[string]*api.TrainingTask) {
	t.Helper()
	checked := 0
	for name, task := range found {
		rows, err := c.Replicas(t.Context(), task.Meta.Project, name)
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) != task.Status.Attempt {
			t.Errorf("%s: %d rows of usage for %d attempts", name, len(rows), task.Status.Attempt)
		}
		checked += len(rows)
	}
	u, err := c.Usage(t.Context(), client.UsageOptions{By: "project", From: "1h"})
	if err != nil || len(u.Items) != 1 {
		t.Fatalf("usage: %+v %v", u, err)
	}
	if s := u.Items[0]; s.Running != 0 || s.Replicas != checked {
		t.Errorf("%d stays charged, %d of them still running, for %d replicas", s.Replicas, s.Running, checked)
	}
}

// check holds the promises: killed names the replicas whose launcher the test itself killed.
func (l *load) check(t *testing.T, c *client.Client, found map[string]*api.TrainingTask, killed map[string]bool) {
	t.Helper()
	starts, ends, err := l.j.Lives()
	if err != nil {
		t.Fatal(err)
	}
	for name := range l.acked {
		task := found[name]
		if task == nil {
			t.Errorf("%s was acknowledged and is lost", name)
			continue
		}
		if task.Status.Phase != api.PhaseCompleted {
			t.Errorf("%s ended %s (%s): %+v", name, task.Status.Phase, task.Status.Reason, task.Status.Failure)
		}
	}
	for replica, n := range starts {
		if n > 1 {
			t.Errorf("%s was started %d times", replica, n)
		}
		if ends[replica] != 1 && !killed[replica] {
			t.Errorf("%s was started and did not end by itself (%d ends)", replica, ends[replica])
		}
	}
	attempts := 0
	for _, task := range found {
		attempts += task.Status.Attempt
	}
	l.checkUsage(t, c, found)
	t.Logf("%d tasks acknowledged, %d known, %d process starts, %d attempts, %d launchers killed by the test", len(l.acked), len(found), len(starts), attempts, len(killed))
	if len(l.acked) == 0 || len(starts) == 0 {
		t.Error("nothing ran: the test proves nothing")
	}
}

func newLoad(t *testing.T, rnd *rand.Rand, restart int) *load {
	dir := harness.Folder(t)
	own := rand.New(rand.NewPCG(rnd.Uint64(), 2)) // beside the test, which goes on with its own
	return &load{j: harness.Journal{Path: filepath.Join(dir, "journal")}, acked: map[string]bool{}, rnd: own, restart: restart}
}

// databases are the ones made for tests under way, by the test's name.
var databases sync.Map

// pastArgs keep the history of a test's servers in one PostgreSQL database when there is a
// PostgreSQL (make e2e-postgres), and in SQLite otherwise.
func pastArgs(t *testing.T) []string {
	t.Helper()
	if os.Getenv(pgtest.Variable) == "" {
		return nil
	}
	url, there := databases.Load(t.Name())
	if !there {
		url = pgtest.New(t)
		databases.Store(t.Name(), url)
		t.Cleanup(func() { databases.Delete(t.Name()) })
	}
	return []string{"--history-url", url.(string)}
}

// launch starts a server that ends with the test, also when it is paused.
func launch(t *testing.T, verb string, args ...string) (*harness.Cluster, *client.Client) {
	t.Helper()
	bin, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	c, err := harness.New(bin, verb, append(args, pastArgs(t)...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.LogTail())
		}
		_ = c.Signal(syscall.SIGCONT)
		c.Cleanup()
	})
	start(t, c)
	cl, err := c.Client()
	if err == nil {
		err = harness.Share(t.Context(), cl)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c, cl
}

func start(t *testing.T, c *harness.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
}

func pause(rnd *rand.Rand, most time.Duration) { time.Sleep(time.Duration(rnd.Int64N(int64(most)))) }

func TestCrashServer(t *testing.T) {
	rnd := seeded(t)
	c, cl := launch(t, "up", "--demo")
	l := newLoad(t, rnd, 0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { l.run(ctx, cl) })
	time.Sleep(1500 * time.Millisecond) // let the 20 come up
	for range envInt("FERMI_CRASH_ROUNDS", 3) {
		pause(rnd, 1500*time.Millisecond)
		c.Kill()
		pause(rnd, 500*time.Millisecond)
		start(t, c)
	}
	cancel()
	wg.Wait()
	l.check(t, cl, l.settle(t, cl, c.Dir), nil)
}

func TestCrashLauncher(t *testing.T) {
	rnd := seeded(t)
	c, cl := launch(t, "up", "--demo")
	l := newLoad(t, rnd, 100)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { l.run(ctx, cl) })
	time.Sleep(1500 * time.Millisecond)
	killed := map[string]bool{}
	for i := range 2 * envInt("FERMI_CRASH_ROUNDS", 3) {
		pause(rnd, 500*time.Millisecond)
		if name := killLauncher(c.Dir, rnd); name != "" {
			killed[name] = true
		}
		if i%5 == 4 { // and both at once
			c.Kill()
			if name := killLauncher(c.Dir, rnd); name != "" {
				killed[name] = true
			}
			start(t, c)
		}
	}
	cancel()
	wg.Wait()
	l.check(t, cl, l.settle(t, cl, c.Dir), killed)
	if left := orphans(killed); len(left) > 0 {
		t.Errorf("processes of killed launchers still run: %v", left)
	}
}

// killLauncher kills one launcher at random and says whose.
func killLauncher(data string, rnd *rand.Rand) string {
	dirs, _ := filepath.Glob(filepath.Join(data, "engine", "replicas", "task-*"))
	rnd.Shuffle(len(dirs), func(i, j int) { dirs[i], dirs[j] = dirs[j], dirs[i] })
	for _, dir := range dirs {
		raw, err := os.ReadFile(filepath.Join(dir, record.FileLauncher))
		if err != nil {
			continue
		}
		var p record.Process
		if json.Unmarshal(raw, &p) != nil || !p.Alive() {
			continue
		}
		if syscall.Kill(p.PID, syscall.SIGKILL) == nil {
			return filepath.Base(dir)
		}
	}
	return ""
}

// orphans finds processes that carry a killed replica's mark.
func orphans(killed map[string]bool) []string {
	var left []string
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		environ, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err != nil {
			continue
		}
		for v := range strings.SplitSeq(string(environ), "\x00") {
			if name, ok := strings.CutPrefix(v, "FERMI_REPLICA="); ok && killed[name] {
				left = append(left, name)
			}
		}
	}
	return left
}
