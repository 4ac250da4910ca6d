package attack

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cores"
	"github.com/fermi-cluster/fermi/test/harness"
)

// TestQuotas: a member takes no queue that is another project's, and no priority that it was not given.
func TestQuotas(t *testing.T) {
	w := invade(t, true)
	w.must("queue", "create", "vips", "--projects", other)
	task := shell(lab, "greedy", "true")
	task.Spec.Queue = "vips"
	_, err := w.mal.Submit(t.Context(), task, false)
	w.refused("another project's queue", err, "vips")
	_, err = w.mal.Preview(t.Context(), task)
	w.refused("a preview in another project's queue", err, "vips")
	task.Spec.Queue = ""
	for _, p := range []int{10_000, 1_000_000} {
		high := p
		task.Spec.Priority = &high
		_, err = w.mal.Submit(t.Context(), task, false)
		w.refused(fmt.Sprintf("priority %d", p), err, "spec.priority")
	}
	// The control: whoever was given the queue may use it.
	task = shell(other, "mine", "true")
	task.Spec.Queue = "vips"
	_, err = w.vic.Submit(t.Context(), task, false)
	w.do(err)
	if done := w.ends(w.vic, other, "mine"); done.Status.Phase != api.PhaseCompleted {
		t.Errorf("%+v", done.Status.Failure)
	}
	// Nor does it change the rules.
	for _, args := range [][]string{
		{"queue", "set", "vips", "--projects", lab}, {"queue", "create", "own", "--projects", lab}, {"project", "set", lab, "--max-priority", "1000000"},
		{"project", "add-member", other, "mal"}, {"user", "create", "friend", "--role", "admin"},
	} {
		if out, errs, code := w.run(w.malToken, args...); code == 0 {
			t.Errorf("a member did %v: %s %s", args, out, errs)
		}
	}
	w.hold("quotas")
}

// TestTokens: as many as are allowed, and none that lives longer than its maker.
func TestTokens(t *testing.T) {
	w := invade(t, true)
	short := time.Now().Add(time.Hour)
	made, err := w.mal.CreateToken(t.Context(), &api.Token{Meta: api.Meta{Name: "short"}, Spec: api.TokenSpec{ExpiresAt: &short, Scope: api.ScopeTasks}}, false)
	w.do(err)
	heir, err := client.New(client.Config{Server: "http://" + w.Addr, Token: made.Secret})
	w.do(err)
	for _, spec := range []api.TokenSpec{{}, {Scope: api.ScopeAdmin}} {
		got, err := heir.CreateToken(t.Context(), &api.Token{Meta: api.Meta{Name: "heir-" + string(spec.Scope)}, Spec: spec}, false)
		if err == nil && (got.Object.Spec.ExpiresAt == nil || got.Object.Spec.ExpiresAt.After(short) || got.Object.Spec.Scope != api.ScopeTasks) {
			t.Errorf("a token of an hour made one of %+v", got.Object.Spec)
		}
	}
	for i := range 2_000 {
		if _, err = w.mal.CreateToken(t.Context(), &api.Token{Meta: api.Meta{Name: fmt.Sprintf("many-%d", i)}}, false); err != nil {
			break
		}
	}
	w.refused("tokens without end", err, "token", "Token")
	w.hold("tokens")
}

// TestFaultyBody: an answer to a body of mistakes is small and quick.
func TestFaultyBody(t *testing.T) {
	w := invade(t, true)
	before := resident(t, w.PID())
	var body bytes.Buffer
	body.WriteString(`{"metadata":{"name":"x"},"spec":{"roles":[{"name":"worker","command":["true"]}]`)
	for i := range 420_000 {
		fmt.Fprintf(&body, `,"unknown%d":1`, i)
	}
	body.WriteString("}}")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+w.Addr+"/api/v1/training-tasks?project="+lab, &body)
	w.do(err)
	req.Header.Set("Authorization", "Bearer "+w.malToken)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	w.do(err)
	answer, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	w.do(err)
	if resp.StatusCode/100 != 4 || len(answer) > 256<<10 {
		t.Errorf("status %d, an answer of %d bytes", resp.StatusCode, len(answer))
	}
	if n := bytes.Count(answer, []byte("unknown")); n > 250 {
		t.Errorf("%d faults in an answer", n)
	}
	if grown := resident(t, w.PID()) - before; grown > 400<<20 {
		t.Errorf("the server grew by %d MiB", grown>>20)
	}
	w.works("after-faults")
}

