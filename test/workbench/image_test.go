package workbench

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

// debian is a registry with a Debian that has apt and pip, and its account as the secret hub of the project lab.
func (w *world) debian() (hub *harness.Registry, image string) {
	w.t.Helper()
	file := os.Getenv("FERMI_DEBIAN")
	if file == "" {
		w.t.Fatal("FERMI_DEBIAN names no archive of a Debian: make e2e-images")
	}
	hub = harness.NewRegistry(w.t)
	image = hub.PushArchive(w.t, "lab/debian:12", file, v1.Config{
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "PIP_BREAK_SYSTEM_PACKAGES=1", "DEBIAN_FRONTEND=noninteractive"},
	})
	if _, err := w.people["ann"].Create(w.t.Context(), &api.Secret{Meta: api.Meta{Name: "hub", Project: "lab"}, Spec: api.SecretSpec{
		Type: api.SecretRegistry, Data: map[string]string{api.KeyServer: hub.Host, api.KeyUsername: hub.User, api.KeyPassword: hub.Password},
	}}, false); err != nil {
		w.t.Fatal(err)
	}
	return hub, image
}

// TestImageRoot: a member is root in a Debian: apt-get (which drops to _apt) and pip install, and what they did is there after stop and start
// and gone after a reset. Outside everything is the project's, and nothing that root in there tries reaches further.
func TestImageRoot(t *testing.T) {
	w := newWorld(t)
	hub, image := w.debian()
	w.must("ann", "env", "create", "box", "--project", "lab", "--image", image, "--credential", "hub", "--cpu", "500m", "--memory", "1Gi", "--storage", "2Gi")
	shell := func(line string) string {
		t.Helper()
		return w.must("ann", "env", "shell", "box", "--project", "lab", "--", "sh", "-c", line)
	}
	if got := shell("id -u; id -g; whoami; stat -c %U /etc/passwd $HOME"); got != "0\n0\nroot\nroot\nroot\n" {
		t.Errorf("who is there: %q", got)
	}
	shell("apt-get update -q && apt-get install -q -y --no-install-recommends tree && tree --version")
	shell("pip install --quiet tinydb==4.8.2 && python3 -c 'import tinydb'")
	shell("echo mine > $HOME/mine && mkdir /workspace && echo work > /workspace/file && useradd -m -u 1000 dev && su dev -c 'echo x > /home/dev/x && kill -0 $$'")
	if got := shell("stat -c %U:%u /home/dev/x"); got != "dev:1000\n" {
		t.Errorf("another user's file: %q", got)
	}

	s, err := w.open("ann", "box", "main") // with a terminal of its own
	if err != nil {
		t.Fatal(err)
	}
	s.write("stty -echo; test -t 0 && echo at-$(id -u)-$((40+2))\n")
	s.until("at-0-42")
	s.line.Hang()

	w.must("ann", "env", "stop", "box", "--project", "lab")
	hub.Stop() // what it was is used
	w.must("ann", "env", "start", "box", "--project", "lab")
	if got := shell("tree --version >/dev/null && python3 -c 'import tinydb; print(tinydb.__version__)' && cat $HOME/mine /workspace/file && stat -c %U /home/dev/x"); got != "4.8.2\nmine\nwork\ndev\n" {
		t.Errorf("after stop and start: %q", got)
	}
	w.ownsOnly("lab", "box")

	for _, try := range []string{
		"mknod /tmp/disk b 8 0", "mknod /dev/kmem2 c 1 2", "mount -t tmpfs none /mnt", "mount --bind / /mnt", "cat /proc/1/environ", "ls /proc/1/root/", "kill -9 1",
		"echo 1 > /proc/sys/vm/drop_caches", "echo b > /proc/sysrq-trigger", "chown 1900000000 /workspace/file", "chroot /proc/1/root id", "cat " + filepath.Join(w.Dir, "admin.token"),
		"unshare -m sh -c 'mount -t ext4 /dev/vda /mnt'", "unshare -m sh -c 'umount /etc/hosts && echo x > /etc/hosts'", "ip link set eth0 down", "hostname other",
		`cp /bin/sh /tmp/sh && chmod 4755 /tmp/sh && su dev -c "/tmp/sh -p -c 'test \$(id -u) = 0'"`,
	} {
		if out, code := w.fermi("ann", "", "env", "shell", "box", "--project", "lab", "--", "sh", "-c", try); code == 0 {
			t.Errorf("%s worked: %s", try, out)
		}
	}
	if out, code := w.fermi("mal", "", "env", "shell", "box", "--project", "lab", "--", "id"); code == 0 {
		t.Errorf("a member of another project is in: %s", out)
	}
	if out, code := w.fermi("bob", "", "env", "reset", "box", "--project", "lab", "--yes"); code == 0 {
		t.Errorf("another member reset it: %s", out)
	}

	w.must("ann", "env", "reset", "box", "--project", "lab", "--yes")
	w.must("ann", "env", "stop", "box", "--project", "lab")
	w.must("ann", "env", "start", "box", "--project", "lab")
	if got := shell("command -v tree; test -e /workspace || echo gone; cat $HOME/mine"); got != "gone\nmine\n" {
		t.Errorf("after a reset: %q", got)
	}
	w.must("ann", "env", "delete", "box", "--project", "lab", "--yes")
	harness.Eventually(t, "its home and its layer are gone", func() bool {
		left, err := filepath.Glob(filepath.Join(w.Dir, "engine", "layers", "*"))
		homes, herr := filepath.Glob(filepath.Join(w.Dir, "engine", "homes", "*"))
		return err == nil && herr == nil && len(left) == 0 && len(homes) == 0
	})
}

