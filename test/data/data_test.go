package data

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/app/kinds"
	"github.com/fermi-cluster/fermi/test/harness"
)

func TestMain(m *testing.M) {
	kinds.ShipAssets() // for the client, which has the same table
	os.Exit(m.Run())
}

// world is a platform with two projects and a member of each.
type world struct {
	t             *testing.T
	c             *harness.Cluster
	admin         *client.Client
	bin           string
	lab, stranger string // tokens
	seen          *acks
	proxy         string // address of who counts what is acknowledged
}

// acks counts the chunks that a server acknowledged, by path.
type acks struct {
	mu    sync.Mutex
	puts  map[string]int
	after int    // so many, and then hook
	hook  func() // once
}

func (a *acks) heard(r *http.Response) error {
	if r.Request.Method != http.MethodPut || r.StatusCode != http.StatusOK {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.puts[r.Request.URL.Path]++
	if a.after--; a.after == 0 && a.hook != nil {
		go a.hook()
	}
	return nil
}

// in has a hook called after so many chunks from now on.
func (a *acks) in(n int, hook func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.after, a.hook = n, hook
}

// twice are chunks that were acknowledged more than once.
func (a *acks) twice() (out []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for path, n := range a.puts {
		if n > 1 {
			out = append(out, path)
		}
	}
	return out
}

func (a *acks) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.puts)
}

func newWorld(t *testing.T, args ...string) *world {
	t.Helper()
	bin, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	c, cl := harness.Up(t, append([]string{"--demo"}, args...)...)
	w := &world{t: t, c: c, admin: cl, bin: bin, seen: &acks{puts: map[string]int{}}}
	for _, p := range []string{"lab", "other"} {
		for _, o := range []api.Object{
			&api.User{Meta: api.Meta{Name: p + "-member"}, Spec: api.UserSpec{Role: api.RoleMember}},
			&api.Project{Meta: api.Meta{Name: p}, Spec: api.ProjectSpec{Members: []string{p + "-member"}, Queue: "default"}},
		} {
			if _, err := cl.Create(t.Context(), o, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	token := func(user string) string {
		made, err := cl.CreateToken(t.Context(), &api.Token{Meta: api.Meta{Name: user}, Spec: api.TokenSpec{User: user}}, false)
		if err != nil {
			t.Fatal(err)
		}
		return made.Secret
	}
	w.lab, w.stranger = token("lab-member"), token("other-member")
	at, err := url.Parse(cl.Server())
	if err != nil {
		t.Fatal(err)
	}
	counting := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(at) }}
	counting.ModifyResponse = w.seen.heard
	counting.ErrorHandler = func(out http.ResponseWriter, _ *http.Request, _ error) { out.WriteHeader(http.StatusBadGateway) }
	s := httptest.NewServer(counting)
	t.Cleanup(s.Close)
	w.proxy = s.URL
	return w
}

// command is the program as a member runs it.
func (w *world) command(ctx context.Context, token string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, w.bin, args...)
	cmd.Env = append(os.Environ(), "FERMI_SERVER="+w.proxy, "FERMI_TOKEN="+token, "FERMI_LANG=en", "HOME="+w.t.TempDir())
	return cmd
}

