package e2e

import (
	"crypto/rand"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/fermi-cluster/fermi/internal/blob/s3/s3test"

	"github.com/fermi-cluster/fermi/test/harness"
)

// buildProbe builds the program that tasks run, alone in a folder that travels as their code.
func buildProbe(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", filepath.Join(dir, "probe"), "github.com/fermi-cluster/fermi/test/probe")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the probe: %v\n%s", err, out)
	}
	return dir
}

// valueFile holds one value, as `fermi secret set KEY=FILE` wants it.
func valueFile(t *testing.T, value string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "value")
	if err := os.WriteFile(path, []byte(value), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// privateRegistry is a real registry behind a password, with one image; it gives the image's
// address and digest.
func privateRegistry(t *testing.T, user, password string) (host, image, digest string) {
	t.Helper()
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	srv := harness.ServeOutside(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, _ := r.BasicAuth(); u != user || p != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="images"`)
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		images.ServeHTTP(w, r)
	}))
	host = strings.TrimPrefix(srv.URL, "http://")
	ref, err := name.ParseReference(host + "/team/train:v1")
	if err != nil {
		t.Fatal(err)
	}
	img, err := random.Image(1024, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img, remote.WithAuth(&authn.Basic{Username: user, Password: password})); err != nil {
		t.Fatal(err)
	}
	hash, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return host, ref.Name(), hash.String()
}

// TestRegistryCredential: a task pulls from two private registries with what its secrets say, and
// from none without.
func TestRegistryCredential(t *testing.T) {
	w := up(t, "--demo")
	dir := buildProbe(t)
	host1, image1, digest1 := privateRegistry(t, "li", "first-pass-word")
	host2, image2, digest2 := privateRegistry(t, "wang", "second-pass-word")
	w.must("secret", "set", "hub", "--type", "registry", "--plain", "server="+host1, "--plain", "username=li", "password="+valueFile(t, "first-pass-word"))
	w.must("secret", "set", "other", "--type", "registry", "--plain", "server="+host2, "--plain", "username=wang", "password="+valueFile(t, "second-pass-word"))

	run := func(name string, more ...string) result {
		t.Helper()
		args := append([]string{"train", "run", "--name", name}, more...)
		return w.fermiIn(dir, nil, append(args, "--", "./probe", "pull", image1, image2)...)
	}
	r := run("both", "--credential", "hub", "--credential", "other")
	if r.code != 0 {
		t.Fatalf("with both: %d\n%s\n%s", r.code, r.out, r.err)
	}
	contains(t, r.out, "pulled "+digest1, "pulled "+digest2)
	if r = run("none"); r.code != 3 || strings.Contains(r.out, "pulled") || !strings.Contains(r.out+r.err, "401") {
		t.Errorf("without: %d\n%s\n%s", r.code, r.out, r.err)
	}
	if r = run("one", "--credential", "hub"); r.code != 3 || !strings.Contains(r.out, "pulled "+digest1) || strings.Contains(r.out, digest2) {
		t.Errorf("with one: %d\n%s\n%s", r.code, r.out, r.err)
	}
	w.must("secret", "set", "hub", "password="+valueFile(t, "a wrong one")) // the rest stays
	if r = run("wrong", "--credential", "hub"); r.code != 3 || strings.Contains(r.out, "pulled") {
		t.Errorf("with a wrong one: %d\n%s\n%s", r.code, r.out, r.err)
	}
}

// doorTo passes on what comes, as it is: requests are signed with the host's name.
func doorTo(t *testing.T, address string) http.Handler {
	t.Helper()
	target, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}}
}

// TestS3Credential: a task writes to and reads from a real S3 server with what its secret says.
func TestS3Credential(t *testing.T) {
	id, key := "AK"+rand.Text(), rand.Text()
	endpoint := harness.ServeOutside(t, doorTo(t, s3test.Start(t, t.TempDir(), id, key))).URL
	w := up(t, "--demo")
	dir := buildProbe(t)
	w.must("secret", "set", "store", "--type", "s3", "--plain", "endpoint="+endpoint, "--plain", "region=cn-north-1",
		"accessKeyID="+valueFile(t, id), "secretAccessKey="+valueFile(t, key))
	run := func(name string, more ...string) result {
		t.Helper()
		args := append([]string{"train", "run", "--name", name, "--env", "AWS_EC2_METADATA_DISABLED=true"}, more...)
		return w.fermiIn(dir, nil, append(args, "--", "./probe", "store", name)...)
	}
	r := run("allowed", "--credential", "store")
	if r.code != 0 {
		t.Fatalf("with the credential: %d\n%s\n%s", r.code, r.out, r.err)
	}
	contains(t, r.out, "read back: stored by a task")
	// Without a credential the client would ask the vendor's own servers: name ours, and only the
	// account is missing.
	if r = run("denied", "--env", "AWS_ENDPOINT_URL="+endpoint, "--env", "AWS_REGION=cn-north-1"); r.code != 3 || strings.Contains(r.out, "read back") {
		t.Errorf("without: %d\n%s\n%s", r.code, r.out, r.err)
	}
	w.must("secret", "set", "store", "secretAccessKey="+valueFile(t, "another")) // the rest stays
	if r = run("wrong", "--credential", "store"); r.code != 3 || !strings.Contains(r.out+r.err, "SignatureDoesNotMatch") {
		t.Errorf("with a wrong key: %d\n%s\n%s", r.code, r.out, r.err)
	}
}
