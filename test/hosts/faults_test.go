package hosts

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
	"github.com/fermi-cluster/fermi/test/hosts/world"
)

// The faults. What they name is hit while a gang trains over all machines, in two zones.
const (
	faultFreeze   = "freeze"    // a machine hangs
	faultDeaf     = "deaf"      // what others send does not reach it
	faultMute     = "mute"      // what it sends reaches nobody
	faultCut      = "cut"       // both
	faultPower    = "power"     // off, with all its processes and memory; back with another boot id
	faultZones    = "zones"     // the way between the two zones is cut
	faultServer   = "server"    // the server is killed, and started again
	faultAgent    = "agent"     // the agent is killed, and started again
	faultLauncher = "launchers" // all launchers of a machine are killed
	faultRank     = "ranks"     // all ranks of a machine are killed
	faultBucket   = "bucket"    // the bucket with logs and outputs is away until all steps were made
)

var faults = []string{faultPower, faultCut, faultRank, faultFreeze, faultMute, faultServer, faultDeaf, faultAgent, faultZones, faultLauncher, faultBucket}

const (
	steps     = 260
	stepTime  = "25ms"
	beginStep = 40 // a fault comes some steps after the first
)

// drill is one fault in one training.
type drill struct {
	fault   string
	elastic bool
	victim  string
	after   int // steps
}

func drillOf(seed, number int, machines []string) drill {
	random := rand.New(rand.NewPCG(uint64(seed), uint64(number)))
	return drill{
		fault: faults[number%len(faults)], elastic: number/len(faults)%2 == number%2, victim: machines[random.IntN(len(machines))], after: beginStep + random.IntN(60),
	}
}

// TestFaults: machines, zones, servers, the bucket, agents and launchers fail while gangs train over four machines in two zones. No machine has two replicas
// at once, no task is lost, each ends with the bits of a run that nothing happened to, and the machines come back.
// FERMI_HOSTS_FAULTS of them, from FERMI_HOSTS_FROM on, of FERMI_HOSTS_SEED.
func TestFaults(t *testing.T) {
	l := newLabOf(t, world.Config{Zones: []world.Zone{{Name: "a", Hosts: 4}, {Name: "b", Hosts: 2}}, Link: world.Link{RTT: 12 * time.Millisecond}}, "a4")
	machines := []string{"a2", "a3", "b1", "b2"}
	l.twoZones(machines)
	l.only(machines...)
	defer l.holders(machines)()
	l.submit("calm", 1, training(false), "fermi", "sample", "train", "--steps", strconv.Itoa(steps), "--shards", "4", "--hidden", "8")
	l.phase("calm", api.PhaseCompleted)
	want := l.model("calm")
	seed, from, n := harness.EnvInt("FERMI_HOSTS_SEED", 1), harness.EnvInt("FERMI_HOSTS_FROM", 0), harness.EnvInt("FERMI_HOSTS_FAULTS", 3)
	for i := from; i < from+n; i++ {
		d := drillOf(seed, i, machines)
		t.Run(fmt.Sprintf("%d-%s", i, d.fault), func(t *testing.T) {
			one := *l
			one.t = t
			one.drill(fmt.Sprint("drill-", i), d, machines, want)
			*l = one
			l.t = t
		})
		if l.t = t; t.Failed() {
			t.Fatalf("FERMI_HOSTS_SEED=%d FERMI_HOSTS_FROM=%d FERMI_HOSTS_FAULTS=1", seed, i)
		}
	}
}

// twoZones has the machines join, those of b in a zone of their own.
func (l *lab) twoZones(machines []string) {
	l.t.Helper()
	if _, err := client.Create(l.t.Context(), l.cl, &api.Zone{Meta: api.Meta{Name: "far"}, Spec: api.ZoneSpec{Region: "r"}}); err != nil {
		l.t.Fatal(err)
	}
	for _, name := range machines {
		zone := "local"
		if strings.HasPrefix(name, "b") {
			zone = "far"
		}
		token, err := client.AddNode(l.t.Context(), l.cl, zone, time.Hour)
		if err != nil {
			l.t.Fatal(err)
		}
		l.agent(name, token.Token)
	}
	for _, name := range machines {
		l.until(name, "ready", func(n *api.Node) bool { return n.Status.Ready })
	}
}

// training fills what all drills have: one replica takes more than half of a machine.
func training(elastic bool) func(*api.TrainingTask) {
	return func(t *api.TrainingTask) {
		r := &t.Spec.Roles[0]
		r.Resources.CPU = 1200
		t.Spec.Restart = &api.RestartPolicy{MaxRestarts: 20}
		t.Spec.Zones = &api.ZoneRules{MaxLatency: api.Duration(50 * time.Millisecond)} // once preflight has measured 12 ms, it has to be asked for
		if elastic {
			low, high := 2, 4
			r.MinReplicas, r.MaxReplicas = &low, &high
		}
	}
}

