package clock

import (
	"testing"
	"time"
)

func fired(ch <-chan time.Time) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func TestFake(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f := NewFake(start)
	late, soon, now := f.After(2*time.Second), f.After(time.Second), f.After(0)
	if !fired(now) || fired(soon) || fired(late) {
		t.Error("only what is due fires")
	}
	f.Advance(time.Second)
	if !fired(soon) || fired(late) {
		t.Error("after one second the first fires alone")
	}
	f.Advance(time.Hour)
	if at := <-late; !at.Equal(start.Add(2 * time.Second)) {
		t.Errorf("fired at %s: the time it was due, not when the clock was moved", at)
	}
	if got := f.Now(); !got.Equal(start.Add(time.Hour + time.Second)) {
		t.Error(got)
	}
}

func TestReal(t *testing.T) {
	before := Real.Now()
	if at := <-Real.After(time.Millisecond); at.Before(before) {
		t.Errorf("%s is before %s", at, before)
	}
}

// TestUp: a machine's own clock goes on with the wall clock while nobody sets that; a clock that has none says so.
func TestUp(t *testing.T) {
	one, before := Up(Real)
	if one == "" || before <= 0 {
		t.Skip("the kernel does not say how long it has been up")
	}
	<-Real.After(time.Millisecond)
	two, after := Up(Real)
	if two != one || after <= before {
		t.Errorf("%s %v, then %s %v", one, before, two, after)
	}
	if boot, up := Up(NewFake(time.Now())); boot != "" || up != 0 {
		t.Error(boot, up)
	}
}
