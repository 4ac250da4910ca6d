package attack

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/test/harness"
)

// The projects: mallory's, and the one that is left alone. Each member's token is good for its own project only.
const (
	lab   = "mallab"
	other = "viclab"
)

// world is a cluster with two tenants, its secrets, and what everything that is not a tenant's looked like.
type world struct {
	*harness.Cluster
	t        *testing.T
	base     string // the data folder and the operator's folders lie in it
	admin    *client.Client
	mal, vic *client.Client
	malToken string
	heard    *recorder         // all that mallory's client was answered
	secrets  map[string][]byte // what must never be seen → by which name
	before   map[string]owner
}

// recorder keeps what came back.
type recorder struct {
	mu   sync.Mutex
	body bytes.Buffer
}

// RoundTrip keeps a copy of every answer.
func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(resp.Body, r), resp.Body}
	}
	return resp, err
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.body.Len() < 64<<20 {
		r.body.Write(p)
	}
	return len(p), nil
}

func (r *recorder) bytes() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.body.Bytes())
}

// invade starts a cluster; demo says whether its nodes are virtual.
func invade(t *testing.T, demo bool) *world {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root keeps tenants apart, so only root can be attacked by one")
	}
	bin, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	base, err := os.MkdirTemp("/var", "fa")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, base: base, heard: &recorder{}, secrets: map[string][]byte{}}
	for name, mode := range map[string]os.FileMode{"shared": 0o777 | os.ModeSticky, "private": 0o700, "readonly": 0o755, "closed": 0o711, "open": 0o777} {
		w.do(os.Mkdir(filepath.Join(base, name), 0o700), os.Chmod(filepath.Join(base, name), mode))
	}
	w.do(os.Chmod(base, 0o755), os.Mkdir(filepath.Join(base, "closed", "vault"), 0o700))
	args := []string{
		"--checkpoints-store", filepath.Join(base, "store"),
		"--folder", "shared=" + filepath.Join(base, "shared"), "--folder", "private=" + filepath.Join(base, "private"),
		"--folder", "readonly=" + filepath.Join(base, "readonly") + ":ro", "--folder", "closed=" + filepath.Join(base, "closed"),
	}
	if demo {
		args = append(args, "--demo")
	}
	c, err := harness.New(bin, "up", args...)
	if err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(filepath.Dir(c.Dir))
	c.Dir = filepath.Join(base, "d")
	w.Cluster = c
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.LogTail())
		}
		c.Cleanup()
		_ = os.RemoveAll(base)
	})
	harness.Ready(t, c)
	if w.admin, err = c.Client(); err != nil {
		t.Fatal(err)
	}
	w.people()
	w.plant()
	w.before = w.manifest()
	return w
}

func (w *world) do(errs ...error) {
	w.t.Helper()
	if err := errors.Join(errs...); err != nil {
		w.t.Fatal(err)
	}
}

// people makes the two tenants.
func (w *world) people() {
	w.t.Helper()
	for user, project := range map[string]string{"mal": lab, "vic": other} {
		w.must("user", "create", user, "--role", "member")
		w.must("project", "create", project, "--member", user)
		folders := "[shared, readonly, closed]"
		if user == "vic" {
			folders = "[private]"
		}
		manifest := filepath.Join(w.t.TempDir(), "project.yaml")
		w.do(os.WriteFile(manifest, fmt.Appendf(nil, "kind: Project\nmetadata: {name: %s}\nspec: {members: [%s], folders: %s}\n", project, user, folders), 0o600))
		w.must("apply", "-f", manifest)
		token := strings.TrimSpace(w.must("token", "create", user+"-token", "--user", user))
		cfg := client.Config{Server: "http://" + w.Addr, Token: token, Language: "en"}
		if user == "mal" {
			cfg.HTTP = &http.Client{Transport: w.heard}
			w.malToken = token
		}
		cl, err := client.New(cfg)
		w.do(err)
		if user == "mal" {
			w.mal = cl
		} else {
			w.vic = cl
		}
	}
}

