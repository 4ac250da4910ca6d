package launch

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
)

// testIDs begin the block of numbers that users inside testUID's images have.
const testIDs = 1_950_000_000

// owner is the id of who has a home beside this world.
func (w *world) owner() string { return strings.ToLower(filepath.Base(w.dir)) }

// rooted is the replica of an environment in an image.
func (w *world) rooted(image string, resets int, command ...string) *replica {
	w.t.Helper()
	r := w.withImage(image, func(s *engine.Replica) { s.Home, s.Resets = w.owner(), resets }, command...)
	var ends record.Link
	if _, err := record.Read(r.dir, record.FileEndpoint, &ends); err != nil {
		w.t.Fatal(err)
	}
	ends.Tenant.IDs = testIDs
	w.t.Cleanup(func() {
		for _, dir := range []string{record.DirHomes, record.DirLayers} {
			_ = os.RemoveAll(filepath.Join(filepath.Dir(w.dir), dir, w.owner()))
		}
	})
	if err := record.Write(r.dir, record.FileEndpoint, ends); err != nil {
		w.t.Fatal(err)
	}
	return r
}

// owner is whose a file is outside.
func owner(t *testing.T, path string) int {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return int(st.Uid)
}

// TestRootInAnImage: an environment is root of its image, of nothing else, and what it writes there is there again in its next life, until
// it is reset.
func TestRootInAnImage(t *testing.T) {
	w := newWorld(t)
	image := shellImage(t, map[string]string{"/etc/whose": "the image's", "/opt/old": "old", "/etc/hosts": "-> /etc/whose"})
	r := w.rooted(image, 0, "sh", "-c", `
		echo "id $(id -u):$(id -g) user $USER"
		grep -E '^(NoNewPrivs|CapEff)' /proc/self/status | tr -d '\t'
		echo "whose $(stat -c %u:%g /etc/whose)"
		mkdir -p /opt/new && echo kept > /opt/new/file && rm /opt/old && echo changed > /etc/whose
		echo '#!/bin/sh' > /bin/tool && echo 'echo a tool' >> /bin/tool && chmod 755 /bin/tool
		touch /opt/other && chown 100:100 /opt/other && echo "other $(stat -c %u:%g /opt/other)"
		touch $HOME/mine /tmp/t /var/tmp/v && echo "home $(stat -c %u $HOME/mine)"
		mknod /opt/device c 1 3 2>&1 && echo escaped
		mount -t tmpfs none /opt 2>&1 && echo escaped
		cat /proc/1/environ 2>&1 && echo escaped
		(echo 1 > /proc/sys/kernel/panic) 2>&1 && echo escaped
		(echo x > /etc/hosts) 2>&1 && echo escaped
		ls /proc/1/root/ 2>&1 && echo escaped
		exit 4`)
	if exit := r.run(); exit.Code != 4 {
		t.Errorf("exit: %+v", exit)
	}
	got := strings.Join(r.lines(), "\n")
	for _, want := range []string{"id 0:0 user root", "NoNewPrivs:1", "CapEff:000001ff", "whose 0:0", "other 100:100", "home 0", "mknod", "Operation not permitted", "permission denied"} {
		if !strings.Contains(strings.ToLower(got), strings.ToLower(want)) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "escaped") {
		t.Error(got)
	}
	base := filepath.Dir(w.dir)
	layers, err := filepath.Glob(filepath.Join(base, record.DirLayers, w.owner(), "*", "upper"))
	if err != nil || len(layers) != 1 {
		t.Fatal(layers, err)
	}
	upper := layers[0]
	for file, want := range map[string]int{
		filepath.Join(upper, "opt/other"): testIDs + 100, filepath.Join(upper, "bin/tool"): testUID, filepath.Join(upper, "etc/whose"): testUID, filepath.Join(base, record.DirHomes, w.owner(), "mine"): testUID,
	} {
		if got := owner(t, file); got != want {
			t.Errorf("%s is %d's outside, not %d's", file, got, want)
		}
	}

	r = w.rooted(image, 0, "tool")
	if exit := r.run(); exit.Code != 0 {
		t.Errorf("what was installed: %+v", exit)
	}
	r = w.rooted(image, 0, "sh", "-c", "tool; cat /opt/new/file /etc/whose; ls /opt; stat -c 'other %u' /opt/other; sleep 100 & echo over")
	r.run()
	got = strings.Join(r.lines(), "\n")
	for _, want := range []string{"a tool", "kept", "changed", "other 100"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in the next life:\n%s", want, got)
		}
	}
	if strings.Contains(got, "O:old") {
		t.Errorf("what was removed is there again:\n%s", got)
	}

	r = w.rooted(image, 1, "sh", "-c", "ls /bin/tool /opt; cat /etc/whose")
	r.run()
	if got = strings.Join(r.lines(), "\n"); strings.Contains(got, "O:/bin/tool") || !strings.Contains(got, "O:old") || !strings.Contains(got, "the image's") {
		t.Errorf("after a reset:\n%s", got)
	}
}

// TestLinkInALayer: a link on the way to what is mounted leads root nowhere.
func TestLinkInALayer(t *testing.T) {
	w := newWorld(t)
	image := shellImage(t, nil)
	if exit := w.rooted(image, 0, "sh", "-c", "exit 0").run(); exit.Code != 0 {
		t.Fatalf("%+v", exit)
	}
	layers, err := filepath.Glob(filepath.Join(filepath.Dir(w.dir), record.DirLayers, w.owner(), "*", "upper"))
	if err != nil || len(layers) != 1 {
		t.Fatal(layers, err)
	}
	victim := t.TempDir()
	if err := os.RemoveAll(filepath.Join(layers[0], "var")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, filepath.Join(layers[0], "var")); err != nil {
		t.Fatal(err)
	}
	exit := w.rooted(image, 0, "sh", "-c", "exit 0").run()
	if exit.Reason != engine.ReasonStartFailed || !strings.Contains(exit.Message, "fermi env reset") || !strings.Contains(exit.Message, "/var") {
		t.Errorf("%+v", exit)
	}
	if left, err := os.ReadDir(victim); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
	if exit := w.rooted(image, 1, "sh", "-c", "exit 0").run(); exit.Code != 0 || exit.Reason != engine.ReasonSucceeded {
		t.Errorf("after a reset: %+v", exit)
	}
}
