package train

import (
	"testing"
	"time"
)

// The first change has its turn at once, whatever the size; those right behind it share one.
func TestRate(t *testing.T) {
	if got := (rate{}).left(now); got != 0 {
		t.Error("a small task waits", got)
	}
	p := rate{last: now, every: 160 * time.Millisecond}
	for after, want := range map[time.Duration]time.Duration{
		0: 160 * time.Millisecond, 100 * time.Millisecond: 60 * time.Millisecond, 160 * time.Millisecond: 0, time.Hour: 0,
	} {
		if got := p.left(now.Add(after)); got != want {
			t.Errorf("after %v: %v, want %v", after, got, want)
		}
	}
}
