package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/blob/logbook"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/launch/steward"
	"github.com/fermi-cluster/fermi/internal/link"
)

var quiet = slog.New(slog.DiscardHandler)

func TestEnviron(t *testing.T) {
	r := engine.Replica{
		Name: "task-a-worker-1-2", TaskID: "task-a", Role: "worker", Index: 1, Attempt: 2,
		HyperParameters: map[string]any{"n": 100000000.0, "ok": true, "s": "x y"},
		Env:             []api.EnvVar{{Name: "PATH", Value: "/mine"}, {Name: "FERMI_TASK", Value: "9"}, {Name: "RANK", Value: "mine"}},
	}
	t.Setenv("SECRET", "s")
	t.Setenv("TZ", "UTC")
	t.Setenv("HOME", "/root")
	t.Setenv("FERMI_RANK", "7")
	env := environ(r, "/d", nil, credentials{}, (&launcher{}).base(), place{})
	for name, want := range map[string]string{
		"PATH": "/mine", "HOME": "/root", "TZ": "UTC", "SECRET": "", "FERMI_REPLICA": "task-a-worker-1-2", "FERMI_TASK": "", "FERMI_RANK": "",
		"PYTHONUNBUFFERED": "1", "FERMI_OUTPUT": "/d/output", "TMPDIR": "/d/tmp", "FERMI_HP_N": "100000000", "FERMI_HP_OK": "true", "FERMI_HP_S": "x y",
	} {
		if got := lookupIn(env, name); got != want {
			t.Errorf("%s=%q, not %q", name, got, want)
		}
	}
	r.Env = append(r.Env, api.EnvVar{Name: "PYTHONUNBUFFERED"})
	if got := lookupIn(environ(r, "/d", nil, credentials{}, []string{"PYTHONUNBUFFERED=x"}, place{}), "PYTHONUNBUFFERED"); got != "" {
		t.Errorf("the user's own value became %q", got)
	}
}

