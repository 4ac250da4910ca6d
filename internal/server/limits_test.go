package server

import (
	"fmt"
	"testing"
	"time"
)

func TestBuckets(t *testing.T) {
	l := newLimiters(Limits{Remembered: 10}.withDefaults(), realClock{})
	l.calls.max = 10
	for i := range 1000 {
		l.calls.take(fmt.Sprint(i))
	}
	if n := len(l.calls.by); n > 10 {
		t.Errorf("%d buckets are remembered", n)
	}
}

type realClock struct{}

func (realClock) Now() time.Time { return time.Now() }

func (realClock) After(d time.Duration) <-chan time.Time { return time.After(d) }
