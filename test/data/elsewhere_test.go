package data

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/blob/s3"
	"github.com/fermi-cluster/fermi/internal/blob/s3/s3test"
	"github.com/fermi-cluster/fermi/test/harness"
)

// shared is a folder that an operator named, readable by everybody on the machine, behind the wall of /tmp.
func shared(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for at := dir; at != "/tmp" && at != "/"; at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// grant gives the project a folder.
func (w *world) grant(folder string) {
	w.t.Helper()
	o, err := w.admin.Get(w.t.Context(), api.KindProject, "", "lab")
	w.must(err)
	p := o.(*api.Project)
	p.Spec.Folders = append(p.Spec.Folders, folder)
	_, err = client.Update(w.t.Context(), w.admin, p)
	w.must(err)
}

// reads runs a task that reads from a dataset.
func (w *world) reads(ref, script string) (string, error) {
	w.t.Helper()
	out, err := w.command(w.t.Context(), w.lab, "train", "run", "--no-code", "--dataset", ref, "--", "sh", "-c", script).CombinedOutput()
	return string(out), err
}

// TestFolders: what lies in an operator's folder becomes a version, or is one where it lies; a change of it is named.
func TestFolders(t *testing.T) {
	dir := shared(t)
	w := newWorld(t, "--folder", "pool="+dir)
	w.grant("pool")
	w.write(filepath.Join(dir, "faces", "a.bin"), 3<<20)
	w.must(os.WriteFile(filepath.Join(dir, "faces", "names.txt"), []byte("ann\n"), 0o644))
	if out := w.fermi("data", "import", "faces", "--folder", "pool/faces", "-m", "first"); !strings.HasSuffix(out, "faces@1\n") {
		t.Errorf("%s", out)
	}
	w.fermi("data", "download", "faces@1", filepath.Join(t.TempDir(), "copy"))
	if got := w.fermi("data", "cat", "faces", "names.txt"); got != "ann\n" {
		t.Errorf("%q", got)
	}
	if got := w.fermi("data", "versions", "faces"); !strings.Contains(got, "folder pool/faces") || !strings.Contains(got, "first") {
		t.Errorf("%s", got)
	}
	if got := w.fermi("data", "import", "faces", "--folder", "pool/faces"); !strings.HasSuffix(got, "faces@1\n") {
		t.Errorf("nothing changed, and there is a version more:\n%s", got)
	}

	if out := w.fermi("data", "import", "all", "--folder", "pool", "--reference"); !strings.HasSuffix(out, "all@1\n") {
		t.Errorf("%s", out)
	}
	if got := w.fermi("data", "ls", "all", "faces"); !strings.Contains(got, "names.txt") {
		t.Errorf("%s", got)
	}
	if got := w.fermi("data", "cat", "all", "faces/names.txt"); !strings.HasSuffix(got, "\nann\n") || !strings.Contains(got, "lie elsewhere") {
		t.Errorf("read where it lies: %q", got)
	}
	copied := filepath.Join(t.TempDir(), "copy")
	w.fermi("data", "download", "all", copied)
	if out, err := exec.Command("diff", "-r", dir, copied).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	w.refused(w.lab, "nothing.txt", "data", "cat", "all", "faces/nothing.txt")
	w.must(os.WriteFile(filepath.Join(dir, "faces", "table.csv"), []byte("x,y\n1,2\n3,\x1b[31m4\n"), 0o644))
	if out := w.fermi("data", "import", "seen", "--folder", "pool", "--reference"); !strings.HasSuffix(out, "seen@1\n") {
		t.Errorf("%s", out)
	}
	if got := w.fermi("data", "preview", "seen", "faces/table.csv"); !strings.HasSuffix(got, "x  y\n1  2\n3  ·[31m4\n") {
		t.Errorf("a preview where it lies: %q", got)
	}
	w.refused(w.lab, "no file", "data", "preview", "seen", "faces/nothing.txt")
	w.refused(w.stranger, "seen", "data", "preview", "seen", "faces/table.csv", "--project", "lab")
	w.must(os.Remove(filepath.Join(dir, "faces", "table.csv")))
	out, err := w.reads("all", "cat $FERMI_DATASET_ALL/faces/names.txt /data/all/faces/names.txt; touch /data/all/x")
	if err == nil || strings.Count(out, "ann\n") != 2 || !strings.Contains(out, "Read-only") {
		t.Errorf("%v\n%s", err, out)
	}
	w.must(os.WriteFile(filepath.Join(dir, "faces", "names.txt"), []byte("ann bob\n"), 0o644))
	if out, err := w.reads("all@1", "echo started"); err == nil || strings.Contains(out, "\nstarted\n") || !strings.Contains(out, "faces/names.txt has 8 bytes, not 4") || !strings.Contains(out, "all@1") {
		t.Errorf("%v\n%s", err, out)
	}
	w.refused(w.lab, "faces/names.txt has 8 bytes, not 4", "data", "cat", "all@1", "faces/names.txt")
	if out := w.fermi("data", "import", "all", "--folder", "pool", "--reference"); !strings.HasSuffix(out, "all@2\n") {
		t.Errorf("%s", out)
	}
	if out, err := w.reads("all", "cat /data/all/faces/names.txt"); err != nil || !strings.Contains(out, "ann bob\n") {
		t.Errorf("%v\n%s", err, out)
	}

	// Of a folder below: that alone is seen, and a link in its place that leads out of the named folder is not followed.
	if out := w.fermi("data", "import", "part", "--folder", "pool/faces", "--reference"); !strings.HasSuffix(out, "part@1\n") {
		t.Errorf("%s", out)
	}
	w.must(os.WriteFile(filepath.Join(dir, "beside"), []byte("no"), 0o644)) // of pool, not of pool/faces
	if out, err := w.reads("part", "cat /data/part/names.txt; ls /data/part; cat /data/part/../beside"); err == nil || !strings.Contains(out, "ann bob\n") || strings.Contains(out, "beside\n") || strings.Contains(out, "\nno") {
		t.Errorf("%v\n%s", err, out)
	}
	if got := w.fermi("data", "cat", "part", "names.txt"); !strings.HasSuffix(got, "\nann bob\n") {
		t.Errorf("%q", got)
	}
	away := shared(t)
	w.must(os.Rename(filepath.Join(dir, "faces"), filepath.Join(away, "faces")))
	w.must(os.Symlink(filepath.Join(away, "faces"), filepath.Join(dir, "faces")))
	if out, err := w.reads("part", "cat /data/part/names.txt"); err == nil || strings.Contains(out, "\nann bob") {
		t.Errorf("%v\n%s", err, out)
	}
	w.must(os.Remove(filepath.Join(dir, "faces")))
	if out, err := w.reads("part", "echo started"); err == nil || strings.Contains(out, "\nstarted\n") || !strings.Contains(out, `"faces" is gone`) {
		t.Errorf("%v\n%s", err, out)
	}
	for _, c := range []struct{ words, args string }{
		{"project other may use", "--project other --folder pool"},
		{"is not a folder on node", "--project lab --folder pool/nothing --reference"},
		{"NAME/path", "--project lab --folder ../pool"},
		{"one of them", "--project lab"},
		{"is no bucket", "--project lab pool"},
		{"Name a secret", "--project lab s3://bucket/x"},
	} {
		token := w.lab
		if strings.Contains(c.args, "other") {
			token = w.stranger
		}
		w.refused(token, c.words, append([]string{"data", "import", "bad"}, strings.Fields(c.args)...)...)
	}
}

// outsideS3 is an S3 server where tasks reach it, with one bucket.
func outsideS3(t *testing.T) s3.Config {
	t.Helper()
	bin := os.Getenv("FERMI_S3_SERVER")
	if bin == "" {
		t.Skip("FERMI_S3_SERVER names no S3 server; make e2e-data builds one")
	}
	dir, addr := t.TempDir(), harness.OutsideAddress(t)
	if err := os.Mkdir(filepath.Join(dir, "photos"), 0o700); err != nil {
		t.Fatal(err)
	}
	id, secret := "AK"+rand.Text(), rand.Text()
	cmd := exec.Command(bin, "--port", addr, "--region", s3test.Region, "--quiet", "posix", dir)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "ROOT_ACCESS_KEY=" + id, "ROOT_SECRET_KEY=" + secret}
	harness.DoOutside(t, func(string) error { return cmd.Start() })
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	harness.Eventually(t, "the S3 server answers", func() bool {
		resp, err := http.Get("http://" + addr + "/")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil
	})
	return s3.Config{Endpoint: "http://" + addr, Region: s3test.Region, Bucket: "photos", Credentials: func(context.Context) (string, string, string, error) { return id, secret, "", nil }}
}

