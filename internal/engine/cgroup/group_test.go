package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain lets the test binary play the user's program: it eats memory until somebody objects.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "eat-memory" {
		var held [][]byte
		for range 256 {
			b := make([]byte, 1<<20)
			for i := range b {
				b[i] = byte(i)
			}
			held = append(held, b)
		}
		fmt.Println(len(held))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// supports are what can be tried here: what Detect found, and the bare unified tree beside it.
func supports(t *testing.T) map[string]Support {
	t.Helper()
	s := Detect()
	if s.Version == 0 {
		t.Skipf("no cgroups here: %s", s.Reason.EN)
	}
	all := map[string]Support{s.String(): s}
	if s.Version == 1 {
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		self, err := os.ReadFile("/proc/self/cgroup")
		if err != nil {
			t.Fatal(err)
		}
		if two := detectUnified(parseHierarchies(string(mounts), string(self))); two.Version == 2 {
			all["unified without controllers"] = two
		}
	}
	return all
}

func newGroup(t *testing.T, s Support, limits Limits) *Group {
	t.Helper()
	name := fmt.Sprintf("test-%d-%d", os.Getpid(), time.Now().UnixNano())
	g, err := s.Create(name, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = g.Kill(syscall.SIGKILL)
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
		for _, p := range g.Paths {
			if _, err := os.Stat(p); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is still there", p)
			}
		}
	})
	return g
}

func start(t *testing.T, g *Group, argv ...string) int {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	fd := null.Fd()
	// A shell that begins with "read" goes on only when Start has returned, as a launcher does.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	pid, err := g.Start(argv[0], argv, &syscall.ProcAttr{
		Dir: "/", Env: []string{"PATH=/bin:/usr/bin"}, Files: []uintptr{r.Fd(), fd, fd},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Kill(pid, unix.SIGKILL) // unreaped, so the pid is still its own
		_, _ = unix.Wait4(pid, nil, 0, nil)
	})
	return pid
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func TestStartFindKillRemove(t *testing.T) {
	for name, s := range supports(t) {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, s, Limits{})
			// Two children, one of them in a session of its own and orphaned.
			pid := start(t, g, "/bin/sh", "-c", "read x; setsid sh -c 'sleep 1000 & exit' & sleep 1000")
			// A member when Start returns.
			if pids, err := g.Pids(); err != nil || !slices.Contains(pids, pid) {
				t.Fatalf("Pids = %v, %v; want %d", pids, err, pid)
			}
			for _, p := range g.Paths {
				if pids, _ := pidsOf(p); !slices.Contains(pids, pid) {
					t.Errorf("%s has %v, not %d", p, pids, pid)
				}
			}
			eventually(t, "the two sleepers are members", func() bool {
				pids, err := g.Pids()
				if err != nil {
					t.Fatal(err)
				}
				n := 0
				for _, p := range pids {
					if c, _ := os.ReadFile("/proc/" + strconv.Itoa(p) + "/comm"); strings.TrimSpace(string(c)) == "sleep" {
						n++
					}
				}
				return n == 2
			})
			eventually(t, "all were killed", func() bool {
				if err := g.Kill(syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
				pids, err := g.Pids()
				return err == nil && len(pids) == 0
			})
			if err := g.Remove(); err != nil {
				t.Fatal(err)
			}
			if pids, err := g.Pids(); len(pids) != 0 || err != nil {
				t.Errorf("a removed group has %v, %v", pids, err)
			}
			if err := g.Remove(); err != nil {
				t.Errorf("second Remove: %v", err)
			}
		})
	}
}

func TestManyStartsAtOnce(t *testing.T) {
	s := Detect()
	if s.Version == 0 {
		t.Skipf("no cgroups here: %s", s.Reason.EN)
	}
	var groups []*Group
	for range 10 {
		groups = append(groups, newGroup(t, s, Limits{}))
	}
	done := make(chan bool)
	for _, g := range groups {
		go func() {
			defer func() { done <- true }()
			pid := start(t, g, "/bin/sleep", "1000")
			if pids, err := g.Pids(); err != nil || !slices.Equal(pids, []int{pid}) {
				t.Errorf("Pids = %v, %v; want only %d", pids, err, pid)
			}
		}()
	}
	for range groups {
		<-done
	}
}

func TestCreateTwiceIsOne(t *testing.T) {
	for name, s := range supports(t) {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, s, Limits{})
			again, err := s.Create(filepath.Base(g.Paths[0]), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(g.Paths, again.Paths) {
				t.Errorf("%v and %v", g.Paths, again.Paths)
			}
		})
	}
}

