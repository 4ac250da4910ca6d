package workbench

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/image"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

// hub is a registry whose account the project lab has as the secret hub, and a small image in it.
func (w *world) hub() (*harness.Registry, string) {
	w.t.Helper()
	hub := harness.NewRegistry(w.t)
	base := hub.Push(w.t, "lab/base:v1", []string{"PATH=/bin"}, harness.Programs(w.t, "sh", "cat", "ls", "id", "mkdir", "touch", "rm", "sleep", "chown", "stat"), map[string]string{"/etc/passwd": "=root:x:0:0::/:/bin/sh\n", "/etc/old": "=old\n"})
	for _, user := range []string{"ann"} {
		if _, err := w.people[user].Create(w.t.Context(), &api.Secret{Meta: api.Meta{Name: "hub", Project: "lab"}, Spec: api.SecretSpec{
			Type: api.SecretRegistry, Data: map[string]string{api.KeyServer: hub.Host, api.KeyUsername: hub.User, api.KeyPassword: hub.Password},
		}}, false); err != nil {
			w.t.Fatal(err)
		}
	}
	return hub, base
}

// folder is one with these files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// builder makes sure that there is one.
func builder(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("buildah"); err != nil {
		t.Fatal("no buildah: make e2e-images installs it")
	}
}

const dockerfile = `ARG BASE
FROM $BASE AS first
RUN id && mkdir -p /opt/made && chown 7:8 /opt/made && stat -c "made %u:%g" /opt/made
COPY hello /opt/made/hello
LABEL team=lab
USER 7:8
WORKDIR /opt/made
ENTRYPOINT ["cat"]
CMD ["hello"]
`

// TestImageBuild: a member builds an image of a Dockerfile as root of nothing outside, it is pushed, looked at, enters the catalogue with who
// checked it, and runs by its name what it starts by itself.
func TestImageBuild(t *testing.T) {
	builder(t)
	w := newWorld(t)
	hub, base := w.hub()
	dir := folder(t, map[string]string{"Dockerfile": dockerfile, "hello": "hello from a build\n"})
	to := hub.Host + "/lab/made:v1"
	out := w.must("ann", "image", "build", dir, "--tag", to, "--build-arg", "BASE="+base, "--credential", "hub", "--project", "lab", "--entry", "made", "--cpu", "500m", "--memory", "512Mi")
	for _, want := range []string{"made 7:8", "uid=0", "sha256:", "team"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	var found image.ImageFound
	raw := w.must("ann", "image", "inspect", "made", "--project", "lab", "-o", "json", "--cpu", "100m", "--memory", "256Mi")
	if err := json.Unmarshal([]byte(raw), &found); err != nil || found.Labels["team"] != "lab" || found.User != "7:8" || found.WorkingDir != "/opt/made" || len(found.Platforms) != 1 || found.Size == 0 {
		t.Errorf("%v %+v\n%s", err, found, raw)
	}
	e, err := client.Get[*image.Image](t.Context(), w.people["ann"], "", "made")
	if err != nil || e.Status.Verified == nil || e.Status.Verified.By != "ann" || e.Status.Verified.Found.Digest != found.Digest {
		t.Errorf("%v %+v", err, e.Status.Verified)
	}
	out = w.must("ann", "train", "run", "--no-code", "--name", "own", "--image", "made", "--project", "lab", "--cpu", "100m", "--memory", "256Mi", "-f", folderFile(t, `kind: TrainingTask
metadata: {name: own, project: lab}
spec: {credentials: [{secret: hub}], roles: [{resources: {cpu: 100m, memory: 256Mi}}]}
`))
	if !strings.Contains(out, "hello from a build") {
		t.Errorf("its own command did not run:\n%s", out)
	}
	task, err := client.Get[*api.TrainingTask](t.Context(), w.people["ann"], "lab", "own")
	if err != nil || !strings.HasSuffix(task.Spec.Image, "@"+found.Digest) || task.Meta.Labels["image"] != "made" {
		t.Errorf("%v: %s %v", err, task.Spec.Image, task.Meta.Labels)
	}
	for who, want := range map[string]bool{"bob": true, "mal": false} { // of its project, and of another
		out, code := w.fermi(who, "", "image", "show", "made")
		if (code == 0) != want {
			t.Errorf("%s: %d\n%s", who, code, out)
		}
	}
	if out, code := w.fermi("mal", "", "image", "add", "mine", "--reference", to, "--category", "official"); code == 0 {
		t.Errorf("a member made an official entry: %s", out)
	}
	again := w.must("ann", "image", "build", dir, "--tag", to, "--build-arg", "BASE="+base, "--credential", "hub", "--project", "lab", "--cpu", "500m", "--memory", "512Mi")
	if !strings.Contains(again, "cache") || !strings.Contains(again, found.Digest) {
		t.Errorf("a second build is not from the cache:\n%s", again)
	}
	w.ownedBy("lab", filepath.Join(w.Dir, "engine", "homes"))
}

// folderFile is a file with this text.
func folderFile(t *testing.T, text string) string {
	return filepath.Join(folder(t, map[string]string{"task.yaml": text}), "task.yaml")
}

// ownedBy sees to it that everything below a folder belongs to numbers of a project, but the folder itself.
func (w *world) ownedBy(project, dir string) {
	w.t.Helper()
	p, err := client.Get[*api.Project](w.t.Context(), w.admin, "", project)
	if err != nil {
		w.t.Fatal(err)
	}
	seen := 0
	err = filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || path == dir {
			return err
		}
		seen++
		if uid := int(info.Sys().(*syscall.Stat_t).Uid); uid < p.Status.UID || uid >= p.Status.UID+1<<16 {
			w.t.Errorf("%s belongs to %d", strings.TrimPrefix(path, w.Dir), uid)
		}
		return nil
	})
	if err != nil || seen < 10 {
		w.t.Errorf("%v: only %d files", err, seen)
	}
}

