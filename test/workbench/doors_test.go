package workbench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/api/v1/terminal"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/test/harness"
)

// caller is somebody before a door: with a token, which may be none, and a machine with an SSH key.
type caller struct {
	name   string
	token  string
	laptop *laptop
}

// doors are the ways into the environment lab of ann's.
type doors struct {
	*world
	host string // of its port
}

// the words that are inside: in a file of the home, in the log, in what the port answers.
const inside = "s3cret-of-ann"

// text runs a program as somebody for a while and gives all that it said.
func (d *doors) text(c caller, args ...string) string {
	ctx, cancel := context.WithTimeout(d.t.Context(), harness.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "FERMI_SERVER=http://"+d.Addr, "FERMI_TOKEN="+c.token, "FERMI_LANG=en", "HOME="+c.laptop.home)
	out, _ := cmd.CombinedOutput() // how it ended says less than what it said
	return string(out)
}

func (d *doors) fermi(c caller, args ...string) string {
	return d.text(c, append([]string{d.Bin, "--project", "lab"}, args...)...)
}

// get asks for a page.
func (d *doors) get(c caller, method, host, path, body string, header http.Header) (int, http.Header, string) {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), method, "http://"+d.Addr+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Host = host
	if header != nil {
		req.Header = header
	} else if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		d.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(data)
}

// visit opens an address that lets a browser in: its code for a cookie, and with that the page.
func (d *doors) visit(c caller, address string) string {
	_, code, _ := strings.Cut(address, "#")
	_, h, _ := d.get(c, http.MethodPost, d.host, "/.fermi/enter", code, http.Header{})
	cookie, _, _ := strings.Cut(h.Get("Set-Cookie"), ";")
	if cookie == "" {
		return ""
	}
	_, _, body := d.get(c, http.MethodGet, d.host, "/secret", "", http.Header{"Cookie": {cookie}})
	return body
}

// post sends a page's request to the console's origin, with a cookie or else a token, and reads the answer into out.
func (d *doors) post(c caller, path, body, cookie string, out any) string {
	h := http.Header{"Origin": {"http://" + d.Addr}, "Content-Type": {"application/json"}}
	if cookie != "" {
		h.Set("Cookie", cookie)
	} else if c.token != "" {
		h.Set("Authorization", "Bearer "+c.token)
	}
	_, _, text := d.get(c, http.MethodPost, d.Addr, path, body, h)
	if json.Unmarshal([]byte(text), out) != nil {
		d.t.Fatalf("POST %s: %.300q", path, text)
	}
	return text
}

// signIn is a session's cookie of the console; none for who has no token.
func (d *doors) signIn(c caller) string {
	var code struct{ Data struct{ Code string } }
	d.post(c, "/api/v1/session/code", "", "", &code)
	if code.Data.Code == "" {
		return "fermi_session=none"
	}
	h := http.Header{"Origin": {"http://" + d.Addr}, "Content-Type": {"application/json"}}
	status, answer, text := d.get(c, http.MethodPost, d.Addr, "/api/v1/session", fmt.Sprintf(`{"code":%q}`, code.Data.Code), h)
	cookie, _, _ := strings.Cut(answer.Get("Set-Cookie"), ";")
	if status != http.StatusOK || cookie == "" {
		d.t.Fatalf("%s signs in: %d %.300q", c.name, status, text)
	}
	return cookie
}

func (d *doors) client(c caller) *client.Client {
	cl, err := client.New(client.Config{Server: "http://" + d.Addr, Token: c.token})
	if err != nil {
		d.t.Fatal(err)
	}
	return cl
}

// terminal types a command into a shell of a browser's kind.
func (d *doors) terminal(c caller, session string) string {
	ctx, cancel := context.WithTimeout(d.t.Context(), harness.Patience)
	defer cancel()
	line, err := client.OpenTerminal(ctx, d.client(c), client.TerminalOptions{
		Kind: devenv.Kind, Project: "lab", Name: "lab", Wish: terminal.Wish{Session: session, TTY: true, Columns: 200, Rows: 24, Term: "dumb"},
	})
	if err != nil {
		return err.Error()
	}
	defer line.Hang()
	if err := line.Write(ctx, []byte("cat secret; exit\n")); err != nil {
		return err.Error()
	}
	var seen strings.Builder
	for {
		data, _, news, err := line.Receive(ctx)
		seen.Write(data)
		if err != nil || news != nil && news.Type == terminal.Exit {
			return seen.String()
		}
	}
}

