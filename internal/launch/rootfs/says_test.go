package rootfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// tree makes files below a folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		at := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestUserOf(t *testing.T) {
	root := tree(t, map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\nbroken line\nlong:x:70000:5::/:/bin/sh\njovyan:x:1000:100::/home/jovyan:/bin/bash\r\n" + strings.Repeat("x", maxUserLine-1) + "\n",
		"etc/group":  "root:x:0:\nusers:x:100:\nvideo:x:44:other,jovyan\nnone\n",
	})
	in, err := os.OpenRoot(root)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	for named, want := range map[string]*User{
		"":              nil,
		"root":          nil,
		"0:0":           nil,
		"jovyan":        {Named: "jovyan", Name: "jovyan", UID: 1000, GID: 100, Groups: []int{44}},
		"1000":          {Named: "1000", Name: "jovyan", UID: 1000, GID: 100, Groups: []int{44}},
		"1000:0":        {Named: "1000:0", Name: "jovyan", UID: 1000},
		"jovyan:video":  {Named: "jovyan:video", Name: "jovyan", UID: 1000, GID: 44},
		"4711":          {Named: "4711", Name: "4711", UID: 4711},
		"4711:12":       {Named: "4711:12", Name: "4711", UID: 4711, GID: 12},
		"long":          {Named: "long", Name: "long", UID: 70000, GID: 5},
		"nobody":        {Named: "nobody", Name: "nobody", Unknown: true},
		"jovyan:nobody": {Named: "jovyan:nobody", Name: "jovyan", UID: 1000, Unknown: true},
		"-1":            {Named: "-1", Name: "-1", UID: -1, Unknown: true},
	} {
		if diff := cmp.Diff(want, userOf(in, named)); diff != "" {
			t.Errorf("%q:\n%s", named, diff)
		}
	}
}

// What leads out of an image is not there, and what is no folder is no working directory.
func TestHear(t *testing.T) {
	root := tree(t, map[string]string{"app/file": "x"})
	for from, to := range map[string]string{"etc": "/etc", "out": "../../..", "in": "app"} {
		if err := os.Symlink(to, filepath.Join(root, from)); err != nil {
			t.Fatal(err)
		}
	}
	for dir, want := range map[string]string{"": "", "/": "", "app": "/app", "/app/": "/app", "/app/file": "", "/out": "", "/in": "/in", "/made/here": "/made/here", "/app/file/x": ""} {
		c := v1.Config{WorkingDir: dir, User: "daemon", ExposedPorts: map[string]struct{}{"80/tcp": {}, strings.Repeat("9", 99): {}}}
		if err := makeDir(c, root); err != nil {
			t.Fatal(err)
		}
		says, err := hear(c, root)
		if err != nil {
			t.Fatal(err)
		}
		if says.Dir != want || !says.User.Unknown || len(says.Ports) != 1 {
			t.Errorf("%q: %+v", dir, says)
		}
	}
	for what, c := range map[string]v1.Config{
		"a NUL byte":     {Cmd: []string{"a\x00b"}},
		"a long command": {Entrypoint: []string{strings.Repeat("x", maxAbout+1)}},
		"a long folder":  {WorkingDir: "/" + strings.Repeat("x", maxDirLength)},
	} {
		if says, err := hear(c, root); err == nil {
			t.Errorf("%s is taken: %+v", what, says)
		}
	}
}