// fermi runs it to its end.
func (w *world) fermi(args ...string) string {
	w.t.Helper()
	out, err := w.command(w.t.Context(), w.lab, args...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("fermi %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// refused runs what must fail, with this in its words.
func (w *world) refused(token, words string, args ...string) {
	w.t.Helper()
	out, err := w.command(w.t.Context(), token, args...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), words) {
		w.t.Errorf("fermi %s: %v, want %q in\n%s", strings.Join(args, " "), err, words, out)
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// write makes a file of random bytes.
func (w *world) write(path string, size int) {
	w.t.Helper()
	data := make([]byte, size)
	_, _ = rand.Read(data) // never fails
	w.must(os.MkdirAll(filepath.Dir(path), 0o755))
	w.must(os.WriteFile(path, data, 0o644))
}

func (w *world) versions(name string) []*asset.AssetVersion {
	w.t.Helper()
	cl, err := client.New(client.Config{Server: w.proxy, Token: w.lab})
	w.must(err)
	all, err := client.AssetOf(asset.DatasetKind, cl, "lab", name).Versions(w.t.Context())
	w.must(err)
	return all
}

// same compares two folders.
func (w *world) same(a, b string) {
	w.t.Helper()
	if out, err := exec.Command("diff", "-r", a, b).CombinedOutput(); err != nil {
		w.t.Fatalf("%s and %s differ: %s", a, b, out)
	}
}

// TestVersions: a version is what was uploaded; one file changed sends only new chunks; what did not change is no version.
func TestVersions(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	src := filepath.Join(dir, "src")
	for i := range 3000 {
		w.write(filepath.Join(src, fmt.Sprint(i%10), fmt.Sprintf("%d.bin", i)), 10_000)
	}
	w.write(filepath.Join(src, "large.bin"), 30<<20)
	w.must(os.Symlink("/etc/passwd", filepath.Join(src, "link")))
	if got := w.fermi("data", "upload", "digits", src); !strings.Contains(got, "digits@1") || !strings.Contains(got, "1 links") {
		t.Errorf("%s", got)
	}
	before := w.seen.count()
	w.write(filepath.Join(src, "3", "13.bin"), 10_007)
	w.fermi("data", "upload", "digits", src)
	if sent := w.seen.count() - before; sent < 1 || sent > 3 {
		t.Errorf("one changed file sent %d chunks", sent)
	}
	if got := w.fermi("data", "upload", "digits", src); !strings.Contains(got, "digits@2") {
		t.Errorf("nothing changed, and yet: %s", got)
	}
	out := filepath.Join(dir, "out")
	w.fermi("data", "download", "digits@2", out)
	w.must(os.Remove(filepath.Join(src, "link")))
	w.same(src, out)
	w.must(os.Truncate(filepath.Join(out, "large.bin"), 10<<20)) // a download that was cut
	w.write(filepath.Join(out, "3", "23.bin"), 10_000)           // and a file that somebody changed
	w.fermi("data", "download", "digits@2", out)
	w.same(src, out)
	if got := w.fermi("data", "ls", "digits@1", "3"); !strings.Contains(got, "13.bin  10000") {
		t.Errorf("%s", got)
	}
	if twice := w.seen.twice(); len(twice) > 0 {
		t.Errorf("acknowledged twice: %v", twice)
	}
	w.fermi("data", "delete", "digits@1")
	w.refused(w.lab, `no version "1"`, "data", "show", "digits@1")
	w.fermi("data", "delete", "digits")
	w.refused(w.lab, "There is no dataset", "data", "show", "digits")
}

// TestKills: uploads are killed, or the server beneath them, at random moments; what was acknowledged is never sent again, and in the end there is one
// version for each state.
func TestKills(t *testing.T) {
	w := newWorld(t)
	rounds := harness.EnvInt("FERMI_DATA_ROUNDS", 10)
	dir := t.TempDir()
	src := filepath.Join(dir, "src")
	for round := range rounds {
		w.write(filepath.Join(src, fmt.Sprintf("%d.bin", round)), 60<<20) // 15 chunks
		ctx, cancel := context.WithCancel(t.Context())
		up := w.command(ctx, w.lab, "data", "upload", "killed", src)
		kill := func() { cancel() } // by SIGKILL
		server := round%2 == 1
		if server {
			kill = w.c.Kill
		}
		w.seen.in(1+mathrand.IntN(14), kill)
		var said bytes.Buffer
		up.Stdout, up.Stderr = &said, &said
		w.must(up.Start())
		err := up.Wait()
		cancel()
		if server {
			<-w.c.Ended()
			w.must(w.c.Start(t.Context()))
		} else if err == nil {
			t.Logf("round %d: the upload was faster than its end", round)
		}
		w.seen.in(-1, nil)
		w.fermi("data", "upload", "killed", src)
		all := w.versions("killed")
		if len(all) != round+1 || all[0].Spec.Number != round+1 || all[0].Spec.Files != round+1 {
			t.Fatalf("round %d: %d versions, the newest %+v\n%s", round, len(all), all[0].Spec, said.String())
		}
	}
	out := filepath.Join(dir, "out")
	w.fermi("data", "download", "killed", out)
	w.same(src, out)
	// A server that was killed may have kept a chunk whose acknowledgement nobody heard: that is not counted here.
	if twice := w.seen.twice(); len(twice) > 0 {
		t.Errorf("acknowledged twice: %v", twice)
	}
}

// ask is a request without a client of ours.
func (w *world) ask(token, method, path string, body []byte) (int, string) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.proxy+"/api/v1/"+path, bytes.NewReader(body))
	w.must(err)
	req.Header.Set("Authorization", "Bearer "+token)
	if len(body) > 0 && body[0] != '{' || strings.HasSuffix(path, "uploads?project=lab") {
		req.Header.Set("Content-Type", "application/octet-stream")
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	w.must(err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	w.must(err)
	var answer struct {
		Reason string `json:"reason"`
	}
	_ = json.Unmarshal(raw, &answer) // bytes have none
	return resp.StatusCode, answer.Reason
}

// TestOthers: a member of another project gets nothing, on any route, not even whether it is there.
func TestOthers(t *testing.T) {
	w := newWorld(t)
	src := filepath.Join(t.TempDir(), "src")
	w.write(filepath.Join(src, "a.bin"), 2<<20)
	w.fermi("data", "upload", "mine", src)
	v := w.versions("mine")[0]
	raw, err := os.ReadFile(filepath.Join(src, "a.bin"))
	w.must(err)
	chunk := asset.Sum(raw).String()
	if code, _ := w.ask(w.lab, "GET", "datasets/mine/chunks/"+chunk+"?project=lab", nil); code != 200 {
		t.Fatalf("its own member: %d", code)
	}
	for _, path := range []string{"", "/versions", "/versions/1", "/versions/1/files", "/versions/1/files/a.bin", "/versions/1/manifest", "/versions/1/chunks/" + chunk, "/versions/1/preview?path=a.bin", "/lineage", "/chunks/" + chunk} {
		for _, project := range []string{"lab", "other", ""} {
			at := "datasets/mine" + path
			if project != "" {
				at += map[bool]string{true: "&", false: "?"}[strings.Contains(at, "?")] + "project=" + project
			}
			if code, reason := w.ask(w.stranger, "GET", at, nil); code != 404 && code != 403 {
				t.Errorf("GET %s: %d %s", at, code, reason)
			}
		}
	}
	if code, _ := w.ask(w.stranger, "GET", "asset-versions/"+v.Meta.Name+"?project=lab", nil); code != 404 {
		t.Errorf("the version's object: %d", code)
	}
	for _, call := range [][2]string{{"POST", "datasets/mine/uploads?project=lab"}, {"PUT", "datasets/mine/chunks/" + chunk + "?project=lab"}, {"POST", "datasets/mine/versions?project=lab"}, {"DELETE", "datasets/mine/versions/1?project=lab"}, {"DELETE", "datasets/mine?project=lab"}} {
		if code, reason := w.ask(w.stranger, call[0], call[1], []byte("x")); code < 400 || code >= 500 {
			t.Errorf("%s %s: %d %s", call[0], call[1], code, reason)
		}
	}
	// The same name and the same bytes in their own project: neither is the other's.
	out, err := w.command(t.Context(), w.stranger, "data", "upload", "mine", src).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "in 1 chunks were sent") {
		t.Errorf("what another project has is known: %v %s", err, out)
	}
	if len(w.versions("mine")) != 1 {
		t.Error("a version was made in another project")
	}
}

// TestBadInput: every refusal is clear, and nothing is left behind by it.
func TestBadInput(t *testing.T) {
	w := newWorld(t)
	w.fermi("data", "create", "bad")
	post := func(m string) (int, string) {
		return w.ask(w.lab, "POST", "datasets/bad/uploads?project=lab", []byte(m))
	}
	for name, m := range map[string]string{
		"a way out":      `{"version":1,"files":[{"path":"../a","size":0}]}`,
		"absolute":       `{"version":1,"files":[{"path":"/etc/passwd","size":0}]}`,
		"unknown field":  `{"version":1,"files":[{"path":"a","size":0,"link":"/etc"}]}`,
		"two in one":     `{"version":1,"files":[{"path":"a","size":0},{"path":"a","size":0}]}`,
		"no such length": `{"version":1,"files":[{"path":"a","size":7}],"chunks":[]}`,
		"no JSON":        `version: 1`,
		"another form":   `{"version":9,"files":[{"path":"a","size":0}]}`,
	} {
		if code, reason := post(m); code != 400 || reason != "BadManifest" {
			t.Errorf("%s: %d %s", name, code, reason)
		}
	}
	data := []byte("some bytes")
	h := asset.Sum(data)
	if code, reason := w.ask(w.lab, "PUT", "datasets/bad/chunks/"+h.String()+"?project=lab", []byte("other bytes")); code != 400 || reason != "BadChunk" {
		t.Errorf("bytes of another name: %d %s", code, reason)
	}
	if code, reason := w.ask(w.lab, "PUT", "datasets/bad/chunks/0123?project=lab", data); code != 400 || reason != "BadHash" {
		t.Errorf("a name that is none: %d %s", code, reason)
	}
	if code, _ := w.ask(w.lab, "PUT", "datasets/bad/chunks/"+h.String()+"?project=lab", make([]byte, asset.ChunkMax+1)); code != 413 {
		t.Errorf("a chunk that is too large: %d", code)
	}
	m := asset.Manifest{Version: 1, Files: []asset.File{{Path: "a", Size: int64(len(data))}}, Chunks: []asset.Chunk{{Hash: h, Bytes: uint32(len(data))}}}
	raw, digest := m.Encode()
	if code, reason := post(string(raw)); code != 200 {
		t.Errorf("a good one: %d %s", code, reason)
	}
	wish := []byte(`{"upload":"` + digest.String() + `"}`)
	if code, reason := w.ask(w.lab, "POST", "datasets/bad/versions?project=lab", wish); code != 409 || reason != "ChunksMissing" {
		t.Errorf("a version without its bytes: %d %s", code, reason)
	}
	if n := len(w.versions("bad")); n != 0 {
		t.Errorf("%d versions came of it", n)
	}
	src := t.TempDir()
	w.must(os.WriteFile(filepath.Join(src, "m.safetensors"), []byte("\x80\x04\x95not tensors at all"), 0o644))
	w.refused(w.lab, "its bytes are not", "model", "upload", "liar", src)
	// A project that may keep nothing more.
	cl, err := w.c.Client()
	w.must(err)
	p, err := client.Get[*api.Project](t.Context(), cl, "", "lab")
	w.must(err)
	p.Spec.Limits = &api.ProjectLimits{Assets: 1 << 20}
	_, err = client.Update(t.Context(), cl, p)
	w.must(err)
	big := filepath.Join(t.TempDir(), "big")
	w.write(big, 8<<20)
	w.refused(w.lab, "datasets and models", "data", "upload", "bad", big)
}
