package launch

import (
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	api "github.com/fermi-cluster/fermi/api/v1"
	ofimage "github.com/fermi-cluster/fermi/api/v1/image"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
)

// own is the command of who names none, with arguments.
func own(args ...string) []string {
	return ofimage.Argv(&api.Role{Args: args}, "an image")
}

var sayings = v1.Config{
	Entrypoint: []string{"sh", "-c", `echo "entry $0 $* in $(cat /proc/self/environ | tr '\0' '\n' | grep ^PWD= || true) as $(id -u):$(id -g):$(id -G) $USER"; ls; touch "$HOME/by-$USER" && echo "home $(stat -c %u:%g $HOME)"`},
	Cmd:        []string{"zero", "one"}, WorkingDir: "/work/here", User: "dev", ExposedPorts: map[string]struct{}{"8000/tcp": {}},
}

var users = map[string]string{"/etc/passwd": "root:x:0:0::/root:/bin/sh\ndev:x:1000:100::/home/dev:/bin/sh\n", "/etc/group": "root:x:0:\nusers:x:100:\nvideo:x:44:dev\n", "/work/here/file": "x"}

// TestImagesOwn: what an image says of its processes holds where the replica says nothing: entry point, arguments, working directory. Outside of an
// environment they stay their project's user, and that is said.
func TestImagesOwn(t *testing.T) {
	w := newWorld(t)
	image := shellImageThat(t, users, sayings)
	r := w.withImage(image, nil, own()...)
	if exit := r.run(); exit.Code != 0 {
		t.Errorf("%+v", exit)
	}
	got := strings.Join(r.lines(), "\n")
	for _, want := range []string{"O:entry zero one in", "as 64991:64991:64991", "O:file", "wants to run as dev", "listens on 8000/tcp", "the image starts sh"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	r = w.withImage(image, func(s *engine.Replica) { s.WorkingDir = "." }, own("other")...)
	r.run()
	if got := strings.Join(r.lines(), "\n"); !strings.Contains(got, "O:entry other") || strings.Contains(got, "O:file") {
		t.Errorf("what the replica says itself does not go before the image:\n%s", got)
	}
	r = w.withImage(image, nil, "sh", "-c", "echo mine; ls")
	r.run()
	if got := strings.Join(r.lines(), "\n"); !strings.Contains(got, "O:mine") || strings.Contains(got, "O:entry") || !strings.Contains(got, "O:file") {
		t.Errorf("a command of its own:\n%s", got)
	}
	r = w.withImage(shellImage(t, nil), nil, own()...)
	if exit := r.run(); exit.Reason != engine.ReasonStartFailed || !strings.Contains(exit.Message, "names no program") {
		t.Errorf("an image without a command: %+v", exit)
	}
}

// TestImagesUser: in an environment a command runs as the image's user, whose the home is; root is another number then, and all of them are the
// project's.
func TestImagesUser(t *testing.T) {
	w := newWorld(t)
	image := shellImageThat(t, users, sayings)
	r := w.rooted(image, 0, own()...)
	if exit := r.run(); exit.Code != 0 {
		t.Errorf("%+v", exit)
	}
	got := strings.Join(r.lines(), "\n")
	for _, want := range []string{"as 1000:100:100 44 dev", "home 1000:100", "O:file", "runs as dev (1000:100)"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	base := filepath.Dir(w.dir)
	if got := owner(t, filepath.Join(base, record.DirHomes, w.owner(), "by-dev")); got != testUID {
		t.Errorf("what the image's user makes at home is %d's outside", got)
	}
	layers, err := filepath.Glob(filepath.Join(base, record.DirLayers, w.owner(), "*", "upper"))
	if err != nil || len(layers) != 1 || owner(t, layers[0]) != testIDs+1000 {
		t.Errorf("%q is not root's in there", layers)
	}
	r = w.rooted(image, 0, "sh", "-c", "echo mine as $(id -u); touch /work/here/mine 2>&1; stat -c 'file %u:%g' /work/here/file")
	r.run()
	if got = strings.Join(r.lines(), "\n"); !strings.Contains(got, "O:mine as 1000") || !strings.Contains(got, "Permission denied") || !strings.Contains(got, "O:file 0:0") {
		t.Errorf("a command of its own:\n%s", got)
	}
	for user, want := range map[string]string{"stranger": "don't know", "70000": "numbers 0 to 65535", "0": ""} {
		says := sayings
		says.User = user
		r := w.rooted(shellImageThat(t, users, says), 0, own()...)
		exit := r.run()
		if want == "" && exit.Code != 0 || want != "" && (exit.Reason != engine.ReasonStartFailed || !strings.Contains(exit.Message, want)) {
			t.Errorf("%s: %+v", user, exit)
		}
	}
}
