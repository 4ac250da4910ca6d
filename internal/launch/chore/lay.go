package chore

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/internal/launch/depot"
)

// Lay lays a version of a dataset or model out in the project's folder; it asks over a socket for the bytes.
type Lay struct {
	Place  string
	Digest string
	Bytes  int64
}

// Drop removes what a project's folder has of a version.
type Drop struct{ Place, Digest string }

// bring lays it out and says how far it is.
func (l *Lay) bring(ctx context.Context, socket *os.File, out io.Writer) Result {
	conn, err := net.FileConn(socket)
	if err != nil {
		return failed(err)
	}
	defer conn.Close()
	var mu sync.Mutex
	var told time.Time
	words := json.NewEncoder(out)
	return failed(depot.Lay(ctx, l.Place, depot.Version{Digest: l.Digest, Bytes: l.Bytes}, conn, func(done, total int64) {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); total > 0 && now.Sub(told) >= toldEvery {
			told = now
			_ = words.Encode(Result{Done: done, Total: total})
		}
	}))
}
