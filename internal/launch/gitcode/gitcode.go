// Package gitcode brings a revision of a Git repository into a folder.
//
// Place: layer 4, beside launch. Promise: only http, https and ssh are spoken, to the repository and
// to its submodules; a host is believed only by its known key; credentials never reach a URL, the
// command line, a file that stays, or an error. No git program is needed. Enemies: option injection
// (nothing is executed), `file:` and `ext:` in a stranger's .gitmodules, half a checkout.
package gitcode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	git "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/plumbing/transport/client"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Keys of a secret that hold Git credentials.
const (
	KeyUsername   = api.KeyUsername
	KeyPassword   = api.KeyPassword
	KeyPrivateKey = api.KeySSHPrivateKey
	KeyKnownHosts = api.KeySSHKnownHosts
)

// Keys lists them.
var Keys = []string{KeyUsername, KeyPassword, KeyPrivateKey, KeyKnownHosts}

// Source is what to bring.
type Source struct {
	URL        string
	Revision   string // branch, tag or commit; the default branch when ""
	Submodules bool
	// Secret holds the credentials by key; nil for public repositories.
	Secret map[string]string
}

// onlyNetwork takes away the transports that read this machine's disk or start programs.
var onlyNetwork = sync.OnceFunc(func() {
	client.InstallProtocol("file", nil)
	client.InstallProtocol("git", nil)
})

// Clone brings the source into dir, which must be empty, and says which commit it is. tmp is a
// private folder. Faults are final and for the user; any other error may pass when tried again.
func Clone(ctx context.Context, s Source, dir, tmp string) (commit string, err error) {
	onlyNetwork()
	auth, done, err := s.auth(tmp)
	if err != nil {
		return "", err
	}
	defer done()
	repo, err := git.PlainCloneContext(ctx, dir, false, &git.CloneOptions{URL: s.URL, Auth: auth, NoCheckout: true, Tags: git.AllTags})
	if err != nil {
		return "", s.explain(err)
	}
	hash, err := resolve(repo, s.Revision)
	if err != nil {
		return "", fault.New(fault.NotFound, "NoSuchRevision", fault.T(
			"The repository has no branch, tag or commit %q.", "仓库中没有分支、标签或提交 %q。", s.Revision)).
			WithHint(fault.T("Check spec.code.git.revision, and that it was pushed.", "请检查 spec.code.git.revision，并确认已推送。")).Because(err)
	}
	tree, err := repo.Worktree()
	if err != nil {
		return "", err
	}
	if err := tree.Checkout(&git.CheckoutOptions{Hash: hash}); err != nil {
		return "", fmt.Errorf("check out %s: %w", hash, err)
	}
	if s.Submodules {
		if err := submodules(ctx, tree, auth); err != nil {
			return "", s.explain(err)
		}
	}
	return hash.String(), nil
}

func submodules(ctx context.Context, tree *git.Worktree, auth transport.AuthMethod) error {
	subs, err := tree.Submodules()
	if err != nil {
		return err
	}
	return subs.UpdateContext(ctx, &git.SubmoduleUpdateOptions{Init: true, RecurseSubmodules: git.DefaultSubmoduleRecursionDepth, Auth: auth})
}

// resolve tries the name as it is, then as a branch of the remote: nothing else was checked out.
func resolve(repo *git.Repository, revision string) (plumbing.Hash, error) {
	if revision == "" {
		head, err := repo.Head()
		if err != nil {
			return plumbing.ZeroHash, err
		}
		return head.Hash(), nil
	}
	if hash, err := repo.ResolveRevision(plumbing.Revision("refs/remotes/origin/" + revision)); err == nil {
		return *hash, nil
	}
	hash, err := repo.ResolveRevision(plumbing.Revision(revision))
	if err != nil {
		return plumbing.ZeroHash, err
	}
	return *hash, nil
}

// overSSH says whether the URL is ssh://… or user@host:path.
func overSSH(url string) bool {
	return strings.HasPrefix(url, "ssh://") || !strings.Contains(url, "://")
}

