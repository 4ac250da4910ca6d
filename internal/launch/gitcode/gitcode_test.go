package gitcode_test

import (
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/gitcode"
	"github.com/fermi-cluster/fermi/test/foreign"
)

// git runs the real program.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "protocol.file.allow=always", "-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

type repos struct {
	root  string // bare repositories: main.git, sub.git, evil.git
	first string // the first commit of main
}

// makeRepos builds main (tag v1, branch main, branch work with a submodule) and evil, whose submodule
// wants to read this machine's disk. base is the URL under which sub.git will be found.
func makeRepos(t *testing.T, base string) repos {
	t.Helper()
	root, work := t.TempDir(), t.TempDir()
	for _, name := range []string{"main", "sub", "evil"} {
		git(t, root, "init", "-q", "--bare", name+".git")
		git(t, work, "init", "-q", name)
	}
	commit := func(name, file, text string) string {
		dir := filepath.Join(work, name)
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		git(t, dir, "add", ".")
		git(t, dir, "commit", "-q", "-m", text)
		return git(t, dir, "rev-parse", "HEAD")
	}
	push := func(name string, refs ...string) {
		git(t, filepath.Join(work, name), append([]string{"push", "-q", filepath.Join(root, name+".git")}, refs...)...)
	}
	commit("sub", "lib.py", "library")
	push("sub", "main")
	r := repos{root: root, first: commit("main", "train.py", "one")}
	git(t, filepath.Join(work, "main"), "tag", "v1")
	commit("main", "train.py", "two")
	git(t, filepath.Join(work, "main"), "checkout", "-q", "-b", "work")
	module := func(name, url string) {
		dir := filepath.Join(work, name)
		git(t, dir, "submodule", "add", "-q", filepath.Join(root, "sub.git"), "lib")
		git(t, dir, "config", "-f", ".gitmodules", "submodule.lib.url", url)
		git(t, dir, "add", ".")
		git(t, dir, "commit", "-q", "-m", "with a submodule")
	}
	module("main", base+"/sub.git")
	push("main", "main", "work", "v1")
	commit("evil", "x", "x")
	module("evil", filepath.Join(root, "sub.git"))
	push("evil", "main")
	return r
}

// httpServer is git's own server side behind a password.
func httpServer(t *testing.T) (*httptest.Server, *string) {
	t.Helper()
	path := git(t, t.TempDir(), "--exec-path") + "/git-http-backend"
	root := new(string)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, ok := r.BasicAuth(); !ok || user != "robot" || password != "pass-word" {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		(&cgi.Handler{Path: path, Env: []string{"GIT_PROJECT_ROOT=" + *root, "GIT_HTTP_EXPORT_ALL=1"}}).ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv, root
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

var password = map[string]string{gitcode.KeyUsername: "robot", gitcode.KeyPassword: "pass-word"}

func TestOverHTTP(t *testing.T) {
	srv, root := httpServer(t)
	r := makeRepos(t, srv.URL)
	*root = r.root
	tests := map[string]struct {
		source gitcode.Source
		want   string // of train.py
		lib    bool
		reason string
	}{
		"default branch": {gitcode.Source{URL: srv.URL + "/main.git", Secret: password}, "two", false, ""},
		"branch":         {gitcode.Source{URL: srv.URL + "/main.git", Revision: "main", Secret: password}, "two", false, ""},
		"tag":            {gitcode.Source{URL: srv.URL + "/main.git", Revision: "v1", Secret: password}, "one", false, ""},
		"commit":         {gitcode.Source{URL: srv.URL + "/main.git", Revision: r.first, Secret: password}, "one", false, ""},
		"submodule":      {gitcode.Source{URL: srv.URL + "/main.git", Revision: "work", Submodules: true, Secret: password}, "two", true, ""},
		"no revision":    {gitcode.Source{URL: srv.URL + "/main.git", Revision: "nothing", Secret: password}, "", false, "NoSuchRevision"},
		"no repository":  {gitcode.Source{URL: srv.URL + "/none.git", Secret: password}, "", false, "NoSuchRepository"},
		"no password":    {gitcode.Source{URL: srv.URL + "/main.git"}, "", false, "GitRefused"},
		"wrong password": {gitcode.Source{URL: srv.URL + "/main.git", Secret: map[string]string{gitcode.KeyPassword: "guess"}}, "", false, "GitRefused"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			commit, err := gitcode.Clone(t.Context(), tc.source, dir, t.TempDir())
			if fault.ReasonOf(err) != tc.reason {
				t.Fatalf("got %v, want %q", err, tc.reason)
			}
			if err != nil {
				if strings.Contains(err.Error(), "pass-word") || strings.Contains(err.Error(), "guess") {
					t.Error("the password is in the error:", err)
				}
				return
			}
			if got := read(t, filepath.Join(dir, "train.py")); got != tc.want || len(commit) != 40 {
				t.Errorf("%q at %s", got, commit)
			}
			if tc.lib && read(t, filepath.Join(dir, "lib", "lib.py")) != "library" {
				t.Error("no submodule")
			}
		})
	}
}

func TestAStrangersSubmoduleReadsNoDisk(t *testing.T) {
	srv, root := httpServer(t)
	*root = makeRepos(t, srv.URL).root
	dir := t.TempDir()
	if _, err := gitcode.Clone(t.Context(), gitcode.Source{URL: srv.URL + "/evil.git", Submodules: true, Secret: password}, dir, t.TempDir()); err == nil {
		t.Error("a submodule on this machine's disk was followed")
	}
	if _, err := os.Stat(filepath.Join(dir, "lib", "lib.py")); err == nil {
		t.Error("its file is there")
	}
}

// sshServer gives the repositories of a folder over SSH.
func sshServer(t *testing.T, root string) foreign.GitServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return foreign.Git(t, l, root)
}

func TestOverSSH(t *testing.T) {
	r := makeRepos(t, "https://nowhere.invalid")
	server, other := sshServer(t, r.root), sshServer(t, r.root)
	secret := map[string]string{gitcode.KeyPrivateKey: server.PrivateKey, gitcode.KeyKnownHosts: server.KnownHosts}
	url := server.URL + "/main.git"
	tmp := t.TempDir()
	dir := t.TempDir()
	if _, err := gitcode.Clone(t.Context(), gitcode.Source{URL: url, Revision: "v1", Secret: secret}, dir, tmp); err != nil {
		t.Fatal(err)
	}
	if got := read(t, filepath.Join(dir, "train.py")); got != "one" {
		t.Errorf("got %q", got)
	}
	if left, _ := os.ReadDir(tmp); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	for name, bad := range map[string]map[string]string{
		"NoCredentials": {gitcode.KeyPrivateKey: secret[gitcode.KeyPrivateKey]},
		"BadPrivateKey": {gitcode.KeyPrivateKey: "no key", gitcode.KeyKnownHosts: server.KnownHosts},
		"UnknownHost":   {gitcode.KeyPrivateKey: secret[gitcode.KeyPrivateKey], gitcode.KeyKnownHosts: other.KnownHosts},
	} {
		if _, err := gitcode.Clone(t.Context(), gitcode.Source{URL: url, Secret: bad}, t.TempDir(), t.TempDir()); fault.ReasonOf(err) != name {
			t.Errorf("want %s, got %v", name, err)
		}
	}
}
