package kubetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// Variable names the folder with the programs; tests that need them are skipped without it.
const Variable = "FERMI_KUBE"

// The users that the server knows.
const (
	Admin   = "admin" // may do all
	Fermi   = "fermi" // may do what rbac.yaml says
	Nobody  = "nobody"
	Expired = "expired" // the server does not know it any more
)

// Server is an API server and its etcd.
type Server struct {
	URL string
	Dir string

	http  *http.Client
	etcd  *program
	api   *program
	flags []string
	count atomic.Int64
	// beside are other programs that run with it.
	beside map[string]*program
}

var shared *Server

// Main is for TestMain: it runs the tests beside a server, if there are programs for one.
func Main(m *testing.M) int {
	if os.Getenv(Variable) == "" {
		return m.Run()
	}
	s, err := Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "no API server:", err)
		return 1
	}
	defer s.Close()
	shared = s
	return m.Run()
}

// Get is the server of this test binary; without one the test is skipped.
func Get(t testing.TB) *Server {
	t.Helper()
	if shared == nil {
		t.Skip("needs the programs of Kubernetes: make e2e-kube builds them and sets $" + Variable)
	}
	return shared
}

// Program is one of those that were built.
func Program(name string) (string, error) {
	list, err := filepath.Glob(filepath.Join(os.Getenv(Variable), name+"-v*"))
	if err != nil || len(list) == 0 {
		return "", fmt.Errorf("there is no %s in $%s", name, Variable)
	}
	return list[len(list)-1], nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Start runs one of its own, for who is no test. Close it.
func Start() (*Server, error) {
	dir, err := os.MkdirTemp("", "fermi-kube-")
	if err != nil {
		return nil, err
	}
	s := &Server{Dir: dir, beside: map[string]*program{}, http: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 16}}}
	for range 10 { // another test may take a port between the moment that we find it free and that it is used
		if err = s.begin(); err == nil {
			return s, nil
		}
		s.Close()
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	_ = os.RemoveAll(dir)
	return nil, err
}

// program is one that runs.
type program struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has
}

func (s *Server) begin() error {
	var ports [3]int
	for i := range ports {
		var err error
		if ports[i], err = freePort(); err != nil {
			return err
		}
	}
	etcd, err := Program("etcd")
	if err != nil {
		return err
	}
	client := fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	peer := fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	if s.etcd, err = s.run("etcd", etcd, "--data-dir", filepath.Join(s.Dir, "etcd"), "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer, "--unsafe-no-fsync"); err != nil {
		return err
	}
	if err := s.secrets(); err != nil {
		return err
	}
	s.URL = fmt.Sprintf("https://127.0.0.1:%d", ports[2])
	s.flags = []string{
		"--etcd-servers", client, "--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1", "--secure-port", fmt.Sprint(ports[2]), "--cert-dir", filepath.Join(s.Dir, "certs"),
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", filepath.Join(s.Dir, "sa.pub"), "--service-account-signing-key-file", filepath.Join(s.Dir, "sa.key"),
		"--authorization-mode", "RBAC", "--token-auth-file", filepath.Join(s.Dir, "tokens.csv"), "--service-cluster-ip-range", "10.96.0.0/24", "--allow-privileged",
	}
	if err := s.Up(); err != nil {
		return err
	}
	return nil
}

// Up starts the API server and waits until it is ready; Down kills it.
func (s *Server) Up() error {
	path, err := Program("kube-apiserver")
	if err != nil {
		return err
	}
	if s.api, err = s.run("kube-apiserver", path, s.flags...); err != nil {
		return err
	}
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end) && !s.api.over() && !s.etcd.over(); time.Sleep(50 * time.Millisecond) {
		if code, _, err := s.Do(Admin, "GET", "/readyz", "", nil); err == nil && code == http.StatusOK {
			if code, _, err := s.Do(Admin, "GET", "/api/v1/namespaces/default", "", nil); err == nil && code == http.StatusOK {
				return nil
			}
		}
	}
	tail, _ := os.ReadFile(filepath.Join(s.Dir, "kube-apiserver.log"))
	return fmt.Errorf("the API server is not ready: %s", tail[max(0, len(tail)-2000):])
}

