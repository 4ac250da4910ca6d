package world

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The test binary is also what runs on hosts (envEcho: answers at this address with what it gets) and the run that is killed.
const (
	envEcho   = "WORLD_TEST_ECHO"
	envKilled = "WORLD_TEST_KILLED"
)

func TestMain(m *testing.M) {
	if at := os.Getenv(envEcho); at != "" {
		fmt.Println(echo(at))
		os.Exit(1)
	}
	Main(m)
}

func echo(at string) error {
	l, err := net.Listen("tcp", at)
	if err != nil {
		return err
	}
	fmt.Println("listening")
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			_, _ = io.Copy(conn, conn)
		}()
	}
}

const port = 7000

// answers starts the echo on a host and waits until it listens.
func answers(t *testing.T, h *Host) *Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := h.Command(exe)
	cmd.Env = append(os.Environ(), envEcho+"="+h.At(port))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "listening\n" {
		t.Fatal(line, err)
	}
	return cmd
}

// dial connects from one host to another.
func dial(t *testing.T, from, to *Host) net.Conn {
	t.Helper()
	conn, err := tryDial(from, to, 20*time.Second)
	if err != nil {
		t.Fatalf("from %s to %s: %v", from.Name(), to.Name(), err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func tryDial(from, to *Host, within time.Duration) (conn net.Conn, err error) {
	err = from.Do(func() (err error) {
		conn, err = net.DialTimeout("tcp", to.At(port), within)
		return err
	})
	return conn, err
}

// ping is how long a few bytes take there and back: half of the time at most median, and least when nothing else was done meanwhile.
func ping(t *testing.T, conn net.Conn) (least, median time.Duration) {
	t.Helper()
	var took []time.Duration
	for range 15 {
		at := time.Now()
		say(t, conn)
		took = append(took, time.Since(at))
	}
	slices.Sort(took)
	return took[0], took[len(took)/2]
}

// say sends a word and waits until it comes back.
func say(t *testing.T, conn net.Conn) {
	t.Helper()
	word := []byte("ping")
	if _, err := conn.Write(word); err != nil {
		t.Fatal(err)
	}
	hear(t, conn, len(word))
}

func hear(t *testing.T, conn net.Conn, n int) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, n)); err != nil {
		t.Fatal(err)
	}
}

// isSilent says that nothing comes for a moment, not even an end.
func isSilent(t *testing.T, conn net.Conn) bool {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	n, err := conn.Read(make([]byte, 1))
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}

// TestLinks: a round trip takes what was asked, and not within a zone; a lossy link loses; a narrow one takes its time.
func TestLinks(t *testing.T) {
	const rtt = 24 * time.Millisecond
	w := New(t, Config{Zones: []Zone{{"a", 2}, {"b", 1}}, Link: Link{RTT: rtt, Jitter: 2 * time.Millisecond}})
	a1, a2, b1 := w.Host("a1"), w.Host("a2"), w.Host("b1")
	answers(t, a2)
	answers(t, b1)
	far, near := dial(t, a1, b1), dial(t, a1, a2)
	if least, median := ping(t, far); median < rtt-2*time.Millisecond || least > 3*rtt {
		t.Errorf("a round trip between zones took %v to %v; asked for %v", least, median, rtt)
	}
	if least, _ := ping(t, near); least > rtt/2 {
		t.Errorf("a round trip within a zone took %v", least)
	}
	w.Link("a", "b", Link{RTT: 4 * rtt})
	if least, median := ping(t, far); median < 4*rtt || least > 8*rtt {
		t.Errorf("a round trip took %v to %v after it was asked to take %v", least, median, 4*rtt)
	}

	w.Link("a", "b", Link{Loss: 1})
	if conn, err := tryDial(a1, b1, 300*time.Millisecond); err == nil {
		conn.Close()
		t.Error("a link that loses everything let a connection through")
	}
	w.Link("a", "b", Link{})
	say(t, dial(t, a1, b1))

	const rate, size = 2 << 20, 1 << 20
	w.Link("a", "b", Link{Rate: rate})
	conn, at := dial(t, a1, b1), time.Now()
	go func() { _, _ = conn.Write(make([]byte, size)) }()
	hear(t, conn, size)
	if got := time.Since(at); got < 300*time.Millisecond { // half a second, less the burst
		t.Errorf("%d bytes took %v at %d a second", size, got, rate)
	}
}