// TestRecipe: what the framework adds has its folders and ports in place, and the user's word wins.
func TestRecipe(t *testing.T) {
	dir := t.TempDir()
	r := engine.Replica{
		Command: []string{"python", "${FERMI_RECIPE}/x", "${HOME}"}, Env: []api.EnvVar{{Name: "NCCL_DEBUG", Value: "mine"}},
		Recipe: &engine.Recipe{
			Env:   []api.EnvVar{{Name: "RANK", Value: "3"}, {Name: "NCCL_DEBUG", Value: "ours"}, {Name: "DUMP", Value: "${FERMI_OUTPUT}/d"}},
			Files: []api.RecipeFile{{Name: "a.txt", Text: "see ${FERMI_RECIPE}/b at ${FERMI_LEAD_HOST}:${FERMI_LEAD_PORT}, ${FERMI_PORT_1} ${FERMI_PORT_10} ${FERMI_HOST_0} ${FERMI_HOST_1} ${FERMI_HOST_2} by ${FERMI_INTERFACE}"}},
			Each:  [][]api.EnvVar{{{Name: "MASTER_PORT", Value: "${FERMI_LEAD_PORT}"}}},
			Table: 2, Hosts: 3,
		},
	}
	l := &launcher{dir: dir}
	if _, err := settled(r, dir, "lo", link.Generation{Lead: "127.0.0.1:7"}); err == nil {
		t.Error("settled without the ports")
	}
	for turn, ports := range [][]int{{70, 71}, {80, 81}} { // the next generation replaces what is there
		got, err := settled(r, dir, "eth0", link.Generation{Lead: "127.0.0.1:" + strconv.Itoa(turn), Ports: ports, Hosts: []string{"100.64.4.2", "100.64.4.3"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.writeRecipe(got, "key"); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("see %s/recipe/b at 127.0.0.1:%d, %d ${FERMI_PORT_10} 100.64.4.2 100.64.4.3 127.0.0.1 by eth0", dir, turn, ports[1])
		if data, err := os.ReadFile(filepath.Join(dir, dirRecipe, "a.txt")); err != nil || string(data) != want {
			t.Errorf("%q %v", data, err)
		}
		if got.Recipe.Each[0][0].Value != strconv.Itoa(turn) {
			t.Errorf("%+v", got.Recipe.Each)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, dirRecipe, fileTaskKey)); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	folder := filepath.Join(dir, dirRecipe)
	r.Recipe.Each = nil
	got, err := settled(r, dir, "lo", link.Generation{Lead: "127.0.0.1:7", Ports: []int{1, 2}})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"python", folder + "/x", "${HOME}"}; !slices.Equal(got.Command, want) {
		t.Errorf("%q", got.Command)
	}
	env := environ(got, dir, nil, credentials{}, nil, place{})
	for name, want := range map[string]string{"RANK": "3", "NCCL_DEBUG": "mine", "DUMP": filepath.Join(dir, "output", "d"), "FERMI_RECIPE": folder} {
		if got := lookupIn(env, name); got != want {
			t.Errorf("%s=%q, not %q", name, got, want)
		}
	}
	for _, name := range []string{"../a", "a/b", "", "..", "/etc/x"} {
		r.Recipe.Files = []api.RecipeFile{{Name: name}}
		if err := l.writeRecipe(r, ""); err == nil {
			t.Errorf("%q was written", name)
		}
	}
}

func TestFindProgram(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"run": 0o755, "plain": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		command, path, want string
		code                int
	}{
		"on the path":       {"run", "/nowhere:" + dir, filepath.Join(dir, "run"), 0},
		"relative path":     {"run", ".", filepath.Join(dir, "run"), 0},
		"beside":            {"./run", "", filepath.Join(dir, "run"), 0},
		"bare is not here":  {"run", "/nowhere", "", codeNotFound},
		"missing":           {"./none", "", "", codeNotFound},
		"through a file":    {"./run/x", "", "", codeNotFound},
		"plain":             {"./plain", "", "", codeNotExecutable},
		"plain on the path": {"plain", dir, "", codeNotExecutable},
		"folder":            {dir, "", "", codeNotExecutable},
		"ourselves":         {"fermi", "", ownBinary, 0},
	} {
		got, err := (&launcher{steward: steward.New(nil)}).findProgram(c.command, dir, c.path)
		var s *startFault
		if errors.As(err, &s); c.code != 0 && (s == nil || s.code != c.code) || c.code == 0 && (err != nil || got != c.want) {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
}

func readSpool(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for raw := range strings.Lines(string(data)) {
		l, err := logbook.ParseLine([]byte(strings.TrimSuffix(raw, "\n")))
		if err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		text := string(l.Text)
		if l.Partial {
			text += "…"
		}
		lines = append(lines, text)
	}
	return lines
}

// TestPump feeds the same bytes cut in every way; the lines must be the same.
func TestPump(t *testing.T) {
	long := strings.Repeat("z", logbook.MaxText)
	body := "a\n\nbc\n" + long + "\n" + long + "y\n" + long + long + "tail"
	want := []string{"a", "", "bc", long, long + "…", "y", long + "…", long + "…", "tail"}
	for _, cut := range []int{1, 3, 1000, logbook.MaxText, logbook.MaxText + 1, len(body)} {
		path := filepath.Join(t.TempDir(), "log")
		s, err := openSpool(path, clock.Real, quiet)
		if err != nil {
			t.Fatal(err)
		}
		p := &pump{stream: 'O', spool: s, tail: &tail{}}
		for rest := []byte(body); len(rest) > 0; {
			n := min(cut, len(rest))
			p.feed(rest[:n])
			rest = rest[n:]
		}
		p.end()
		s.close()
		s.f.Close()
		if d := cmp.Diff(want, readSpool(t, path)); d != "" {
			t.Errorf("cut at %d: %s", cut, d)
		}
	}
}

// TestPumpShowsAnUnfinishedLine and then its end.
func TestPumpShowsAnUnfinishedLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	s, err := openSpool(path, clock.Real, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer s.f.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &pump{stream: 'E', r: r, spool: s, tail: &tail{}, ended: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(p.run)
	fmt.Fprint(w, "50%")
	eventually(t, "the part", func() bool { n, _ := s.Size(); return n > 0 })
	fmt.Fprint(w, " 100%\n")
	w.Close()
	wg.Wait()
	if d := cmp.Diff([]string{"50%…", " 100%"}, readSpool(t, path)); d != "" {
		t.Error(d)
	}
}

// TestPumpProgressBar: of a line that is drawn over, the newest state counts; a state that replaces what was written
// begins with a carriage return.
func TestPumpProgressBar(t *testing.T) {
	long := strings.Repeat("z", logbook.MaxText)
	for name, c := range map[string]struct{ body, want []string }{
		"one state":          {[]string{"\r 10%\r 20%\r100%\n", "next\n"}, []string{"100%", "next"}},
		"written between":    {[]string{"\r 10%\r 20%", "flush", "\r 30%\r 40%", "flush", "\r100%\n", "next\n"}, []string{" 20%…", "\r 40%…", "\r100%", "next"}},
		"return at the end":  {[]string{"10%\r20%\r", "flush", "30%\r", "flush", "\n", "next\n"}, []string{"20%…", "\r30%…", "", "next"}},
		"goes on":            {[]string{"\r 10%", "flush", " of 7", "flush", "\r 20%\n"}, []string{" 10%…", " of 7…", "\r 20%"}},
		"line ends of DOS":   {[]string{"a\r\nb\r", "\nc\r\n"}, []string{"a", "b", "c"}},
		"long state":         {[]string{"\r1", "flush", "\r" + long + "\n", "next\n"}, []string{"1…", "\r" + long[1:] + "…", "z", "next"}},
		"never ended":        {[]string{"\r1\r2"}, []string{"2"}},
		"never ended, shown": {[]string{"\r1", "flush", "\r2"}, []string{"1…", "\r2"}},
		"empty states":       {[]string{"\r\r\n", "\r", "\n"}, []string{"", ""}},
	} {
		for _, cut := range []int{1, 2, 1 << 20} {
			path := filepath.Join(t.TempDir(), "log")
			s, err := openSpool(path, clock.Real, quiet)
			if err != nil {
				t.Fatal(err)
			}
			p := &pump{stream: 'E', spool: s, tail: &tail{}}
			for _, b := range c.body {
				if b == "flush" {
					p.flush()
					continue
				}
				for part := range slices.Chunk([]byte(b), cut) {
					p.feed(part)
				}
			}
			p.end()
			s.close()
			s.f.Close()
			if d := cmp.Diff(c.want, readSpool(t, path)); d != "" {
				t.Errorf("%s, cut at %d: %s", name, cut, d)
			}
		}
	}
}

// TestPumpShowsABarThatNeverPauses: what comes meanwhile does not put off what is to be shown.
func TestPumpShowsABarThatNeverPauses(t *testing.T) {
	s, err := openSpool(filepath.Join(t.TempDir(), "log"), clock.Real, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer s.f.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &pump{stream: 'E', r: r, spool: s, tail: &tail{}, ended: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(p.run)
	i := 0
	eventually(t, "the bar", func() bool {
		i++
		fmt.Fprintf(w, "\r%d%%", i)
		n, _ := s.Size()
		return n > 0
	})
	w.Close()
	wg.Wait()
}

// TestPumpDoesNotWaitForAnEscapedWriter: someone else holds the pipe, and writes.
func TestPumpDoesNotWaitForAnEscapedWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	s, err := openSpool(path, clock.Real, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer s.f.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	p := &pump{stream: 'O', r: r, spool: s, tail: &tail{}, ended: make(chan struct{})}
	proc := &processes{pumps: []*pump{p}}
	proc.done.Go(p.run)
	fmt.Fprint(w, "last words\nno end")
	proc.drained()
	if d := cmp.Diff([]string{"last words", "no end"}, readSpool(t, path)); d != "" {
		t.Error(d)
	}
}

// TestFullDisk: on a real small file system lines are dropped, counted, and told of.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no small file system here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "log")
	s, err := openSpool(path, clock.Real, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer s.f.Close()
	filler := filepath.Join(dir, "filler")
	s.write(0, 'O', []text{{bytes: []byte("before")}})
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	big := []byte(strings.Repeat("x", 10_000))
	for range 3 {
		s.write(0, 'O', []text{{bytes: big}, {bytes: big}})
	}
	if s.lost() == 0 {
		t.Fatal("nothing was lost")
	}
	lost := s.lost()
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	s.write(0, 'O', []text{{bytes: []byte("after")}})
	s.close()
	lines := readSpool(t, path)
	if lines[0] != "before" || lines[len(lines)-1] != "after" || !strings.Contains(lines[len(lines)-2], fmt.Sprint(lost)) {
		t.Fatalf("%.80q", lines)
	}
}

// fakeServer takes uploads, or fails.
type fakeServer struct {
	mu   sync.Mutex
	got  map[string]string
	fail func(path string) error
}

func (f *fakeServer) PutOutput(_ context.Context, path string, size int64, _ time.Time, r io.Reader) error {
	data := make([]byte, size)
	if _, err := io.ReadFull(r, data); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		if err := f.fail(path); err != nil {
			return err
		}
	}
	f.got[path] = string(data)
	return nil
}

func (f *fakeServer) has(path string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.got[path]
}

// TestUploadsDuringTheRun: a file goes up once it stood still from one scan to the next.
func TestUploadsDuringTheRun(t *testing.T) {
	dir := t.TempDir()
	fake := clock.NewFake(time.Unix(0, 0))
	srv := &fakeServer{got: map[string]string{}}
	o := newOutputs([]source{{folder: steward.New(nil).In(dir)}}, srv, fake, quiet, nil)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { o.during(ctx) })
	write := func(s string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "f"), []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	up := func(want string) {
		t.Helper()
		eventually(t, want, func() bool { fake.Advance(scanEvery); return srv.has("f") == want })
	}
	write("one")
	up("one")
	write("second")
	up("second")
	cancel()
	wg.Wait()
	write("the third")
	found := o.scan()
	if err := o.finish(context.Background(), found); err != nil || srv.has("f") != "the third" {
		t.Error(err, srv.has("f"))
	}
	if n, bytes, inc := o.total(found); n != 1 || bytes != 9 || inc != "" {
		t.Error(n, bytes, inc)
	}
}

func TestRefusedUploads(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"good", "big", "bad\nname", "shy"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	shy := 2
	srv := &fakeServer{got: map[string]string{}, fail: func(path string) error {
		switch {
		case path == "big":
			return status.Error(codes.ResourceExhausted, "too big")
		case path == "shy" && shy > 0:
			shy--
			return status.Error(codes.Unavailable, "away")
		}
		return nil
	}}
	o := newOutputs([]source{{folder: steward.New(nil).In(dir)}}, srv, clock.Real, quiet, nil)
	found := o.scan()
	if err := o.finish(context.Background(), found); err != nil {
		t.Fatal(err)
	}
	n, _, inc := o.total(found)
	if n != 2 || !strings.HasPrefix(inc, "2 output files") || !strings.Contains(inc, "too big") {
		t.Error(n, inc)
	}
	if srv.has("good") == "" || srv.has("shy") == "" {
		t.Error(srv.got)
	}
}

// TestGroupsOfRanks: with 3, 1 and 2 devices the second launcher is group 1, whatever its first rank divided
// by its own number of ranks is.
func TestGroupsOfRanks(t *testing.T) {
	first, group := 0, 0
	for _, n := range []int{3, 1, 2} {
		l := &launcher{ranks: newRanks(n, func(link.Ranks) {}), socket: &rankSocket{}, ports: &ports{serve: &reservation{}}}
		each := l.rankEnviron(engine.Replica{}, link.Generation{Number: 1, FirstRank: first, World: 6, Group: group, Groups: 3, Lead: "127.0.0.1:1"})
		for local, env := range each {
			for name, want := range map[string]int{"RANK": first + local, "LOCAL_RANK": local, "LOCAL_WORLD_SIZE": n, "GROUP_RANK": group, "GROUP_WORLD_SIZE": 3, "WORLD_SIZE": 6} {
				if got := lookupIn(env, name); got != strconv.Itoa(want) {
					t.Errorf("group %d, local rank %d: %s is %q, not %d", group, local, name, got, want)
				}
			}
		}
		first, group = first+n, group+1
	}
}