// TestImageMove: what was installed, changed and removed over an image goes with the home, to its own users, also where the tag has moved meanwhile and
// the server is killed on the way; nothing of it is left at the old place. Without its layer it begins with the bare image.
func TestImageMove(t *testing.T) {
	w := newWorld(t, "--demo")
	hub, image := w.debian()
	w.must("ann", "env", "create", "box", "--project", "lab", "--image", image, "--credential", "hub", "--cpu", "500m", "--memory", "1Gi", "--storage", "2Gi", "--zone", "beijing-1")
	shell := func(line string) string {
		t.Helper()
		return w.must("ann", "env", "shell", "box", "--project", "lab", "--", "sh", "-c", line)
	}
	shell(`echo mine > $HOME/mine; mkdir -p /opt/tool/empty; head -c 3000000 /dev/urandom > /opt/tool/data; cp -a /etc/debian_version /opt/tool/was; useradd -m -u 1000 dev; su dev -c "echo x > /home/dev/x";
chmod 700 /opt/tool; ln -s /opt/tool/data /usr/local/link; rm /etc/issue; rm -r /usr/share/doc; mkdir /usr/share/doc; echo new > /usr/share/doc/new; touch -r /etc/debian_version /tmp/t; tr 0-9 1-90 < /opt/tool/was > /etc/debian_version; touch -r /tmp/t /etc/debian_version`)
	const look = `cat $HOME/mine; sha256sum /opt/tool/data; stat -c '%n %U %a %Y' /opt/tool /opt/tool/empty /opt/tool/data /home/dev/x /etc/debian_version; readlink /usr/local/link; ls -A /usr/share/doc; cat /etc/debian_version; test -e /etc/issue || echo removed; su dev -c id; echo $PIP_BREAK_SYSTEM_PACKAGES`
	was := shell(look)
	if !strings.Contains(was, "/home/dev/x dev 644") || !strings.Contains(was, "\nremoved\n") || !strings.Contains(was, "\nnew\n") {
		t.Fatal(was)
	}
	if again := hub.PushArchive(t, "lab/debian:12", os.Getenv("FERMI_DEBIAN"), v1.Config{Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "PIP_BREAK_SYSTEM_PACKAGES=2"}}); again != image {
		t.Fatal(again)
	}

	w.must("ann", "env", "move", "box", "--project", "lab", "--zone", "shanghai-1")
	if now := shell(look); now != was {
		t.Errorf("after a move:\n%s\ninstead of\n%s", now, was)
	}
	alone := func() {
		t.Helper()
		e, err := client.Get[*devenv.DevEnvironment](t.Context(), w.people["ann"], "lab", "box")
		if err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, "its layer is at one place", func() bool {
			left, err := filepath.Glob(filepath.Join(w.Dir, "engine", "layers", "env-*"))
			return err == nil && len(left) == 1 && filepath.Base(left[0]) == e.HomeName()
		})
	}
	alone()

	w.must("ann", "env", "move", "box", "--project", "lab", "--zone", "beijing-2", "--no-wait")
	harness.Eventually(t, "it is on its way", func() bool {
		e, err := client.Get[*devenv.DevEnvironment](t.Context(), w.people["ann"], "lab", "box")
		return err == nil && (e.Saves() || devenv.Moves{Of: e}.Filling())
	})
	w.Kill()
	harness.Ready(t, w.Cluster)
	harness.Eventually(t, "it is moved", func() bool {
		e, err := client.Get[*devenv.DevEnvironment](t.Context(), w.people["ann"], "lab", "box")
		return err == nil && !(devenv.Moves{Of: e}).Going() && e.Status.HomeCount == 2
	})
	if now := shell(look); now != was {
		t.Errorf("after a move with a kill:\n%s\ninstead of\n%s", now, was)
	}
	alone()
	w.must("ann", "env", "stop", "box", "--project", "lab")
	w.must("ann", "env", "start", "box", "--project", "lab")
	if now := shell(look); now != was {
		t.Errorf("after stop and start there:\n%s\ninstead of\n%s", now, was)
	}

	w.must("ann", "env", "move", "box", "--project", "lab", "--zone", "beijing-1", "--without-layer")
	if got := shell("cat $HOME/mine; test -e /opt/tool || echo bare; echo $PIP_BREAK_SYSTEM_PACKAGES"); got != "mine\nbare\n2\n" {
		t.Errorf("without its layer: %q", got)
	}
}

