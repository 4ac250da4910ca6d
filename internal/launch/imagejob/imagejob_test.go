package imagejob

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/fermi-cluster/fermi/internal/fault"
)

func TestBases(t *testing.T) {
	var got []string
	for _, ref := range bases([]byte("# FROM none\nARG A\nARG B=\"b/c:1\"\nARG C=no\nFROM ${B}\nFROM $C\nFROM --platform=linux/amd64 registry.example.org:5000/a/b:1 AS first\nRUN x\nfrom first\nFROM scratch\nFROM $A\nFROM Bad//Name\nFROM python:3.12 as last\n"), []string{"C=from/args:2", "D=x"}) {
		got = append(got, ref.String())
	}
	if want := []string{"b/c:1", "from/args:2", "registry.example.org:5000/a/b:1", "python:3.12"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestPolicy: what a Dockerfile begins from is judged by buildah itself, so that no way to say it leads past an operator's word.
func TestPolicy(t *testing.T) {
	hub := strings.TrimPrefix(name.DefaultRegistry, "index.")
	all := `"containers-storage":{"":[{"type":"insecureAcceptAnything"}]}`
	for want, allowed := range map[string][]string{
		`{"default":[{"type":"reject"}],"transports":{` + all + `,"docker":{"":[{"type":"insecureAcceptAnything"}]}}}`: nil,
		`{"default":[{"type":"reject"}],"transports":{` + all + `,"docker":{"` + hub + `/library":[{"type":"insecureAcceptAnything"}],"r.example:5000/team":[{"type":"insecureAcceptAnything"}]}}}`: {
			hub + "/library/", "r.example:5000/team",
		},
	} {
		if got := string(policy(allowed)); got != want {
			t.Errorf("%q: %s, not %s", allowed, got, want)
		}
	}
}

// TestWords: what buildah and registries print becomes a reason.
func TestWords(t *testing.T) {
	for words, want := range map[string]string{
		"STEP 1/1: FROM x\nError: creating build container: initializing source docker://x:9: reading manifest 9 in x: manifest unknown: manifest unknown\n": "NoBaseImage",
		"Error: error creating build container: initializing source docker://x: reading manifest v1 in x: unauthorized: authentication required":             "BaseImageDenied",
		"Error: creating build container: pinging container registry x: Get \"http://x/v2/\": dial tcp: connect: connection refused":                         "RegistryUnreachable",
		"cat: /absent: No such file\nError: building at STEP \"RUN cat /absent\": while running runtime: exit status 1\nexit status 1\n":                     "BuildStepFailed",
		"Trying to pull x...\nError: creating build container: Source image rejected: Running image docker://x:1 is rejected by policy.\n":                   "ImageNotAllowed",
		"Error: COPY --from=x/y:1: no stage or image found with that name":                                                                                   "BadDockerfile",
		"Error: write /x: no space left on device":                                        "DiskFull",
		"Error: building at STEP \"RUN echo denied: x\": exit status 2":                   "BuildStepFailed",
		"Error: building at STEP \"DANCE \": Build error: Unknown instruction: \"DANCE\"": "BadDockerfile",
		"": "BuildFailed",
	} {
		if got := fault.ReasonOf(buildFault(words, errors.New("exit status 1"))); got != want {
			t.Errorf("%q: %s, not %s", words, got, want)
		}
	}
	to, err := name.NewTag("x.example/ab:1")
	if err != nil {
		t.Fatal(err)
	}
	for words, want := range map[string]string{
		"Error: writing blob: initiating layer upload: denied: no": "PushDenied", "Error: dial tcp: i/o timeout": "RegistryUnreachable", "Error: something else": "PushRefused",
	} {
		if got := fault.ReasonOf(pushFault(to, words, errors.New("exit status 1"))); got != want {
			t.Errorf("%q: %s, not %s", words, got, want)
		}
	}
}

// TestDiffer: what was written, changed and removed is in the layer, and nothing that is mounted.
func TestDiffer(t *testing.T) {
	base, now := t.TempDir(), t.TempDir()
	when := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	write := func(root, name, text string, mode os.FileMode) {
		t.Helper()
		at := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), mode), os.Chmod(at, mode), os.Chtimes(at, when, when)); err != nil {
			t.Fatal(err)
		}
	}
	for _, root := range []string{base, now} {
		write(root, "etc/same", "x", 0o644)
		write(root, "etc/hosts", root, 0o644) // mounted
	}
	write(base, "etc/removed", "x", 0o644)
	write(base, "old/a", "x", 0o644)
	write(base, "was/folder", "x", 0o644)
	write(base, "etc/mode", "x", 0o644)
	write(now, "etc/mode", "x", 0o755)
	write(base, "etc/longer", "x", 0o644)
	write(now, "etc/longer", "xyz", 0o644)
	write(now, "was", "a file now", 0o644)
	write(now, "new/deep/file", "new", 0o600)
	write(now, "home/lab/replica/file", "mounted", 0o600)
	if err := errors.Join(os.Symlink("/etc/same", filepath.Join(now, "link")), os.Symlink("a", filepath.Join(base, "moved")), os.Symlink("b", filepath.Join(now, "moved"))); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	d := &differ{to: tar.NewWriter(&b), base: base, now: now, skip: map[string]bool{"/etc/hosts": true, "/home/lab/replica": true}}
	if err := errors.Join(d.compare(t.Context(), "."), d.to.Close()); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for r := tar.NewReader(&b); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(r)
		got[h.Name] = string(text) + h.Linkname
	}
	want := map[string]string{
		".wh.old": "", "etc/.wh.removed": "", "etc/mode": "x", "etc/longer": "xyz", "was": "a file now", "new/": "", "new/deep/": "", "new/deep/file": "new", "link": "/etc/same", "moved": "b",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if d.removed != 2 || !strings.Contains(unescape.Replace(`/a\040b`), "/a b") {
		t.Error(d.removed)
	}
}