// drill trains, strikes, heals and compares.
func (l *lab) drill(name string, d drill, machines []string, want string) {
	l.t.Helper()
	l.submit(name, 4, training(d.elastic), "fermi", "sample", "train", "--steps", strconv.Itoa(steps), "--shards", "4", "--hidden", "8", "--log-every", "1", "--step-time", stepTime)
	l.phase(name, api.PhaseRunning)
	id := l.task(name).Meta.ID
	harness.Eventually(l.t, "it makes steps", func() bool { return l.lines(id) >= d.after })
	before, at := l.task(name).Status, time.Now()
	boot := l.w.Host(d.victim).BootID()
	heal := l.strike(d)
	switch d.fault {
	case faultServer, faultAgent:
		heal()
	case faultRank, faultLauncher:
		harness.Eventually(l.t, "it goes on in another generation or attempt", func() bool {
			s := l.task(name).Status
			return s.Phase.Finished() || s.Phase == api.PhaseRunning && (s.Generation > before.Generation || s.Attempt > before.Attempt)
		})
		heal()
	case faultBucket:
		harness.Eventually(l.t, "it makes all its steps", func() bool { return l.lines(id) >= steps })
		heal()
		if s := l.task(name).Status; s.Generation > before.Generation || s.Attempt > before.Attempt {
			l.t.Errorf("it was begun again: attempt %d, generation %d", s.Attempt, s.Generation)
		}
	default: // it is silent, then lost; or it is back before
		harness.Eventually(l.t, "it is found", func() bool {
			s := l.task(name).Status
			return s.Phase.Finished() || s.Generation > before.Generation || s.Attempt > before.Attempt || s.Phase == api.PhasePending || s.Phase == api.PhaseRecovering
		})
		l.t.Logf("%s of %s: found after %s", d.fault, d.victim, time.Since(at).Round(100*time.Millisecond))
		heal()
	}
	l.phase(name, api.PhaseCompleted)
	after := l.task(name).Status
	l.t.Logf("%s of %s, elastic %v: ended after %s, attempt %d, generation %d", d.fault, d.victim, d.elastic, time.Since(at).Round(100*time.Millisecond), after.Attempt, after.Generation)
	if got := l.model(name); got != want {
		l.t.Errorf("the model has other bits: %s, not %s", got, want)
	}
	if d.fault == faultPower && l.w.Host(d.victim).BootID() == boot {
		l.t.Error("the machine has its old boot id")
	}
	for _, m := range machines {
		l.until(m, "ready, and all its devices are open", func(n *api.Node) bool { return n.Status.Ready && len(n.Status.Holds) == 0 })
	}
}

// strike makes the fault; what it returns ends it.
func (l *lab) strike(d drill) (heal func()) {
	l.t.Helper()
	h := l.w.Host(d.victim)
	switch d.fault {
	case faultFreeze:
		h.Freeze()
		return h.Thaw
	case faultDeaf:
		h.Cut(world.In)
		return h.Heal
	case faultMute:
		h.Cut(world.Out)
		return h.Heal
	case faultCut:
		h.Cut(world.Both)
		return h.Heal
	case faultPower:
		h.PowerOff()
		return func() {
			h.Boot()
			l.agent(d.victim, "")
		}
	case faultZones:
		l.w.Link("a", "b", world.Link{Loss: 1})
		return func() { l.w.Link("a", "b", world.Link{RTT: 12 * time.Millisecond}) }
	case faultServer:
		l.kill(l.server)
		return l.serve
	case faultAgent:
		l.kill(l.agents[d.victim])
		return func() { l.agent(d.victim, "") }
	case faultBucket:
		l.kill(l.bucket.cmd)
		return l.bucket.open
	case faultLauncher:
		killAll(h, "launch")
	case faultRank:
		killAll(h, "sample")
	}
	return func() {}
}

// killAll kills the program's processes with this verb on a host.
func killAll(h *world.Host, verb string) {
	for _, pid := range h.Processes() {
		raw, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if args := strings.Split(string(raw), "\x00"); len(args) > 1 && strings.HasSuffix(args[0], "fermi") && args[1] == verb {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
			}
		}
	}
}

func (l *lab) task(name string) *api.TrainingTask {
	l.t.Helper()
	var task *api.TrainingTask
	harness.Eventually(l.t, "the server answers", func() bool {
		o, err := l.cl.Get(l.t.Context(), api.KindTrainingTask, "default", name)
		if err == nil {
			task = o.(*api.TrainingTask)
		}
		return err == nil
	})
	return task
}

// lines is how many steps of a task were written down, by whoever was rank 0, on all machines.
func (l *lab) lines(id string) (n int) {
	for _, h := range l.w.Hosts("") {
		files, _ := filepath.Glob(filepath.Join(h.Disk(), "agent", "engine", "replicas", id+"-worker-*", "output", "metrics.jsonl"))
		for _, file := range files {
			raw, _ := os.ReadFile(file)
			n += bytes.Count(raw, []byte("\n"))
		}
	}
	return n
}

// model is the sum of the model that a task left.
func (l *lab) model(name string) string {
	l.t.Helper()
	outs, err := l.cl.Outputs(l.t.Context(), "default", name)
	if err != nil {
		l.t.Fatal(err)
	}
	at := slices.IndexFunc(outs, func(o client.Output) bool { return strings.HasSuffix(o.Path, "model.json") })
	if at < 0 {
		l.t.Fatalf("%s left no model: %+v", name, outs)
	}
	r, _, err := l.cl.OpenOutput(l.t.Context(), "default", name, outs[at].Path)
	if err != nil {
		l.t.Fatal(err)
	}
	defer r.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, r); err != nil {
		l.t.Fatal(err)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// holders watches until it is told to stop that no machine has the ranks of two replicas at once: each takes more than half of it.
func (l *lab) holders(machines []string) (stop func()) {
	t, over := l.t, make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(100 * time.Millisecond):
			}
			for _, name := range machines {
				if on := replicasOn(l.w.Host(name)); len(on) > 1 {
					t.Errorf("%s has two replicas at once: %v", name, on)
				}
			}
		}
	})
	return func() {
		close(over)
		wg.Wait()
	}
}

// replicasOn are the replicas that have ranks on a host.
func replicasOn(h *world.Host) (out []string) {
	for _, pid := range h.Processes() {
		raw, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
		for _, v := range strings.Split(string(raw), "\x00") {
			name, ok := strings.CutPrefix(v, "FERMI_REPLICA=")
			if ok && bytes.Contains(raw, []byte("\x00RANK=")) && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}