// auth makes the credentials; done removes what they needed on disk.
func (s Source) auth(tmp string) (auth transport.AuthMethod, done func(), err error) {
	done = func() {}
	if !overSSH(s.URL) {
		if s.Secret[KeyPassword] == "" {
			return nil, done, nil
		}
		user := s.Secret[KeyUsername]
		if user == "" {
			user = "git"
		}
		return &githttp.BasicAuth{Username: user, Password: s.Secret[KeyPassword]}, done, nil
	}
	if s.Secret[KeyPrivateKey] == "" || s.Secret[KeyKnownHosts] == "" {
		return nil, done, fault.New(fault.Invalid, "NoCredentials", fault.T(
			"Git over SSH needs a secret with the keys %s and %s.", "通过 SSH 访问 Git 需要包含键 %s 和 %s 的密钥。", KeyPrivateKey, KeyKnownHosts)).
			WithHint(fault.T("fermi secret set NAME ssh-privatekey=FILE known_hosts=FILE, then spec.code.git.secret: NAME.",
				"执行 fermi secret set NAME ssh-privatekey=FILE known_hosts=FILE，并设置 spec.code.git.secret: NAME。"))
	}
	keys, err := gitssh.NewPublicKeys("git", []byte(s.Secret[KeyPrivateKey]), "")
	if err != nil {
		return nil, done, fault.New(fault.Invalid, "BadPrivateKey", fault.T(
			"The secret's %s is no private key without a passphrase.", "密钥中的 %s 不是无口令的私钥。", KeyPrivateKey)).Because(err)
	}
	hosts := filepath.Join(tmp, "known_hosts")
	if err := os.WriteFile(hosts, []byte(s.Secret[KeyKnownHosts]), 0o600); err != nil {
		return nil, done, err
	}
	if keys.HostKeyCallback, err = gitssh.NewKnownHostsCallback(hosts); err != nil {
		return nil, done, errors.Join(os.Remove(hosts), fault.New(fault.Invalid, "BadKnownHosts", fault.T(
			"The secret's %s can't be read.", "密钥中的 %s 无法读取。", KeyKnownHosts)).Because(err))
	}
	return keys, func() { _ = os.Remove(hosts) }, nil
}

// explain turns what can't pass by itself into a fault.
func (s Source) explain(err error) error {
	text := err.Error()
	switch {
	case errors.Is(err, transport.ErrAuthenticationRequired), errors.Is(err, transport.ErrAuthorizationFailed),
		errors.Is(err, transport.ErrInvalidAuthMethod), strings.Contains(text, "unable to authenticate"):
		return fault.New(fault.Forbidden, "GitRefused", fault.T("The Git server refused the credentials.", "Git 服务器拒绝了凭据。")).
			WithHint(fault.T("Check spec.code.git.secret and its keys.", "请检查 spec.code.git.secret 及其中的键。")).Because(err)
	case errors.Is(err, transport.ErrRepositoryNotFound), errors.Is(err, transport.ErrEmptyRemoteRepository):
		return fault.New(fault.NotFound, "NoSuchRepository", fault.T("There is no such repository, it is empty, or it is not shown to you.", "仓库不存在、为空，或您无权访问。")).
			WithHint(fault.T("Check spec.code.git.url; a private one needs spec.code.git.secret.", "请检查 spec.code.git.url；私有仓库需要 spec.code.git.secret。")).Because(err)
	case strings.Contains(text, "knownhosts:"):
		return fault.New(fault.Forbidden, "UnknownHost", fault.T("The Git server's host key is not the one in known_hosts.", "Git 服务器的主机密钥与 known_hosts 不符。")).Because(err)
	case strings.Contains(text, "unsupported scheme"), strings.Contains(text, "protocol not supported"):
		return fault.New(fault.Invalid, "BadScheme", fault.T("A submodule has a URL that is neither http, https nor ssh.", "子模块的 URL 不是 http、https 或 ssh。")).Because(err)
	}
	return err
}
