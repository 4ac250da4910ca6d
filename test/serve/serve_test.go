package serve

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/app/kinds"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/test/harness"
)

func TestMain(m *testing.M) {
	kinds.ShipServices() // for the client, which has the same table
	os.Exit(m.Run())
}

// world is a platform with two projects, a member of each, and a gateway of its own.
type world struct {
	t       *testing.T
	c       *harness.Cluster
	bin     string
	member  string // token of a member of the project lab, who does all of it
	key     string // API key for lab's services
	foreign string // API key for the other project's
	gateway string // address of the gateway that stands alone
}

func newWorld(t *testing.T, more ...string) *world {
	t.Helper()
	return worldOf(t, append([]string{"--demo"}, more...)...)
}

// worldOf is one whose server gets these arguments.
func worldOf(t *testing.T, args ...string) *world {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("members share a machine only where projects are kept apart, which needs root")
	}
	bin, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	c, cl := harness.Up(t, args...)
	w := &world{t: t, c: c, bin: bin}
	ctx := t.Context()
	make := func(o api.Object) {
		t.Helper()
		if _, err := cl.Create(ctx, o, false); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{"lab", "other"} {
		make(&api.User{Meta: api.Meta{Name: p + "-member"}, Spec: api.UserSpec{Role: api.RoleMember}})
		make(&api.Project{Meta: api.Meta{Name: p}, Spec: api.ProjectSpec{Members: []string{p + "-member"}, Queue: "default"}})
	}
	token := func(name string, spec api.TokenSpec) string {
		t.Helper()
		made, err := cl.CreateToken(ctx, &api.Token{Meta: api.Meta{Name: name}, Spec: spec}, false)
		if err != nil {
			t.Fatal(err)
		}
		return made.Secret
	}
	w.member = token("lab-all", api.TokenSpec{User: "lab-member"})
	w.key = token("lab-key", api.TokenSpec{User: "lab-member", Scope: serving.ScopeInference, Projects: []string{"lab"}})
	w.foreign = token("other-key", api.TokenSpec{User: "other-member", Scope: serving.ScopeInference, Projects: []string{"other"}})
	w.startGateway()
	return w
}

// startGateway runs `fermi gateway` beside the server.
func (w *world) startGateway() { w.gateway = "http://" + w.anotherGateway("http") }

// freeAddress is where nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// anotherGateway is one more, at the address that is given back.
func (w *world) anotherGateway(scheme string, more ...string) string {
	w.t.Helper()
	at := freeAddress(w.t)
	w.runGateway(at, scheme, more...)
	return at
}

// runGateway runs one until the test ends or it is killed.
func (w *world) runGateway(at, scheme string, more ...string) *exec.Cmd {
	w.t.Helper()
	cmd := exec.Command(w.bin, append([]string{"gateway", "--data", w.c.Dir, "--listen", at}, more...)...)
	log, err := os.Create(filepath.Join(w.t.TempDir(), "gateway.log"))
	if err != nil {
		w.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if w.t.Failed() {
			text, _ := os.ReadFile(log.Name())
			w.t.Logf("gateway: %s", text)
		}
	})
	anyCertificate := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}} // only whether it is there
	harness.Eventually(w.t, "the gateway is ready", func() bool {
		resp, err := anyCertificate.Get(scheme + "://" + at + "/readyz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == 200
	})
	return cmd
}

// secureGateway is one with TLS: its address, and the file of the certificate that it is known by.
func (w *world) secureGateway() (at, certificate string) {
	w.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	made, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		w.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		w.t.Fatal(err)
	}
	dir := w.t.TempDir()
	certificate = filepath.Join(dir, "cert.pem")
	if err := errors.Join(
		os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made}), 0o644),
		os.WriteFile(filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600),
	); err != nil {
		w.t.Fatal(err)
	}
	return w.anotherGateway("https", "--tls-cert", certificate, "--tls-key", filepath.Join(dir, "key.pem")), certificate
}

// grant lets the project of the member use a folder of the machine.
func (w *world) grant(folder string) {
	w.t.Helper()
	admin, err := w.c.Client()
	if err != nil {
		w.t.Fatal(err)
	}
	p, err := client.Get[*api.Project](w.t.Context(), admin, "", "lab")
	if err != nil {
		w.t.Fatal(err)
	}
	p.Spec.Folders = append(p.Spec.Folders, folder)
	if _, err := client.Update(w.t.Context(), admin, p); err != nil {
		w.t.Fatal(err)
	}
}

