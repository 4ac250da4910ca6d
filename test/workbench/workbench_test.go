package workbench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/api/v1/terminal"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/app/kinds"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/test/harness"
)

func TestMain(m *testing.M) {
	kinds.Ship()
	kinds.ShipImages()
	os.Exit(m.Run())
}

// world is a server, and people of two projects: ann and bob of lab, mal of another.
type world struct {
	*harness.Cluster
	t       *testing.T
	admin   *client.Client
	people  map[string]*client.Client
	secrets map[string]string
}

func newWorld(t *testing.T, args ...string) *world {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("projects are kept apart as root")
	}
	c, cl := harness.Up(t, args...)
	w := &world{Cluster: c, t: t, admin: cl, people: map[string]*client.Client{}, secrets: map[string]string{}}
	for _, name := range []string{"ann", "bob", "mal"} {
		if _, err := client.Create(t.Context(), cl, &api.User{Meta: api.Meta{Name: name}, Spec: api.UserSpec{Role: api.RoleMember}}); err != nil {
			t.Fatal(err)
		}
		made, err := cl.CreateToken(t.Context(), &api.Token{Meta: api.Meta{Name: name}, Spec: api.TokenSpec{User: name}}, false)
		if err != nil {
			t.Fatal(err)
		}
		w.secrets[name] = made.Secret
		if w.people[name], err = client.New(client.Config{Server: "http://" + c.Addr, Token: made.Secret}); err != nil {
			t.Fatal(err)
		}
	}
	for project, members := range map[string][]string{"lab": {"ann", "bob"}, "other": {"mal"}} {
		if _, err := client.Create(t.Context(), cl, &api.Project{Meta: api.Meta{Name: project}, Spec: api.ProjectSpec{Members: members}}); err != nil {
			t.Fatal(err)
		}
	}
	harness.Eventually(t, "there are nodes", func() bool {
		nodes, err := cl.List(t.Context(), api.KindNode, client.ListOptions{})
		return err == nil && len(nodes.Items) > 0
	})
	return w
}

// fermi runs the program as somebody.
func (w *world) fermi(who, stdin string, args ...string) (out string, code int) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), w.Bin, args...)
	cmd.Env = append(os.Environ(), "FERMI_SERVER=http://"+w.Addr, "FERMI_TOKEN="+w.secrets[who], "FERMI_LANG=en")
	cmd.Stdin = strings.NewReader(stdin)
	var both bytes.Buffer
	cmd.Stdout, cmd.Stderr = &both, &both
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		w.t.Fatal(err)
	}
	return both.String(), cmd.ProcessState.ExitCode()
}

// must is fermi with its output, and exit code 0.
func (w *world) must(who string, args ...string) string {
	w.t.Helper()
	out, code := w.fermi(who, "", args...)
	if code != 0 {
		w.t.Fatalf("fermi %s as %s: exit code %d\n%s", strings.Join(args, " "), who, code, out)
	}
	return out
}

// screen is a terminal as a program holds it.
type screen struct {
	w     *world
	who   string
	opts  client.TerminalOptions
	line  *client.Terminal
	seen  strings.Builder
	got   int64
	exits *terminal.News
}

func (w *world) open(who, env, session string) (*screen, error) {
	s := &screen{w: w, who: who, opts: client.TerminalOptions{Kind: devenv.Kind, Project: "lab", Name: env, Wish: terminal.Wish{Session: session, TTY: true, Columns: 80, Rows: 24, Term: "dumb"}}}
	return s, s.dial()
}

// dial opens it, or opens it again from where it was.
func (s *screen) dial() (err error) {
	ctx, cancel := context.WithTimeout(s.w.t.Context(), harness.Patience)
	defer cancel()
	s.opts.Wish.From = s.got
	if s.line, err = client.OpenTerminal(ctx, s.w.people[s.who], s.opts); err != nil {
		return err
	}
	_, _, news, err := s.line.Receive(ctx)
	if err != nil {
		return err
	}
	if news == nil || news.Type != terminal.Opened {
		return fmt.Errorf("the first word is %+v", news)
	}
	s.got = news.From
	return nil
}

