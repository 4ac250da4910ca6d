package hosts

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/fermi-cluster/fermi/test/hosts/world"
)

const bucketPort = 7480

// bucket is an S3 server on a host of its own.
type bucket struct {
	t   *testing.T
	h   *world.Host
	cmd *world.Cmd
}

// newBucket makes it and serves it.
func newBucket(t *testing.T, h *world.Host) *bucket {
	t.Helper()
	if os.Getenv("FERMI_S3_SERVER") == "" {
		t.Fatal("no S3 server is named: run `make e2e-hosts`")
	}
	b := &bucket{t: t, h: h}
	if err := os.MkdirAll(filepath.Join(b.files(), "bucket"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.credentials(), []byte(`{"accessKeyId":"AKtest","secretAccessKey":"secretsecret"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	b.open()
	return b
}

func (b *bucket) files() string       { return filepath.Join(b.h.Disk(), "s3") }
func (b *bucket) credentials() string { return filepath.Join(b.h.Disk(), "credentials.json") }

// open serves it, the first time or again.
func (b *bucket) open() {
	b.t.Helper()
	b.cmd = b.h.Command(os.Getenv("FERMI_S3_SERVER"), "--port", b.h.At(bucketPort), "--region", "cn-north-1", "--quiet", "posix", b.files())
	b.cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY=AKtest", "ROOT_SECRET_KEY=secretsecret")
	if err := b.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	cmd := b.cmd
	go func() { _ = cmd.Wait() }()
}

// args are for servers that keep their bytes there.
func (b *bucket) args() []string {
	return []string{
		"--bytes-store", "s3://bucket/fermi", "--bytes-endpoint", "http://" + b.h.At(bucketPort), "--bytes-region", "cn-north-1", "--bytes-credentials-file", b.credentials(),
	}
}
