package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestPeople takes users, projects and tokens through all their verbs, and a browser through the
// address that `fermi up` prints, a restart, and a changed password.
func TestPeople(t *testing.T) {
	w := up(t)
	w.must("user", "create", "ann", "--role", "member")
	w.passwd("ann", "first secret")
	w.must("project", "create", "lab")
	w.must("project", "add-member", "lab", "ann", "ann")
	w.must("user", "create", "bo", "--project", "lab")
	if out := w.must("project", "list"); !strings.Contains(out, "bo") {
		t.Error(out)
	}
	if out := w.must("project", "list"); strings.Count(out, "ann") != 1 {
		t.Error(out)
	}
	secret := strings.TrimSpace(w.must("token", "create", "bot", "--user", "ann", "--scope", "read", "--only-project", "lab", "--expires", "1h"))
	as := func(args ...string) result { return w.fermiIn(t.TempDir(), []string{"FERMI_TOKEN=" + secret}, args...) }
	if r := as("train", "list"); r.code != 0 {
		t.Errorf("%+v", r)
	}
	if r := as("train", "run", "--detach", "--no-code", "--project", "lab", "--", "true"); r.code != 4 || !strings.Contains(r.err, "scope is read") {
		t.Errorf("%+v", r)
	}
	code := regexp.MustCompile(`/#code=(\S+)`).FindStringSubmatch(w.LogTail())
	for try := 0; code == nil; try++ {
		if try == 100 {
			t.Fatalf("no sign-in address in:\n%s", w.LogTail())
		}
		w.must("version")
		code = regexp.MustCompile(`/#code=(\S+)`).FindStringSubmatch(w.LogTail())
	}
	admin, status := w.signIn(fmt.Sprintf(`{"code":%q}`, code[1]))
	ann, annStatus := w.signIn(`{"user":"ann","password":"first secret"}`)
	if status != 200 || annStatus != 200 {
		t.Fatal(status, annStatus)
	}
	if _, again := w.signIn(fmt.Sprintf(`{"code":%q}`, code[1])); again != 401 {
		t.Errorf("a used code: %d", again)
	}
	if out := strings.TrimSpace(w.must("signin")); !strings.HasPrefix(out, "http://"+w.Addr+"/#code=fermi_code-") {
		t.Error(out)
	}
	w.Kill()
	w.start()
	if a, b := w.session(admin), w.session(ann); a != 200 || b != 200 {
		t.Errorf("after a restart: %d %d", a, b)
	}
	w.passwd("ann", "second secret")
	w.becomes(ann, 401)
	w.must("user", "sign-out", "admin")
	w.becomes(admin, 401)
	w.must("user", "disable", "ann")
	if _, off := w.signIn(`{"user":"ann","password":"second secret"}`); off != 401 {
		t.Errorf("disabled: %d", off)
	}
	if r := as("whoami"); r.code != 4 {
		t.Errorf("%+v", r)
	}
	w.must("user", "enable", "ann")
	w.must("project", "remove-member", "lab", "ann")
	w.must("token", "revoke", "bot")
	w.must("project", "delete", "lab")
	w.must("user", "delete", "ann")
}

func (w *world) passwd(user, password string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), w.Bin, "user", "passwd", user)
	cmd.Env = append(os.Environ(), "FERMI_SERVER=http://"+w.Addr, "FERMI_DATA="+w.Dir, "FERMI_TOKEN=")
	cmd.Stdin = bytes.NewBufferString(password + "\n")
	if out, err := cmd.CombinedOutput(); err != nil || bytes.Contains(out, []byte(password)) {
		w.t.Fatalf("%v: %s", err, out)
	}
}

// signIn is a browser's: the cookie and the status.
func (w *world) signIn(body string) (string, int) {
	w.t.Helper()
	resp, err := http.Post("http://"+w.Addr+"/api/v1/session", "application/json", strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	cookie, _, _ := strings.Cut(resp.Header.Get("Set-Cookie"), ";")
	return cookie, resp.StatusCode
}

func (w *world) session(cookie string) int {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://"+w.Addr+"/api/v1/session", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Cookie", cookie)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// becomes waits for the watch cache, which is milliseconds behind the write.
func (w *world) becomes(cookie string, want int) {
	w.t.Helper()
	for range 1000 {
		if w.session(cookie) == want {
			return
		}
	}
	w.t.Fatalf("the session never became %d", want)
}
