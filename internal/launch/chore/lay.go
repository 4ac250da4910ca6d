package chore

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/internal/bucket"
	"github.com/fermi-cluster/fermi/internal/launch/depot"
)

// Lay lays a version of a dataset or model out in the project's folder; it asks over a socket for the bytes.
type Lay struct {
	Place  string
	Digest string
	Bytes  int64
	From   *Bucket // where the bytes lie; nil: who is asked for the list has them too
}

// Bucket is where the bytes of a version by reference lie, and the account that may read them: an api.S3Credential, which is in no JSON.
type Bucket struct {
	At                             mount.S3Source
	ID, Secret, Token              string
	AccountEndpoint, AccountRegion string
}

// Compare holds a folder of the machine, or one below it, against a listing, for which it asks over a socket.
type Compare struct{ Dir, Below, Digest string }

func (c *Compare) hold(socket *os.File) error {
	conn, err := net.FileConn(socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	return depot.Compare(c.Dir, c.Below, c.Digest, conn)
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
	progress := func(done, total int64) {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); total > 0 && now.Sub(told) >= toldEvery {
			told = now
			_ = words.Encode(Result{Done: done, Total: total})
		}
	}
	v := depot.Version{Digest: l.Digest, Bytes: l.Bytes}
	if l.From == nil {
		return failed(depot.Lay(ctx, l.Place, v, conn, progress))
	}
	b := bucket.Open(l.From.At, api.S3Credential{
		AccessKeyID: l.From.ID, SecretAccessKey: l.From.Secret, SessionToken: l.From.Token, Endpoint: l.From.AccountEndpoint, Region: l.From.AccountRegion,
	})
	return failed(depot.LayFrom(ctx, l.Place, v, conn, func(ctx context.Context, f asset.File) io.ReadCloser { return b.Open(ctx, f) }, progress))
}
