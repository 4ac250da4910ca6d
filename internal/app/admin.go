package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/app/keyfile"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/server/door"
	"github.com/fermi-cluster/fermi/internal/store"
)

const (
	tokenFile    = "admin.token"
	tokenOldFile = tokenFile + ".old"

	adminTokenTitle = "Administrator's token of this folder"
)

// adminToken is the token in the folder. The file has a new one before the store knows it, as at the first start; the name of the
// old one is in admin.token.old until the store has forgotten it.
type adminToken struct {
	dir   string
	store *store.Store
}

// ensure sees to it that the token in the file works: the file is written first, then its
// hash goes into the store; a crash in between is mended here at the next start.
func (a *adminToken) ensure(ctx context.Context, meta func(prefix, name, display string) api.Meta) error {
	path := filepath.Join(a.dir, tokenFile)
	secret, err := readToken(path)
	if errors.Is(err, fs.ErrNotExist) {
		if secret, _, err = door.NewSecret(adminName+"-"+id.Default.Random(6), rand.Reader); err == nil {
			err = keyfile.Make(path, []byte(secret+"\n"))
		}
	}
	if err != nil {
		return fmt.Errorf("admin token: %w", err)
	}
	if err := a.forget(ctx); err != nil {
		return fmt.Errorf("old admin token: %w", err)
	}
	name := strings.Split(secret, "_")[1]
	t := &api.Token{Meta: meta("tok", name, adminTokenTitle), Spec: api.TokenSpec{User: adminName, Hash: door.HashSecret(secret)}}
	return createOnce(ctx, a.store, t)
}

// rotate makes a new admin token; the old one ends at once.
func (a *adminToken) rotate(ctx context.Context) (fault.Text, error) {
	path := filepath.Join(a.dir, tokenFile)
	was, err := readToken(path)
	if err != nil {
		return fault.Text{}, fmt.Errorf("admin token: %w", err)
	}
	if err := a.forget(ctx); err != nil { // of a rotation that a crash cut off
		return fault.Text{}, err
	}
	secret, hash, err := door.NewSecret(adminName+"-"+id.Default.Random(6), rand.Reader)
	if err != nil {
		return fault.Text{}, err
	}
	if err := keyfile.Replace(filepath.Join(a.dir, tokenOldFile), []byte(strings.Split(was, "_")[1]+"\n")); err != nil {
		return fault.Text{}, err
	}
	if err := keyfile.Replace(path, []byte(secret+"\n")); err != nil {
		return fault.Text{}, err
	}
	now := clock.Real.Now().UTC()
	t := &api.Token{
		Meta: api.Meta{ID: id.Default.New("tok"), Name: strings.Split(secret, "_")[1], DisplayName: adminTokenTitle, CreatedAt: now, UpdatedAt: now},
		Spec: api.TokenSpec{User: adminName, Hash: hash},
	}
	if err := createOnce(ctx, a.store, t); err != nil {
		return fault.Text{}, err
	}
	if err := a.forget(ctx); err != nil {
		return fault.Text{}, err
	}
	return fault.T("The new token is in %s; the old one does not work any more.", "新令牌已写入 %s；旧令牌已失效。", path), nil
}

// forget deletes the admin token that was replaced.
func (a *adminToken) forget(ctx context.Context) error {
	path := filepath.Join(a.dir, tokenOldFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	name := strings.TrimSpace(string(raw))
	if now, err := readToken(filepath.Join(a.dir, tokenFile)); err != nil || strings.Split(now, "_")[1] == name {
		return err // the new one was never written: the old one stays
	}
	if api.IsName(name) {
		if _, err := a.store.Commit(ctx, store.Txn{Ops: []store.Op{store.Delete(api.Key{Kind: api.KindToken, Name: name}, 0)}}); err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	return os.Remove(path)
}

func readToken(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(raw))
	if len(strings.Split(secret, "_")) < 3 || len(secret) > 256 {
		return "", fmt.Errorf("%s does not hold a token; delete it and start again to get a new one", path)
	}
	return secret, nil
}

// createOnce makes an object that is not there, and sees to it that the next reader finds it.
func createOnce(ctx context.Context, truth *store.Store, o api.Object) error {
	if _, err := truth.Get(ctx, api.KeyOf(o), 0); err == nil {
		return nil
	}
	revision, err := truth.Commit(ctx, store.Txn{Ops: []store.Op{store.Create(o)}})
	if fault.ReasonOf(err) == "NameTaken" {
		return nil // another server was faster
	}
	if err != nil {
		return err
	}
	_, err = truth.Get(ctx, api.KeyOf(o), revision) // who calls us once we are ready must find it
	return err
}
