package app

import (
	"context"
	"path/filepath"

	"github.com/fermi-cluster/fermi/internal/app/keyring"
	"github.com/fermi-cluster/fermi/internal/app/rotation"
	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/seal"
	"github.com/fermi-cluster/fermi/internal/store/safe"
)

// isApart says that there may be other servers that share no folder with this one.
func isApart(cfg Config) bool { return cfg.Bytes.Place != "" && len(cfg.Etcd.Endpoints) > 0 }

// openBytes opens the store of bytes.
func openBytes(cfg Config) (ckpt.Store, error) {
	if cfg.Bytes.Place != "" {
		return openShared(cfg.Bytes, nil)
	}
	return folder.Open(filepath.Join(cfg.Shared, "blobs"))
}

// openKeys reads the keys, those of all servers where they are apart.
func (p *part) openKeys(ctx context.Context) (err error) {
	var ring *keyring.Ring
	if isApart(p.cfg) {
		files := []keyring.File{{Name: rotation.Secret, Most: 2}, {Name: rotation.Link, Most: 1}, {Name: sshKeyFile, Most: 1}, {Name: rotation.LinkOld}}
		if ring, err = keyring.New(safe.New(p.client, p.cfg.EtcdPrefix), p.cfg.KeyFile, p.cfg.Shared, files); err == nil {
			err = ring.Await(ctx, p.cfg.Log)
		}
		if err != nil {
			return err
		}
	}
	p.keys, err = rotation.Open(rotation.Config{Dir: p.cfg.Shared, Several: p.cfg.outside(), Ring: ring, Log: p.cfg.Log, Further: map[string]func(context.Context) (fault.Text, error){
		"admin-token": func(ctx context.Context) (fault.Text, error) { return p.admin.rotate(ctx) },
		"tls":         p.rotateTLS,
		"ssh-key": func(ctx context.Context) (fault.Text, error) {
			return p.ssh.Rotate(func() error { return ring.Replace(ctx, filepath.Join(p.cfg.Shared, sshKeyFile), seal.NewKey()) })
		},
	}})
	return err
}
