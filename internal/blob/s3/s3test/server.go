// Package s3test runs a real S3 server for tests.
//
// Place: layer 3, for tests only. Promise: a server of its own for each test, gone with it; where none
// is named, the test is skipped and says so. Enemies: stand-ins that know no conditional put.
package s3test

import (
	"bytes"
	"context"
	"crypto/rand"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/blob/s3"
)

// Region is the server's.
const Region = "cn-north-1"

// Server starts a server with one bucket.
func Server(t *testing.T) s3.Config {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/bucket", 0o700); err != nil {
		t.Fatal(err)
	}
	id, secret := "AK"+rand.Text(), rand.Text()
	return s3.Config{
		Endpoint: Start(t, dir, id, secret), Region: Region, Bucket: "bucket", Prefix: "fermi",
		Credentials: func(context.Context) (string, string, string, error) { return id, secret, "", nil },
	}
}

// Start starts the server that FERMI_S3_SERVER names, with one account, on a folder whose folders are
// its buckets, and gives its address.
func Start(t *testing.T, dir, id, secret string) (endpoint string) {
	t.Helper()
	bin := os.Getenv("FERMI_S3_SERVER")
	if bin == "" {
		t.Skip("FERMI_S3_SERVER names no S3 server; make e2e-s3 builds one")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	cmd := exec.Command(bin, "--port", addr, "--region", Region, "--quiet", "posix", dir)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "ROOT_ACCESS_KEY=" + id, "ROOT_SECRET_KEY=" + secret}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	for {
		resp, err := http.Get("http://" + addr + "/")
		if err == nil {
			resp.Body.Close()
			return "http://" + addr
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the S3 server ended: %v\n%s", err, out.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Behind gives the configuration of a door before the server: handle sees each request, and passes it on
// or not.
func Behind(t *testing.T, cfg s3.Config, handle func(w http.ResponseWriter, r *http.Request, pass http.Handler)) s3.Config {
	t.Helper()
	target, err := url.Parse(cfg.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // it is signed
	}}
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handle(w, r, proxy) }))
	t.Cleanup(door.Close)
	cfg.Endpoint = door.URL
	return cfg
}