// TestBehind: all replicas together weigh less than one other service of the machine.
func TestBehind(t *testing.T) {
	for version, s := range supports(t) {
		newGroup(t, s, Limits{})
		root := s.Roots["cpu"]
		if root == "" {
			continue // that tree has no controllers
		}
		file, ordinary := filepath.Join(root, folder, "cpu.shares"), int64(1024)
		if s.Version == 2 {
			file, ordinary = filepath.Join(root, folder, "cpu.weight"), 100
		}
		if n, err := readInt(file); err != nil || n < 2 || n > ordinary/8 {
			t.Errorf("%s: replicas weigh %d against %d of others: %v", version, n, ordinary, err)
		}
	}
}

func TestAddPID(t *testing.T) {
	for name, s := range supports(t) {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, s, Limits{})
			var outside *Group
			pid := start(t, outside, "/bin/sleep", "1000")
			if err := g.AddPID(pid); err != nil {
				t.Fatal(err)
			}
			if pids, err := g.Pids(); err != nil || !slices.Equal(pids, []int{pid}) {
				t.Errorf("Pids = %v, %v; want %d", pids, err, pid)
			}
		})
	}
}

func TestRemoveWithProcessesIsAnError(t *testing.T) {
	s := Detect()
	if s.Version == 0 {
		t.Skipf("no cgroups here: %s", s.Reason.EN)
	}
	g := newGroup(t, s, Limits{})
	start(t, g, "/bin/sleep", "1000")
	if err := removeTree(g.Paths[0]); !errors.Is(err, unix.EBUSY) {
		t.Errorf("removeTree = %v; want EBUSY", err)
	}
}

func TestMemoryLimit(t *testing.T) {
	s := Detect()
	if !s.Limited("memory") {
		t.Skipf("no memory limits here: %s", s.Reason.EN)
	}
	g := newGroup(t, s, Limits{Memory: 64 << 20, CPU: 4000, Pids: 100})
	if free := newGroup(t, s, Limits{}); g.MemoryLimit() != 64<<20 || free.MemoryLimit() != 0 || (*Group)(nil).MemoryLimit() != 0 {
		t.Errorf("limits %v and %v", g.MemoryLimit(), free.MemoryLimit())
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pid := start(t, g, exe, "eat-memory")
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, 0, nil); err != nil {
		t.Fatal(err)
	}
	if !status.Signaled() || status.Signal() != unix.SIGKILL {
		t.Fatalf("ended with %v; want SIGKILL", status)
	}
	if n, err := g.OOMKills(); n < 1 || err != nil {
		t.Errorf("OOMKills = %d, %v", n, err)
	}
	cpu, _, peak, err := g.Usage()
	if err != nil || cpu <= 0 || peak < 32<<20 || peak > 65<<20 {
		t.Errorf("Usage = %v, peak %d, %v", cpu, peak, err)
	}
}

func TestUsageOfTheLiving(t *testing.T) {
	for name, s := range supports(t) {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, s, Limits{})
			start(t, g, "/bin/sh", "-c", "read x; x=$(head -c 300000 /dev/urandom | base64); while :; do :; done")
			eventually(t, "it used CPU and memory", func() bool {
				cpu, rss, _, err := g.Usage()
				if err != nil {
					t.Fatal(err)
				}
				return cpu > 0 && rss > 0
			})
		})
	}
}

func TestCreateRefused(t *testing.T) {
	if _, err := Detect().Create("../x", Limits{}); err == nil {
		t.Error("a name with a path was accepted")
	}
	s := none(nil)
	if s.Reason.EN == "" || s.Reason.ZH == "" || s.String() != "none" {
		t.Errorf("nothing is permitted, and it says %+v", s)
	}
	if _, err := s.Create("x", Limits{}); err == nil {
		t.Error("a group was made where none can be")
	}
}

func BenchmarkStart(b *testing.B) {
	s := Detect()
	if s.Version == 0 {
		b.Skipf("no cgroups here: %s", s.Reason.EN)
	}
	for b.Loop() {
		g, err := s.Create("bench", Limits{CPU: 1000, Memory: 1 << 30})
		if err != nil {
			b.Fatal(err)
		}
		pid, err := g.Start("/bin/true", []string{"true"}, &syscall.ProcAttr{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := unix.Wait4(pid, nil, 0, nil); err != nil {
			b.Fatal(err)
		}
		if err := g.Remove(); err != nil {
			b.Fatal(err)
		}
	}
}
