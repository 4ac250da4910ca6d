package rotation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/app/keyfile"
	"github.com/fermi-cluster/fermi/internal/app/keyring"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/seal"
	"github.com/fermi-cluster/fermi/internal/store"
)

// The keys, each in a file that only its owner reads.
const (
	Link   = "link.key"   // by which launchers and servers know each other
	Secret = "secret.key" // by which secrets are sealed
)

// Keys are replaced while everything runs, and a crash at any point leaves a folder that works:
//
//   - secret.key holds the new key and behind it the old one, before anything is sealed with the new one. Then
//     every secret is sealed anew. When nobody can still be writing one with the old key, it is looked through
//     once more and the old key goes. A server that finds two keys goes on where the last one stopped.
//   - link.key: what retires is written to link.old first, with when. It works for attempts from before, and goes
//     when the last of them has ended.
//
// Other servers on the same folder look at the files every second. Servers that share no folder have the same files by package keyring.
const (
	// LinkOld are keys of the link that retired.
	LinkOld  = "link.old"
	lockFile = "keys.lock"

	look = time.Second
	// othersLook is how long other servers may take to notice a new key.
	othersLook = 3 * time.Second
	// linkMargin covers what other servers start in the meantime: it still belongs to the old key.
	linkMargin = 5 * time.Second
	// secretWait is how long a request that sealed with the old key may still be on its way.
	secretWait = 2 * time.Minute
)

// Config makes Keys.
type Config struct {
	Dir     string        // of the keys
	Several bool          // several servers may use the folder
	Ring    *keyring.Ring // has the files of servers that share no folder; nil: all servers have one folder
	Log     *slog.Logger
	// Further are keys that others keep: how each is replaced, by its name. No two keys of a folder are replaced at the same time.
	Further map[string]func(context.Context) (fault.Text, error)
	Wait    time.Duration // how long the old secret.key stays after a change; secretWait when 0
}

// Truth is what Keys ask once it is there.
type Truth struct {
	Store *store.Store
	// Replicas are those that may still use an old key of the link; false: this server does not lead and does not know.
	Replicas func() ([]engine.Observation, bool)
}

// Keys are those of one folder.
type Keys struct {
	// Box seals and opens secrets, Tokens are those of the link; both take over new keys by themselves.
	Box    *seal.Box
	Tokens *link.Tokens

	cfg   Config
	truth Truth
	files files
}

// Open reads the keys of the folder, and makes those that are missing.
func Open(cfg Config) (*Keys, error) {
	if cfg.Wait == 0 {
		cfg.Wait = secretWait
	}
	r := &Keys{cfg: cfg}
	return r, r.load()
}

// Begin tells them where the truth is, before anything but Box and Tokens is used.
func (r *Keys) Begin(t Truth) { r.truth = t }

// load reads the files again.
func (r *Keys) load() error {
	for _, name := range []string{Secret, Link, LinkOld} {
		r.files.changed(filepath.Join(r.cfg.Dir, name))
	}
	if err := r.files.putBack(r.cfg.Log, r.cfg.Dir); err != nil {
		return err
	}
	sealing, err := keyfile.Read(filepath.Join(r.cfg.Dir, Secret), 2)
	if err != nil {
		return err
	}
	current, older := splitKeys(sealing)
	if r.Box == nil {
		r.Box, err = seal.New(current, older...)
	} else {
		err = r.Box.Replace(current, older...)
	}
	if err != nil {
		return err
	}
	key, err := keyfile.Read(filepath.Join(r.cfg.Dir, Link), 1)
	if err != nil {
		return err
	}
	old, err := r.retired()
	if err != nil {
		return err
	}
	if r.Tokens == nil {
		r.Tokens = link.NewTokens(key)
	}
	r.Tokens.Replace(key, old, r.placedAt)
	r.files.remember(map[string][]byte{Secret: sealing, Link: key})
	return nil
}

func splitKeys(raw []byte) (current []byte, older [][]byte) {
	if len(raw) > seal.KeyBytes {
		older = append(older, raw[seal.KeyBytes:])
	}
	return raw[:seal.KeyBytes], older
}

// retired are the link's keys that attempts from before still use.
func (r *Keys) retired() ([]link.OldKey, error) {
	raw, err := os.ReadFile(filepath.Join(r.cfg.Dir, LinkOld))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var old []link.OldKey
	if err := json.Unmarshal(raw, &old); err != nil {
		return nil, fmt.Errorf("%s: %w", LinkOld, err)
	}
	return old, nil
}

func (r *Keys) setRetired(ctx context.Context, old []link.OldKey) error {
	var raw []byte
	if len(old) > 0 {
		var err error
		if raw, err = json.Marshal(old); err != nil {
			return err
		}
	}
	return r.cfg.Ring.Replace(ctx, filepath.Join(r.cfg.Dir, LinkOld), raw)
}

// placedAt is when the attempt of a task that runs now began.
func (r *Keys) placedAt(taskID string) time.Time {
	work, err := store.WorkByID(context.Background(), r.truth.Store, taskID, 0)
	if err != nil {
		return time.Time{}
	}
	if at := work.Workload().Ran.PlacedAt; at != nil {
		return *at
	}
	return time.Time{}
}

// Watch takes over what another server of the folder has changed, and ends what a replacement began. also is called as often.
func (r *Keys) Watch(ctx context.Context, also func()) error {
	select {
	case <-ctx.Done():
		return nil
	case <-r.truth.Store.Ready():
	}
	for {
		if err := r.cfg.Ring.Pull(ctx); err != nil && ctx.Err() == nil {
			r.cfg.Log.Warn("the keys of all servers can't be read; going on with those from before", "error", err)
		}
		changed := false
		for _, name := range []string{Secret, Link, LinkOld} {
			changed = r.files.changed(filepath.Join(r.cfg.Dir, name)) || changed
		}
		if changed {
			if err := r.load(); err != nil {
				r.cfg.Log.Error("the keys in the folder were changed and can't be used; going on with those from before", "error", err)
			}
		}
		also()
		if err := r.endRotation(ctx); err != nil && ctx.Err() == nil {
			r.cfg.Log.Warn("the change of a key could not be finished; trying again", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-clock.Real.After(look):
		}
	}
}

// alone runs a change of keys while no other server of the folder does one; false: another does.
func (r *Keys) alone(wait bool, do func() error) (bool, error) {
	lock, err := os.OpenFile(filepath.Join(r.cfg.Dir, lockFile), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return false, err
	}
	defer lock.Close()
	how := unix.LOCK_EX
	if !wait {
		how |= unix.LOCK_NB
	}
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(lock.Fd()), how)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	return true, do()
}
