package app

import (
	"slices"
	"strconv"
	"testing"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// TestChecksWaitOnceAndAreBounded: what waits is not put there again, and goes in its order.
func TestChecksWaitOnceAndAreBounded(t *testing.T) {
	c := newChecks()
	a, b := check{"t", "a"}, check{"t", "b"}
	for _, list := range [][]check{{a}, {a, b}, {b}} {
		if err := c.add(list); err != nil {
			t.Fatal(err)
		}
	}
	var got []check
	for one, ok := c.first(); ok; one, ok = c.first() {
		if !c.has(one) {
			t.Error("it is being read, and nobody is told")
		}
		got = append(got, one)
		c.done()
	}
	if !slices.Equal(got, []check{a, b}) || c.has(b) {
		t.Error(got)
	}
	var many []check
	for i := range maxChecks + 1 {
		many = append(many, check{"t", strconv.Itoa(i)})
	}
	if err := c.add(many); !fault.Is(err, fault.Unavailable) || c.has(many[0]) {
		t.Error(err)
	}
}
