package cores

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
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

// TestNice: threads that are there and processes that they start have the priority; it goes back.
func TestNice(t *testing.T) {
	nice := func() string {
		out, err := exec.Command("nice").Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	before := nice()
	if os.Geteuid() != 0 {
		if err := Nice(-5); err == nil {
			t.Error("an ordinary user goes before others")
		}
		return
	}
	if err := Nice(-5); err != nil {
		t.Fatal(err)
	}
	if got := nice(); got != "-5" {
		t.Errorf("%s of a child", got)
	}
	if err := Nice(0); err != nil {
		t.Fatal(err)
	}
	if got := nice(); got != "0" {
		t.Errorf("%s afterwards, %s before", got, before)
	}
}
