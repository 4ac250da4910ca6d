package rotation

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/app/keyfile"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/seal"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Rotate replaces a key, and says what that means.
func (r *Keys) Rotate(ctx context.Context, key string) (text fault.Text, err error) {
	done, err := r.alone(false, func() (err error) {
		switch key {
		case "secret-key":
			text, err = r.rotateSecret(ctx)
		case "link-key":
			text, err = r.rotateLink(ctx)
		default:
			if replace := r.cfg.Further[key]; replace != nil {
				text, err = replace(ctx)
			}
		}
		return err
	})
	if err == nil && !done {
		err = fault.New(fault.Conflict, "RotationUnderWay", fault.T("A key is being replaced already; try again when that is done.", "正在更换密钥，请稍后再试。"))
	}
	return text, err
}

// rotateSecret makes a new secret.key and seals every secret with it.
func (r *Keys) rotateSecret(ctx context.Context) (fault.Text, error) {
	path := filepath.Join(r.cfg.Dir, Secret)
	raw, err := keyfile.Read(path, 2)
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
	if err := keyfile.Make(kept, old); err != nil {
		return fault.Text{}, err
	}
	if err := r.cfg.Ring.Replace(ctx, path, append(seal.NewKey(), old...)); err != nil {
		return fault.Text{}, err
	}
	if err := r.load(); err != nil {
		return fault.Text{}, err
	}
	if r.cfg.Several {
		select {
		case <-ctx.Done():
			return fault.Text{}, fault.From(ctx.Err())
		case <-clock.Real.After(othersLook):
		}
	}
	n, broken, err := r.sealAnew(ctx)
	if err != nil {
		return fault.Text{}, err
	}
	r.cfg.Log.Info("secrets were sealed with a new key", "secrets", n, "unreadable", broken)
	out := fault.T("Secrets sealed anew: %d. The old key is in %s: backups from before need it. Move it to where you keep keys, and keep a copy of the new secret.key there.",
		"已重新加密的密钥：%d 个。旧密钥保存在 %s：此前的备份仍需要它。请移到保管密钥的地方，并另存新的 secret.key。", n, kept)
	if broken > 0 {
		more := fault.T(" Secrets that no key opens, before or now: %d; set them again.", "原先就无法解开的密钥：%d 个，请重新设置。", broken)
		out = fault.Text{EN: out.EN + more.EN, ZH: out.ZH + more.ZH}
	}
	return out, nil
}

// sealAnew seals all secrets with the key of now; those that no key opens stay as they are.
func (r *Keys) sealAnew(ctx context.Context) (n, broken int, err error) {
	for {
		now, err := r.truth.Store.Now(ctx) // everything that was committed so far
		if err != nil {
			return n, broken, err
		}
		all, err := r.truth.Store.List(ctx, api.KindSecret, "", now)
		if err != nil {
			return n, broken, err
		}
		again := false
		broken = 0
		all.Ascend("", func(o api.Object) bool {
			var next *api.Secret
			var bad bool
			if next, bad = r.underOldKey(o.(*api.Secret)); bad {
				broken++
			}
			if next == nil {
				return true
			}
			switch _, commitErr := r.truth.Store.Commit(ctx, store.Txn{Ops: []store.Op{store.Update(next)}}); {
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
func (r *Keys) underOldKey(x *api.Secret) (next *api.Secret, bad bool) {
	for key, sealed := range x.Spec.Sealed {
		place := api.SealContext(x.Meta.Project, x.Meta.Name, key)
		value, current, err := r.Box.OpenWith(sealed, place)
		switch {
		case err != nil:
			bad = true
		case !current:
			if next == nil {
				next = store.Clone(x)
			}
			next.Spec.Sealed[key] = r.Box.Seal(value, place)
		}
	}
	return next, bad
}

// rotateLink makes a new link.key. Replicas that run keep what they have.
func (r *Keys) rotateLink(ctx context.Context) (fault.Text, error) {
	path := filepath.Join(r.cfg.Dir, Link)
	old, err := keyfile.Read(path, 1)
	if err != nil {
		return fault.Text{}, err
	}
	retired, err := r.retired()
	if err != nil {
		return fault.Text{}, err
	}
	retired = append(retired, link.OldKey{Key: old, Retired: clock.Real.Now().UTC().Add(linkMargin)})
	if err := r.setRetired(ctx, retired); err != nil {
		return fault.Text{}, err
	}
	if err := r.cfg.Ring.Replace(ctx, path, seal.NewKey()); err != nil {
		return fault.Text{}, err
	}
	if err := r.load(); err != nil {
		return fault.Text{}, err
	}
	return fault.T("New replicas use the new link.key; those that run now keep theirs, and the old key goes when the last of them has ended.",
		"新副本使用新的 link.key；正在运行的副本保持不变，待其全部结束后旧密钥自动删除。"), nil
}

// endRotation takes away keys that nobody needs any more.
func (r *Keys) endRotation(ctx context.Context) error {
	if err := r.dropSecretKey(ctx); err != nil {
		return err
	}
	return r.dropLinkKeys(ctx)
}

// dropSecretKey ends a change of secret.key: once nobody can be writing with the old one, all is looked through
// again, and it goes.
func (r *Keys) dropSecretKey(ctx context.Context) error {
	path := filepath.Join(r.cfg.Dir, Secret)
	info, err := os.Stat(path)
	if err != nil || info.Size() <= seal.KeyBytes || clock.Real.Now().Sub(info.ModTime()) < r.cfg.Wait {
		return err
	}
	_, err = r.alone(false, func() error {
		raw, err := keyfile.Read(path, 2)
		if err != nil || len(raw) <= seal.KeyBytes {
			return err
		}
		if _, _, err := r.sealAnew(ctx); err != nil {
			return err
		}
		if err := r.cfg.Ring.Replace(ctx, path, raw[:seal.KeyBytes]); err != nil {
			return err
		}
		r.cfg.Log.Info("the old key of secrets is gone")
		return r.load()
	})
	return err
}

// dropLinkKeys takes away keys of the link whose last replica has ended. Only the leader knows.
func (r *Keys) dropLinkKeys(ctx context.Context) error {
	old, err := r.retired()
	if err != nil || len(old) == 0 {
		return err
	}
	replicas, found := r.truth.Replicas()
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
		all, err := r.truth.Store.List(ctx, kind, "", 0)
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
	for _, one := range replicas { // also of tasks that have ended: their logs are on their way
		if at := r.placedAt(one.TaskID); at.IsZero() {
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
	_, err = r.alone(false, func() error {
		if err := r.setRetired(ctx, needed); err != nil {
			return err
		}
		r.cfg.Log.Info("old keys of the link are gone", "keys", len(old)-len(needed))
		return r.load()
	})
	return err
}
