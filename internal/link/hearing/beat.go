package hearing

import "time"

// Beats. A server beats and says when it will again; a launcher answers each beat. So both know how
// long silence is no sign yet. A machine that is gone is seen by the kernels' own questions, whatever
// the number of launchers; the beats are for a process that stands still.
const (
	BeatEvery    = 2 * time.Second
	SilenceLimit = 5 * time.Second
	BeatMost     = time.Minute
	// SilentAfter is how long a launcher says nothing until it is silent, and LostAfter until it is lost.
	SilentAfter = 10 * time.Second
	LostAfter   = 30 * time.Second
	// beatsASecond bounds what a server spends on them: 16,384 launchers are asked every 8 s.
	beatsASecond = 2000
)

// BeatPace is how often each of so many launchers is asked.
func BeatPace(launchers int) time.Duration {
	return min(max(BeatEvery, time.Duration(launchers)*time.Second/beatsASecond), BeatMost)
}

// SilenceAfter is how long nothing may be heard when a word was due every so often.
func SilenceAfter(every time.Duration) time.Duration {
	return max(SilenceLimit, every*5/2)
}
