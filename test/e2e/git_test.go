package e2e

import (
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/test/harness"
)

// TestCodeFromGit takes the code from a private repository on a real Git server.
func TestCodeFromGit(t *testing.T) {
	w := up(t, "--demo")
	root, work := t.TempDir(), t.TempDir()
	git := func(dir string, args ...string) string {
		cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git(root, "init", "-q", "--bare", "code.git")
	git(work, "init", "-q")
	if err := os.WriteFile(filepath.Join(work, "train.sh"), []byte("echo trained by git\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	git(work, "add", ".")
	git(work, "commit", "-q", "-m", "one")
	commit := git(work, "rev-parse", "HEAD")
	git(work, "push", "-q", filepath.Join(root, "code.git"), "main")
	backend := git(work, "--exec-path") + "/git-http-backend"
	srv := harness.ServeOutside(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "pass-word" {
			rw.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(rw, "no", http.StatusUnauthorized)
			return
		}
		(&cgi.Handler{Path: backend, Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"}}).ServeHTTP(rw, r)
	}))

	r := w.fermi("train", "run", "--name", "denied", "--git", srv.URL+"/code.git", "--", "sh", "train.sh")
	if r.code != 126 {
		t.Errorf("without credentials: %d %s", r.code, r.err)
	}
	task := w.phase("denied", api.PhaseFailed)
	if task.Status.Failure == nil || task.Status.Failure.Reason != "StartFailed" || !strings.Contains(task.Status.Failure.Message.EN, "refused the credentials") {
		t.Errorf("%+v", task.Status.Failure)
	}
	w.must("secret", "set", "word", "--type", "git", "password="+valueFile(t, "pass-word"))
	if r = w.fermi("train", "run", "--name", "open", "--git", srv.URL+"/code.git", "--git-secret", "word", "--", "true"); r.code != 2 || !strings.Contains(r.err, "use https or ssh") {
		t.Errorf("a password over plain http: %d %s", r.code, r.err)
	}
	server := harness.NewGitServer(t, root)
	w.must("secret", "set", "repo", "--type", "git", "ssh-privatekey="+valueFile(t, server.PrivateKey), "known_hosts="+valueFile(t, server.KnownHosts))
	r = w.fermi("train", "run", "--name", "allowed", "--git", server.URL+"/code.git", "--revision", "main", "--git-secret", "repo", "--", "sh", "train.sh")
	if r.code != 0 {
		t.Fatalf("with credentials: %d\n%s\n%s", r.code, r.out, r.err)
	}
	contains(t, r.out, "trained by git")
	contains(t, w.must("logs", "allowed"), commit)
}
