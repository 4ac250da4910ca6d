package workbench

import (
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/test/harness"
)

// gitServer serves a repository with two branches by git's own program.
func gitServer(t *testing.T) (url string) {
	t.Helper()
	root := t.TempDir()
	core, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	git := func(dir string, args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	work := filepath.Join(root, "work")
	if err := os.MkdirAll(filepath.Join(work, ".config"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"train.py": "print(1)\n", ".vimrc": "set number\n", ".config/tool": "x\n", ".gitignore": "*.o\n"} {
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git(work, "init", "-q")
	git(work, "add", "-A")
	git(work, "commit", "-qm", "one")
	git(work, "checkout", "-qb", "next")
	if err := os.WriteFile(filepath.Join(work, "train.py"), []byte("print(2)\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	git(work, "commit", "-qam", "two")
	git(work, "checkout", "-q", "main")
	git(root, "clone", "-q", "--bare", "work", "code.git")
	s := harness.ServeOutside(t, &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(core)), "git-http-backend"), Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	})
	if resp, err := http.Get(s.URL + "/code.git/info/refs?service=git-upload-pack"); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", resp, err)
	} else {
		resp.Body.Close()
	}
	return s.URL
}

// TestGit: a repository and dotfiles are in the home from the first start on, and are left alone afterwards; what can't be cloned is told by its field.
func TestGit(t *testing.T) {
	at := gitServer(t)
	w := newWorld(t)
	w.must("ann", "env", "create", "g", "--cpu", "500m", "--memory", "256Mi", "--git", at+"/code.git@next", "--dotfiles", at+"/code.git")
	out := w.must("ann", "env", "shell", "g", "--", "sh", "-c", "cat code/train.py; git -C code status --short 2>&1 | head -3; cat .vimrc .config/tool; ls -A; echo mine > code/train.py; rm .vimrc")
	for _, want := range []string{"print(2)", "set number", "\nx\n", ".dotfiles"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	if strings.Contains(out, ".gitignore\n") || strings.Contains(out, ".fermi-clone") {
		t.Errorf("in the home:\n%s", out)
	}
	w.must("ann", "env", "stop", "g")
	w.must("ann", "env", "start", "g")
	if out := w.must("ann", "env", "shell", "g", "--", "sh", "-c", "cat code/train.py; ls -A"); !strings.HasPrefix(out, "mine\n") || strings.Contains(out, ".vimrc") {
		t.Errorf("after another start:\n%s", out)
	}
	for field, args := range map[string][]string{
		"--git":        {"--git", "file:///etc"},
		"--dotfiles":   {"--dotfiles", "ext::sh -c id"},
		"--git-secret": {"--git", "https://git.example.org/a.git", "--git-secret", "nothing"},
	} {
		if out, code := w.fermi("ann", "", append([]string{"env", "create", "bad", "--cpu", "500m"}, args...)...); code == 0 || !strings.Contains(out, field) {
			t.Errorf("%v: exit code %d\n%s", args, code, out)
		}
	}
	if out, code := w.fermi("ann", "", "env", "create", "bad", "--cpu", "500m", "--memory", "256Mi", "--git", at+"/none.git"); code == 0 {
		t.Errorf("a repository that is not there: %s", out)
	}
	if out := w.must("ann", "env", "logs", "bad"); !strings.Contains(out, "spec.git.url") {
		t.Errorf("its log does not say why: %s", out)
	}
}