// plant puts secrets where only root may read, beside those that are there.
func (w *world) plant() {
	w.t.Helper()
	for _, name := range []string{"canary", "engine/canary", "blobs/canary", "../canary", "../private/canary", "../closed/vault/canary"} {
		file := filepath.Join(w.Dir, name)
		text := "canary-of-" + strings.NewReplacer("/", "-", ".", "").Replace(name) + "-7f3a9c51"
		w.do(os.WriteFile(file, []byte(text), 0o600))
		w.secrets[name] = []byte(text)
	}
	found := 0
	for _, name := range []string{"admin.token", "secret.key", "link.key"} {
		raw, err := os.ReadFile(filepath.Join(w.Dir, name))
		if err != nil {
			continue
		}
		found++
		w.secrets[name] = bytes.TrimSpace(raw)
		w.secrets[name+" in hex"] = []byte(hex.EncodeToString(raw))
		w.secrets[name+" in base64"] = []byte(base64.StdEncoding.EncodeToString(raw))
	}
	if found != 3 {
		w.t.Fatalf("%d of 3 keys of the platform were found: the canaries are wrong", found)
	}
}

// owner is what must not change of a file.
type owner struct {
	uid, gid uint32
	mode     fs.FileMode
}

// manifest is everything below the base, but what replicas have of their own.
func (w *world) manifest() map[string]owner {
	w.t.Helper()
	found := map[string]owner{}
	for _, root := range []string{w.base, "/etc"} {
		_ = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil // it went away meanwhile
			}
			if strings.HasPrefix(file, filepath.Join(w.Dir, "engine", "replicas")+"/") || strings.HasPrefix(file, filepath.Join(w.Dir, "engine", "homes")+"/") || strings.HasPrefix(file, filepath.Join(w.base, "shared")+"/") {
				if d.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
			info, err := os.Lstat(file)
			if err == nil {
				st := info.Sys().(*syscall.Stat_t)
				found[file] = owner{st.Uid, st.Gid, info.Mode()}
			}
			return nil
		})
	}
	return found
}

// hold looks after an attack: nothing changed hands, and nothing was seen.
func (w *world) hold(attack string) {
	w.t.Helper()
	now := w.manifest()
	for file, was := range w.before {
		if is, there := now[file]; there && is != was {
			w.t.Errorf("%s: %s was %+v and is %+v", attack, file, was, is)
		}
	}
	for file, is := range now {
		if _, old := w.before[file]; !old && is.uid != 0 && !strings.Contains(file+"/", "/engine/images/") {
			w.t.Errorf("%s: %s is new and belongs to %d", attack, file, is.uid)
		}
	}
	for where, text := range w.visible() {
		for name, secret := range w.secrets {
			if bytes.Contains(text, secret) {
				w.t.Errorf("%s: %s is in %s", attack, name, where)
			}
		}
	}
}

// visible is all that mallory can read: answers, logs, outputs, checkpoints, and the folder that it may write.
func (w *world) visible() map[string][]byte {
	w.t.Helper()
	ctx := w.t.Context()
	seen := map[string][]byte{}
	page, err := client.List[*api.TrainingTask](ctx, w.mal, client.ListOptions{Project: lab})
	w.do(err)
	for _, task := range page.Items {
		var log bytes.Buffer
		_ = w.mal.Logs(ctx, lab, task.Meta.Name, client.LogOptions{}, func(l client.LogLine) error {
			fmt.Fprintln(&log, l.Text)
			return nil
		})
		seen["the log of "+task.Meta.Name] = log.Bytes()
		outs, _ := w.mal.Outputs(ctx, lab, task.Meta.Name)
		for _, o := range outs {
			if body, _, err := w.mal.OpenOutput(ctx, lab, task.Meta.Name, o.Path); err == nil {
				raw, _ := io.ReadAll(io.LimitReader(body, 8<<20))
				body.Close()
				seen["the output "+o.Path+" of "+task.Meta.Name] = raw
			}
		}
		steps, _ := w.mal.Checkpoints(ctx, lab, task.Meta.Name)
		for _, s := range steps {
			if body, _, err := w.mal.OpenRank(ctx, lab, task.Meta.Name, s.Step, 0); err == nil {
				raw, _ := io.ReadAll(io.LimitReader(body, 8<<20))
				body.Close()
				seen[fmt.Sprintf("step %d of %s", s.Step, task.Meta.Name)] = raw
			}
		}
	}
	_ = filepath.WalkDir(filepath.Join(w.base, "shared"), func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			raw, _ := os.ReadFile(file)
			seen["the shared folder's "+d.Name()] = raw
		}
		return nil
	})
	seen["what the server answered"] = w.heard.bytes()
	return seen
}

