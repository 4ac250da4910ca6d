package link

import (
	"time"

	"github.com/fermi-cluster/fermi/internal/link/linkpb"
)

// Beats. A server beats and says when it will again; a launcher answers each beat. So both know how
// long silence is no sign yet. A machine that is gone is seen by the kernels' own questions, whatever
// the number of launchers; the beats are for a process that stands still.
const (
	beatEvery    = 2 * time.Second
	silenceLimit = 5 * time.Second
	// beatsASecond bounds what a server spends on them: 16,384 launchers are asked every 8 s.
	beatsASecond = 2000
	beatMost     = time.Minute
)

// beatPace is how often each of so many launchers is asked.
func beatPace(launchers int) time.Duration {
	return min(max(beatEvery, time.Duration(launchers)*time.Second/beatsASecond), beatMost)
}

// silenceAfter is how long nothing may be heard when a word was due every so often.
func silenceAfter(every time.Duration) time.Duration {
	return max(silenceLimit, every*5/2)
}

// beat is how often a launcher is asked now.
func (h *Hub) beat() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return beatPace(len(h.peers))
}

// silence is how long a launcher may say nothing. While launchers come back to a new leader all of them are
// late, and who is hung up on comes a second time.
func (h *Hub) silence(every time.Duration, now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now.Sub(h.since) < 2*patience {
		return max(silenceAfter(every), patience)
	}
	return silenceAfter(every)
}

func beatOf(now time.Time, epoch int64, next time.Duration) *linkpb.ToLauncher {
	return &linkpb.ToLauncher{Message: &linkpb.ToLauncher_Beat{Beat: &linkpb.Beat{
		SentUnixNano: now.UnixNano(), Epoch: epoch, NextNanos: int64(next),
	}}}
}
