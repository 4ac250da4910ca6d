// Package sshgate holds the address and the host key of SSH.
//
// Place: layer 6, assembly; app opens it and hands it to the server. Promise: all servers of a folder show the same key, which is made of a
// file of the folder; one that is replaced there is shown to new connections. Enemies: a key that changes by itself.
package sshgate

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"net"
	"sync"

	"golang.org/x/crypto/ssh"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Gate is an open one; nil: SSH is not answered. Safe for concurrent use.
type Gate struct {
	listener net.Listener
	secret   func() ([]byte, error)

	mu     sync.Mutex
	used   []byte
	signer ssh.Signer
}

// Open takes an address, if there is one; secret is what the key is made of.
func Open(address string, secret func() ([]byte, error)) (*Gate, error) {
	if address == "" {
		return nil, nil
	}
	g := &Gate{secret: secret}
	err := g.Load()
	if err != nil {
		return nil, err
	}
	if g.listener, err = net.Listen("tcp", address); err != nil {
		return nil, fault.New(fault.Conflict, "AddressInUse", fault.T("Can't listen on %s for SSH.", "无法在 %s 上监听 SSH。", address)).
			WithHint(fault.T("Choose another address with --ssh.", "可用 --ssh 换一个地址。")).Because(err)
	}
	return g, nil
}

// Load takes over a key that was replaced.
func (g *Gate) Load() error {
	if g == nil {
		return nil
	}
	secret, err := g.secret()
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if bytes.Equal(secret, g.used) {
		return nil
	}
	seed, err := hkdf.Key(sha256.New, secret, nil, "fermi ssh host key", ed25519.SeedSize)
	if err != nil {
		return err
	}
	signer, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(seed))
	if err == nil {
		g.used, g.signer = secret, signer
	}
	return err
}

func (g *Gate) key() ssh.Signer {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.signer
}

// At is where SSH is answered, and with which key; 0: nowhere.
func (g *Gate) At() (port int, key ssh.Signer) {
	if g == nil {
		return 0, nil
	}
	return g.listener.Addr().(*net.TCPAddr).Port, g.key()
}

// Run has serve answer until ctx ends.
func (g *Gate) Run(ctx context.Context, serve func(context.Context, net.Listener, func() ssh.Signer) error) error {
	if g == nil {
		<-ctx.Done()
		return nil
	}
	return serve(ctx, g.listener, g.key)
}

// Rotate has the file replaced; new connections see the new key.
func (g *Gate) Rotate(replace func() error) (fault.Text, error) {
	if g == nil {
		return fault.Text{}, fault.New(fault.Conflict, "NothingToRotate", fault.T("This server has no door for SSH (--ssh).", "该服务器未开启 SSH（--ssh）。"))
	}
	if err := replace(); err != nil {
		return fault.Text{}, err
	}
	if err := g.Load(); err != nil {
		return fault.Text{}, err
	}
	return fault.T("The new host key is %s: users run `fermi env ssh-config --write` again.", "新主机密钥为 %s：用户需重新运行 `fermi env ssh-config --write`。", ssh.FingerprintSHA256(g.key().PublicKey())), nil
}