// TestCut: cut off one way, the other way is open.
func TestCut(t *testing.T) {
	w := New(t, Config{Zones: []Zone{{"a", 1}, {"b", 2}}})
	a1, b1, b2 := w.Host("a1"), w.Host("b1"), w.Host("b2")
	sockets := map[*Host]*net.UDPConn{}
	for _, h := range w.Hosts("") {
		if err := h.Do(func() (err error) {
			sockets[h], err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(h.Addr(), port)))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		defer sockets[h].Close()
	}
	send := func(from, to *Host, text string) {
		t.Helper()
		if _, err := sockets[from].WriteToUDPAddrPort([]byte(text), netip.AddrPortFrom(to.Addr(), port)); err != nil {
			t.Fatal(err)
		}
	}
	next := func(h *Host) string {
		t.Helper()
		buf := make([]byte, 64)
		if err := sockets[h].SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := sockets[h].Read(buf)
		if err != nil {
			t.Fatalf("%s heard nothing: %v", h.Name(), err)
		}
		return string(buf[:n])
	}
	for _, far := range []*Host{a1, b2} { // the neighbours' addresses are known then, and nothing waits for an answer
		send(far, b1, "hello")
		next(b1)
		send(b1, far, "hello")
		next(far)
	}
	for _, tc := range []struct {
		which     Way
		hears, is bool // b1 hears others, others hear it
	}{{Out, true, false}, {In, false, true}, {Both, false, false}} {
		for _, far := range []*Host{a1, b2} {
			b1.Cut(tc.which)
			send(far, b1, "to")
			send(b1, far, "from")
			if tc.hears {
				if got := next(b1); got != "to" {
					t.Errorf("cut %d: b1 heard %q of %s", tc.which, got, far.Name())
				}
			}
			if tc.is {
				if got := next(far); got != "from" {
					t.Errorf("cut %d: %s heard %q", tc.which, far.Name(), got)
				}
			}
			// What was sent while it was cut off would still be on its way between zones.
			for range 2 {
				send(b2, a1, "wait")
				next(a1)
				send(a1, b2, "wait")
				next(b2)
			}
			b1.Heal()
			send(far, b1, "after")
			send(b1, far, "after")
			for _, h := range []*Host{b1, far} { // whatever came before this was not dropped
				if got := next(h); got != "after" {
					t.Errorf("cut %d: %s heard %q of what was cut", tc.which, h.Name(), got)
				}
			}
		}
	}
	b1.Unplug()
	send(a1, b1, "unplugged")
	b1.Plug()
}

// TestFreeze: a frozen host says nothing, and goes on where it was.
func TestFreeze(t *testing.T) {
	w := New(t, Config{Zones: []Zone{{"a", 2}}})
	a1, a2 := w.Host("a1"), w.Host("a2")
	answers(t, a2)
	conn := dial(t, a1, a2)
	say(t, conn)
	a2.Freeze()
	if _, err := conn.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	if !isSilent(t, conn) {
		t.Error("a frozen host answered")
	}
	if err := a2.Command("true").Run(); err == nil {
		t.Error("a program started on a frozen host")
	}
	a2.Thaw()
	hear(t, conn, 4)
	if err := a2.Command("true").Run(); err != nil {
		t.Error(err)
	}
}

