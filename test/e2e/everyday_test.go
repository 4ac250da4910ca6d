package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/test/harness"
)

// TestApplyCode: a folder becomes the code of the tasks in a manifest that name none; a check uploads nothing, and there must be such a task.
func TestApplyCode(t *testing.T) {
	w := up(t, "--demo")
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	write("hello.sh", "echo from the folder\n")
	task := func(name, more string) string {
		return fmt.Sprintf("kind: TrainingTask\nmetadata: {name: %s}\nspec:\n  roles: [{name: worker, replicas: 1, command: [sh, hello.sh], resources: {cpu: 1, memory: 256Mi}}]\n  %s\n", name, more)
	}
	both := write("both.yaml", task("first", "")+"---\n"+task("second", ""))
	if r := w.fermi("apply", "-f", both, "--code", dir, "--dry-run"); r.code != 0 || strings.Count(r.out, "created (dry run)") != 2 {
		t.Fatalf("%+v", r)
	}
	if got := w.must("get", "tasks", "-o", "name"); strings.TrimSpace(got) != "" {
		t.Fatalf("a check made %q", got)
	}
	contains(t, w.must("apply", "-f", both, "--code", dir), "task/first created", "task/second created")
	for _, name := range []string{"first", "second"} {
		w.phase(name, api.PhaseCompleted)
		contains(t, w.must("logs", name), "from the folder")
	}
	if a, b := w.task("first").Spec.Code, w.task("second").Spec.Code; a == nil || b == nil || a.Archive == "" || a.Archive != b.Archive {
		t.Errorf("%+v, %+v", a, b)
	}
	own := write("own.yaml", task("third", "code: {archive: \""+w.task("first").Spec.Code.Archive+"\"}"))
	if r := w.fermi("apply", "-f", own, "--code", dir); r.code != 2 || !strings.Contains(r.err, "every task of the manifest names its code") {
		t.Errorf("%+v", r)
	}
	if r := w.fermi("apply", "-f", both, "--code", filepath.Join(dir, "none")); r.code == 0 || r.out != "" {
		t.Errorf("a folder that is not there: %+v", r)
	}
}

