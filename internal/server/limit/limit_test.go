package limit

import (
	"fmt"
	"testing"
	"time"
)

func TestBuckets(t *testing.T) {
	l := New(Limits{Remembered: 10}.WithDefaults(), realClock{})
	l.Calls.max = 10
	for i := range 1000 {
		l.Calls.Take(fmt.Sprint(i))
	}
	if n := len(l.Calls.by); n > 10 {
		t.Errorf("%d buckets are remembered", n)
	}
}

type realClock struct{}

func (realClock) Now() time.Time { return time.Now() }

func (realClock) After(d time.Duration) <-chan time.Time { return time.After(d) }
