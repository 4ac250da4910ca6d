package v1

import (
	"net"
	"net/url"
	"strings"

	"github.com/fermi-cluster/fermi/internal/pattern"
)

var (
	gitRevision = pattern.New(`^[A-Za-z0-9][A-Za-z0-9._/+-]{0,254}$`)
	gitShort    = pattern.New(`^[A-Za-z0-9_][A-Za-z0-9._-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[^:\s][^\s]*$`) // user@host:path, as git writes SSH addresses
)

const maxGitURL = 2048

// git checks a source. What looks like an option, reads a disk or carries a password is refused.
func (f *faults) git(at string, g *Git) {
	if g.Revision != "" && (!gitRevision.MatchString(g.Revision) || strings.Contains(g.Revision, "..")) {
		f.add(at+".revision", "%s is not a branch, tag or commit such as main, v1.2 or 3f2a9c1.", "%s 不是分支、标签或提交，例如 main、v1.2 或 3f2a9c1。", quote(g.Revision))
	}
	if g.Secret != "" {
		f.name(at+".secret", g.Secret)
	}
	if len(g.URL) <= maxGitURL && gitShort.MatchString(g.URL) {
		return
	}
	u, err := url.Parse(g.URL)
	ok := err == nil && len(g.URL) <= maxGitURL && (u.Scheme == "https" || u.Scheme == "http" || u.Scheme == "ssh") &&
		u.Hostname() != "" && !strings.HasPrefix(u.Hostname(), "-") && u.Path != "" && u.RawQuery == "" && u.Fragment == ""
	if !ok {
		f.add(at+".url", "This is no address of a repository: use https://host/path, ssh://git@host/path or git@host:path.", "仓库地址无效：请使用 https://host/path、ssh://git@host/path 或 git@host:path。")
		return
	}
	if _, password := u.User.Password(); password {
		f.add(at+".url", "A password does not belong into an address, where everybody reads it: put it into a secret and name that in secret.", "地址中不能包含密码（人人可见）：请存入密钥并在 secret 中引用。")
	}
	if ip := net.ParseIP(u.Hostname()); u.Scheme == "http" && g.Secret != "" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		f.add(at+".url", "Over plain http the secret would be readable on the way: use https or ssh.", "明文 http 会在途中暴露密钥：请使用 https 或 ssh。")
	}
}
