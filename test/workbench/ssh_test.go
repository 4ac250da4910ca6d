package workbench

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

// laptop is a machine with OpenSSH's client and a key.
type laptop struct {
	w    *world
	home string
	key  string
	port int
	// agent is the socket of its SSH agent, if it has one.
	agent string
}

func newLaptop(w *world, name string) *laptop {
	w.t.Helper()
	if _, err := exec.LookPath("ssh"); err != nil {
		w.t.Skip("there is no OpenSSH client")
	}
	d, err := client.SSH(w.t.Context(), w.admin)
	if err != nil || d.Port == 0 {
		w.t.Fatalf("SSH is answered at %+v, %v", d, err)
	}
	l := &laptop{w: w, home: w.t.TempDir(), port: d.Port}
	l.key = filepath.Join(l.home, name)
	l.run(nil, 0, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", l.key)
	known := fmt.Sprintf("[127.0.0.1]:%d %s\n", d.Port, d.HostKey)
	if err := os.WriteFile(filepath.Join(l.home, "known"), []byte(known), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return l
}

// options are those of every call of ssh, scp and sftp.
func (l *laptop) options() []string {
	return []string{
		"-F", "/dev/null", "-i", l.key, "-o", "IdentitiesOnly=yes", "-o", "UserKnownHostsFile=" + filepath.Join(l.home, "known"), "-o", "StrictHostKeyChecking=yes", "-o", "LogLevel=INFO",
	}
}

// run runs a program of the laptop to its end and compares its status; -1: any but 0.
func (l *laptop) run(stdin io.Reader, want int, args ...string) (out, errs string) {
	l.w.t.Helper()
	ctx, cancel := context.WithTimeout(l.w.t.Context(), harness.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "HOME="+l.home, "SSH_AUTH_SOCK="+l.agent, "LC_TEST=grüße")
	cmd.Stdin = stdin
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		l.w.t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != want && !(want == -1 && got != 0) {
		l.w.t.Fatalf("%s: exit code %d, wanted %d\n%s\n%s", strings.Join(args, " "), got, want, &o, &e)
	}
	return o.String(), e.String()
}

// ssh runs a command, or more options, as a user name of SSH.
func (l *laptop) ssh(want int, stdin io.Reader, user string, args ...string) (out, errs string) {
	l.w.t.Helper()
	line := append([]string{"ssh"}, l.options()...)
	line = append(line, "-p", fmt.Sprint(l.port))
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		line, args = append(line, args[0]), args[1:]
	}
	return l.run(stdin, want, append(append(line, user+"@127.0.0.1"), args...)...)
}

// TestSSH: Debian's OpenSSH client as an ordinary member: commands, a shell with a terminal, sftp, scp, forwarded ports, keys that come and go.
func TestSSH(t *testing.T) {
	w := newWorld(t, "--ssh", "127.0.0.1:0")
	w.must("ann", "env", "create", "box", "--cpu", "500m", "--memory", "512Mi")
	ann, bob := newLaptop(w, "ann"), newLaptop(w, "bob")

	// Nobody's key: refused, with a word on what to do.
	if _, errs := ann.ssh(255, nil, "box.lab", "true"); !strings.Contains(errs, "fermi user key add") || !strings.Contains(errs, "Permission denied") {
		t.Errorf("an unknown key: %s", errs)
	}
	w.must("ann", "user", "key", "add", ann.key+".pub")
	w.must("bob", "user", "key", "add", bob.key+".pub")
	if out := w.must("ann", "user", "key", "list"); !strings.Contains(out, "SHA256:") || !strings.Contains(out, "ann") {
		t.Error(out)
	}
	for _, bad := range []string{ann.key, ann.key + ".pub", "/dev/null"} { // private, there already, nothing
		if out, code := w.fermi("ann", "", "user", "key", "add", bad); code == 0 {
			t.Errorf("%s was taken: %s", bad, out)
		}
	}
	if out, code := w.fermi("bob", "", "user", "key", "add", ann.key+".pub", "--user", "ann"); code == 0 {
		t.Errorf("bob adds a key for ann: %s", out)
	}

	// Commands: status, output and errors apart, input, variables, behind the wall, in the home.
	began := time.Now()
	out, errs := ann.ssh(7, strings.NewReader("hello"), "box.lab", "-oSendEnv=LC_TEST", "cat; echo oops >&2; echo; echo $LC_TEST; id -u; pwd; echo $HOME; exit 7")
	lines := strings.Split(out, "\n")
	if len(lines) < 5 || lines[0] != "hello" || lines[2] == "0" || lines[3] != lines[4] || !strings.Contains(errs, "oops") {
		t.Errorf("%q, %q", out, errs)
	}
	t.Logf("a command over SSH: %v", time.Since(began))
	if _, errs := ann.ssh(255, nil, "box.lab", "kill -TERM $$"); strings.Contains(errs, "fermi:") {
		t.Error(errs)
	}
	// A terminal, and the user name without a project.
	if out, _ := ann.ssh(3, strings.NewReader("tty; stty size; exit 3\n"), "box", "-tt"); !strings.Contains(out, "/dev/pts/") {
		t.Errorf("a terminal: %q", out)
	}

	// Files: scp and sftp, whole.
	data := make([]byte, 3<<20+17)
	rand.Read(data)
	file := filepath.Join(ann.home, "data")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	scp := append(append([]string{"scp", "-q"}, ann.options()...), "-P", fmt.Sprint(ann.port))
	ann.run(nil, 0, append(scp, file, "box.lab@127.0.0.1:kept")...)
	if out, _ := ann.ssh(0, nil, "box.lab", "sha256sum kept"); !strings.HasPrefix(out, fmt.Sprintf("%x", sha256.Sum256(data))) {
		t.Errorf("after scp: %s", out)
	}
	sftp := append(append([]string{"sftp", "-q", "-b", "-"}, ann.options()...), "-P", fmt.Sprint(ann.port), "box.lab@127.0.0.1")
	back := filepath.Join(ann.home, "back")
	ann.run(strings.NewReader("mkdir dir\nrename kept dir/kept\nget dir/kept "+back+"\n"), 0, sftp...)
	if got, err := os.ReadFile(back); err != nil || !bytes.Equal(got, data) {
		t.Errorf("after sftp: %d bytes, %v", len(got), err)
	}
	if _, errs := ann.run(strings.NewReader("get "+filepath.Join(w.Dir, "admin.token")+" "+back+"\n"), -1, sftp...); !strings.Contains(errs, "not found") && !strings.Contains(errs, "No such file") {
		t.Errorf("a file of the server over sftp: %s", errs)
	}

	// A port there as one here; a direction that ended before the other; nobody listens.
	if out, _ := ann.ssh(0, nil, "box.lab", "sh -c 'command -v python3'"); out != "" {
		testForward(t, ann)
		testBack(t, ann)
	}

	// Others: a member of the project, and a wrong name.
	for user, word := range map[string]string{"box.lab": "only its owner", "box.other": "There is no", "nothing.lab": "There is no", "../etc": "names no environment"} {
		if _, errs := bob.ssh(255, nil, user, "true"); !strings.Contains(errs, word) || !strings.Contains(errs, "Permission denied") {
			t.Errorf("bob as %s: %s", user, errs)
		}
	}
	// Stopped: said so.
	w.must("ann", "env", "stop", "box")
	if _, errs := ann.ssh(255, nil, "box.lab", "true"); !strings.Contains(errs, "fermi env start box") {
		t.Errorf("stopped: %s", errs)
	}
	w.must("ann", "env", "start", "box")

	// A key that is taken back ends what it opened.
	long := exec.CommandContext(t.Context(), "ssh", append(ann.options(), "-p", fmt.Sprint(ann.port), "box.lab@127.0.0.1", "echo in; sleep 1000")...)
	heard, err := long.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := long.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(heard, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	w.must("ann", "user", "key", "remove", "ann")
	ended := make(chan error, 1)
	go func() { ended <- long.Wait() }()
	select {
	case <-ended:
	case <-time.After(harness.Patience):
		t.Fatal("a key that was taken back still works")
	}
	ann.ssh(255, nil, "box.lab", "true")

	// Entries and refusals are in the audit.
	entries, err := w.admin.Audit(t.Context(), client.AuditOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, e := range entries {
		found[e.Actor+" "+e.Verb+" "+e.Outcome] = true
	}
	for _, want := range []string{"ann ssh ok", "bob ssh NotOwner", " signIn UnknownKey", "ann addKey ok", "ann removeKey ok"} {
		if !found[want] {
			t.Errorf("the audit has no %q: %v", want, found)
		}
	}
}

// testForward carries HTTP through -L, with a body sent and its end told.
func testForward(t *testing.T, l *laptop) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := free.Addr().String()
	free.Close()
	const script = `
import socket
s = socket.create_server(("127.0.0.1", 5000))
print("listening", flush=True)
while True:
    c, _ = s.accept()
    n = 0
    while True:
        b = c.recv(65536)
        if not b: break
        n += len(b)
    c.sendall(b"got %d" % n)
    c.close()
`
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, "ssh", append(l.options(), "-p", fmt.Sprint(l.port), "-L", at+":localhost:5000", "-o", "ExitOnForwardFailure=yes", "box.lab@127.0.0.1", "python3 -u -")...)
	cmd.Stdin = strings.NewReader(script)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = cmd.Wait() }()
	if _, err := io.ReadFull(out, make([]byte, len("listening"))); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, 1<<20)
	for range 3 {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(harness.Patience))
		if _, err := c.Write(body); err != nil {
			t.Fatal(err)
		}
		_ = c.(*net.TCPConn).CloseWrite()
		got, err := io.ReadAll(c)
		c.Close()
		if err != nil || string(got) != fmt.Sprintf("got %d", len(body)) {
			t.Fatalf("%q, %v", got, err)
		}
	}
}

