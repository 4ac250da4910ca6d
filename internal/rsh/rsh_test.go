package rsh

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/seal"
	"github.com/fermi-cluster/fermi/test/foreign"
)

const patient = time.Minute

// world is two replicas of a task: worker-0 asks, worker-1 serves.
type world struct {
	t       *testing.T
	env     map[string]string // of worker-0
	place   *place
	address string
	ended   chan error
}

func newWorld(t *testing.T) *world {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, address: listener.Addr().String(), ended: make(chan error, 1)}
	dir := t.TempDir()
	write(t, dir, "rsh_hosts", "worker-0 127.0.0.1:1\nworker-1 "+w.address+"\n")
	write(t, dir, "task.key", strings.Repeat("k", 43))
	w.env = map[string]string{"FERMI_RECIPE": dir, "FERMI_ROLE": "worker", "FERMI_INDEX": "0", "FERMI_COLLECTIVE_TIMEOUT": "60"}
	if w.place, err = here(w.get); err != nil {
		t.Fatal(err)
	}
	s := &server{tls: w.place.tls, env: append(os.Environ(), "FERMI_REPLICA=other")}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { w.ended <- s.serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		w.over()
	})
	return w
}

func (w *world) get(name string) string { return w.env[name] }

// over waits for the end of serve.
func (w *world) over() {
	w.t.Helper()
	select {
	case err := <-w.ended:
		if w.ended <- nil; err != nil {
			w.t.Error(err)
		}
	case <-time.After(patient):
		w.t.Fatal("serve does not end")
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// ask runs a command in worker-1.
func (w *world) ask(command string, in io.Reader) (out, errs string, code int) {
	w.t.Helper()
	var o, e bytes.Buffer
	code, err := w.place.ask(w.t.Context(), w.address, command, streams{in, &o, &e}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return o.String(), e.String(), code
}

func TestRun(t *testing.T) {
	w := newWorld(t)
	big := strings.Repeat("0123456789abcdef\n", 20_000) // several pieces
	for name, c := range map[string]struct {
		command, in, out, errs string
		code                   int
	}{
		"streams":   {"echo $FERMI_REPLICA; echo no >&2; exit 7", "", "other\n", "no\n", 7},
		"stdin":     {"cat", big, big, "", 0},
		"not read":  {"exit 3", big, "", "", 3},
		"killed":    {"kill -9 $$", "", "", "", 137},
		"not there": {"exec /no/such/program 2>/dev/null", "", "", "", 127},
	} {
		t.Run(name, func(t *testing.T) {
			out, errs, code := w.ask(c.command, strings.NewReader(c.in))
			if out != c.out || errs != c.errs || code != c.code {
				t.Errorf("%d %.40q %.40q", code, out, errs)
			}
		})
	}
}

// started reads the pid that a command says first.
func started(t *testing.T, out io.Reader) int {
	t.Helper()
	var line []byte
	for b := make([]byte, 1); len(line) == 0 || line[len(line)-1] != '\n'; line = append(line, b[0]) {
		if _, err := out.Read(b); err != nil {
			t.Fatal(err)
		}
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(line)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestSignals(t *testing.T) {
	w := newWorld(t)
	read, out := io.Pipe()
	signals := make(chan os.Signal, 1)
	code := make(chan int, 1)
	go func() {
		n, err := w.place.ask(t.Context(), w.address, `trap 'exit 42' USR1; echo $$; while :; do sleep 0.05; done`, streams{strings.NewReader(""), out, io.Discard}, signals)
		if err != nil {
			t.Error(err)
		}
		code <- n
	}()
	started(t, read)
	signals <- syscall.SIGUSR1
	if n := <-code; n != 42 {
		t.Error(n)
	}
}

// TestAskerGone: a command ends with who asked for it, even one that does not want to.
func TestAskerGone(t *testing.T) {
	w := newWorld(t)
	conn, err := w.place.dial(t.Context(), w.address)
	if err != nil {
		t.Fatal(err)
	}
	c := &conversation{ReadWriter: conn}
	if err := c.send(frameRun, []byte(`trap '' TERM; echo $$; while :; do sleep 0.05; done`)); err != nil {
		t.Fatal(err)
	}
	kind, content, err := c.receive()
	if err != nil || kind != frameOut {
		t.Fatal(kind, err)
	}
	pid := started(t, bytes.NewReader(content))
	conn.Close()
	for deadline := time.Now().Add(patient); syscall.Kill(pid, 0) == nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the command outlives its asker")
		}
	}
}

// TestDismiss: the order to end ends serve, and what still runs there.
func TestDismiss(t *testing.T) {
	w := newWorld(t)
	if err := w.place.dismissAll(t.Context(), w.get); err != nil {
		t.Fatal(err)
	}
	w.over()
}

func TestStrangers(t *testing.T) {
	w := newWorld(t)
	other, err := seal.PairTLS([]byte(strings.Repeat("x", 43)), "fermi rsh v1")
	if err != nil {
		t.Fatal(err)
	}
	stranger := &place{tls: other}
	if _, err := stranger.ask(t.Context(), w.address, "true", streams{strings.NewReader(""), io.Discard, io.Discard}, nil); err == nil {
		t.Error("a stranger was served")
	}
	// One who talks nonsense is hung up on, and the next is served.
	conn, err := w.place.dial(t.Context(), w.address)
	if err != nil {
		t.Fatal(err)
	}
	if err := (&conversation{ReadWriter: conn}).send('z', nil); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); err != nil {
		t.Error(err)
	}
	if out, _, code := w.ask("echo fine", strings.NewReader("")); out != "fine\n" || code != 0 {
		t.Error(out, code)
	}
}

// TestDialWaits: a replica that does not listen yet is waited for, though not for ever.
func TestDialWaits(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*pause)
	defer cancel()
	if _, err := w.place.dial(ctx, foreign.Nobody(t)); !fault.Is(err, fault.Unavailable) {
		t.Error(err)
	}
}

func TestRunAt(t *testing.T) {
	w := newWorld(t)
	var out bytes.Buffer
	code, err := runAt(t.Context(), w.get, []string{"-x", "-o", "A=b", "me@worker-1", "echo", "a  b;", "exit", "5"}, streams{strings.NewReader(""), &out, io.Discard})
	if err != nil || code != 5 || out.String() != "a b\n" {
		t.Error(code, err, out.String())
	}
	out.Reset() // as horovodrun does
	if code, err := runAt(t.Context(), w.get, []string{"-o", "A=b", "worker-1", "-o", "ConnectTimeout=10", "echo -n c"}, streams{strings.NewReader(""), &out, io.Discard}); err != nil || code != 0 || out.String() != "c" {
		t.Error(code, err, out.String())
	}
	if _, err := runAt(t.Context(), w.get, []string{"worker-9", "true"}, streams{}); !fault.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "worker-0, worker-1") {
		t.Error(err)
	}
	if _, err := runAt(t.Context(), func(string) string { return "" }, []string{"worker-1", "true"}, streams{}); !fault.Is(err, fault.Invalid) {
		t.Error(err)
	}
	if _, err := runAt(t.Context(), w.get, []string{"worker-1"}, streams{}); !fault.Is(err, fault.Invalid) {
		t.Error(err)
	}
}