// must is the operator's command line.
func (w *world) must(args ...string) string {
	w.t.Helper()
	out, errs, code := w.run("", args...)
	if code != 0 {
		w.t.Fatalf("fermi %v ended with %d\n%s\n%s", args, code, out, errs)
	}
	return out
}

// run is the command line with a token; "": the operator's.
func (w *world) run(token string, args ...string) (out, errs string, code int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), harness.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.Bin, args...)
	cmd.Dir = w.t.TempDir()
	cmd.Env = append(os.Environ(), "FERMI_SERVER=http://"+w.Addr, "FERMI_LANG=en", "FERMI_TOKEN="+token, "HOME="+cmd.Dir)
	if token == "" {
		cmd.Env = append(cmd.Env, "FERMI_DATA="+w.Dir)
	}
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	if err := cmd.Run(); cmd.ProcessState == nil {
		w.t.Fatalf("fermi %v: %v", args, err)
	}
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
}

// shell is a task of a shell script.
func shell(project, name, script string) *api.TrainingTask {
	return &api.TrainingTask{Meta: api.Meta{Name: name, Project: project}, Spec: api.TrainingTaskSpec{Roles: []api.Role{{
		Name: "worker", Replicas: 1, Command: []string{"/bin/sh", "-c", script}, Resources: api.Resources{CPU: 100, Memory: 1 << 28},
	}}}}
}

// launch submits mallory's task.
func (w *world) launch(task *api.TrainingTask) {
	w.t.Helper()
	_, err := w.mal.Submit(w.t.Context(), task, false)
	w.do(err)
}

// refused expects a no with one of these reasons.
func (w *world) refused(attack string, err error, reasons ...string) {
	w.t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) {
		w.t.Errorf("%s: was not refused: %v", attack, err)
		return
	}
	text := fmt.Sprintf("%s %+v %+v", f.Reason, f.Message, f.Fields)
	if !slices.ContainsFunc(reasons, func(r string) bool { return strings.Contains(text, r) }) {
		w.t.Errorf("%s: refused with %s, not with any of %v", attack, text, reasons)
	}
	if f.Message.EN == "" || f.Message.ZH == "" {
		w.t.Errorf("%s: a refusal without words in both languages: %+v", attack, f)
	}
}

// ends waits for the end of a task, whatever it is.
func (w *world) ends(cl *client.Client, project, name string) *api.TrainingTask {
	w.t.Helper()
	var task *api.TrainingTask
	harness.Eventually(w.t, name+" ends", func() bool {
		var err error
		task, err = client.Get[*api.TrainingTask](w.t.Context(), cl, project, name)
		w.do(err)
		return task.Status.Phase.Finished()
	})
	return task
}

// says waits until a task has printed something, and gives all it printed.
func (w *world) says(cl *client.Client, project, name, text string) string {
	w.t.Helper()
	var log strings.Builder
	harness.Eventually(w.t, name+" says "+text, func() bool {
		task, err := client.Get[*api.TrainingTask](w.t.Context(), cl, project, name) // first: it may print its last words and end meanwhile
		w.do(err)
		log.Reset()
		_ = cl.Logs(w.t.Context(), project, name, client.LogOptions{}, func(l client.LogLine) error {
			fmt.Fprintln(&log, l.Text)
			return nil
		})
		if strings.Contains(log.String(), text) {
			return true
		}
		if task.Status.Phase.Finished() {
			w.t.Fatalf("%s ended (%+v) without %q:\n%s", name, task.Status.Failure, text, log.String())
		}
		time.Sleep(20 * time.Millisecond)
		return false
	})
	return log.String()
}

// works is the other tenant: a task of its own runs to its end.
func (w *world) works(name string) {
	w.t.Helper()
	task := shell(other, name, "echo fine; echo kept > $FERMI_OUTPUT/f")
	_, err := w.vic.Submit(w.t.Context(), task, false)
	w.do(err)
	if done := w.ends(w.vic, other, name); done.Status.Phase != api.PhaseCompleted {
		w.t.Errorf("%s: the other tenant's task is %s: %+v", name, done.Status.Phase, done.Status.Failure)
	}
}