// testBack: ports and sockets of the environment that lead to the laptop (-R), a socket there that the laptop reaches (-L), and the laptop's agent (-A).
func testBack(t *testing.T, l *laptop) {
	here, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	go func() {
		for {
			c, err := here.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				n, _ := io.Copy(io.Discard, c)
				fmt.Fprintf(c, "the laptop got %d", n)
			}()
		}
	}()
	const script = `
import socket, sys
to = sys.argv[1]
s = socket.socket(socket.AF_UNIX) if to.startswith("/") else socket.socket()
s.connect(to if to.startswith("/") else ("localhost", int(to)))
s.sendall(b"x" * 300000)
s.shutdown(socket.SHUT_WR)
got = b""
while True:
    b = s.recv(65536)
    if not b: break
    got += b
print(got.decode())
`
	to := here.Addr().String()
	for name, at := range map[string]string{"port": "5001", "socket": "/tmp/back.sock"} {
		out, _ := l.ssh(0, strings.NewReader(script), "box.lab", "-R"+at+":"+to, "-oExitOnForwardFailure=yes", "python3", "-", at)
		if strings.TrimSpace(out) != "the laptop got 300000" {
			t.Errorf("-R of a %s: %q", name, out)
		}
	}
	if _, errs := l.ssh(0, nil, "box.lab", "-R0:"+to, "true"); !strings.Contains(errs, "Allocated port") {
		t.Errorf("-R of any port: %q", errs)
	}
	if _, errs := l.ssh(255, nil, "box.lab", "-R/no/such/folder/sock:"+to, "-oExitOnForwardFailure=yes", "true"); !strings.Contains(errs, "forwarding failed") {
		t.Errorf("-R of a socket that can't be: %q", errs)
	}
	if out, _ := l.ssh(0, nil, "box.lab", "grep -c ':1389 00000000:0000 0A' /proc/net/tcp; true"); strings.TrimSpace(out) != "0" {
		t.Errorf("what listened is still there: %q", out)
	}

	sock := filepath.Join(l.home, "agent")
	agent := exec.CommandContext(t.Context(), "ssh-agent", "-D", "-a", sock)
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = agent.Process.Kill(); _ = agent.Wait() }()
	for deadline := time.Now().Add(harness.Patience); time.Now().Before(deadline); {
		if c, err := net.Dial("unix", sock); err == nil {
			c.Close()
			break
		}
	}
	l.agent = sock
	defer func() { l.agent = "" }()
	l.run(nil, 0, "ssh-add", "-q", l.key)
	want, _ := l.run(nil, 0, "ssh-add", "-l")
	if out, _ := l.ssh(0, nil, "box.lab", "-A", "ssh-add -l"); out != want || !strings.Contains(out, "ED25519") {
		t.Errorf("-A: %q, and %q on the laptop", out, want)
	}
	if out, _ := l.ssh(0, nil, "box.lab", "-oForwardAgent=no", `echo "[$SSH_AUTH_SOCK]"`); strings.TrimSpace(out) != "[]" {
		t.Errorf("without -A: %q", out)
	}
}

