package cores

import (
	"runtime"
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