// ways is every entrance, and who besides its owner gets in: "shared" where the environment is shared with the project, "project" always.
func (d *doors) ways(links map[string]string) map[string]struct {
	opens string
	try   func(c caller) string
} {
	type way = struct {
		opens string
		try   func(c caller) string
	}
	ssh := func(c caller, program, flag string, args ...string) string {
		return d.text(c, slices.Concat([]string{program}, c.laptop.options(), []string{"-o", "BatchMode=yes", flag, fmt.Sprint(c.laptop.port)}, args)...)
	}
	kept := func(c caller, file string) string {
		data, err := os.ReadFile(file)
		if err != nil {
			return err.Error()
		}
		_ = os.Remove(file)
		return string(data)
	}
	return map[string]way{
		"shell":                  {"shared", func(c caller) string { return d.terminal(c, c.name) }},
		"ann's shell":            {"shared", func(c caller) string { return d.terminal(c, "main") }},
		"exec":                   {"shared", func(c caller) string { return d.fermi(c, "env", "shell", "lab", "--", "cat", "secret") }},
		"ssh":                    {"shared", func(c caller) string { return ssh(c, "ssh", "-p", "lab.lab@127.0.0.1", "cat", "secret") }},
		"ssh, by its name alone": {"shared", func(c caller) string { return ssh(c, "ssh", "-p", "lab@127.0.0.1", "cat", "secret") }},
		"scp": {"shared", func(c caller) string {
			at := filepath.Join(c.laptop.home, "scp")
			return ssh(c, "scp", "-P", "-q", "lab.lab@127.0.0.1:secret", at) + kept(c, at)
		}},
		"sftp": {"shared", func(c caller) string {
			at := filepath.Join(c.laptop.home, "sftp")
			return ssh(c, "sftp", "-P", "-q", "lab.lab@127.0.0.1:secret", at) + kept(c, at)
		}},
		"cp": {"shared", func(c caller) string {
			at := filepath.Join(c.laptop.home, "cp")
			return d.fermi(c, "cp", "lab:secret", at) + kept(c, at)
		}},
		"port by host": {"shared", func(c caller) string {
			_, _, body := d.get(c, http.MethodGet, d.host, "/secret", "", nil)
			return body
		}},
		"port by path": {"shared", func(c caller) string {
			_, _, body := d.get(c, http.MethodGet, d.Addr, "/env/lab/lab/5000/secret", "", nil)
			return body
		}},
		"port in a browser": {"shared", func(c caller) string {
			at, err := client.OpenPort(d.t.Context(), d.client(c), devenv.Kind, "lab", "lab", 5000)
			if err != nil {
				return err.Error()
			}
			return d.visit(c, at)
		}},
		"port by the console's cookie": {"shared", func(c caller) string {
			var out struct{ Data struct{ URL string } }
			body := d.post(c, "/api/v1/dev-environments/lab/ports/5000/open?project=lab", "", d.signIn(c), &out)
			if out.Data.URL == "" {
				return body
			}
			return d.visit(c, out.Data.URL)
		}},
		"the console's cookie at a port": {"nobody", func(c caller) string {
			_, _, body := d.get(c, http.MethodGet, d.host, "/secret", "", http.Header{"Cookie": {d.signIn(c)}})
			return body
		}},
		"tunnel": {"shared", func(c caller) string {
			line, err := client.OpenTunnel(d.t.Context(), d.client(c), devenv.Kind, "lab", "lab", 5000)
			if err != nil {
				return err.Error()
			}
			defer line.Close()
			if _, err := io.WriteString(line, "GET /secret HTTP/1.0\r\n\r\n"); err != nil {
				return err.Error()
			}
			data, _ := io.ReadAll(io.LimitReader(line, 1<<20))
			return string(data)
		}},
		"notebook": {"shared", func(c caller) string { // none is installed: whoever is let in is told that nobody answers
			code, _, body := d.get(c, http.MethodGet, d.Addr, "/env/lab/nb/8888/", "", nil)
			if code == http.StatusBadGateway || code == http.StatusServiceUnavailable {
				return inside
			}
			return fmt.Sprint(code, body)
		}},
		"log":      {"project", func(c caller) string { return d.fermi(c, "env", "logs", "lab") }},
		"snapshot": {"", func(c caller) string { return d.fermi(c, "data", "cat", links["snapshot"], "secret") }},
		"sharing": {"", func(c caller) string {
			out := d.fermi(c, "env", "share", "lab", "5000")
			if at := strings.Index(out, "http://"); at >= 0 {
				return d.visit(c, strings.Fields(out[at:])[0])
			}
			return out
		}},
		"verbs": {"", func(c caller) string {
			out := d.fermi(c, "env", "keep", "lab")
			return strings.ReplaceAll(out, "lab is kept", inside)
		}},
		"a link":                {"anybody", func(c caller) string { return d.visit(c, links["good"]) }},
		"a link taken back":     {"nobody", func(c caller) string { return d.visit(c, links["back"]) }},
		"a link that has ended": {"nobody", func(c caller) string { return d.visit(c, links["ended"]) }},
	}
}