// until reads until text is there, or it has ended.
func (s *screen) until(text string) {
	s.w.t.Helper()
	ctx, cancel := context.WithTimeout(s.w.t.Context(), harness.Patience)
	defer cancel()
	for !strings.Contains(s.seen.String(), text) {
		data, _, news, err := s.line.Receive(ctx)
		if err != nil {
			s.w.t.Fatalf("waiting for %q: %v\n%s", text, err, s.seen.String())
		}
		s.got += int64(len(data))
		s.seen.Write(data)
		if news != nil && news.Type == terminal.Exit {
			s.exits = news
			return
		}
	}
}

func (s *screen) write(text string) {
	s.w.t.Helper()
	if err := s.line.Write(s.w.t.Context(), []byte(text)); err != nil {
		s.w.t.Fatal(err)
	}
}

// TestLife: created, entered, stopped and started again, with its home; deleted, and nothing is left.
func TestLife(t *testing.T) {
	w := newWorld(t)
	began := time.Now()
	w.must("ann", "env", "create", "lab1", "--cpu", "500m", "--memory", "256Mi")
	if out, code := w.fermi("ann", "", "env", "shell", "lab1", "--", "sh", "-c", "echo ready; exit 7"); code != 7 || !strings.Contains(out, "ready") {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	t.Logf("create to a command that has ended: %v", time.Since(began))
	e, err := client.Get[*devenv.DevEnvironment](t.Context(), w.people["ann"], "lab", "lab1")
	if err != nil || e.Status.Phase != api.PhaseRunning || e.Meta.Owner != "ann" {
		t.Fatalf("%+v, %v", e, err)
	}

	for _, name := range []string{"lab1", "env/lab1", "environment/lab1"} {
		if out := w.must("ann", "why", name); !strings.Contains(out, "processes run") {
			t.Errorf("why %s: %s", name, out)
		}
	}
	if out, code := w.fermi("ann", "", "why", "task/lab1"); code == 0 || !strings.Contains(out, "no task") {
		t.Errorf("why of a task: %s", out)
	}

	// A command's input, output and errors are its own; its home is its working directory.
	if out, code := w.fermi("ann", "hello\n", "env", "shell", "lab1", "--", "sh", "-c", "cat > kept; cat kept; pwd; echo $HOME"); code != 0 || !strings.HasPrefix(out, "hello\n") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	// Behind the wall: the project's uid, no data folder, no privileges, no process of others.
	out := w.must("ann", "env", "shell", "lab1", "--", "sh", "-c", "id -u; grep -E 'NoNewPrivs|CapEff' /proc/self/status; ls "+w.Dir+"; ps ax -o comm= | sort -u")
	if strings.HasPrefix(out, "0\n") || !strings.Contains(out, "NoNewPrivs:\t1") || !strings.Contains(out, "CapEff:\t0000000000000000") || strings.Contains(out, "admin.token") || strings.Contains(out, "etcd") {
		t.Errorf("behind the wall:\n%s", out)
	}
	// With the limits of its replica: what it starts is in the replica's group.
	if out := w.must("ann", "env", "shell", "lab1", "--", "cat", "/proc/self/cgroup"); !strings.Contains(out, e.Meta.ID) {
		t.Errorf("its group: %s", out)
	}

	w.must("ann", "env", "stop", "lab1")
	if _, code := w.fermi("ann", "", "env", "shell", "lab1", "--", "true"); code == 0 {
		t.Error("a stopped environment has a shell")
	}
	if left := harness.Processes("FERMI_TASK_ID=" + e.Meta.ID); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	w.must("ann", "env", "start", "lab1")
	if out := w.must("ann", "env", "shell", "lab1", "--", "cat", "kept"); out != "hello\n" {
		t.Errorf("its home has %q", out)
	}
	if out := w.must("ann", "env", "list"); !strings.Contains(out, "lab1") || !strings.Contains(out, "Running") {
		t.Error(out)
	}

	// Deleted: asked for, and its home goes.
	if _, code := w.fermi("ann", "", "env", "delete", "lab1"); code == 0 {
		t.Error("deleted without a word")
	}
	home := filepath.Join(w.Dir, "engine", "homes", e.Meta.ID)
	if _, err := os.Stat(home); err != nil {
		t.Error(err)
	}
	w.must("ann", "env", "delete", "lab1", "--yes")
	harness.Eventually(t, "it and its home are gone", func() bool {
		_, err := client.Get[*devenv.DevEnvironment](t.Context(), w.people["ann"], "lab", "lab1")
		_, at := os.Stat(home)
		return fault.Is(err, fault.NotFound) && os.IsNotExist(at)
	})
	usage, err := w.admin.Usage(t.Context(), client.UsageOptions{By: "task", From: "1h"})
	if err != nil || !slices.ContainsFunc(usage.Items, func(u client.UsageSum) bool { return u.Key == e.Meta.ID && u.Replicas == 2 }) {
		t.Errorf("charged: %+v, %v", usage.Items, err)
	}
}

// TestLogs: what a start command prints can be read, also of an environment that failed, and followed to its end.
func TestLogs(t *testing.T) {
	w := newWorld(t)
	w.must("ann", "env", "create", "talks", "--cpu", "500m", "--memory", "256Mi", "--", "sh", "-c", "echo it begins; exec sleep 1000")
	harness.Eventually(t, "its log is read", func() bool { return w.must("ann", "env", "logs", "talks") == "it begins\n" })
	followed := make(chan string)
	go func() {
		out, _ := w.fermi("bob", "", "env", "logs", "talks", "-f", "--project", "lab")
		followed <- out
	}()
	w.must("ann", "env", "stop", "talks")
	if out := <-followed; out != "it begins\n" {
		t.Errorf("followed: %q", out)
	}
	if out, code := w.fermi("mal", "", "env", "logs", "talks", "--project", "lab"); code == 0 || strings.Contains(out, "begins") {
		t.Errorf("another project's member read %q", out)
	}
}

// TestTerminalSurvives: a client that is cut and a server that is killed cost no shell.
func TestTerminalSurvives(t *testing.T) {
	w := newWorld(t)
	w.must("ann", "env", "create", "lab2", "--cpu", "500m", "--memory", "256Mi")
	s, err := w.open("ann", "lab2", "main")
	if err != nil {
		t.Fatal(err)
	}
	s.write("stty -echo; X=$$; echo begun-$((20+3))\n")
	s.until("begun-23")

	s.line.Hang() // cut: what was printed meanwhile comes afterwards
	if err := s.dial(); err != nil {
		t.Fatal(err)
	}
	s.write("[ $X = $$ ] && echo same-$((40+2))\n")
	s.until("same-42")

	w.Kill()
	harness.Ready(t, w.Cluster)
	harness.Eventually(t, "the shell is found again", func() bool { return s.dial() == nil })
	s.write("[ $X = $$ ] && echo still-$((50+5)); stty size\n")
	s.until("still-55")
	s.until("24 80")

	// Who comes anew with its name sees what was printed before.
	again, err := w.open("ann", "lab2", "main")
	if err != nil {
		t.Fatal(err)
	}
	again.until("begun-23")
	again.until("still-55")

	// The echo of a key, there and back.
	again.write("stty echo; echo echo-$((60+6))\n")
	again.until("echo-66")
	var took []time.Duration
	for i := range 50 {
		mark := fmt.Sprintf("k%02dk", i)
		began := time.Now()
		again.write(mark)
		again.until(mark)
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	t.Logf("echo: median %v, slowest %v", took[len(took)/2], took[len(took)-1])
	again.write("\x15exit 9\n")
	again.until("\x00") // until its end
	if again.exits == nil || again.exits.Code != 9 {
		t.Errorf("it ended with %+v", again.exits)
	}
}

// TestOthersGetNothing: a user's environment is theirs, whatever the entrance, unless they share it.
func TestOthersGetNothing(t *testing.T) {
	w := newWorld(t)
	w.must("ann", "env", "create", "lab3", "--cpu", "500m", "--memory", "256Mi")
	s, err := w.open("ann", "lab3", "main")
	if err != nil {
		t.Fatal(err)
	}
	refused := func(who string) {
		t.Helper()
		for _, session := range []string{"main", "own"} { // that of the owner, and a new one
			if _, err := w.open(who, "lab3", session); !fault.Is(err, fault.Forbidden) && !fault.Is(err, fault.NotFound) {
				t.Errorf("%s enters: %v", who, err)
			}
		}
		for _, args := range [][]string{{"shell", "lab3", "--", "true"}, {"stop", "lab3"}, {"start", "lab3"}, {"delete", "lab3", "--yes"}} {
			if out, code := w.fermi(who, "", append([]string{"env", "--project", "lab"}, args...)...); code == 0 {
				t.Errorf("%s: fermi env %s: %s", who, args[0], out)
			}
		}
	}
	refused("bob")
	refused("mal")
	for _, token := range []string{"", "fermi_nobody_" + strings.Repeat("A", 43)} {
		stranger, err := client.New(client.Config{Server: "http://" + w.Addr, Token: token})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.OpenTerminal(t.Context(), stranger, s.opts); !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("a stranger: %v", err)
		}
	}
	// A browser's cookie counts only from our own page; without one there is nothing to steal.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+w.Addr+"/api/v1/dev-environments/lab3/terminal?project=lab", nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Cookie": "fermi_session=" + w.secrets["ann"], "Origin": "http://evil.example"} {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("a page of another origin: %d", resp.StatusCode)
	}

	// Shared, a member of the project comes in, and nobody else; taken back, they are put out.
	e, err := client.Get[*devenv.DevEnvironment](t.Context(), w.people["ann"], "lab", "lab3")
	if err != nil {
		t.Fatal(err)
	}
	share := func(on bool) {
		t.Helper()
		e.Spec.Shared = on
		if e, err = client.Update(t.Context(), w.people["ann"], e); err != nil {
			t.Fatal(err)
		}
	}
	share(true)
	guest, err := w.open("bob", "lab3", "guest")
	if err != nil {
		t.Fatal(err)
	}
	guest.write("echo in-$((1+1))\n")
	guest.until("in-2")
	if _, err := w.open("mal", "lab3", "mal"); !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Forbidden) {
		t.Errorf("mal enters: %v", err)
	}
	share(false)
	harness.Eventually(t, "the guest is put out", func() bool {
		_, _, _, err := guest.line.Receive(t.Context())
		return err != nil
	})
	refused("bob")

	// From a shell inside, nothing of another environment of the same project.
	w.must("bob", "env", "create", "lab4", "--cpu", "500m", "--memory", "256Mi")
	out := w.must("bob", "env", "shell", "lab4", "--", "sh", "-c", "ls "+filepath.Join(w.Dir, "engine", "homes")+" | wc -l; ls "+filepath.Join(w.Dir, "engine", "homes", e.Meta.ID)+" 2>&1; ps ax | grep -c [b]ash || true")
	if !strings.HasPrefix(out, "1\n") || !strings.Contains(out, "No such file") {
		t.Errorf("seen from beside:\n%s", out)
	}
}

