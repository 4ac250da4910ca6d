package app

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/seal"
	"github.com/fermi-cluster/fermi/internal/server/door"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Keys are replaced while everything runs, and a crash at any point leaves a folder that works:
//
//   - secret.key holds the new key and behind it the old one, before anything is sealed with the new one. Then
//     every secret is sealed anew. When nobody can still be writing one with the old key, it is looked through
//     once more and the old key goes. A server that finds two keys goes on where the last one stopped.
//   - link.key: what retires is written to link.old first, with when. It works for attempts from before, and goes
//     when the last of them has ended.
//   - admin.token: the file has the new token before the store knows it, as at the first start; the name of the
//     old one is in admin.token.old until the store has forgotten it.
//   - tls.pem is replaced whole; new connections get it.
//
// Other servers on the same folder look at the files every second.
const (
	linkOldFile  = "link.old"
	tokenOldFile = tokenFile + ".old"
	keysLock     = "keys.lock"

	keysLook = time.Second
	// othersLook is how long other servers may take to notice a new key.
	othersLook = 3 * time.Second
	// linkMargin covers what other servers start in the meantime: it still belongs to the old key.
	linkMargin = 5 * time.Second
	// secretWait is how long a request that sealed with the old key may still be on its way.
	secretWait = 2 * time.Minute
)

// keyState is what was last read of the files.
type keyState struct {
	mu   sync.Mutex
	seen map[string]fs.FileInfo
	used map[string][]byte // by file
}

// changed says whether a file is not the one that was looked at last.
func (k *keyState) changed(path string) bool {
	info, err := os.Stat(path)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.seen == nil {
		k.seen = map[string]fs.FileInfo{}
	}
	had := k.seen[path]
	if err != nil {
		info = nil
	}
	k.seen[path] = info
	switch {
	case had == nil || info == nil:
		return (had == nil) != (info == nil)
	}
	return !os.SameFile(had, info) || !had.ModTime().Equal(info.ModTime()) || had.Size() != info.Size()
}

// loadKeys reads the keys of the folder, and makes those that are missing.
func (p *part) loadKeys() error {
	for _, name := range []string{secretKeyFile, linkKeyFile, linkOldFile} {
		p.keys.changed(filepath.Join(p.cfg.Shared, name))
	}
	if err := p.keys.putBack(p.cfg.Log, p.cfg.Shared); err != nil {
		return err
	}
	sealing, err := secretFile(filepath.Join(p.cfg.Shared, secretKeyFile), 2)
	if err != nil {
		return err
	}
	current, older := splitKeys(sealing)
	if p.box == nil {
		p.box, err = seal.New(current, older...)
	} else {
		err = p.box.Replace(current, older...)
	}
	if err != nil {
		return err
	}
	key, err := secretFile(filepath.Join(p.cfg.Shared, linkKeyFile), 1)
	if err != nil {
		return err
	}
	old, err := p.retired()
	if err != nil {
		return err
	}
	if p.tokens == nil {
		p.tokens = link.NewTokens(key)
	}
	p.tokens.Replace(key, old, p.placedAt)
	p.keys.remember(map[string][]byte{secretKeyFile: sealing, linkKeyFile: key})
	return nil
}

// remember keeps the keys that are in use.
func (k *keyState) remember(keys map[string][]byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.used = keys
}

// putBack writes a key that is in use and whose file is gone: another in its place would shut out what runs, or secrets.
func (k *keyState) putBack(log *slog.Logger, dir string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, key := range k.used {
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := writeOnce(path, key); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		log.Error("a key in use was gone from the folder; it was written there again", "file", path)
	}
	return nil
}

func splitKeys(raw []byte) (current []byte, older [][]byte) {
	if len(raw) > seal.KeyBytes {
		older = append(older, raw[seal.KeyBytes:])
	}
	return raw[:seal.KeyBytes], older
}