// TestBuckets: a prefix of a real bucket becomes a version, or is one where it lies; an object that was replaced is named.
func TestBuckets(t *testing.T) {
	cfg := outsideS3(t)
	store, err := s3.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	put := func(key, text string) {
		if _, err := store.Put(t.Context(), key, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t)
	large := strings.Repeat("0123456789abcdef", 600<<10) // three requests
	put("faces/large", large)
	put("faces/names.txt", "ann\n")
	for i := range 40 {
		put(fmt.Sprintf("faces/small/%d", i), fmt.Sprint(i))
	}
	put("other/secret", "no")
	id, secret, _, err := cfg.Credentials(t.Context())
	w.must(err)
	lab, err := client.New(client.Config{Server: w.proxy, Token: w.lab})
	w.must(err)
	_, err = client.Create(t.Context(), lab, &api.Secret{Meta: api.Meta{Name: "store", Project: "lab"}, Spec: api.SecretSpec{Type: api.SecretS3, Data: map[string]string{
		api.KeyAccessKeyID: id, api.KeySecretAccessKey: secret, api.KeyEndpoint: cfg.Endpoint, api.KeyRegion: cfg.Region,
	}}})
	w.must(err)

	out := w.fermi("data", "import", "faces", "s3://photos/faces", "--secret", "store")
	if !strings.HasSuffix(out, "faces@1\n") || !strings.Contains(out, "42 objects were listed") || strings.Contains(out, secret) {
		t.Errorf("%s", out)
	}
	if got := w.fermi("data", "cat", "faces", "large"); got != large {
		t.Errorf("%d bytes", len(got))
	}
	if got := w.fermi("data", "versions", "faces"); !strings.Contains(got, "s3://photos/faces") {
		t.Errorf("%s", got)
	}

	if out := w.fermi("data", "import", "there", "s3://photos/faces", "--secret", "store", "--reference"); !strings.HasSuffix(out, "there@1\n") {
		t.Errorf("%s", out)
	}
	if got := w.fermi("data", "preview", "there", "names.txt"); !strings.HasSuffix(got, "\nann\n") || strings.Contains(got, secret) {
		t.Errorf("a preview in the bucket: %q", got)
	}
	if out, err := w.reads("there", "cat /data/there/names.txt; cat /data/there/* /data/there/small/* 2>/dev/null | wc -c; env; ls /data/there"); err != nil || !strings.Contains(out, "ann\n") || strings.Contains(out, secret) || strings.Contains(out, "AWS_") {
		t.Errorf("%v\n%s", err, out)
	}
	put("faces/names.txt", "bob\n") // as long as before: its ETag tells
	out, err = w.reads("there", "cat /data/there/names.txt")
	if err != nil || !strings.Contains(out, "ann\n") {
		t.Errorf("what is on the node is what was listed: %v\n%s", err, out)
	}
	w.refused(w.lab, "is not the one that was listed", "data", "preview", "there", "names.txt")
	put("faces/more", "x")
	if out := w.fermi("data", "import", "there", "s3://photos/faces", "--secret", "store", "--reference"); !strings.HasSuffix(out, "there@2\n") {
		t.Errorf("%s", out)
	}
	put("faces/more", "y")
	if out, err := w.reads("there@2", "echo started"); err == nil || strings.Contains(out, "\nstarted\n") || !strings.Contains(out, `"more" is not the one that was listed`) {
		t.Errorf("%v\n%s", err, out)
	}
	w.refused(w.lab, `no secret "nobody"`, "data", "import", "bad", "s3://photos/faces", "--secret", "nobody", "--reference")
	w.refused(w.lab, "no objects", "data", "import", "bad", "s3://photos/nothing", "--secret", "store")
}
