package cgroup

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// entered runs a shell behind the group's door, as the launcher's process 1 starts ranks, and returns what
// it printed.
func entered(t *testing.T, g *Group, script string) string {
	t.Helper()
	door, err := g.Door()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", "read go; "+script)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := g.AddPID(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if door != nil {
		defer door.Close()
		if err := g.Work(cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = in.Write([]byte("go\n"))
	_ = in.Close()
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		_ = g.Kill(syscall.SIGKILL)
		t.Fatalf("it did not end: %s", out.String())
	}
	return out.String()
}

// A fork bomb has no more processes than its limit, and the launcher beside it can still start one.
func TestForkBomb(t *testing.T) {
	s := Detect()
	if !s.Limited("pids") {
		t.Skip("no limit on processes here")
	}
	const limit = 40
	g := newGroup(t, s, Limits{Pids: limit})
	if got := g.ProcessLimit(); got != limit {
		t.Fatal(got)
	}
	keeper := start(t, g, "/bin/sleep", "1000") // stands where a launcher does
	out := entered(t, g, `i=0; while [ $i -lt 200 ]; do sleep 1000 >/dev/null 2>&1 & i=$((i+1)); done; echo made all`)
	if strings.Contains(out, "made all") {
		t.Errorf("200 processes under a limit of %d: %s", limit, out)
	}
	pids, err := g.Pids()
	if err != nil || len(pids) > limit+1 || len(pids) < limit/2 {
		t.Errorf("%d processes, %v", len(pids), err)
	}
	if n, err := g.ForksRefused(); err != nil || n == 0 {
		t.Errorf("ForksRefused = %d, %v", n, err)
	}
	if pid := start(t, g, "/bin/true"); pid <= 0 {
		t.Error("the launcher could not start anything beside a bomb")
	}
	if err := unix.Kill(keeper, 0); err != nil {
		t.Error(err)
	}
	guest, err := g.Guest("guest")
	if err != nil {
		t.Fatal(err)
	}
	if got := guest.ProcessLimit(); got != limit {
		t.Errorf("a guest may have %d", got)
	}
	eventually(t, "all were killed", func() bool {
		_ = g.Kill(syscall.SIGKILL)
		for {
			if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
		pids, err := g.Pids()
		return err == nil && len(pids) == 0
	})
}

// Only the usual pseudo devices and those that were given can be opened, also through a file of one's own.
func TestDevicesRule(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes device files")
	}
	for name, s := range supports(t) {
		t.Run(name, func(t *testing.T) {
			if err := s.rules(); err != nil {
				t.Skipf("no devices rule here: %v", err)
			}
			s.Rules = true
			dir := t.TempDir()
			node := func(name string, major, minor uint32) string {
				path := filepath.Join(dir, name)
				if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(major, minor))); err != nil {
					t.Skipf("no device files here: %v", err)
				}
				return path
			}
			// 1:11 is kmsg, 10:229 fuse, 5:1 the console: real devices that exist on every machine.
			given, other, self := node("given", 1, 11), node("other", 10, 235), filepath.Join(dir, "self")
			g := newGroup(t, s, Limits{Devices: true, Open: DevicesOf([]string{given, dir, filepath.Join(dir, "none")})})
			open := func(path string) string {
				return `if (: <` + path + `) 2>/dev/null; then echo open; else echo closed; fi;`
			}
			out := entered(t, g, open(given)+open(other)+open("/dev/null")+open("/dev/urandom")+`mknod `+self+` c 10 235 && echo made;`+open(self)+
				`echo x >/dev/null && echo wrote`)
			if got, want := strings.Fields(out), "open closed open open made closed wrote"; strings.Join(got, " ") != want {
				t.Errorf("%s\nwant %s", out, want)
			}
			// Without the rule the other one opens, so the test tests something.
			if f, err := os.Open(other); err == nil {
				_ = f.Close()
			} else if err := unix.Access(other, unix.R_OK); err != nil {
				t.Logf("%s can't be opened here at all: %v", other, err)
			}
			if out := entered(t, newGroup(t, s, Limits{}), open(given)); strings.TrimSpace(out) != "open" {
				t.Errorf("without a rule: %s", out)
			}
		})
	}
}

func TestProgramOfTheDevicesRule(t *testing.T) {
	for i, d := range []Device{{Major: 195, Minor: 0}, {Major: 136, Minor: -1}, {Block: true, Major: 8, Minor: 1}} {
		if want := []string{"c 195:0", "c 136:*", "b 8:1"}[i]; d.String() != want {
			t.Errorf("%s, want %s", d, want)
		}
	}
	var many []Device
	for i := range 64 {
		many = append(many, Device{Major: 195, Minor: int64(i)})
	}
	if n := len(program(many)); n > 4096 {
		t.Errorf("%s instructions", strconv.Itoa(n))
	}
}
