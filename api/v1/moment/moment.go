// Package moment is the vocabulary of moments by two clocks: the wall clock, which people set, and how long a machine has been up.
//
// Place: layer 1, part of api/v1. Promise: by how much a wall clock was set between two moments is known where one machine saw both.
// Enemies: a clock that is set while work is counted.
package moment

import (
	"time"

	"github.com/fermi-cluster/fermi/api/v1/quantity"
)

// Mark is a moment.
type Mark struct {
	At    time.Time         `json:"at"`
	Boot  string            `json:"boot" doc:"Of the leading server's machine."`
	Up    quantity.Duration `json:"up" doc:"How long that had been up."`
	Moved quantity.Duration `json:"moved,omitempty" doc:"By how much the wall clock was set ahead since the task's first start, below 0: back. That is in no part of its time."`
}

// MovedSince is by how much the wall clock was set ahead since an earlier moment; 0 where that is not known, or no more than clocks
// that agree differ by.
func (m *Mark) MovedSince(old *Mark) time.Duration {
	if m == nil || old == nil || m.Boot == "" || m.Boot != old.Boot {
		return 0
	}
	d := m.At.Sub(old.At) - (m.Up - old.Up).Std()
	if d.Abs() < time.Second {
		return 0
	}
	return d
}