// TestImageBuildRefused: whatever is wrong is said, in a word for programs and a sentence for people.
func TestImageBuildRefused(t *testing.T) {
	builder(t)
	w := newWorld(t)
	hub, base := w.hub()
	to := hub.Host + "/lab/never:v1"
	for _, c := range []struct {
		what   string
		files  map[string]string
		args   []string
		reason string
	}{
		{"a missing base", map[string]string{"Dockerfile": "FROM " + hub.Host + "/lab/absent:v9\n"}, nil, "A base image of the Dockerfile is not at its registry"},
		{"no Dockerfile", map[string]string{"other": "x"}, nil, "There is no file Dockerfile in the code"},
		{"a bad Dockerfile", map[string]string{"Dockerfile": "FROM " + base + "\nDANCE now\n"}, nil, "The Dockerfile can't be read"},
		{"a step that fails", map[string]string{"Dockerfile": "FROM " + base + "\nRUN echo before && cat /absent\n"}, nil, "A step of the Dockerfile failed"},
		{"no account", map[string]string{"Dockerfile": "FROM " + base + "\n"}, []string{"no credential"}, "does not let this project read a base image"},
		{"a file that leads out", map[string]string{"Dockerfile": "FROM " + base + "\n"}, []string{"--file", "../Dockerfile"}, "--file"},
		{"an unsafe name", map[string]string{"Dockerfile": "FROM " + base + "\n"}, []string{"--tag", "https://" + to}, "IMAGE"},
		{"a digest to push to", map[string]string{"Dockerfile": "FROM " + base + "\n"}, []string{"--tag", hub.Host + "/x@sha256:" + strings.Repeat("0", 64)}, "IMAGE"},
	} {
		args := []string{"image", "build", folder(t, c.files), "--tag", to, "--project", "lab", "--cpu", "200m", "--memory", "512Mi", "--credential", "hub"}
		if len(c.args) == 1 {
			args = args[:len(args)-2]
		} else {
			args = append(args, c.args...)
		}
		out, code := w.fermi("ann", "", args...)
		if code == 0 || !strings.Contains(out, c.reason) {
			t.Errorf("%s: exit code %d, no %s in\n%s", c.what, code, c.reason, out)
		}
	}
	if out, code := w.fermi("ann", "", "image", "inspect", to, "--credential", "hub", "--project", "lab", "--cpu", "100m", "--memory", "256Mi"); code == 0 || !strings.Contains(out, "There is no image") {
		t.Errorf("something was pushed: %d\n%s", code, out)
	}
	if out, code := w.fermi("mal", "", "image", "build", folder(t, map[string]string{"Dockerfile": "FROM " + base + "\n"}), "--tag", to, "--project", "lab"); code == 0 {
		t.Errorf("a member of another project built: %s", out)
	}
}

