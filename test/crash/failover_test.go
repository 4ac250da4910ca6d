package crash

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store/embedded"
	"github.com/fermi-cluster/fermi/test/harness"
)

// TestMain is also the outside etcd of the tests, in processes of its own.
func TestMain(m *testing.M) {
	if text := os.Getenv("FERMI_TEST_MEMBER"); text != "" {
		fmt.Println("failed", serveMember(text))
		os.Exit(1)
	}
	if dir := os.Getenv("FERMI_TEST_ETCD"); dir != "" {
		s, err := embedded.Start(context.Background(), embedded.Config{Dir: dir, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
		fmt.Println("endpoint", s.Endpoint())
		select {}
	}
	os.Exit(m.Run())
}

func outsideEtcd(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "fe")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "FERMI_TEST_ETCD="+filepath.Join(dir, "e"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		os.RemoveAll(dir)
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	endpoint, ok := strings.CutPrefix(strings.TrimSpace(line), "endpoint ")
	if err != nil || !ok {
		t.Fatalf("etcd did not start: %q %v", line, err)
	}
	return endpoint
}

// TestCrashPausedLeader freezes the leader with SIGSTOP until the other server has taken over, and
// lets it go on: what the old leader still had in its hands must change nothing.
func TestCrashPausedLeader(t *testing.T) {
	rnd := seeded(t)
	endpoint := outsideEtcd(t)
	shared, err := os.MkdirTemp("/tmp", "fs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(shared) })
	var servers []*harness.Cluster
	var clients []*client.Client
	for range 2 {
		c, cl := launch(t, "server", "--demo", "--etcd-endpoints", endpoint, "--shared", shared)
		servers, clients = append(servers, c), append(clients, cl)
	}
	t.Cleanup(func() { harness.KillMarked(shared) })
	l := newLoad(t, rnd, 0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { l.run(ctx, clients...) })
	time.Sleep(1500 * time.Millisecond)
	leader, wanted, took := 0, max(1, envInt("FERMI_CRASH_ROUNDS", 3)/3), 0
	for round := 0; took < wanted; round++ {
		if round == 20*wanted {
			t.Fatalf("the other server took over %d times in %d pauses", took, round)
		}
		pause(rnd, time.Second)
		if err := servers[leader].Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		other := 1 - leader
		over, locked := waitStarted(t, clients[other], l, func() bool {
			return writes(t, shared, servers[leader].PID()) || holdsUp(t, servers[leader].PID(), servers[other].PID())
		})
		pause(rnd, time.Second)
		if err := servers[leader].Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		switch {
		case over:
			took++
		case locked:
			// Frozen inside a write of the SQLite file that both share, or inside a change of this machine's networks, it
			// keeps the file's lock until it goes on or dies. Servers with PostgreSQL on machines of their own share
			// nothing that a paused process could hold.
			t.Log("the pause fell into a write of the shared history or into a change of the machine's networks: the other leader could not work meanwhile")
		default:
			t.Errorf("round %d: the other server did not take over", round)
			took = wanted
		}
		leader = other
		pause(rnd, 2*time.Second)
	}
	cancel()
	wg.Wait()
	l.check(t, clients[leader], l.settle(t, clients[leader], shared), nil)
}

// waitStarted waits until a task submitted now has run: a leader is at work. It gives up after a while, and at once
// when the history is locked by who can't go on.
func waitStarted(t *testing.T, c *client.Client, l *load, locked func() bool) (over, inVain bool) {
	t.Helper()
	l.mu.Lock()
	l.next++
	name := fmt.Sprintf("t%05d", l.next)
	l.mu.Unlock()
	begun, acked := time.Now(), false
	for time.Since(begun) < harness.Patience {
		if !acked {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			_, err := c.Submit(ctx, l.j.Task(name, 0.1, 0), false)
			cancel()
			if acked = err == nil || fault.Is(err, fault.Conflict); acked { // an earlier try got through
				l.mu.Lock()
				l.acked[name] = true
				l.mu.Unlock()
			}
		}
		task, err := client.Get[*api.TrainingTask](t.Context(), c, "default", name)
		if acked && err == nil && task.Status.Phase.Finished() {
			return true, false
		}
		// Just stopped, it may still end the system call it was in.
		if time.Since(begun) > 2*time.Second && locked() {
			return false, true
		}
		time.Sleep(50 * time.Millisecond)
	}
	return false, false
}

// holdsUp tells whether a process has the lock of a file for which the other one waits.
func holdsUp(t *testing.T, holder, waiter int) bool {
	t.Helper()
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]bool{} // by their numbers
	for line := range strings.Lines(string(locks)) {
		f := strings.Fields(line) // 1: FLOCK ADVISORY WRITE pid device start end, or 1: -> FLOCK … of who waits for it
		if len(f) > 5 && f[1] == "FLOCK" && f[4] == strconv.Itoa(holder) {
			held[f[0]] = true
		}
		if len(f) > 5 && f[1] == "->" && f[5] == strconv.Itoa(waiter) && held[f[0]] {
			return true
		}
	}
	return false
}

// writes tells whether a process is inside a write of the history in SQLite: of a database with a log the lock
// of who writes is this byte of its shared memory.
func writes(t *testing.T, shared string, pid int) bool {
	t.Helper()
	const writeLock = 120
	file, err := os.Open(filepath.Join(shared, "history.db-shm"))
	if errors.Is(err, os.ErrNotExist) {
		return false // PostgreSQL
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Start: writeLock, Len: 1}
	if err := syscall.FcntlFlock(file.Fd(), syscall.F_GETLK, &lock); err != nil {
		t.Fatal(err)
	}
	return lock.Type != syscall.F_UNLCK && int(lock.Pid) == pid
}