// TestPower: a power cut is silent, memory is gone and the disk is not, and the boot id is another.
func TestPower(t *testing.T) {
	w := New(t, Config{Zones: []Zone{{"a", 1}, {"b", 1}}})
	a1, b1 := w.Host("a1"), w.Host("b1")
	read := func(h *Host, path string) string {
		t.Helper()
		text, err := h.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(text)
	}
	const bootFile = "/proc/sys/kernel/random/boot_id"
	first := read(b1, bootFile)
	if own, err := os.ReadFile(bootFile); err != nil || first == strings.TrimSpace(string(own)) || first == read(a1, bootFile) || first != b1.BootID() {
		t.Errorf("boot id %s of b1, %s of a1, %s of the machine (%v)", first, read(a1, bootFile), own, err)
	}
	if id := read(b1, "/etc/machine-id"); len(id) != 32 || id != b1.MachineID() || id == a1.MachineID() {
		t.Errorf("machine id %q", id)
	}
	if name := read(b1, "/proc/sys/kernel/hostname"); name != "b1" {
		t.Errorf("its name is %q", name)
	}
	if groups := read(b1, "/proc/self/cgroup"); strings.Contains(groups, markPrefix) {
		t.Errorf("it sees the machine's groups: %s", groups)
	}
	if out, err := b1.Command("ls", "/sys/class/net").Output(); err != nil || strings.Join(strings.Fields(string(out)), " ") != "eth0 lo" {
		t.Errorf("its interfaces are %q, %v", out, err)
	}
	mark := "of " + b1.BootID()
	for _, dir := range []string{"/dev/shm", "/run", "/etc", "/var/lib", b1.Disk()} {
		cmd := b1.Command("sh", "-c", `echo "$1" >"$2"`, "sh", mark, filepath.Join(dir, mark))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatal(err, string(out))
		}
	}
	for _, dir := range []string{"/dev/shm", "/run", "/etc", "/var/lib"} {
		if _, err := os.Stat(filepath.Join(dir, mark)); err == nil {
			t.Errorf("what the host wrote in %s is on the machine", dir)
		}
	}
	work := answers(t, b1)
	far := dial(t, a1, b1)
	say(t, far)
	b1.Freeze() // a power cut takes frozen processes, too
	pids := b1.Processes()
	b1.PowerOff()
	if !isSilent(t, far) {
		t.Error("a host without power closed its connection")
	}
	if err := work.Wait(); err == nil {
		t.Error("its process ended well")
	}
	for _, pid := range pids {
		if err := unix.Kill(pid, 0); err == nil {
			t.Errorf("process %d of %d lives", pid, len(pids))
		}
	}
	if len(pids) < 2 {
		t.Errorf("only %d processes were found", len(pids))
	}
	if err := b1.Command("true").Run(); !errors.Is(err, errOff) {
		t.Errorf("a program on a host without power: %v", err)
	}

	machine := b1.MachineID()
	b1.Boot()
	if second := read(b1, bootFile); second == first || second != b1.BootID() {
		t.Errorf("boot id %s after %s", second, first)
	}
	if id := read(b1, "/etc/machine-id"); id != machine {
		t.Errorf("machine id %s after %s", id, machine)
	}
	for dir, stays := range map[string]bool{"/dev/shm": false, "/run": false, "/etc": true, "/var/lib": true, b1.Disk(): true} {
		_, err := b1.ReadFile(filepath.Join(dir, mark))
		if (err == nil) != stays {
			t.Errorf("a file in %s after the power cut: %v", dir, err)
		}
	}
	b1.SetMachineID(a1.MachineID())
	if id := read(b1, "/etc/machine-id"); id != a1.MachineID() {
		t.Errorf("machine id %s of a cloned disk", id)
	}
	answers(t, b1)
	say(t, dial(t, a1, b1))
	conn, err := net.DialTimeout("tcp", b1.At(port), 20*time.Second) // from the machine itself
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	say(t, conn)
}

// TestNothingIsLeft: neither after a test, nor after one that was killed with a frozen host.
func TestNothingIsLeft(t *testing.T) {
	if os.Getenv(envKilled) != "" {
		w := New(t, Config{Zones: []Zone{{"a", 1}, {"b", 1}}})
		if err := w.Host("a1").Command("sleep", "3600").Start(); err != nil {
			t.Fatal(err)
		}
		w.Host("a1").Freeze()
		fmt.Printf("made %d %s\n", w.number, filepath.Base(w.dir))
		select {}
	}
	number, mark := -1, ""
	t.Run("ended", func(t *testing.T) {
		w := New(t, Config{Zones: []Zone{{"a", 1}, {"b", 1}}})
		number, mark = w.number, filepath.Base(w.dir)
		if err := w.Host("a1").Command("sleep", "3600").Start(); err != nil {
			t.Fatal(err)
		}
	})
	if mark == "" {
		t.Skip("no world was made")
	}
	nothingIsLeft(t, number, mark)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestNothingIsLeft$", "-test.v")
	cmd.Env = append(os.Environ(), envKilled+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, err := fmt.Sscanf(lines.Text(), "made %d %s", &number, &mark); err == nil {
			break
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if isLeft(mark) != true {
		t.Errorf("%q is not known to be left", mark)
	}
	sweep(t)
	nothingIsLeft(t, number, mark)
}

// nothingIsLeft waits: the kernel removes interfaces after their processes.
func nothingIsLeft(t *testing.T, number int, mark string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		left := leftOf(number, mark)
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("left: %v", left)
		}
	}
}

// leftOf looks for anything of a world.
func leftOf(number int, mark string) (out []string) {
	links, _ := netlink.LinkList()
	for _, l := range links {
		if strings.HasPrefix(l.Attrs().Name, fmt.Sprintf("fworld%dz", number)) {
			out = append(out, l.Attrs().Name)
		}
	}
	if _, err := os.Stat(filepath.Join(os.TempDir(), mark)); err == nil {
		out = append(out, mark)
	}
	all, _ := mountedGroups()
	for _, h := range all {
		_ = filepath.WalkDir(h.Mount, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() && d.Name() == mark {
				out = append(out, path)
			}
			return nil
		})
	}
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && strings.Contains(string(data), mark) {
			out = append(out, file)
		}
	}
	return out
}
