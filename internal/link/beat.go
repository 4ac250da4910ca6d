package link

import (
	"time"

	"github.com/fermi-cluster/fermi/internal/link/linkpb"
)

func beatOf(now time.Time, epoch int64, next time.Duration) *linkpb.ToLauncher {
	return &linkpb.ToLauncher{Message: &linkpb.ToLauncher_Beat{Beat: &linkpb.Beat{
		SentUnixNano: now.UnixNano(), Epoch: epoch, NextNanos: int64(next),
	}}}
}