// TestBesideARank: a shell beside a running rank of a task has its environment.
func TestBesideARank(t *testing.T) {
	w := newWorld(t)
	task := &api.TrainingTask{Meta: api.Meta{Name: "t", Project: "lab"}, Spec: api.TrainingTaskSpec{Roles: []api.Role{{
		Ranks: 2, Command: []string{"/bin/sh", "-c", "while :; do sleep 0.1; done"}, Resources: api.Resources{CPU: 200, Memory: 128 << 20},
	}}}}
	if _, err := client.Create(t.Context(), w.people["ann"], task); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "it runs", func() bool {
		got, err := client.Get[*api.TrainingTask](t.Context(), w.people["ann"], "lab", "t")
		return err == nil && got.Status.Phase == api.PhaseRunning
	})
	if out := w.must("ann", "train", "shell", "t", "--rank", "1", "--", "sh", "-c", "echo rank $FERMI_RANK of $FERMI_WORLD_SIZE; ps ax | grep -c '[s]leep 0.1; done'"); !strings.Contains(out, "rank 1 of 2") || !strings.Contains(out, "\n2\n") {
		t.Error(out)
	}
	if out, code := w.fermi("ann", "", "train", "shell", "t", "--rank", "7", "--", "true"); code == 0 {
		t.Error(out)
	}
	if out, code := w.fermi("bob", "", "train", "shell", "t", "--project", "lab", "--", "true"); code == 0 {
		t.Error(out)
	}
	if err := w.people["ann"].Stop(t.Context(), "lab", "t"); err != nil {
		t.Fatal(err)
	}
}