// ownsOnly sees to it that what an environment keeps on the machine belongs to numbers of its project.
func (w *world) ownsOnly(project, env string) {
	w.t.Helper()
	p, err := client.Get[*api.Project](w.t.Context(), w.admin, "", project)
	if err != nil {
		w.t.Fatal(err)
	}
	e, err := client.Get[*devenv.DevEnvironment](w.t.Context(), w.people["ann"], project, env)
	if err != nil {
		w.t.Fatal(err)
	}
	uppers, err := filepath.Glob(filepath.Join(w.Dir, "engine", "layers", e.Meta.ID, "*", "upper"))
	if err != nil || len(uppers) != 1 {
		w.t.Fatal(uppers, err)
	}
	seen, others := 0, 0
	for _, dir := range []string{uppers[0], filepath.Join(w.Dir, "engine", "homes", e.Meta.ID)} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			st := info.Sys().(*syscall.Stat_t)
			removed := info.Mode()&fs.ModeCharDevice != 0 && st.Rdev == 0 // the kernel's mark of what was removed
			switch uid := int(st.Uid); {
			case uid == p.Status.UID:
				seen++
			case uid > p.Status.UID && uid < p.Status.UID+1<<16:
				others++
			case !removed:
				w.t.Errorf("%s belongs to %d, not to one of %d…", strings.TrimPrefix(path, w.Dir), uid, p.Status.UID)
			}
			return nil
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	if seen == 0 || others == 0 {
		w.t.Errorf("%d files of root in there, %d of its other users", seen, others)
	}
}
