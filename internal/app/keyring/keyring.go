package keyring

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/internal/app/keyfile"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/seal"
	"github.com/fermi-cluster/fermi/internal/store/safe"
)

const entry = "keys" // in the safe

// File is one of the files.
type File struct {
	Name string
	// Most is how many keys of 32 bytes it may hold, and one is made where it is missing; 0: it holds something else, or is not there.
	Most int
}

// Ring is the files of one server. Safe for concurrent use.
type Ring struct {
	safe  *safe.Safe
	box   *seal.Box
	dir   string
	files []File

	mu   sync.Mutex
	seen int64 // of the entry that the files are like
}

// New is the ring of the files in dir, by the operator's key. It starts nothing.
func New(s *safe.Safe, operatorsKey, dir string, files []File) (*Ring, error) {
	key, err := readOperators(operatorsKey)
	if err != nil {
		return nil, err
	}
	box, err := seal.New(key)
	if err != nil {
		return nil, err
	}
	return &Ring{safe: s, box: box, dir: dir, files: files}, nil
}

func readOperators(path string) ([]byte, error) {
	bad := func(cause error) error {
		return fault.New(fault.Invalid, "BadStoreKey", fault.T("%s does not hold a key of 32 bytes.", "%s 不是 32 字节的密钥文件。", path)).
			WithHint(fault.T("Make one and give the same file to every server: (umask 077; head -c 32 /dev/urandom > %s)", "请生成一个，并将同一文件提供给每台服务器：(umask 077; head -c 32 /dev/urandom > %s)", path)).Because(cause)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, bad(err)
	}
	defer f.Close()
	key, err := io.ReadAll(io.LimitReader(f, seal.KeyBytes+1))
	if err != nil || len(key) != seal.KeyBytes {
		return nil, bad(err)
	}
	return key, nil
}

// Await is Pull that waits for etcd.
func (r *Ring) Await(ctx context.Context, log *slog.Logger) error {
	for said := false; ; said = true {
		err := r.Pull(ctx)
		if !fault.Is(err, fault.Unavailable) {
			return err
		}
		if !said {
			log.Warn("the keys of all servers can't be read; trying again", "error", err)
		}
		select {
		case <-ctx.Done():
			return fault.From(ctx.Err())
		case <-clock.Real.After(time.Second):
		}
	}
}

// Pull has the files be as etcd has them. Where that has none, those of this server become everybody's, and missing ones are made. Servers with one folder
// have no ring, nil, and nothing to pull.
func (r *Ring) Pull(ctx context.Context) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		keys, revision, err := r.read(ctx)
		if err != nil {
			return err
		}
		if revision == 0 {
			if keys, err = r.found(); err == nil {
				revision, err = r.write(ctx, keys, 0)
			}
			if fault.Is(err, fault.Conflict) {
				continue // another server was faster
			}
			if err != nil {
				return err
			}
		}
		if err := r.lay(keys); err != nil {
			return err
		}
		r.seen = revision
		return nil
	}
}

// Replace is a file's content from now on, for all servers; nil: there is none. Fault Conflict: another server changed a key since the last Pull.
func (r *Ring) Replace(ctx context.Context, path string, content []byte) error {
	name := filepath.Base(path)
	if r == nil {
		return put(path, content)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	keys, revision, err := r.read(ctx)
	if err != nil {
		return err
	}
	if revision != r.seen {
		return fault.New(fault.Conflict, "RotationUnderWay", fault.T("Another server is replacing a key; try again when that is done.", "另一台服务器正在更换密钥，请稍后再试。"))
	}
	if delete(keys, name); content != nil {
		keys[name] = content
	}
	if revision, err = r.write(ctx, keys, revision); err != nil {
		return err
	}
	r.seen = revision
	return r.lay(keys)
}

func (r *Ring) read(ctx context.Context) (keys map[string][]byte, revision int64, err error) {
	sealed, revision, err := r.safe.Read(ctx, entry)
	if err != nil || revision == 0 {
		return nil, revision, err
	}
	plain, err := r.box.Open(string(sealed), entry)
	if err == nil {
		err = json.Unmarshal([]byte(plain), &keys)
	}
	if err != nil || keys == nil {
		return nil, 0, fault.New(fault.Invalid, "OtherStoreKey", fault.T(
			"The servers' keys in etcd were sealed with another key than the one in servers.key.file.", "etcd 中的服务器密钥是用另一个密钥加密的，与 servers.key.file 不符。")).
			WithHint(fault.T("Give this server the file that the other servers have.", "请使用与其他服务器相同的密钥文件。")).Because(err)
	}
	return keys, revision, nil
}

func (r *Ring) write(ctx context.Context, keys map[string][]byte, revision int64) (int64, error) {
	plain, err := json.Marshal(keys)
	if err != nil {
		return 0, err
	}
	return r.safe.Write(ctx, entry, []byte(r.box.Seal(string(plain), entry)), revision)
}

// found is what this server's files hold.
func (r *Ring) found() (map[string][]byte, error) {
	keys := map[string][]byte{}
	for _, f := range r.files {
		var content []byte
		var err error
		if path := filepath.Join(r.dir, f.Name); f.Most > 0 {
			content, err = keyfile.Read(path, f.Most)
		} else if content, err = os.ReadFile(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		keys[f.Name] = content
	}
	return keys, nil
}

// put replaces a file; nil: it goes.
func put(path string, content []byte) error {
	if content != nil {
		return keyfile.Replace(path, content)
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// lay writes the files that are different.
func (r *Ring) lay(keys map[string][]byte) error {
	for _, f := range r.files {
		path := filepath.Join(r.dir, f.Name)
		had, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if want, known := keys[f.Name]; known != (err == nil) || !bytes.Equal(had, want) {
			if err := put(path, want); err != nil {
				return err
			}
		}
	}
	return nil
}
