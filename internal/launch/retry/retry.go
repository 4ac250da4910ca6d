package retry

import "time"

// What fails is tried again after a pause, which doubles.
const (
	First = 200 * time.Millisecond // the first
	Most  = 5 * time.Second        // the longest
)
