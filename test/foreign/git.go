package foreign

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// GitServer gives the repositories of a folder to one key, over SSH.
type GitServer struct {
	URL        string // of the folder
	PrivateKey string // of who may read
	KnownHosts string
}

// Git serves on a listener, with the real git-upload-pack.
func Git(t testing.TB, l net.Listener, root string) GitServer {
	t.Helper()
	host, err := newSigner()
	public, private, kerr := ed25519.GenerateKey(rand.Reader)
	if err := errors.Join(err, kerr); err != nil {
		t.Fatal(err)
	}
	reader, err := ssh.NewPublicKey(public)
	block, berr := ssh.MarshalPrivateKey(private, "")
	if err := errors.Join(err, berr); err != nil {
		t.Fatal(err)
	}
	cfg := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) == string(reader.Marshal()) {
			return nil, nil
		}
		return nil, errors.New("unknown key")
	}}
	cfg.AddHostKey(host)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serveGit(c, cfg, root)
		}
	}()
	name, port, _ := net.SplitHostPort(l.Addr().String())
	return GitServer{
		URL: "ssh://git@" + l.Addr().String(), PrivateKey: string(pem.EncodeToMemory(block)),
		KnownHosts: fmt.Sprintf("[%s]:%s %s", name, port, ssh.MarshalAuthorizedKey(host.PublicKey())),
	}
}

func newSigner() (ssh.Signer, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	return ssh.NewSignerFromKey(private)
}

func serveGit(c net.Conn, cfg *ssh.ServerConfig, root string) {
	conn, channels, requests, err := ssh.NewServerConn(c, cfg)
	if err != nil {
		return
	}
	defer conn.Close()
	go ssh.DiscardRequests(requests)
	for next := range channels {
		ch, reqs, err := next.Accept()
		if err != nil {
			return
		}
		for req := range reqs {
			if req.Type != "exec" || len(req.Payload) < 4 {
				_ = req.Reply(req.Type == "env", nil)
				continue
			}
			_ = req.Reply(true, nil)
			repo := strings.Trim(strings.TrimPrefix(string(req.Payload[4:]), "git-upload-pack "), "'")
			_, _ = ch.SendRequest("exit-status", false, []byte{0, 0, 0, uploadPack(ch, filepath.Join(root, filepath.Base(repo)))})
			ch.Close()
		}
	}
}

func uploadPack(ch ssh.Channel, repo string) (code byte) {
	cmd := exec.Command("git-upload-pack", repo)
	in, err := cmd.StdinPipe()
	cmd.Stdout, cmd.Stderr = ch, ch.Stderr()
	if err != nil || cmd.Start() != nil {
		return 1
	}
	go func() { _, _ = io.Copy(in, ch); in.Close() }()
	if cmd.Wait() != nil {
		return 1
	}
	return 0
}
