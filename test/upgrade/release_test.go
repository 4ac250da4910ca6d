package upgrade

import (
	"bytes"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

//go:embed releases.txt
var list string

// releases are the commits or tags of the list, newest first.
func releases() (out []string) {
	for line := range strings.Lines(list) {
		if f := strings.Fields(line); len(f) > 0 && !strings.HasPrefix(f[0], "#") {
			out = append(out, f[0])
		}
	}
	return out
}

// TestReleases: the list never loses its first one.
func TestReleases(t *testing.T) {
	if all := releases(); len(all) == 0 || all[len(all)-1] != "40525d3" {
		t.Errorf("the releases are %v; 40525d3 is the first and stays", all)
	}
}

// build gives the program of a release: from .cache/upgrade, or made from its commit.
func build(t *testing.T, release string) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", root}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	commit, err := git("rev-parse", "--verify", "--quiet", release+"^{commit}")
	if err != nil {
		shallow, _ := git("rev-parse", "--is-shallow-repository")
		t.Fatalf("release %s is not in this clone (shallow: %s), so its program can't be built: git fetch --unshallow --tags", release, shallow)
	}
	dir := filepath.Join(root, ".cache", "upgrade", commit)
	bin := filepath.Join(dir, "fermi")
	if _, err := os.Stat(bin); err == nil {
		return bin
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	tree, err := os.MkdirTemp(dir, "tree-*")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tree)
	archive := exec.CommandContext(t.Context(), "git", "-C", root, "archive", commit)
	unpack := exec.CommandContext(t.Context(), "tar", "-x", "-C", tree)
	var said bytes.Buffer
	archive.Stderr, unpack.Stderr = &said, &said
	if unpack.Stdin, err = archive.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	// The console is left out: where it was not built, its folder has a placeholder.
	make := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w -X main.version="+release, "-o", filepath.Join(tree, "fermi"), "./cmd/fermi")
	make.Dir, make.Stdout, make.Stderr = tree, &said, &said
	make.Env = append(os.Environ(), "GOWORK=off")
	for _, run := range []func() error{unpack.Start, archive.Run, unpack.Wait, make.Run} {
		if err := run(); err != nil {
			t.Fatalf("build release %s: %v\n%s", release, err, said.String())
		}
	}
	if err := os.Rename(filepath.Join(tree, "fermi"), bin); err != nil {
		t.Fatal(err)
	}
	return bin
}
