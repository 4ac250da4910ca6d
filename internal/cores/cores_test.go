package cores

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestWhatIsBorrowedGoesBack(t *testing.T) {
	before := Own()
	defer Have(before)
	want := func(n int) {
		t.Helper()
		if got := runtime.GOMAXPROCS(0); got != n {
			t.Fatalf("%d instead of %d", got, n)
		}
	}
	Have(1)
	one := Borrow(2)
	want(3)
	two := Borrow(1)
	want(4)
	Have(2) // meanwhile
	want(5)
	one()
	one()
	want(3)
	if Own() != 2 {
		t.Fatalf("its own share is %d", Own())
	}
	two()
	want(2)
}

// TestNice: threads that are there and processes that they start have the priority, and so has the session of a process that leads
// one; it goes back. The test runs as such a process: every other test of the machine may be in the session that it was started in.
func TestNice(t *testing.T) {
	if os.Getenv("FERMI_LEADS") == "" {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestNice$", "-test.v")
		cmd.Env, cmd.SysProcAttr = append(os.Environ(), "FERMI_LEADS=1"), &syscall.SysProcAttr{Setsid: true}
		before := session()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		if after := session(); after != before {
			t.Errorf("our own session had %q and has %q", before, after)
		}
		return
	}
	nice := func() string {
		out, err := exec.Command("nice").Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	if os.Geteuid() != 0 {
		if err := Nice(-5); err == nil {
			t.Error("an ordinary user goes before others")
		}
		return
	}
	for _, n := range []string{"-5", "0"} {
		number, _ := strconv.Atoi(n)
		if err := Nice(number); err != nil {
			t.Fatal(err)
		}
		if got := nice(); got != n {
			t.Errorf("%s of a child instead of %s", got, n)
		}
		if s := session(); s != "" && !strings.HasSuffix(s, " "+n) {
			t.Errorf("the session has %q instead of %s", s, n)
		}
	}
}

// session is what the kernel says of this process's session; empty where it shares the processor out by threads alone.
func session() string {
	text, _ := os.ReadFile("/proc/self/autogroup")
	return strings.TrimSpace(string(text))
}