func resident(t *testing.T, pid int) int64 {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(raw))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// TestProcesses: a fork bomb ends at its replica's limit, and the other tenant does not notice.
func TestProcesses(t *testing.T) {
	w := invade(t, true)
	bomb := shell(lab, "bomb", `echo lit; i=0; while [ $i -lt 6000 ]; do sleep 60 & i=$((i+1)); done; echo all of them; wait`)
	bomb.Spec.Roles[0].Resources.Memory = 4 << 30
	w.launch(bomb)
	w.says(w.mal, lab, "bomb", "lit")
	w.works("beside-a-bomb")
	harness.Eventually(t, "the bomb is at its end", func() bool {
		log := w.log(lab, "bomb")
		if strings.Contains(log, "all of them") {
			t.Fatal("6,000 processes in one replica")
		}
		task, err := client.Get[*api.TrainingTask](t.Context(), w.mal, lab, "bomb")
		w.do(err)
		return task.Status.Phase.Finished() || strings.Contains(log, "fork")
	})
	w.do(w.mal.Stop(t.Context(), lab, "bomb"))
	w.ends(w.mal, lab, "bomb")
	w.hold("processes")
}

// TestDevices: device files that were not assigned stay closed, also to who may write there.
func TestDevices(t *testing.T) {
	w := invade(t, true)
	w.launch(shell(lab, "devices", `for d in null zero full random urandom; do head -c1 /dev/$d >/dev/null 2>&1 || test $d = null || echo "usual $d closed"; done
for f in /dev/kmsg /dev/mem /dev/kvm /dev/fuse /dev/net/tun /dev/vd? /dev/sd? /dev/loop* /dev/nvidia[0-9]*; do test -e $f && dd if=$f of=/dev/null count=1 bs=1 iflag=nonblock 2>/dev/null && echo "opened $f"; done; echo tried`))
	said := w.says(w.mal, lab, "devices", "tried")
	if strings.Contains(said, "opened ") || strings.Contains(said, "usual ") {
		t.Error(said)
	}
	w.ends(w.mal, lab, "devices")
	w.hold("devices")
}

// TestMachine: a folder of the machine that anybody may write to is no place for a tenant's files: they would count nowhere, stay, and be
// seen by other projects. What a replica has of its own may be written to.
func TestMachine(t *testing.T) {
	w := invade(t, true)
	_, err := w.vic.Submit(t.Context(), shell(other, "beside", "echo here; sleep 1000"), false)
	w.do(err)
	w.says(w.vic, other, "beside", "here")
	victim, err := client.Get[*api.TrainingTask](t.Context(), w.vic, other, "beside")
	w.do(err)
	task := shell(lab, "machine", fmt.Sprintf(`find /sys/fs/cgroup -name '*-worker-0-*'; for f in $(find /sys/fs/cgroup -path "*$FERMI_REPLICA*" -name pids.max); do echo "limit $(cat $f)"; done
	for d in $(find / -xdev -type d -perm -0002 2>/dev/null) /run/lock %[1]s/open; do
		case $d in /proc/*) continue;; esac
		touch $d/mallory-was-here 2>/dev/null && echo "WROTE $d" && rm -f $d/mallory-was-here
	done
	for d in $HOME $FERMI_OUTPUT $TMPDIR /tmp /var/tmp /dev/shm $FERMI_SHM . %[1]s/shared; do touch $d/mine && echo "own $d" || echo "NOT $d"; done
	: > /dev/null && test -w /dev/ptmx && echo devices; python3 -c 'import pty; print("terminal", pty.openpty())'; echo tried`, w.base))
	task.Spec.Code = &api.Code{Folder: "shared"}
	w.launch(task)
	w.ends(w.mal, lab, "machine")
	log := w.log(lab, "machine")
	if strings.Contains(log, victim.Meta.ID) {
		t.Errorf("mallory sees groups of others:\n%s", log)
	}
	for line := range strings.Lines(log) {
		at, ok := strings.CutPrefix(strings.TrimSpace(line), "WROTE ")
		if ok && !slices.Contains([]string{"/tmp", "/var/tmp", "/dev/shm"}, at) && !strings.HasPrefix(at, filepath.Join(w.base, "shared")) {
			t.Errorf("mallory wrote to the machine: %s", line)
		}
	}
	if strings.Contains(log, "NOT ") || !strings.Contains(log, "tried") || !strings.Contains(log, "limit 4") || !strings.Contains(log, "devices") || !strings.Contains(log, "terminal (") {
		t.Errorf("the control:\n%s", log)
	}
	w.hold("the machine's folders")
}