// TestPorts: what listens in an environment, for browsers and programs: as its owner, and nobody else.
func TestPorts(t *testing.T) {
	w := newWorld(t)
	e := &devenv.DevEnvironment{Spec: devenv.Spec{
		Begin: devenv.Begin{Command: []string{"python3", "-c", echoServer}},
		Ways:  devenv.Ways{Ports: []devenv.Port{{Port: 5000, Name: "echo"}}},
	}}
	e.Meta.Name, e.Meta.Project = "web", "lab"
	e.Spec.Resources.CPU, e.Spec.Resources.Memory = 500, 256<<20
	if _, err := client.Create(t.Context(), w.people["ann"], e); err != nil {
		t.Fatal(err)
	}
	list, err := client.Ports(t.Context(), w.people["ann"], devenv.Kind, "lab", "web")
	_, port, _ := net.SplitHostPort(w.Addr)
	if err != nil || len(list) != 1 || list[0].Path != "/env/lab/web/5000/" || list[0].URL != "http://5000--web--lab.localhost:"+port+"/" {
		t.Fatalf("%+v, %v", list, err)
	}
	host := "5000--web--lab.localhost:" + port

	// ask sends a request to the server under a name.
	ask := func(method, host, path string, header http.Header, body string) (int, http.Header, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+w.Addr+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if req.Host = host; host == "" {
			req.Host = w.Addr
		}
		for k, v := range header {
			req.Header[k] = v
		}
		resp, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		data, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, resp.Header, string(data)
	}
	bearer := func(who string) http.Header { return http.Header{"Authorization": {"Bearer " + w.secrets[who]}} }

	// Programs, by the path: sandboxed, and without cookies.
	harness.Eventually(t, "it answers", func() bool {
		code, _, _ := ask("GET", "", "/env/lab/web/5000/x", bearer("ann"), "")
		return code == 200
	})
	code, h, body := ask("POST", "", "/env/lab/web/5000/a%2Fb/c?d=1", bearer("ann"), "hi")
	if code != 200 || !strings.Contains(body, "POST /a%2Fb/c?d=1 hi") || strings.Contains(body, "fermi_") || strings.Contains(strings.ToLower(body), "authorization") {
		t.Errorf("%d %s", code, body)
	}
	if !strings.HasPrefix(h.Get("Content-Security-Policy"), "sandbox") || h.Get("Set-Cookie") != "" || h.Get("Clear-Site-Data") != "" {
		t.Errorf("%v", h)
	}
	for who, want := range map[string]int{"bob": 403, "mal": 404} {
		if code, _, body := ask("GET", "", "/env/lab/web/5000/", bearer(who), ""); code != want {
			t.Errorf("%s: %d %s", who, code, body)
		}
		if code, _, body := ask("GET", host, "/", bearer(who), ""); code != want {
			t.Errorf("%s: %d %s", who, code, body)
		}
		if _, err := client.OpenPort(t.Context(), w.people[who], devenv.Kind, "lab", "web", 5000); err == nil {
			t.Errorf("%s opens it", who)
		}
		if _, err := client.OpenTunnel(t.Context(), w.people[who], devenv.Kind, "lab", "web", 5000); err == nil {
			t.Errorf("%s connects", who)
		}
	}
	if code, _, _ := ask("GET", "", "/env/lab/web/5000/", nil, ""); code != 401 {
		t.Errorf("a stranger: %d", code)
	}
	if code, _, _ := ask("GET", "", "/env/lab/web/5001/", bearer("ann"), ""); code != 404 {
		t.Errorf("a port that is not declared: %d", code)
	}

	// A browser: let in once by a code, then by a cookie of that host alone.
	at, err := client.OpenPort(t.Context(), w.people["ann"], devenv.Kind, "lab", "web", 5000)
	if err != nil {
		t.Fatal(err)
	}
	page, secret, _ := strings.Cut(at, "#")
	if page != "http://"+host+"/.fermi/enter" || secret == "" {
		t.Fatal(at)
	}
	if code, h, body := ask("GET", host, "/.fermi/enter", nil, ""); code != 200 || !strings.Contains(body, "<script>") || !strings.Contains(h.Get("Content-Security-Policy"), "sha256-") {
		t.Errorf("%d %v %s", code, h, body)
	}
	if code, _, _ := ask("POST", strings.Replace(host, "5000", "5001", 1), "/.fermi/enter", nil, secret); code != 401 {
		t.Errorf("the code of another port: %d", code)
	}
	code, h, body = ask("POST", host, "/.fermi/enter", nil, secret)
	cookie, _, _ := strings.Cut(h.Get("Set-Cookie"), ";")
	if code != 204 || !strings.HasPrefix(cookie, "fermi_port=") || !strings.Contains(h.Get("Set-Cookie"), "HttpOnly") || strings.Contains(h.Get("Set-Cookie"), "Domain") {
		t.Fatalf("%d %s %v", code, body, h)
	}
	if code, _, _ := ask("POST", host, "/.fermi/enter", nil, secret); code != 401 {
		t.Errorf("the code a second time: %d", code)
	}
	code, h, body = ask("GET", host, "/page", http.Header{"Cookie": {cookie + "; own=1; fermi_session=x"}}, "")
	if code != 200 || !strings.Contains(body, "own=1") || strings.Contains(body, "fermi_") {
		t.Errorf("%d %s", code, body)
	}
	if set := strings.Join(h.Values("Set-Cookie"), "\n"); !strings.Contains(set, "theirs=1") || strings.Contains(set, "fermi_session") || strings.Contains(set, "Domain") || h.Get("Clear-Site-Data") != "" || h.Get("Content-Security-Policy") != "" {
		t.Errorf("what its answer sets: %v", h)
	}
	for name, header := range map[string]http.Header{
		"no cookie": nil, "a cookie that was changed": {"Cookie": {cookie[:len(cookie)-4] + "AAA="}}, "the console's cookie": {"Cookie": {"fermi_session=" + w.secrets["ann"]}},
	} {
		if code, _, _ := ask("GET", host, "/page", header, ""); code != 401 {
			t.Errorf("%s: %d", name, code)
		}
	}
	if code, _, _ := ask("GET", host, "/page", http.Header{"Cookie": {cookie}, "Origin": {"http://evil.example"}}, ""); code != 403 {
		t.Errorf("a page of another origin: %d", code)
	}
	// The cookie opens nothing of ours, and the console is not on that host.
	if code, _, _ := ask("GET", "", "/api/v1/whoami", http.Header{"Cookie": {cookie}}, ""); code != 401 {
		t.Errorf("the API with that cookie: %d", code)
	}
	if _, _, body := ask("GET", host, "/api/v1/whoami", http.Header{"Cookie": {cookie}}, ""); !strings.Contains(body, "GET /api/v1/whoami") {
		t.Errorf("the API on that host: %s", body)
	}

	// WebSockets and what is not HTTP pass, by fermi env port.
	cmd := exec.CommandContext(t.Context(), w.Bin, "env", "port", "web", "5000:0")
	cmd.Env = append(os.Environ(), "FERMI_SERVER=http://"+w.Addr, "FERMI_TOKEN="+w.secrets["ann"], "FERMI_LANG=en")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	var where, arrow, to string
	if _, err := fmt.Fscan(out, &where, &arrow, &to); err != nil || to != "web:5000" {
		t.Fatalf("%q %q %v", where, to, err)
	}
	for _, from := range []func() (net.Conn, string){
		func() (net.Conn, string) { c, _ := net.Dial("tcp", where); return c, "" },
		func() (net.Conn, string) {
			c, _ := net.Dial("tcp", w.Addr)
			return c, "Authorization: Bearer " + w.secrets["ann"] + "\r\n"
		},
	} {
		c, auth := from()
		_ = c.SetDeadline(time.Now().Add(harness.Patience))
		fmt.Fprintf(c, "GET /ws HTTP/1.1\r\nHost: %s\r\n%sConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", host, auth)
		var b strings.Builder
		buf := make([]byte, 4096)
		for !strings.Contains(b.String(), "\r\n\r\n") {
			n, err := c.Read(buf)
			if err != nil {
				t.Fatalf("%v after %q", err, b.String())
			}
			b.Write(buf[:n])
		}
		fmt.Fprint(c, "ping")
		for !strings.HasSuffix(b.String(), "PING") {
			n, err := c.Read(buf)
			if err != nil {
				t.Fatalf("%v after %q", err, b.String())
			}
			b.Write(buf[:n])
		}
		c.Close()
		if !strings.HasPrefix(b.String(), "HTTP/1.1 101") {
			t.Error(b.String())
		}
	}

	// A session that ends takes the cookie with it: the token was what let the browser in.
	if err := w.admin.Delete(t.Context(), "Token", "", "ann"); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the cookie is worth nothing", func() bool {
		code, _, _ := ask("GET", host, "/page", http.Header{"Cookie": {cookie}}, "")
		return code == 401
	})
}

// echoServer answers with what it was asked, tries to set what it must not, and speaks capitals after an upgrade.
const echoServer = `
import socket, threading
def serve(c):
    f = c.makefile("rb")
    while True:
        line = f.readline()
        if not line: return
        method, path, _ = line.decode().split()
        head, size, up = "", 0, False
        while True:
            h = f.readline().decode()
            if h in ("\r\n", ""): break
            head += h
            k, _, v = h.partition(":")
            if k.lower() == "content-length": size = int(v)
            if k.lower() == "upgrade": up = True
        if up:
            c.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
            while True:
                b = c.recv(100)
                if not b: return
                c.sendall(b.upper())
        body = f.read(size).decode()
        out = ("%s %s %s\n%s" % (method, path, body, head)).encode()
        c.sendall(b"HTTP/1.1 200 OK\r\nSet-Cookie: theirs=1; Domain=localhost\r\nSet-Cookie: fermi_session=evil\r\nClear-Site-Data: \"*\"\r\nContent-Length: %d\r\n\r\n" % len(out) + out)
s = socket.create_server(("127.0.0.1", 5000))
while True:
    c, _ = s.accept()
    threading.Thread(target=serve, args=(c,), daemon=True).start()
`