// retired are the link's keys that attempts from before still use.
func (p *part) retired() ([]link.OldKey, error) {
	raw, err := os.ReadFile(filepath.Join(p.cfg.Shared, linkOldFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var old []link.OldKey
	if err := json.Unmarshal(raw, &old); err != nil {
		return nil, fmt.Errorf("%s: %w", linkOldFile, err)
	}
	return old, nil
}

func (p *part) setRetired(old []link.OldKey) error {
	path := filepath.Join(p.cfg.Shared, linkOldFile)
	if len(old) == 0 {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	raw, err := json.Marshal(old)
	if err != nil {
		return err
	}
	return replace(path, raw)
}

// placedAt is when the attempt of a task that runs now began.
func (p *part) placedAt(taskID string) time.Time {
	work, err := store.WorkByID(context.Background(), p.store, taskID, 0)
	if err != nil {
		return time.Time{}
	}
	if at := work.Workload().Ran.PlacedAt; at != nil {
		return *at
	}
	return time.Time{}
}

// watchKeys takes over what another server of the folder has changed, and ends what a rotation began.
func (p *part) watchKeys(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-p.store.Ready():
	}
	for {
		changed := false
		for _, name := range []string{secretKeyFile, linkKeyFile, linkOldFile} {
			changed = p.keys.changed(filepath.Join(p.cfg.Shared, name)) || changed
		}
		if changed {
			if err := p.loadKeys(); err != nil {
				p.cfg.Log.Error("the keys in the folder were changed and can't be used; going on with those from before", "error", err)
			}
		}
		if err := p.endRotation(ctx); err != nil && ctx.Err() == nil {
			p.cfg.Log.Warn("the change of a key could not be finished; trying again", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-clock.Real.After(keysLook):
		}
	}
}

// alone runs a change of keys while no other server of the folder does one; false: another does.
func (p *part) alone(wait bool, do func() error) (bool, error) {
	lock, err := os.OpenFile(filepath.Join(p.cfg.Shared, keysLock), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
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

// rotate replaces a key.
func (p *part) rotate(ctx context.Context, key string) (text fault.Text, err error) {
	done, err := p.alone(false, func() (err error) {
		switch key {
		case "secret-key":
			text, err = p.rotateSecret(ctx)
		case "link-key":
			text, err = p.rotateLink()
		case "admin-token":
			text, err = p.rotateToken(ctx)
		case "tls":
			text, err = p.rotateTLS()
		}
		return err
	})
	if err == nil && !done {
		err = fault.New(fault.Conflict, "RotationUnderWay", fault.T("A key is being replaced already; try again when that is done.", "正在更换密钥，请稍后再试。"))
	}
	return text, err
}

// rotateSecret makes a new secret.key and seals every secret with it.
func (p *part) rotateSecret(ctx context.Context) (fault.Text, error) {
	path := filepath.Join(p.cfg.Shared, secretKeyFile)
	raw, err := secretFile(path, 2)
	if err != nil {
		return fault.Text{}, err
	}
	old, older := splitKeys(raw)
	if len(older) > 0 {
		return fault.Text{}, fault.New(fault.Conflict, "RotationUnderWay", fault.T(
			"The last change of secret.key is not finished; it is about %s after it began.", "上一次更换 secret.key 尚未完成；约在开始 %s 后完成。", secretWait)).
			WithHint(fault.T("Try again then.", "请届时再试。"))
	}
	kept := fmt.Sprintf("%s.until-%s", path, clock.Real.Now().UTC().Format("20060102T150405Z"))
	if err := writeOnce(kept, old); err != nil {
		return fault.Text{}, err
	}
	if err := replace(path, append(seal.NewKey(), old...)); err != nil {
		return fault.Text{}, err
	}
	if err := p.loadKeys(); err != nil {
		return fault.Text{}, err
	}
	if p.outside() {
		select {
		case <-ctx.Done():
			return fault.Text{}, fault.From(ctx.Err())
		case <-clock.Real.After(othersLook):
		}
	}
	n, broken, err := p.sealAnew(ctx)
	if err != nil {
		return fault.Text{}, err
	}
	p.cfg.Log.Info("secrets were sealed with a new key", "secrets", n, "unreadable", broken)
	out := fault.T("Secrets sealed anew: %d. The old key is in %s: backups from before need it. Move it to where you keep keys, and keep a copy of the new secret.key there.",
		"已重新加密的密钥：%d 个。旧密钥保存在 %s：此前的备份仍需要它。请移到保管密钥的地方，并另存新的 secret.key。", n, kept)
	if broken > 0 {
		more := fault.T(" Secrets that no key opens, before or now: %d; set them again.", "原先就无法解开的密钥：%d 个，请重新设置。", broken)
		out = fault.Text{EN: out.EN + more.EN, ZH: out.ZH + more.ZH}
	}
	return out, nil
}

// sealAnew seals all secrets with the key of now; those that no key opens stay as they are.
func (p *part) sealAnew(ctx context.Context) (n, broken int, err error) {
	for {
		now, err := p.store.Now(ctx) // everything that was committed so far
		if err != nil {
			return n, broken, err
		}
		all, err := p.store.List(ctx, api.KindSecret, "", now)
		if err != nil {
			return n, broken, err
		}
		again := false
		broken = 0
		all.Ascend("", func(o api.Object) bool {
			var next *api.Secret
			var bad bool
			if next, bad = p.underOldKey(o.(*api.Secret)); bad {
				broken++
			}
			if next == nil {
				return true
			}
			switch _, commitErr := p.store.Commit(ctx, store.Txn{Ops: []store.Op{store.Update(next)}}); {
			case commitErr == nil:
				n++
			case fault.ReasonOf(commitErr) == "Stale", fault.Is(commitErr, fault.NotFound):
				again = true // somebody changed or deleted it; the next look sees
			default:
				err = commitErr
			}
			return err == nil
		})
		if err != nil || !again {
			return n, broken, err
		}
	}
}

// underOldKey is the secret sealed with the key of now, where it is not; bad where a value does not open.
func (p *part) underOldKey(x *api.Secret) (next *api.Secret, bad bool) {
	for key, sealed := range x.Spec.Sealed {
		place := api.SealContext(x.Meta.Project, x.Meta.Name, key)
		value, current, err := p.box.OpenWith(sealed, place)
		switch {
		case err != nil:
			bad = true
		case !current:
			if next == nil {
				next = store.Clone(x)
			}
			next.Spec.Sealed[key] = p.box.Seal(value, place)
		}
	}
	return next, bad
}

// rotateLink makes a new link.key. Replicas that run keep what they have.
func (p *part) rotateLink() (fault.Text, error) {
	path := filepath.Join(p.cfg.Shared, linkKeyFile)
	old, err := secretFile(path, 1)
	if err != nil {
		return fault.Text{}, err
	}
	retired, err := p.retired()
	if err != nil {
		return fault.Text{}, err
	}
	retired = append(retired, link.OldKey{Key: old, Retired: clock.Real.Now().UTC().Add(linkMargin)})
	if err := p.setRetired(retired); err != nil {
		return fault.Text{}, err
	}
	if err := replace(path, seal.NewKey()); err != nil {
		return fault.Text{}, err
	}
	if err := p.loadKeys(); err != nil {
		return fault.Text{}, err
	}
	return fault.T("New replicas use the new link.key; those that run now keep theirs, and the old key goes when the last of them has ended.",
		"新副本使用新的 link.key；正在运行的副本保持不变，待其全部结束后旧密钥自动删除。"), nil
}

// rotateToken makes a new admin token; the old one ends at once.
func (p *part) rotateToken(ctx context.Context) (fault.Text, error) {
	path := filepath.Join(p.cfg.Data, tokenFile)
	was, err := readToken(path)
	if err != nil {
		return fault.Text{}, fmt.Errorf("admin token: %w", err)
	}
	if err := p.forgetToken(ctx); err != nil { // of a rotation that a crash cut off
		return fault.Text{}, err
	}
	secret, hash, err := door.NewSecret(adminName+"-"+id.Default.Random(6), rand.Reader)
	if err != nil {
		return fault.Text{}, err
	}
	if err := replace(filepath.Join(p.cfg.Data, tokenOldFile), []byte(strings.Split(was, "_")[1]+"\n")); err != nil {
		return fault.Text{}, err
	}
	if err := replace(path, []byte(secret+"\n")); err != nil {
		return fault.Text{}, err
	}
	now := clock.Real.Now().UTC()
	t := &api.Token{
		Meta: api.Meta{ID: id.Default.New("tok"), Name: strings.Split(secret, "_")[1], DisplayName: adminTokenTitle, CreatedAt: now, UpdatedAt: now},
		Spec: api.TokenSpec{User: adminName, Hash: hash},
	}
	if err := p.createOnce(ctx, t); err != nil {
		return fault.Text{}, err
	}
	if err := p.forgetToken(ctx); err != nil {
		return fault.Text{}, err
	}
	return fault.T("The new token is in %s; the old one does not work any more.", "新令牌已写入 %s；旧令牌已失效。", path), nil
}

// forgetToken deletes the admin token that was replaced.
func (p *part) forgetToken(ctx context.Context) error {
	path := filepath.Join(p.cfg.Data, tokenOldFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	name := strings.TrimSpace(string(raw))
	if now, err := readToken(filepath.Join(p.cfg.Data, tokenFile)); err != nil || strings.Split(now, "_")[1] == name {
		return err // the new one was never written: the old one stays
	}
	if api.IsName(name) {
		if _, err := p.store.Commit(ctx, store.Txn{Ops: []store.Op{store.Delete(api.Key{Kind: api.KindToken, Name: name}, 0)}}); err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	return os.Remove(path)
}

// rotateTLS makes a new certificate of our own.
func (p *part) rotateTLS() (fault.Text, error) {
	if !p.cfg.SelfSigned {
		return fault.Text{}, fault.New(fault.Conflict, "NothingToRotate", fault.T(
			"This server has no certificate of its own making: replace the files that tls.cert and tls.key name, and restart it.", "该服务器没有自签名证书：请替换 tls.cert 和 tls.key 所指文件并重启。"))
	}
	raw, err := makeCertificate(p.cfg, clock.Real.Now())
	if err != nil {
		return fault.Text{}, err
	}
	pair, err := tls.X509KeyPair(raw, raw)
	if err != nil {
		return fault.Text{}, err
	}
	if err := replace(filepath.Join(p.cfg.Data, selfSignedFile), raw); err != nil {
		return fault.Text{}, err
	}
	p.served.Store(&pair)
	return fault.T("The new certificate has SHA-256 %s: give it to clients as FERMI_TLS_FINGERPRINT.", "新证书的 SHA-256 为 %s：请在客户端设为 FERMI_TLS_FINGERPRINT。", fingerprint(&pair)), nil
}

// endRotation takes away keys that nobody needs any more.
func (p *part) endRotation(ctx context.Context) error {
	if err := p.dropSecretKey(ctx); err != nil {
		return err
	}
	return p.dropLinkKeys(ctx)
}

// dropSecretKey ends a change of secret.key: once nobody can be writing with the old one, all is looked through
// again, and it goes.
func (p *part) dropSecretKey(ctx context.Context) error {
	path := filepath.Join(p.cfg.Shared, secretKeyFile)
	info, err := os.Stat(path)
	if err != nil || info.Size() <= seal.KeyBytes || clock.Real.Now().Sub(info.ModTime()) < p.secretWait {
		return err
	}
	_, err = p.alone(false, func() error {
		raw, err := secretFile(path, 2)
		if err != nil || len(raw) <= seal.KeyBytes {
			return err
		}
		if _, _, err := p.sealAnew(ctx); err != nil {
			return err
		}
		if err := replace(path, raw[:seal.KeyBytes]); err != nil {
			return err
		}
		p.cfg.Log.Info("the old key of secrets is gone")
		return p.loadKeys()
	})
	return err
}

// dropLinkKeys takes away keys of the link whose last replica has ended. Only the leader knows.
func (p *part) dropLinkKeys(ctx context.Context) error {
	old, err := p.retired()
	if err != nil || len(old) == 0 {
		return err
	}
	replicas, found := p.engine.All()
	if !found {
		return nil
	}
	oldest := time.Time{} // when the oldest attempt that still lives began
	note := func(at time.Time) {
		if oldest.IsZero() || at.Before(oldest) {
			oldest = at
		}
	}
	for _, kind := range api.WorkKinds() {
		all, err := p.store.List(ctx, kind, "", 0)
		if err != nil {
			return err
		}
		all.Ascend("", func(o api.Object) bool {
			if w, ok := api.WorkloadOf(o); ok && !w.Phase.Finished() && w.Ran.PlacedAt != nil {
				note(*w.Ran.PlacedAt)
			}
			return true
		})
	}
	for _, r := range replicas { // also of tasks that have ended: their logs are on their way
		if at := p.placedAt(r.TaskID); at.IsZero() {
			note(time.Unix(1, 0)) // nobody knows: perhaps from before
		} else {
			note(at)
		}
	}
	var needed []link.OldKey
	now := clock.Real.Now()
	for _, o := range old {
		if now.Before(o.Retired.Add(othersLook)) || !oldest.IsZero() && !oldest.After(o.Retired) {
			needed = append(needed, o)
		}
	}
	if len(needed) == len(old) {
		return nil
	}
	_, err = p.alone(false, func() error {
		if err := p.setRetired(needed); err != nil {
			return err
		}
		p.cfg.Log.Info("old keys of the link are gone", "keys", len(old)-len(needed))
		return p.loadKeys()
	})
	return err
}
