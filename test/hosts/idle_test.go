package hosts

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
)

// What an agent may cost where nothing runs.
const (
	idleMemory = 40 << 20
	idleShare  = 0.005 // of a core
	idleFor    = 30 * time.Second
)

// agentPid is the process of a host's agent.
func (l *lab) agentPid(name string) int {
	l.t.Helper()
	mark := "\x00agent\x00--data\x00" + filepath.Join(l.w.Host(name).Disk(), "agent")
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		raw, _ := os.ReadFile(file)
		if line := "\x00" + string(raw); strings.Contains(line, mark) && strings.HasPrefix(string(raw), l.bin+"\x00") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				l.t.Fatal(err)
			}
			return pid
		}
	}
	l.t.Fatalf("no agent of %s", name)
	return 0
}

// memory is a line of a process's status, in bytes.
func memory(t *testing.T, pid int, key string) int64 {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(raw), "\n") {
		if rest, ok := strings.CutPrefix(line, key+":"); ok {
			kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatal("no", key)
	return 0
}

// worked is how long a process has had a core.
func worked(t *testing.T, pid int) time.Duration {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	var ticks int64
	for _, f := range fields[11:13] { // utime, stime
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * (time.Second / 100)
}

// TestIdle: what an agent costs where nothing runs.
func TestIdle(t *testing.T) {
	l := newLab(t, 2)
	l.join("a2")
	pid := l.agentPid("a2")
	l.until("a2", "reported", func(n *api.Node) bool { return n.Spec.CPU > 0 })
	before, begun := worked(t, pid), time.Now()
	for time.Since(begun) < idleFor { // a server that looks at its node is what there is in rest
		l.until("a2", "ready", func(n *api.Node) bool { return n.Status.Ready })
		<-clock.Real.After(idleFor / 10)
	}
	share := float64(worked(t, pid)-before) / float64(time.Since(begun))
	own, all := memory(t, pid, "RssAnon"), memory(t, pid, "VmRSS")
	t.Logf("an idle agent: %.2f %% of a core, %d MiB of its own, %d MiB with the pages of the program", 100*share, own>>20, all>>20)
	if path := os.Getenv("FERMI_IDLE_REPORT"); path != "" {
		raw, err := json.Marshal(map[string]float64{"percent": 100 * share, "ownMiB": float64(own) / (1 << 20), "allMiB": float64(all) / (1 << 20)})
		if err == nil {
			err = os.WriteFile(path, raw, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		return // whoever asked compares
	}
	if share > idleShare || own > idleMemory {
		t.Errorf("at most %.1f %% and %d MiB are allowed", 100*idleShare, idleMemory>>20)
	}
}