// TestDisk: who writes more than it asked for is ended by name.
func TestDisk(t *testing.T) {
	w := invade(t, true)
	for _, where := range []string{"$FERMI_OUTPUT", "/tmp", "$HOME"} {
		name := "disk-" + strings.ToLower(strings.Trim(where, "$/_FERMI"))
		task := shell(lab, name, fmt.Sprintf(`i=0; while [ $i -lt 400 ]; do head -c 1048576 /dev/zero > %s/f$i || break; i=$((i+1)); done; echo wrote; sleep 600`, where))
		task.Spec.Roles[0].Resources.EphemeralDisk = 64 << 20
		w.launch(task)
		done := w.ends(w.mal, lab, name)
		if f := done.Status.Failure; f == nil || !strings.Contains(fmt.Sprintf("%+v", *f), "Disk") {
			t.Errorf("%s: %s %+v", where, done.Status.Phase, f)
		}
	}
	w.works("after-disk")
	w.hold("disk")
}

// TestMain lets the test binary play the attacker of TestCalm, who asks from a machine of his own too.
func TestMain(m *testing.M) {
	server, noise := os.LookupEnv("FERMI_NOISE")
	if !noise {
		os.Exit(m.Run())
	}
	mal, err := client.New(client.Config{Server: server, Token: os.Getenv("FERMI_TOKEN"), Language: "en"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for i, ctx := 0, context.Background(); ; i++ { // until we are killed
		task := shell(lab, fmt.Sprintf("noise-%d", i), "i=0; while [ $i -lt 500 ]; do sleep 5 & i=$((i+1)); done; head -c 50000000 /dev/zero > $FERMI_OUTPUT/x; seq 1 100000")
		_, _ = mal.Submit(ctx, task, false)
		if _, err := mal.List(ctx, api.KindTrainingTask, client.ListOptions{Project: lab}); err == nil {
			fmt.Println(i)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// TestCalm: the other tenant's p99 stays within twice of what it is without an attack. It is a measure, so it is taken
// only where FERMI_CALM asks for it.
func TestCalm(t *testing.T) {
	if os.Getenv("FERMI_CALM") == "" {
		t.Skip("a measure: make e2e-attack takes it, a sample does not")
	}
	w := invade(t, true)
	// The other tenant asks from a machine of its own: here it must not wait for a core that the attack has.
	if err := cores.Nice(-15); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cores.Nice(0) }()
	calm := w.p99()
	attack := exec.Command(os.Args[0])
	attack.Env = append(os.Environ(), "FERMI_NOISE=http://"+w.Addr, "FERMI_TOKEN="+w.malToken)
	attack.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	var rounds bytes.Buffer
	attack.Stdout, attack.Stderr = &rounds, os.Stderr
	w.do(attack.Start())
	loud := w.p99()
	_ = attack.Process.Kill()
	_ = attack.Wait()
	n := strings.Count(rounds.String(), "\n")
	t.Logf("p99 of the other tenant: %v calm, %v under attack (%d rounds of it)", calm, loud, n)
	if n == 0 {
		t.Error("the attack never got an answer")
	}
	if loud > 2*calm {
		t.Errorf("p99 %v under attack, %v without", loud, calm)
	}
}

// p99 is that of the other tenant's reads and submits.
func (w *world) p99() time.Duration {
	w.t.Helper()
	var took []time.Duration
	for i := range 400 {
		began := time.Now()
		if i%8 == 0 {
			task := shell(other, "", "true")
			task.Meta.DisplayName = "calm"
			_, err := w.vic.Submit(w.t.Context(), task, true)
			w.do(err)
		} else {
			_, err := w.vic.List(w.t.Context(), api.KindTrainingTask, client.ListOptions{Project: other})
			w.do(err)
		}
		took = append(took, time.Since(began))
		time.Sleep(10 * time.Millisecond)
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}
