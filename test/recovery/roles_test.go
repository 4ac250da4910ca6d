package recovery

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/test/harness"
)

// serveProgram answers everybody who connects to $FERMI_PORT with who it is.
const serveProgram = `
import os, socket, time
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("", int(os.environ["FERMI_PORT"])))
s.listen()
who = " ".join([str(time.time_ns())] + [os.environ[n] for n in ("FERMI_RANK", "FERMI_WORLD_SIZE", "FERMI_GENERATION")])
while True:
    c, _ = s.accept()
    c.sendall(who.encode())
    c.close()
`

// hearProgram serves too, and keeps what its launcher says.
const hearProgram = `
import json, os, socket, threading
def hear():
    s = socket.socket(socket.AF_UNIX)
    s.connect(os.environ["FERMI_SOCKET"])
    hello = {"pid": os.getpid(), "rank": int(os.environ["FERMI_RANK"]), "generation": int(os.environ["FERMI_GENERATION"]), "version": "test"}
    s.sendall((json.dumps({"hello": hello}) + "\n").encode())
    with open(os.environ["FERMI_OUTPUT"] + "/words", "ab", 0) as f:
        for line in s.makefile("rb"):
            f.write(line)
threading.Thread(target=hear, daemon=True).start()
` + serveProgram

// who is what a replica answers.
type who struct{ born, rank, world, generation int }

// ask gets the answer of the process that listens there; zero: nobody does.
func ask(address string) (w who) {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return w
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	text, _ := io.ReadAll(conn)
	_, _ = fmt.Sscan(string(text), &w.born, &w.rank, &w.world, &w.generation)
	return w
}

// roles is an RLHF-like task: actors, and reward replicas that restart by themselves.
type roles struct {
	*world
	training
}

func (r *roles) addresses(pid int, role string) []string {
	raw, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	for _, kv := range strings.Split(string(raw), "\x00") {
		if v, ok := strings.CutPrefix(kv, "FERMI_ROLE_"+role+"_ADDRS="); ok {
			return strings.Split(v, ",")
		}
	}
	return nil
}

// all asks until every address answers, and ok says that it is what was waited for.
func (r *roles) all(what string, addresses []string, ok func([]who) bool) (found []who) {
	r.t.Helper()
	r.eventually(what, func() bool {
		found = nil
		for _, a := range addresses {
			if one := ask(a); one.born != 0 {
				found = append(found, one)
			}
		}
		return len(found) == len(addresses) && ok(found)
	})
	return found
}

// pidOf finds a rank by its environment: behind a wall it does not know its number itself.
func (r *roles) pidOf(role string, index int) (pid int) {
	r.t.Helper()
	r.eventually("a process of "+role, func() bool {
		for _, pid = range harness.Processes("FERMI_TASK_ID="+r.id, "FERMI_ROLE="+role, "FERMI_INDEX="+strconv.Itoa(index)) {
			if r.addresses(pid, "REWARD") != nil {
				return true
			}
		}
		return false
	})
	return pid
}

// heard is the newest addresses of the reward role that actor 0 was told over its socket.
func (r *roles) heard() []string {
	files, _ := filepath.Glob(filepath.Join(r.c.Dir, "engine", "replicas", r.id+"-actor-0-*", "output", "words"))
	var newest []string
	for _, file := range files {
		raw, _ := os.ReadFile(file)
		for line := range strings.Lines(string(raw)) {
			var w struct {
				Roles map[string]struct{ Addresses []string } `json:"roles"`
			}
			if json.Unmarshal([]byte(line), &w) == nil && w.Roles["reward"].Addresses != nil {
				newest = w.Roles["reward"].Addresses
			}
		}
	}
	return newest
}

// TestRoles: whoever dies in a role that restarts by itself, rank or launcher, takes no other role
// with it; all roles reach each other before and after.
func TestRoles(t *testing.T) {
	w := newWorld(t)
	part := func(name, program string, restart api.RoleRestart) api.Role {
		return api.Role{
			Name: name, Replicas: 2, Restart: restart, Resources: api.Resources{CPU: 100, Memory: 1 << 28},
			Command: []string{"python3", "-c", program},
		}
	}
	_, err := w.cl.Submit(t.Context(), &api.TrainingTask{Meta: api.Meta{Name: "rlhf"}, Spec: api.TrainingTaskSpec{
		Restart: &api.RestartPolicy{MaxRestarts: 5},
		Roles:   []api.Role{part("actor", hearProgram, ""), part("reward", serveProgram, api.RestartRole)},
	}}, false)
	if err != nil {
		t.Fatal(err)
	}
	r := &roles{w, training{"rlhf", w.task("rlhf").Meta.ID}}
	pid := r.pidOf("actor", 0)
	actorAt, rewardAt := r.addresses(pid, "ACTOR"), r.addresses(pid, "REWARD")
	any := func([]who) bool { return true }
	actors, rewards := r.all("actors", actorAt, any), r.all("rewards", rewardAt, any)
	if actors[1].rank != 1 || rewards[0].rank != 0 || rewards[1].rank != 1 || actors[0].world != 2 || rewards[0].world != 2 {
		t.Errorf("ranks: %+v %+v", actors, rewards)
	}
	same := func(was []who) func([]who) bool {
		return func(is []who) bool { return slices.Equal(was, is) }
	}
	r.eventually("it runs", func() bool { return r.task("rlhf").Status.Phase == api.PhaseRunning })

	// A rank: the same addresses, and all of its role anew.
	kill(t, r.pidOf("reward", 1))
	r.all("the next generation of rewards", rewardAt, func(is []who) bool {
		return is[0].generation == 2 && is[1].generation == 2
	})
	r.all("the same actors", actorAt, same(actors))

	// A launcher: other addresses, which the actors are told.
	r.killLauncher("reward", 0)
	r.eventually("new addresses", func() bool { at := r.heard(); return at != nil && !slices.Equal(at, rewardAt) })
	rewardAt = r.heard()
	rewards = r.all("the next attempt of rewards", rewardAt, any)
	r.all("the same actors", actorAt, same(actors))
	r.eventually("it runs again", func() bool { return r.task("rlhf").Status.Phase == api.PhaseRunning })
	if s := r.task("rlhf").Status; s.Attempt != 1 || s.Generation != 1 || len(s.Roles) != 1 || s.Roles[0].Attempt != 2 || s.Roles[0].Generation != 3 || len(s.Restarts) != 2 {
		t.Errorf("%+v", s)
	}

	// And the other way round.
	kill(t, r.pidOf("actor", 0))
	r.all("the next generation of actors", actorAt, func(is []who) bool { return is[0].generation == 2 && is[1].generation == 2 })
	r.all("the same rewards", rewardAt, same(rewards))
}

// killLauncher kills the one of a role's first attempt.
func (r *roles) killLauncher(role string, index int) {
	r.t.Helper()
	files, _ := filepath.Glob(filepath.Join(r.c.Dir, "engine", "replicas", fmt.Sprintf("%s-%s-%d-1", r.id, role, index), "launcher.json"))
	if len(files) != 1 {
		r.t.Fatalf("launchers: %v", files)
	}
	var launcher struct {
		PID int `json:"pid"`
	}
	raw, err := os.ReadFile(files[0])
	if err != nil || json.Unmarshal(raw, &launcher) != nil || launcher.PID == 0 {
		r.t.Fatal(err, string(raw))
	}
	kill(r.t, launcher.PID)
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}
