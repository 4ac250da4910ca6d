package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/app/kinds"
	"github.com/fermi-cluster/fermi/test/harness"
)

const (
	dataLarge = 2 << 30
	dataFiles = 100_000
	dataSmall = 10_000
)

// benchData: how fast datasets are uploaded, beside a copy that is as durable, how long a replica waits for those that its node has, and what a second version sends.
func benchData(ctx context.Context, r *report) error {
	kinds.ShipAssets()
	c, cl, err := stand(ctx)
	if err != nil {
		return err
	}
	defer c.Cleanup()
	dir, err := os.MkdirTemp(filepath.Dir(c.Dir), "bench-data") // on the same disk
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, d := range []struct {
		name  string
		files int
		size  int64
	}{{"large", 1, dataLarge}, {"small", dataFiles, dataSmall}} {
		from := filepath.Join(dir, d.name)
		if err := writeFiles(from, d.files, d.size); err != nil {
			return err
		}
		begin := time.Now()
		if err := copyFiles(from, filepath.Join(dir, d.name+"-copy"), d.files); err != nil {
			return err
		}
		copied := time.Since(begin)
		if err := os.RemoveAll(filepath.Join(dir, d.name+"-copy")); err != nil {
			return err
		}
		begin = time.Now()
		if err := upload(ctx, c, d.name, from); err != nil {
			return err
		}
		sent := time.Since(begin)
		fmt.Printf("%s: copy %v, upload %v\n", d.name, copied.Round(time.Millisecond), sent.Round(time.Millisecond))
		r.atLeast(fmt.Sprintf("upload of %d × %d bytes, of the speed of cp and fsync [%%]", d.files, d.size), 100*copied.Seconds()/sent.Seconds(), 60)
	}
	if err := mounts(ctx, r, cl); err != nil {
		return err
	}
	if err := writeFiles(filepath.Join(dir, "small", "000"), 1, dataSmall); err != nil { // one file of the many is another
		return err
	}
	begin := time.Now()
	if err := upload(ctx, c, "small", filepath.Join(dir, "small")); err != nil {
		return err
	}
	fmt.Println("a second version:", time.Since(begin).Round(time.Millisecond))
	v, err := client.Get[*asset.AssetVersion](ctx, cl, "", asset.VersionName(asset.DatasetKind, "small", 2))
	if err != nil {
		return err
	}
	r.atMost("bytes that a version with one new file of 10 kB adds", float64(v.Spec.New), 4<<20)
	return nil
}

func upload(ctx context.Context, c *harness.Cluster, name, from string) error {
	token, err := os.ReadFile(filepath.Join(c.Dir, "admin.token"))
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, c.Bin, "data", "upload", name, from)
	cmd.Env = append(os.Environ(), "FERMI_SERVER=http://"+c.Addr, "FERMI_TOKEN="+strings.TrimSpace(string(token)), "FERMI_LANG=en")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("upload: %w\n%s", err, out)
	}
	return nil
}

// fileOf is the place of the i-th file: a thousand in a folder.
func fileOf(dir string, i int) string {
	return filepath.Join(dir, fmt.Sprintf("%03d", i/1000), fmt.Sprintf("%05d", i))
}

func writeFiles(dir string, files int, size int64) error {
	for i := range files {
		if i%1000 == 0 {
			if err := os.MkdirAll(filepath.Dir(fileOf(dir, i)), 0o755); err != nil {
				return err
			}
		}
		f, err := os.Create(fileOf(dir, i))
		if err != nil {
			return err
		}
		if _, err := io.CopyN(f, rand.Reader, size); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// copyFiles makes a copy that a power cut leaves whole.
func copyFiles(from, to string, files int) error {
	for i := range files {
		if i%1000 == 0 {
			if err := os.MkdirAll(filepath.Dir(fileOf(to, i)), 0o755); err != nil {
				return err
			}
		}
		if err := copyFile(fileOf(from, i), fileOf(to, i)); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	if err := out.Sync(); err != nil {
		return err
	}
	return out.Close()
}
