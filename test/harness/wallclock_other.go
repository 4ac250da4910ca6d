//go:build !(linux && amd64)

package harness

import (
	"errors"
	"time"
)

// WallClock is known on one kind of machine only.
type WallClock struct{}

// WallClockOf says that it can't be done here.
func WallClockOf(int) (*WallClock, error) {
	return nil, errors.New("not on this kind of machine")
}

// Set does nothing.
func (*WallClock) Set(time.Duration) error { return nil }