// Down ends the API server as a power cut would.
func (s *Server) Down() {
	end(s.api)
	s.http.CloseIdleConnections()
}

// Close ends all.
func (s *Server) Close() {
	for name := range s.beside {
		s.EndOf(name)
	}
	end(s.api)
	end(s.etcd)
	_ = os.RemoveAll(s.Dir)
}

func (p *program) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

func end(p *program) {
	if p != nil {
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// run starts a program whose output goes to a file.
func (s *Server) run(name, path string, args ...string) (*program, error) {
	out, err := os.OpenFile(filepath.Join(s.Dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p := &program{cmd, make(chan struct{})}
	started := make(chan error)
	go func() { // the thread that starts it must live as long as it does: it dies with that
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
		close(p.ended)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// secrets makes the key of service accounts and the tokens of users.
func (s *Server) secrets() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	tokens := ""
	for _, user := range []string{Admin, Fermi, Nobody} {
		groups := ""
		if user == Admin {
			groups = `,"system:masters"`
		}
		tokens += token(user) + "," + user + "," + user + groups + "\n"
	}
	for name, data := range map[string][]byte{
		"sa.key":     pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
		"sa.pub":     pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
		"tokens.csv": []byte(tokens),
	} {
		if err := os.WriteFile(filepath.Join(s.Dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func token(user string) string { return "token-of-" + user }

// Kubeconfig writes one for a user, and says where.
func (s *Server) Kubeconfig(t testing.TB, user string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), user+".kubeconfig")
	s.WriteKubeconfig(t, path, s.URL, user)
	return path
}

// WriteKubeconfig writes one to a file.
func (s *Server) WriteKubeconfig(t testing.TB, path, url, user string) {
	t.Helper()
	if err := WriteKubeconfig(path, url, user); err != nil {
		t.Fatal(err)
	}
}

// WriteKubeconfig writes one to a file.
func WriteKubeconfig(path, url, user string) error {
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: %q}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
`, url, token(user))
	return os.WriteFile(path, []byte(text), 0o600)
}

// Protobuf is the content type in which the API server takes and gives objects fastest.
const Protobuf = "application/vnd.kubernetes.protobuf"

// Do is a call as a user.
func (s *Server) Do(user, method, path, contentType string, body any) (int, []byte, error) {
	return s.DoAs(token(user), method, path, contentType, body)
}

// DoAs is a call of whose token this is.
func (s *Server) DoAs(bearer, method, path, contentType string, body any) (int, []byte, error) {
	var in io.Reader
	if o, ok := body.(Object); body != nil && (!ok || o != nil) {
		raw, ok := body.([]byte)
		if !ok {
			var err error
			if raw, err = json.Marshal(body); err != nil {
				return 0, nil, err
			}
		}
		in = bytes.NewReader(raw)
	}
	req, err := http.NewRequest(method, s.URL+path, in)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+bearer)
	if contentType == "" {
		contentType = "application/json"
	}
	req.Header.Set("Content-Type", contentType)
	if contentType == Protobuf {
		req.Header.Set("Accept", Protobuf)
	}
	answer, err := s.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	out, err := io.ReadAll(answer.Body)
	return answer.StatusCode, out, err
}

// Must is Ask in a test.
func (s *Server) Must(t testing.TB, method, path string, body, into any) {
	t.Helper()
	if err := s.Ask(method, path, body, into); err != nil {
		t.Fatal(err)
	}
}

// Ask is a call of the administrator; into may be nil. One whose object is there already is fine.
func (s *Server) Ask(method, path string, body, into any) error {
	kind := ""
	if method == "PATCH" {
		kind = "application/merge-patch+json"
	}
	code, out, err := s.Do(Admin, method, path, kind, body)
	if err != nil {
		return err
	}
	if code >= 300 && code != http.StatusConflict {
		return fmt.Errorf("%s %s: %d %s", method, path, code, out)
	}
	if into != nil {
		return json.Unmarshal(out, into)
	}
	return nil
}

// Object is anything.
type Object = map[string]any

// Namespace makes one of its own for a test, with the permissions of Fermi in it.
func (s *Server) Namespace(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("t%d-%d", os.Getpid(), s.count.Add(1))
	if err := s.Install(name); err != nil {
		t.Fatal(err)
	}
	return name
}

// Run starts another program of Kubernetes beside the server. Close ends it.
func (s *Server) Run(name string, args ...string) error {
	path, err := Program(name)
	if err != nil {
		return err
	}
	p, err := s.run(name, path, args...)
	if err == nil {
		s.beside[name] = p
	}
	return err
}

// EndOf ends what Run started by a name.
func (s *Server) EndOf(name string) {
	end(s.beside[name])
	delete(s.beside, name)
}

// Stream is the body of an answer that goes on. Close it.
func (s *Server) Stream(ctx context.Context, user, path, accept string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token(user))
	req.Header.Set("Accept", accept)
	answer, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		defer answer.Body.Close()
		said, _ := io.ReadAll(answer.Body)
		return nil, fmt.Errorf("%s: %s %s", path, answer.Status, said)
	}
	return answer.Body, nil
}

// paths are where objects of a kind live; %s is the namespace.
var paths = map[string]string{
	"Namespace": "/api/v1/namespaces", "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles", "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
	"Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/roles", "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/rolebindings",
}

// Install makes a namespace and what rbac.yaml says in it.
func (s *Server) Install(namespace string) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	var raw []byte
	for raw == nil && dir != "/" {
		raw, _ = os.ReadFile(filepath.Join(dir, "deploy", "kubernetes", "rbac.yaml"))
		dir = filepath.Dir(dir)
	}
	for _, doc := range strings.Split(string(raw), "\n---\n") {
		doc = strings.ReplaceAll(strings.ReplaceAll(doc, "namespace: fermi", "namespace: "+namespace), "kind: Namespace\nmetadata:\n  name: fermi", "kind: Namespace\nmetadata:\n  name: "+namespace)
		var o Object
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			return err
		}
		path, ok := paths[fmt.Sprint(o["kind"])]
		if !ok {
			return fmt.Errorf("what is %v?", o["kind"])
		}
		if strings.Contains(path, "%s") {
			path = fmt.Sprintf(path, namespace)
		}
		if err := s.Ask("POST", path, o, nil); err != nil {
			return err
		}
	}
	return s.Ask("POST", "/api/v1/namespaces/"+namespace+"/serviceaccounts", Object{"metadata": Object{"name": "default"}}, nil)
}

// Node makes a ready node with so many of a resource; labels may be nil.
func (s *Server) Node(t testing.TB, name, resource string, devices int, labels map[string]string) {
	t.Helper()
	amounts := Object{"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"}
	if devices > 0 {
		amounts[resource] = fmt.Sprint(devices)
	}
	s.Must(t, "POST", "/api/v1/nodes", Object{"metadata": Object{"name": name, "labels": labels}}, nil)
	s.Must(t, "PATCH", "/api/v1/nodes/"+name, Object{"spec": Object{"taints": nil}}, nil)
	s.Must(t, "PATCH", "/api/v1/nodes/"+name+"/status", Object{"status": Object{
		"capacity": amounts, "allocatable": amounts, "conditions": []Object{{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": now(), "lastHeartbeatTime": now()}},
		"nodeInfo": Object{"bootID": "boot-of-" + name, "osImage": "Debian GNU/Linux 12 (bookworm)", "kernelVersion": "6.1.0", "architecture": "amd64", "kubeletVersion": "v1.34.4",
			"machineID": "", "systemUUID": "", "containerRuntimeVersion": "", "kubeProxyVersion": "", "operatingSystem": "linux"},
	}}, nil)
	t.Cleanup(func() { _, _, _ = s.Do(Admin, "DELETE", "/api/v1/nodes/"+name, "", nil) })
}

func now() string { return time.Now().UTC().Format(time.RFC3339) }
