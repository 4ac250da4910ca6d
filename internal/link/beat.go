package link

import (
	"time"

	"github.com/fermi-cluster/fermi/internal/link/hearing"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
)

// beat is how often a launcher is asked now.
func (h *Hub) beat() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return hearing.BeatPace(len(h.peers))
}

// silence is how long a launcher may say nothing. While launchers come back to a new leader all of them are
// late, and who is hung up on comes a second time.
func (h *Hub) silence(every time.Duration, now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now.Sub(h.since) < 2*patience {
		return max(hearing.SilenceAfter(every), patience)
	}
	return hearing.SilenceAfter(every)
}

func beatOf(now time.Time, epoch int64, next time.Duration) *linkpb.ToLauncher {
	return &linkpb.ToLauncher{Message: &linkpb.ToLauncher_Beat{Beat: &linkpb.Beat{
		SentUnixNano: now.UnixNano(), Epoch: epoch, NextNanos: int64(next),
	}}}
}
