package link

import (
	"testing"
	"time"
)

func TestBeatPace(t *testing.T) {
	for launchers, want := range map[int]time.Duration{0: 2 * time.Second, 1: 2 * time.Second, 4000: 2 * time.Second, 16384: 8192 * time.Millisecond, 1 << 30: time.Minute} {
		if got := beatPace(launchers); got != want {
			t.Errorf("%d launchers: every %v, want %v", launchers, got, want)
		}
	}
	if got := silenceAfter(beatEvery); got != silenceLimit {
		t.Errorf("silence of a few: %v", got)
	}
	if got := silenceAfter(8 * time.Second); got != 20*time.Second {
		t.Errorf("silence of many: %v", got)
	}
}
