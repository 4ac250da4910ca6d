package e2e

import (
	"archive/zip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRequirements: what the code's requirements name is installed before the program begins, once for all ranks of a replica; what
// can't be installed is named as the cause.
func TestRequirements(t *testing.T) {
	w := up(t, "--demo")
	dir := t.TempDir()
	const wheel = "hello_fermi-1.0-py3-none-any.whl"
	f, err := os.Create(filepath.Join(dir, wheel))
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	for name, text := range map[string]string{
		"hello_fermi.py":                     "WHO = 'world'\n",
		"hello_fermi-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: hello-fermi\nVersion: 1.0\n",
		"hello_fermi-1.0.dist-info/WHEEL":    "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"hello_fermi-1.0.dist-info/RECORD":   "",
	} {
		part, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := part.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	for name, text := range map[string]string{
		"requirements.txt": "--no-index\n./" + wheel + "\n", "bad.txt": "--no-index\nno-such-package\n",
		"train.py": "import os, hello_fermi\nprint('hello', hello_fermi.WHO, 'from rank', os.environ['FERMI_RANK'])\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := w.fermiIn(dir, nil, "train", "run", "--requirements", "requirements.txt", "--ranks", "2", "--", "python", "train.py")
	contains(t, r.out, "hello world from rank 0", "hello world from rank 1")
	if r.code != 0 || strings.Count(r.out, "installing the packages of requirements.txt") != 1 {
		t.Errorf("%d\n%s\n%s", r.code, r.out, r.err)
	}
	r = w.fermiIn(dir, nil, "train", "run", "--requirements", "bad.txt", "--", "python", "train.py")
	contains(t, r.err, "Why: fermi.packages: the packages of bad.txt can't be installed: ERROR: No matching distribution found for no-such-package")
	if r.code != 1 {
		t.Errorf("%d\n%s\n%s", r.code, r.out, r.err)
	}
}