// TestImageBuildCrash: server and launcher are killed in the middle of a build; it is there once, and whole.
func TestImageBuildCrash(t *testing.T) {
	builder(t)
	w := newWorld(t)
	hub, base := w.hub()
	to := hub.Host + "/lab/slow:v1"
	gate := "/bin/slept"
	dir := folder(t, map[string]string{"Dockerfile": "FROM " + base + "\nRUN echo in-the-step && sleep 8 && touch " + gate + "\n"})
	name := strings.TrimSpace(w.must("ann", "image", "build", dir, "--tag", to, "--credential", "hub", "--project", "lab", "--detach", "--cpu", "200m", "--memory", "512Mi"))
	job := func() *image.ImageJob {
		t.Helper()
		j, err := client.Get[*image.ImageJob](t.Context(), w.people["ann"], "lab", name)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	prints := func() bool {
		out, _ := w.fermi("ann", "", "image", "logs", name, "--project", "lab")
		return strings.Contains(out, "in-the-step")
	}
	harness.Eventually(t, "it builds", prints)
	w.Kill()
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "it is built although the server was killed", func() bool { return job().Status.Phase.Finished() })
	if j := job(); j.Status.Phase != api.PhaseCompleted || j.Status.Attempt != 1 || j.Status.Found == nil {
		t.Fatalf("after the server was killed: %+v", j.Status)
	}
	name = strings.TrimSpace(w.must("ann", "image", "build", dir, "--tag", to, "--no-cache", "--credential", "hub", "--project", "lab", "--detach", "--cpu", "200m", "--memory", "512Mi"))
	harness.Eventually(t, "it builds again", prints)
	var launcher struct{ PID int }
	files, err := filepath.Glob(filepath.Join(w.Dir, "engine", "replicas", job().Meta.ID+"-*", "launcher.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	raw, err := os.ReadFile(files[0])
	if err == nil {
		err = json.Unmarshal(raw, &launcher)
	}
	if err != nil || launcher.PID < 2 {
		t.Fatal(string(raw), err)
	}
	if err := syscall.Kill(launcher.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "it is built although its launcher was killed", func() bool { return job().Status.Phase.Finished() })
	if j := job(); j.Status.Phase != api.PhaseCompleted || j.Status.Attempt != 2 || j.Status.Found == nil {
		t.Fatalf("after the launcher was killed: %+v", j.Status)
	}
	name = strings.TrimSpace(w.must("ann", "image", "build", dir, "--tag", hub.Host+"/lab/stopped:v1", "--no-cache", "--credential", "hub", "--project", "lab", "--detach", "--cpu", "200m", "--memory", "512Mi"))
	harness.Eventually(t, "it builds once more", prints)
	w.must("ann", "image", "stop", name, "--project", "lab")
	harness.Eventually(t, "it has stopped", func() bool { return job().Status.Phase == api.PhaseStopped })
	if out, code := w.fermi("ann", "", "image", "inspect", hub.Host+"/lab/stopped:v1", "--credential", "hub", "--project", "lab", "--cpu", "100m", "--memory", "256Mi"); code == 0 || !strings.Contains(out, "There is no image") {
		t.Errorf("what was stopped was pushed: %d\n%s", code, out)
	}
}

// TestImageSave: what was written over an environment's image is an image, with what was removed and who owns it; and it is pulled ahead.
func TestImageSave(t *testing.T) {
	w := newWorld(t)
	hub, base := w.hub()
	w.must("ann", "env", "create", "box", "--project", "lab", "--image", base, "--credential", "hub", "--cpu", "200m", "--memory", "512Mi", "--storage", "1Gi")
	shell := func(env, line string) string {
		t.Helper()
		return w.must("ann", "env", "shell", env, "--project", "lab", "--", "sh", "-c", line)
	}
	shell("box", "mkdir -p /opt/new && echo written > /opt/new/file && chown 5:6 /opt/new/file && rm /etc/old && echo home > $HOME/mine && touch /tmp/t")
	to := hub.Host + "/lab/saved:v1"
	args := []string{"env", "save", "box", "--tag", to, "--credential", "hub", "--project", "lab", "--cpu", "200m", "--memory", "512Mi"}
	if out, code := w.fermi("ann", "", args...); code == 0 || !strings.Contains(out, "stop it first") {
		t.Errorf("one that runs is saved: %d\n%s", code, out)
	}
	w.must("ann", "env", "stop", "box", "--project", "lab")
	if out, code := w.fermi("bob", "", args...); code == 0 || !strings.Contains(out, "only its owner") {
		t.Errorf("another member saved it: %d\n%s", code, out)
	}
	if out := w.must("ann", args...); !strings.Contains(out, "1 removed") || !strings.Contains(out, "sha256:") {
		t.Errorf("%s", out)
	}
	if out := w.must("ann", "image", "pull", to, "--credential", "hub", "--project", "lab", "--cpu", "100m", "--memory", "256Mi"); !strings.Contains(out, "sha256:") {
		t.Errorf("%s", out)
	}
	w.must("ann", "env", "create", "copy", "--project", "lab", "--image", to, "--credential", "hub", "--cpu", "200m", "--memory", "512Mi")
	if got := shell("copy", "cat /opt/new/file; ls /etc/old 2>&1 || echo gone; ls -a $HOME /tmp; ls -d /run/fermi-base 2>&1; true"); !strings.Contains(got, "written") || !strings.Contains(got, "gone") || strings.Contains(got, "mine") {
		t.Errorf("the copy: %q", got)
	}
	w.must("ann", "env", "start", "box", "--project", "lab")
	if got := shell("box", "cat /opt/new/file $HOME/mine; stat -c %u:%g /opt/new/file"); got != "written\nhome\n5:6\n" {
		t.Errorf("the saved one, started again: %q", got)
	}
}

// TestImageAllowed: images from elsewhere than an operator allows are refused before anything starts.
func TestImageAllowed(t *testing.T) {
	w := newWorld(t, "--images-allow", "registry.example.org/team")
	for _, args := range [][]string{
		{"train", "run", "--image", "python:3.12", "--project", "lab", "--no-code", "--", "true"},
		{"env", "create", "box", "--image", "registry.example.org/teamwork/x:1", "--project", "lab"},
		{"image", "inspect", "registry.example.org/other/x:1", "--project", "lab"},
		{"image", "add", "x", "--reference", "python:3.12", "--project", "lab"},
	} {
		if out, code := w.fermi("ann", "", args...); code == 0 || !strings.Contains(out, "registry.example.org/team only") {
			t.Errorf("%q: %d\n%s", args, code, out)
		}
	}
	w.must("ann", "image", "add", "ours", "--reference", "registry.example.org/team/x:1", "--project", "lab")
}
