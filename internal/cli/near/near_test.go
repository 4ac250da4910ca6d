package near

import "testing"

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"zone", "zone", 0}, {"zone", "zonee", 1}, {"rank", "bank", 1}, {"replicas", "repilcas", 2}} {
		if got := Distance(c.a, c.b); got != c.want || Distance(c.b, c.a) != got {
			t.Errorf("%q and %q: %d", c.a, c.b, got)
		}
	}
}