// TestProjectUse: the chosen project is meant where none is named, for this server and this user only, until another is named or chosen.
func TestProjectUse(t *testing.T) {
	w := up(t, "--demo")
	w.must("project", "create", "lab")
	home := []string{"XDG_CONFIG_HOME=" + t.TempDir()}
	dir := t.TempDir()
	fermi := func(args ...string) result { t.Helper(); return w.fermiIn(dir, home, args...) }
	if r := fermi("project", "use"); r.code != 0 || r.out != "" || !strings.Contains(r.err, "None is chosen") {
		t.Errorf("%+v", r)
	}
	if r := fermi("project", "use", "nowhere"); r.code == 0 || !strings.Contains(r.err, "nowhere") {
		t.Errorf("%+v", r)
	}
	if r := fermi("project", "use", "lab"); r.code != 0 || r.out != "project/lab is used from now on where none is named\n" {
		t.Fatalf("%+v", r)
	}
	if r := fermi("project", "use"); r.code != 0 || r.out != "lab\n" {
		t.Errorf("%+v", r)
	}
	run := func(name string, more ...string) {
		t.Helper()
		if r := fermi(append(append([]string{"train", "run", "--no-code", "-d", "--name", name}, more...), "--", "true")...); r.code != 0 {
			t.Fatalf("%+v", r)
		}
	}
	run("chosen")
	run("named", "--project", "default")
	if r := w.fermiIn(dir, []string{"XDG_CONFIG_HOME=" + t.TempDir()}, "train", "run", "--no-code", "-d", "--name", "elsewhere", "--", "true"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	if r := fermi("project", "use", "--none"); r.code != 0 {
		t.Errorf("%+v", r)
	}
	run("after")
	for name, project := range map[string]string{"chosen": "lab", "named": "default", "elsewhere": "default", "after": "default"} {
		if r := w.fermi("get", "task", name, "--project", project, "-o", "name"); r.code != 0 {
			t.Errorf("%s is not in %s: %+v", name, project, r)
		}
	}
}

// TestDrainPreview: who would move and who would wait is said, and nothing changes.
func TestDrainPreview(t *testing.T) {
	w := up(t, "--demo")
	task := shell("stands", 1, `while :; do sleep 0.05; done`)
	task.Spec.Roles[0].Resources.Accelerators = api.Accelerators{Type: "V100", Count: 2}
	w.submit(task)
	w.phase("stands", api.PhaseRunning)
	rows, err := w.api.Replicas(t.Context(), "default", "stands")
	if err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	node := rows[0].Node
	contains(t, w.must("node", "drain", node, "--preview"), "If "+node+" were drained, 1 task would move and 0 would wait, first in line.", "GOES TO, OR WHY IT WAITS", "default/stands")
	contains(t, w.must("node", "drain", node, "--preview", "-o", "json"), `"move": 1`, `"name": "stands"`)
	if got := w.must("node", "drain", "shenzhen-1-n16", "--preview"); got != "Nothing stands on shenzhen-1-n16.\n" {
		t.Errorf("%q", got)
	}
	// On every other node that has such devices there is no room: it would wait.
	for _, name := range strings.Fields(w.must("get", "nodes", "-o", "name")) {
		if name = strings.TrimPrefix(name, "node/"); name != node && strings.Contains(w.must("describe", "node", name), "V100") {
			w.must("node", "cordon", name)
		}
	}
	said := ""
	harness.Eventually(t, "it would wait", func() bool { // once who plans has heard of all nodes
		said = w.must("node", "drain", node, "--preview")
		return strings.Contains(said, "0 tasks would move and 1 would wait")
	})
	contains(t, said, "[")
	if r := w.fermi("node", "drain", "nowhere", "--preview"); r.code == 0 {
		t.Errorf("%+v", r)
	}
	after := w.task("stands")
	if after.Status.Phase != api.PhaseRunning || after.Status.Attempt != 1 || strings.Contains(w.must("describe", "node", node), "drained") {
		t.Errorf("a preview changed something: %+v", after.Status)
	}
}

// terminal is what a program draws on, and what is seen there.
type terminal struct {
	slave *os.File
	mu    sync.Mutex
	rows  []string
	at    int // column, in characters
	wide  int // the longest row so far
}

// openTerminal makes a real pseudo-terminal of so many columns.
func openTerminal(t *testing.T, columns uint16) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals here:", err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
	s := &terminal{slave: slave, rows: []string{""}}
	go func() {
		buf := make([]byte, 4096)
		for {
			k, err := master.Read(buf)
			s.draw(string(buf[:k]))
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { slave.Close(); master.Close() })
	return s
}

// draw does what a terminal does with text, line ends, and the order to clear the rest of a row.
func (s *terminal) draw(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for text != "" {
		row := []rune(s.rows[len(s.rows)-1])
		switch {
		case strings.HasPrefix(text, "\x1b[K"):
			s.rows[len(s.rows)-1] = string(row[:min(s.at, len(row))])
			text = text[len("\x1b[K"):]
			continue
		case text[0] == '\n':
			s.rows, s.at = append(s.rows, ""), 0
		case text[0] == '\r':
			s.at = 0
		default:
			r, size := utf8.DecodeRuneInString(text)
			if s.at < len(row) {
				row[s.at] = r
			} else {
				row = append(row, r)
			}
			s.at++
			s.wide = max(s.wide, len(row))
			s.rows[len(s.rows)-1] = string(row)
			text = text[size:]
			continue
		}
		text = text[1:]
	}
}

// seen are the rows that have something in them.
func (s *terminal) seen() (rows []string, wide int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, row := range s.rows {
		if row != "" {
			rows = append(rows, row)
		}
	}
	return rows, s.wide
}

// TestProgressOnATerminal: a bar that a program draws with \r goes on in one row of the terminal, cut to its width, and its last state stays.
func TestProgressOnATerminal(t *testing.T) {
	w := up(t, "--demo")
	w.submit(shell("bar", 1, `draw() { printf '\r%3d%%|%s|%s' "$1" "$2" ' 12.3 it/s, loss 0.123456, and more than a row takes'; }
all='##########'
trap 'draw 100 "$all"; printf "\ntrained\n"; exit 0' TERM
for i in 10 20 30 40 50; do draw $i '#####     '; done
while :; do sleep 0.05; done`))
	w.phase("bar", api.PhaseRunning)
	const columns = 40
	screen := openTerminal(t, columns)
	cmd := exec.CommandContext(t.Context(), w.Bin, "logs", "-f", "bar")
	cmd.Env = append(os.Environ(), "FERMI_SERVER=http://"+w.Addr, "FERMI_DATA="+w.Dir, "FERMI_LANG=en", "FERMI_TOKEN=", "TERM=xterm", "NO_COLOR=")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = screen.slave, screen.slave, screen.slave
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	bar := func() string {
		rows, _ := screen.seen()
		if len(rows) == 0 {
			return ""
		}
		return rows[len(rows)-1]
	}
	harness.Eventually(t, "half of the bar", func() bool { return strings.Contains(bar(), "50%|#####     |") })
	rows, wide := screen.seen()
	if n := strings.Count(strings.Join(rows, "\n"), "%|"); n != 1 || wide > columns-1 {
		t.Errorf("the bar takes %d rows, %d columns: %q", n, wide, rows)
	}
	w.must("train", "stop", "bar")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	harness.Eventually(t, "the end", func() bool { rows, _ := screen.seen(); return strings.Contains(strings.Join(rows, "\n"), "trained") })
	rows, _ = screen.seen()
	all := strings.Join(rows, "\n")
	if strings.Count(all, "%|") != 1 || !strings.Contains(all, "100%|##########| 12.3 it/s, loss 0.123456, and more than a row takes\n") {
		t.Errorf("not the last state, once and whole: %q", rows)
	}
}