// TestLead: what the program ends with counts; only when all is well the others are dismissed.
func TestLead(t *testing.T) {
	w := newWorld(t)
	w.env["PATH"] = os.Getenv("PATH")
	var out bytes.Buffer
	if code, err := lead(t.Context(), w.get, []string{"sh", "-c", "exit 9"}, streams{nil, &out, &out}); code != 9 || err != nil {
		t.Error(code, err)
	}
	// The agents are on the path, and gone afterwards.
	code, err := lead(t.Context(), w.get, []string{"sh", "-c", "command -v ssh; command -v $OMPI_MCA_plm_rsh_agent"}, streams{nil, &out, &out})
	if code != 0 || err != nil {
		t.Fatal(code, err, out.String())
	}
	for file := range strings.Lines(out.String()) {
		if _, err := os.Stat(strings.TrimSpace(file)); !strings.Contains(file, "fermi-rsh-") || !os.IsNotExist(err) {
			t.Error(file, err)
		}
	}
	w.over()
}

func TestBadFiles(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"no hosts": func(dir string) error { return os.Remove(filepath.Join(dir, "rsh_hosts")) },
		"bad hosts": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "rsh_hosts"), []byte("worker-1\n"), 0o600)
		},
		"no key":     func(dir string) error { return os.Remove(filepath.Join(dir, "task.key")) },
		"little key": func(dir string) error { return os.WriteFile(filepath.Join(dir, "task.key"), []byte("k"), 0o600) },
	} {
		w := newWorld(t)
		if err := change(w.env["FERMI_RECIPE"]); err != nil {
			t.Fatal(err)
		}
		if _, err := here(w.get); !fault.Is(err, fault.Internal) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"worker-1 true", "-x -o A=b me@h echo a", "-- h c", "-o", "-l u h", "-o A=b h -p 22 -o C=10 true", "-- h -c", "h -- c", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, " ")
		host, command, err := parse(args)
		if err == nil && (strings.Contains(host, "@") && !strings.Contains(line, "@") || !strings.HasSuffix(line, command)) {
			t.Errorf("%q: %q %q", line, host, command)
		}
	})
}

// FuzzReceive: no bytes make it fail or take more than it may.
func FuzzReceive(f *testing.F) {
	f.Add([]byte("r\x00\x00\x00\x02ls"))
	f.Add([]byte("r\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := &conversation{ReadWriter: bytes.NewBuffer(data)}
		for {
			kind, content, err := c.receive()
			if err != nil {
				return
			}
			if len(content) > maxFrame || len(data) < 5+len(content) {
				t.Fatal(kind, len(content))
			}
		}
	})
}

// TestOwned: what is one replica's own comes from who is there; all else is as it was given.
func TestOwned(t *testing.T) {
	got := owned([]string{"A=1", "FERMI_REPLICA=w-0", "CUDA_VISIBLE_DEVICES=GPU-0", "FERMI_X=1", "HOROVOD_RANK=2"},
		[]byte("A=2\x00FERMI_REPLICA=w-1\x00CUDA_VISIBLE_DEVICES=GPU-1\x00HOROVOD_RANK=0\x00"))
	if want := []string{"A=1", "HOROVOD_RANK=2", "FERMI_REPLICA=w-1", "CUDA_VISIBLE_DEVICES=GPU-1"}; !slices.Equal(got, want) {
		t.Error(got)
	}
	if err := ownAgain([]string{"no-such-command-here"}, nil); !fault.Is(err, fault.Invalid) {
		t.Error(err)
	}
}