// TestDoors: everybody at every entrance: who may come in does, and whoever may not gets nothing, while the environment is its owner's alone and while
// it is shared with the project.
func TestDoors(t *testing.T) {
	w := newWorld(t, "--ssh", "127.0.0.1:0")
	_, port, _ := strings.Cut(w.Addr, ":")
	d := &doors{world: w, host: "5000--lab--lab.localhost:" + port}
	soon := time.Now().Add(2 * time.Second)
	short, err := w.people["ann"].CreateToken(t.Context(), &api.Token{Meta: api.Meta{Name: "short"}, Spec: api.TokenSpec{ExpiresAt: &soon}}, false)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]caller{}
	for name, token := range map[string]string{"owner": w.secrets["ann"], "member": w.secrets["bob"], "stranger": w.secrets["mal"], "signed out": "", "expired": short.Secret} {
		all[name] = caller{strings.ReplaceAll(name, " ", ""), token, newLaptop(w, "key")}
	}
	for who, name := range map[string]string{"ann": "owner", "bob": "member", "mal": "stranger"} {
		w.must(who, "user", "key", "add", all[name].laptop.key+".pub")
	}
	w.must("ann", "user", "key", "add", all["expired"].laptop.key+".pub", "--name", "old")
	w.must("ann", "user", "key", "remove", "old")

	size := []string{"--cpu", "500m", "--memory", "256Mi"}
	w.must("ann", append([]string{"env", "create", "nb", "--type", "notebook"}, size...)...)
	w.must("ann", append(append([]string{"env", "create", "lab", "--port", "5000"}, size...), "--", "sh", "-c",
		"echo "+inside+" | tee secret; exec python3 -m http.server 5000 --bind 127.0.0.1")...)
	links := map[string]string{"snapshot": ""}
	for name, lasts := range map[string]string{"good": "1h", "back": "1h", "ended": "1m"} {
		l, err := client.SharePort(t.Context(), w.people["ann"], devenv.Kind, "lab", "lab", 5000, lasts)
		if err != nil {
			t.Fatal(err)
		}
		links[name] = l.URL
		if name == "back" {
			w.must("ann", "env", "unshare", "lab", l.ID)
		}
	}
	snapshot := strings.Fields(w.must("ann", "env", "snapshot", "lab"))
	links["snapshot"] = snapshot[len(snapshot)-1]
	harness.Eventually(t, "the port answers", func() bool { return strings.Contains(d.visit(all["owner"], links["good"]), inside) })
	harness.Eventually(t, "a token has ended", func() bool {
		_, err := client.Get[*devenv.DevEnvironment](t.Context(), d.client(all["expired"]), "lab", "lab")
		return fault.Is(err, fault.Unauthenticated)
	})
	ended := all["signed out"]
	harness.Eventually(t, "a link has ended", func() bool { return d.visit(ended, links["ended"]) == "" })

	ways := d.ways(links)
	for _, shared := range []bool{false, true} {
		for _, name := range []string{"lab", "nb"} {
			e, err := client.Get[*devenv.DevEnvironment](t.Context(), w.people["ann"], "lab", name)
			if err != nil {
				t.Fatal(err)
			}
			e.Spec.Shared = shared
			if _, err := client.Update(t.Context(), w.people["ann"], e); err != nil {
				t.Fatal(err)
			}
		}
		for name, way := range ways {
			for who, c := range all {
				may := who == "owner" || way.opens == "anybody" || who == "member" && (way.opens == "project" || way.opens == "shared" && shared)
				if way.opens == "nobody" {
					may = false
				}
				if got := way.try(c); strings.Contains(got, inside) != may {
					t.Errorf("%s of %s, shared is %v: may come in is %v, and was told %.300q", name, who, shared, may, got)
				}
			}
		}
	}
}