// fermi runs the command line as the member.
func (w *world) fermi(args ...string) string {
	w.t.Helper()
	out, err := w.try(args...)
	if err != nil {
		w.t.Fatalf("fermi %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (w *world) try(args ...string) (string, error) {
	cmd := exec.CommandContext(w.t.Context(), w.bin, append([]string{"--project=lab"}, args...)...) // what stands behind -- is not ours
	cmd.Env = append(os.Environ(), "FERMI_SERVER="+w.url(), "FERMI_TOKEN="+w.member, "LANG=C.UTF-8", "HOME="+w.t.TempDir())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (w *world) client(token string) *client.Client {
	w.t.Helper()
	cl, err := client.New(client.Config{Server: w.url(), Token: token})
	if err != nil {
		w.t.Fatal(err)
	}
	return cl
}

func (w *world) replicas(service string) (out []*serving.ServiceReplica) {
	w.t.Helper()
	page, err := client.List[*serving.ServiceReplica](w.t.Context(), w.client(w.member), client.ListOptions{Project: "lab", Limit: 500})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range page.Items {
		if r.Spec.Service == service {
			out = append(out, r)
		}
	}
	return out
}

// ask asks once, and gives status, body and whether an answer came at all.
func ask(ctx context.Context, method, url, key string, body io.Reader, more ...string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i+1 < len(more); i += 2 {
		req.Header.Set(more[i], more[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// load asks again and again from several sides until stop; every answer must be the model's.
type load struct {
	done   func()
	asked  atomic.Int64
	mu     sync.Mutex
	failed []string
	by     map[string]int // answers of each replica
}

func (w *world) load(service string) *load {
	ctx, cancel := context.WithCancel(w.t.Context())
	l := &load{by: map[string]int{}}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				status, body, err := ask(context.WithoutCancel(ctx), http.MethodGet, w.gateway+"/inference/"+service+"/", w.key, nil)
				var about struct{ Model, Replica string }
				ok := err == nil && status == 200 && json.Unmarshal([]byte(body), &about) == nil && about.Model == "spirals"
				l.asked.Add(1)
				l.mu.Lock()
				if ok {
					l.by[about.Replica]++
				} else {
					l.failed = append(l.failed, fmt.Sprintf("%d %v %.200s", status, err, body))
				}
				l.mu.Unlock()
			}
		})
	}
	l.done = func() { cancel(); wg.Wait() }
	return l
}

// more waits until so many more questions were answered.
func (l *load) more(t *testing.T, n int64) {
	t.Helper()
	until := l.asked.Load() + n
	harness.Eventually(t, fmt.Sprintf("%d more questions are asked", n), func() bool { return l.asked.Load() >= until })
}

func (l *load) check(t *testing.T, what string) {
	t.Helper()
	l.done()
	if len(l.failed) > 0 {
		t.Errorf("%s: %d of %d questions failed, such as %s", what, len(l.failed), l.asked.Load(), l.failed[0])
	}
	t.Logf("%s: %d questions, all answered, by %d replicas", what, l.asked.Load(), len(l.by))
}

// process is the main process of a replica.
func process(r *serving.ServiceReplica) int {
	list := harness.Processes("FERMI_TASK_ID=" + r.Meta.ID)
	if len(list) == 0 {
		return 0
	}
	return list[0]
}

// TestServe is the whole life of a service, from the training to its end, as an ordinary member sees it.
func TestServe(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.fermi("train", "run", "--name", "spiral", "--no-code", "--", "fermi", "sample", "train", "--steps", "123")
	w.fermi("service", "create", "spirals", "--engine", "sample", "--model-task", "spiral", "--replicas", "2")
	if list := w.fermi("service", "list"); !strings.Contains(list, "spirals") || !strings.Contains(list, "2/2") {
		t.Errorf("listed: %s", list)
	}

	// What its replicas print is read together, each line with its replica's name.
	both := w.replicas("spirals")
	harness.Eventually(t, "both have printed", func() bool {
		printed := w.fermi("service", "logs", "spirals")
		return strings.Contains(printed, "["+both[0].Meta.Name+"] ") && strings.Contains(printed, "["+both[1].Meta.Name+"] ")
	})
	if one := w.fermi("service", "logs", "spirals", "--replica", both[1].Meta.Name, "--tail", "1"); strings.Count(one, "\n") != 1 {
		t.Errorf("the last line of one: %q", one)
	}

	// It answers with the task's model, through both gateways, in every way.
	for _, at := range []string{w.url(), w.gateway} {
		status, body, err := ask(ctx, http.MethodGet, at+"/inference/spirals/", w.key, nil)
		if err != nil || status != 200 || !strings.Contains(body, `"step":123`) {
			t.Errorf("%s: %d %s %v", at, status, body, err)
		}
		status, body, err = ask(ctx, http.MethodPost, at+"/inference/spirals/predict", w.key, strings.NewReader(`{"points":[[1.5,-0.5],[0,1]]}`))
		if err != nil || status != 200 || strings.Count(body, "probability") != 2 {
			t.Errorf("%s: %d %s %v", at, status, body, err)
		}
		status, body, err = ask(ctx, http.MethodGet, at+"/inference/spirals/stream?x=1&y=1&n=5", w.key, nil)
		if err != nil || status != 200 || strings.Count(body, "data: ") != 6 {
			t.Errorf("%s: %d %s %v", at, status, body, err)
		}
		conn, _, err := websocket.Dial(ctx, strings.Replace(at, "http", "ws", 1)+"/inference/spirals/ws", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + w.key}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Write(ctx, websocket.MessageText, []byte(`{"x":1,"y":1}`)); err != nil {
			t.Error(err)
		}
		if _, data, err := conn.Read(ctx); err != nil || !strings.Contains(string(data), "probability") {
			t.Errorf("%s, %v", data, err)
		}
		_ = conn.CloseNow()
	}
	if said := w.fermi("chat", "spirals", "1.5 -0.5"); !strings.Contains(said, "is on spiral") {
		t.Errorf("chat: %s", said)
	}
	w.openAI()

	// A key of another project does not reach it, and a key opens nothing but services.
	for _, path := range []string{"/inference/spirals/", "/inference/nothing/"} {
		if status, body, _ := ask(ctx, http.MethodGet, w.gateway+path, w.foreign, nil); status != 404 || !strings.Contains(body, "NoService") {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, body, _ := ask(ctx, http.MethodPost, w.gateway+"/v1/chat/completions", w.foreign, strings.NewReader(`{"model":"spirals","messages":[]}`)); status != 404 {
		t.Errorf("%d %s", status, body)
	}
	if _, err := w.client(w.key).Get(ctx, serving.Kind, "lab", "spirals"); !fault.Is(err, fault.Forbidden) {
		t.Errorf("an API key reads the API: %v", err)
	}
	if _, err := client.Create(ctx, w.client(w.foreignMember()), &serving.InferenceService{Meta: api.Meta{Name: "spirals", Project: "other"}, Spec: serving.ServiceSpec{Template: serving.ServiceTemplate{Engine: serving.EngineSample}}}); !fault.Is(err, fault.Conflict) {
		t.Errorf("two services share an address: %v", err)
	}

	// An update, a kill of a replica and one of the server, each under load.
	l := w.load("spirals")
	l.more(t, 50)
	w.fermi("service", "update", "spirals", "--env", "A=1")
	l.more(t, 50)
	l.check(t, "update")
	for _, r := range w.replicas("spirals") {
		if r.Spec.Revision != 2 {
			t.Errorf("%s is of revision %d", r.Meta.Name, r.Spec.Revision)
		}
	}

	l = w.load("spirals")
	l.more(t, 50)
	victim := w.replicas("spirals")[0]
	if pid := process(victim); pid == 0 || syscall.Kill(pid, syscall.SIGKILL) != nil {
		t.Fatalf("no process of %s", victim.Meta.Name)
	}
	harness.Eventually(t, "the killed replica answers again", func() bool {
		for _, r := range w.replicas("spirals") {
			if r.Meta.Name == victim.Meta.Name {
				return r.Status.Attempt > victim.Status.Attempt && r.Status.Ready
			}
		}
		return false
	})
	l.more(t, 50)
	l.check(t, "kill -9 of a replica")

	l = w.load("spirals")
	l.more(t, 50)
	w.c.Kill()
	l.more(t, 200)
	if err := w.c.Start(context.WithoutCancel(ctx)); err != nil {
		t.Fatal(err)
	}
	w.fermi("service", "scale", "spirals", "3")
	l.more(t, 50)
	l.check(t, "kill -9 of the server, and a third replica after it")

	// A revision that does not start takes nothing away.
	l = w.load("spirals")
	w.fermi("train", "run", "--name", "named", "--no-code", "--output-model", "arms", "--", "fermi", "sample", "train", "--steps", "12")
	harness.Eventually(t, "the task's model is registered", func() bool {
		out, err := w.try("model", "versions", "arms", "-o", "name")
		return err == nil && out == "arms@1\n"
	})
	w.fermi("model", "alias", "arms", "champion", "1")
	w.fermi("model", "stage", "arms", "1", "production")
	for _, c := range []struct{ args, has string }{
		{"model versions arms", "champion"}, {"model show arms@champion", "production"}, {"model versions arms -o json", `"number": 1`}, {"model show arms -o yaml", "number: 1"},
		{"model list -o json", `"champion": 1`}, {"model list -o name", "model/arms"}, {"events task/named", "version 1 of the model arms."},
	} {
		if out := w.fermi(strings.Fields(c.args)...); !strings.Contains(out, c.has) {
			t.Errorf("fermi %s does not say %q:\n%s", c.args, c.has, out)
		}
	}
	if out, err := w.try("service", "create", "bare", "--engine", "sample", "--model", "nothing"); err == nil || !strings.Contains(out, "--model: There is no model") {
		t.Errorf("a model that is not there: %s", out)
	}
	if out, err := w.try("service", "update", "spirals", "--model-file", "nothing.json"); err == nil {
		t.Errorf("a model that is not there is taken: %s", out)
	}
	l.more(t, 20)
	l.check(t, "a bad update")

	// Stopped, started, its log, its end.
	w.fermi("service", "stop", "spirals")
	if status, body, _ := ask(ctx, http.MethodGet, w.gateway+"/inference/spirals/", w.key, nil); status != 503 || !strings.Contains(body, "ServiceStopped") {
		t.Errorf("%d %s", status, body)
	}
	w.fermi("service", "start", "spirals")
	if log := w.fermi("service", "logs", "spirals"); !strings.Contains(log, "serving a model of 123 steps") {
		t.Errorf("log: %s", log)
	}
	if shown := w.fermi("service", "get", "spirals"); !strings.Contains(shown, "spirals-") {
		t.Errorf("shown: %s", shown)
	}
	w.fermi("service", "delete", "spirals", "--yes")
	harness.Eventually(t, "it is gone, and its address free", func() bool {
		status, _, _ := ask(ctx, http.MethodGet, w.gateway+"/inference/spirals/", w.key, nil)
		_, err := w.client(w.member).Get(ctx, serving.Kind, "lab", "spirals")
		return status == 404 && fault.Is(err, fault.NotFound) && len(w.replicas("spirals")) == 0
	})
}

// foreignMember is a token of the other project's member.
func (w *world) foreignMember() string {
	w.t.Helper()
	cl, err := w.c.Client()
	if err != nil {
		w.t.Fatal(err)
	}
	made, err := cl.CreateToken(w.t.Context(), &api.Token{Meta: api.Meta{Name: "other-all"}, Spec: api.TokenSpec{User: "other-member"}}, false)
	if err != nil {
		w.t.Fatal(err)
	}
	return made.Secret
}

// openAI streams with OpenAI's own client, where it is installed (make e2e-serve does).
func (w *world) openAI() {
	python := os.Getenv("FERMI_OPENAI_PYTHON")
	if python == "" {
		w.t.Log("OpenAI's client is not installed: make e2e-serve does that")
		return
	}
	script := `
import os, sys, openai
client = openai.OpenAI(base_url=os.environ["BASE"], api_key=os.environ["KEY"], max_retries=0)
print([m.id for m in client.models.list()])
used = [c.usage for c in client.chat.completions.create(model="spirals", stream=True, stream_options={"include_usage": True}, messages=[{"role": "user", "content": "1.5 -0.5"}])]
if not used[-1] or not used[-1].completion_tokens or any(used[:-1]):
    sys.exit(f"a stream's usage: {used}")
whole = client.chat.completions.create(model="spirals", messages=[{"role": "user", "content": "1.5 -0.5"}])
parts = [c.choices[0].delta.content or "" for c in client.chat.completions.create(model="spirals", stream=True, messages=[{"role": "user", "content": "1.5 -0.5"}])]
assert len(parts) > 4, parts
assert "".join(parts).strip() == whole.choices[0].message.content, (parts, whole)
try:
    client.chat.completions.create(model="nothing", messages=[])
except openai.NotFoundError as e:
    print("unknown:", e.code)
else:
    sys.exit("an unknown model answers")
print(whole.choices[0].message.content)
`
	for _, at := range []string{w.url(), w.gateway} {
		cmd := exec.CommandContext(w.t.Context(), python, "-c", script)
		cmd.Env = append(os.Environ(), "BASE="+at+"/v1", "KEY="+w.key, "NO_PROXY=*", "no_proxy=*")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "unknown: NoService") {
			w.t.Errorf("OpenAI's client: %v\n%s", err, out)
		}
	}
}

// TestBadInput: what clients and services do wrong is answered as it should be, and other services do not feel it.
func TestBadInput(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.fermi("service", "create", "good", "--engine", "sample")
	// A service that sends half of what it promised, then closes.
	w.fermi("service", "create", "cut", "--health", "/healthz", "--", "python3", "-u", "-c", `
import http.server, os
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.path == "/healthz":
            self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers(); return
        self.send_response(200); self.send_header("Content-Length", "1000000"); self.end_headers()
        self.wfile.write(b"half"); self.wfile.flush(); self.close_connection = True
http.server.ThreadingHTTPServer(("", int(os.environ["PORT"])), H).serve_forever()
`)
	if _, body, err := ask(ctx, http.MethodGet, w.gateway+"/inference/cut/x", w.key, nil); err == nil || body != "half" {
		t.Errorf("a short answer looks whole: %q, %v", body, err)
	}
	if status, body, err := ask(ctx, http.MethodPost, w.gateway+"/v1/chat/completions", w.key, strings.NewReader(`{"model":"nothing"}`)); err != nil || status != 404 {
		t.Errorf("%d %s %v", status, body, err)
	}
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, w.gateway+"/inference/good/", nil)
	req.Header.Set("X-Large", strings.Repeat("x", 1<<20))
	if resp, err := http.DefaultClient.Do(req); err == nil {
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("headers of 1 MiB: %d", resp.StatusCode)
		}
	}
	// A client that never ends its headers is hung up on, and keeps nobody else waiting.
	at := strings.TrimPrefix(w.gateway, "http://")
	slow, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	if _, err := io.WriteString(slow, "GET /inference/good/ HTTP/1.1\r\nHost: x\r\nX-Slow: "); err != nil {
		t.Fatal(err)
	}
	// Two lengths are two requests to somebody: refused before anybody reads a body.
	smuggle, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer smuggle.Close()
	if _, err := fmt.Fprintf(smuggle, "POST /inference/good/ HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 4\r\nContent-Length: 40\r\n\r\nabcd", w.key); err != nil {
		t.Fatal(err)
	}
	_ = smuggle.SetReadDeadline(time.Now().Add(20 * time.Second))
	if answer, _ := io.ReadAll(smuggle); !strings.HasPrefix(string(answer), "HTTP/1.1 400") {
		t.Errorf("two lengths: %.100q", answer)
	}
	if status, body, err := ask(ctx, http.MethodGet, w.gateway+"/inference/good/predict?x=1&y=1", w.key, nil); err != nil || status != 200 {
		t.Errorf("%d %s %v", status, body, err)
	}
	_ = slow.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.ReadAll(slow); err != nil {
		t.Errorf("a client that never ends its headers is not hung up on: %v", err)
	}
	// A service says what its questions look like: others never reach it.
	w.fermi("service", "update", "good", "--format", "openai", "--path", "/predict")
	harness.Eventually(t, "the gateway hears of the form", func() bool {
		status, _, err := ask(ctx, http.MethodPost, w.gateway+"/v1/chat/completions", w.key, strings.NewReader(`{"model":"good"}`))
		return err == nil && status == 400
	})
	for body, want := range map[string]string{
		`{"model":"good","messages":[]}`: "messages: ", `{"model":"good","messages":[{"role":"boss"}]}`: "messages[0].role: ", `{"model":"good","messages":[{"role":"user","content":"1 1"}]}`: "",
	} {
		status, answer, err := ask(ctx, http.MethodPost, w.gateway+"/v1/chat/completions", w.key, strings.NewReader(body))
		if err != nil || want == "" && status != 200 || want != "" && (status != 400 || !strings.Contains(answer, `"message":"`+want)) {
			t.Errorf("%s: %d %s %v", body, status, answer, err)
		}
	}
	if status, body, err := ask(ctx, http.MethodGet, w.gateway+"/inference/good?x=1&y=1", w.key, nil); err != nil || status != 200 {
		t.Errorf("its address alone: %d %s %v", status, body, err)
	}
	schema := filepath.Join(t.TempDir(), "question.yaml")
	if err := os.WriteFile(schema, []byte("type: object\nrequired: [x]\nproperties: {x: {type: number}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.fermi("service", "update", "good", "--format", "json", "--schema", schema)
	harness.Eventually(t, "the gateway hears of the schema", func() bool {
		status, body, err := ask(ctx, http.MethodPost, w.gateway+"/inference/good", w.key, strings.NewReader(`{"x": "1"}`))
		return err == nil && status == 400 && strings.Contains(body, `"path":"x"`)
	})
	w.fermi("service", "delete", "cut", "--yes")
	w.fermi("service", "delete", "good", "--yes")
}

// url is the server's.
func (w *world) url() string { return "http://" + w.c.Addr }
