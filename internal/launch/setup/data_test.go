package setup

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/internal/launch/inside"
)

// TestShow: a version is found where it is asked for, as long as it is held; what an image has there, and the link of somebody else, stay.
func TestShow(t *testing.T) {
	dir := t.TempDir()
	version := func(name string) dataMount {
		root := filepath.Join(dir, "held", name)
		if err := os.MkdirAll(root, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "f"), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
		return dataMount{AssetRef: mount.AssetRef{Name: name, Path: filepath.Join(dir, "models", "own", "m")}, folder: &inside.Folder{Path: root}}
	}
	one, two := version("one"), version("two")
	read := func() string {
		raw, _ := os.ReadFile(filepath.Join(one.Path, "f"))
		return string(raw)
	}
	if err := one.show(); err != nil || read() != "one" {
		t.Fatalf("%v %q", err, read())
	}
	if err := two.show(); err != nil || read() != "two" { // the next launcher's
		t.Fatalf("%v %q", err, read())
	}
	one.unshow()
	if read() != "two" {
		t.Error("it took away a link that is another's")
	}
	two.unshow()
	if _, err := os.Lstat(one.Path); !os.IsNotExist(err) {
		t.Errorf("a link is left: %v", err)
	}
	if err := os.MkdirAll(one.Path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := one.show(); err != nil || read() != "one" { // an empty folder of the image
		t.Errorf("%v %q", err, read())
	}
	one.unshow()
	if err := os.MkdirAll(filepath.Join(one.Path, "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := one.show(); err == nil {
		t.Error("it was shown over files of the image")
	}
	one.unshow()
	if _, err := os.Stat(filepath.Join(one.Path, "full")); err != nil {
		t.Errorf("what the image has is gone: %v", err)
	}
}
