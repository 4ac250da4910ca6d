package train

import (
	"bytes"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/clitest"
	"github.com/fermi-cluster/fermi/internal/cli/logs"
)

// lockedBuffer may be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
		time.Sleep(time.Millisecond) // between looks at a condition
	}
}

// TestCtrlC drives the follower with given signals and typed lines.
func TestCtrlC(t *testing.T) {
	for _, tt := range []struct {
		name    string
		ask     bool
		signals int
		typed   []string
		stopped bool
		code    int
	}{
		{"no terminal: detach", false, 1, nil, false, 130},
		{"stop", true, 1, []string{"s"}, true, 143},
		{"detach", true, 1, []string{"detach"}, false, 130},
		{"nonsense, then detach", true, 1, []string{"what?", "d"}, false, 130},
		{"second Ctrl-C", true, 2, nil, false, 130},
		{"continue, then stop", true, 1, []string{"c", "\x03", "s"}, true, 143},
		{"input closed", true, 1, []string{"\x04"}, false, 130},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := clitest.New(t)
			task := clitest.SomeTask("gpt-1", "GPT", api.PhaseRunning)
			f.Add(task)
			f.Follow = make(chan struct{})
			stderr := &lockedBuffer{}
			in, typed := io.Pipe()
			signals := make(chan os.Signal, 2)
			c, err := client.New(client.Config{Server: f.URL, Token: "good"})
			if err != nil {
				t.Fatal(err)
			}
			defer c.CloseIdle()
			s := &call.Session{Clock: clitest.FixedClock{}, Flags: &call.Flags{}, Client: c, Lang: "en", In: in, Out: io.Discard, Err: stderr}
			fo := &follower{s: s, task: task, out: logs.NewLogPrinter(s.Out, false, false), ask: tt.ask, signals: signals}
			done := make(chan error, 1)
			go func() { done <- fo.run(t.Context()) }()
			go func() { // the task ends when it is stopped
				select {
				case <-f.Stopped:
				case <-t.Context().Done():
					return
				}
				code := 143
				f.Mu.Lock()
				task.Status.Phase, task.Status.ExitCode = api.PhaseStopped, &code
				f.Mu.Unlock()
				close(f.Follow)
			}()
			prompts := func() int { return strings.Count(stderr.String(), "[c]ontinue") }
			for range tt.signals {
				signals <- os.Interrupt
			}
			asked := 1
			for _, line := range tt.typed {
				switch line {
				case "\x03":
					func() { // held while a question waits: the one before is answered now
						fo.mu.Lock()
						defer fo.mu.Unlock()
					}()
					signals <- os.Interrupt
					continue
				case "\x04":
					typed.Close()
					continue
				}
				eventually(t, "the question", func() bool { return prompts() >= asked })
				asked++
				if _, err := io.WriteString(typed, line+"\n"); err != nil {
					t.Fatal(err)
				}
			}
			if code := call.Report(io.Discard, <-done, "en"); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			typed.Close()
			f.Mu.Lock()
			defer f.Mu.Unlock()
			if task.Spec.Stop != tt.stopped {
				t.Errorf("stopped: %v", task.Spec.Stop)
			}
			if text := stderr.String(); tt.code == 130 && !strings.Contains(text, "fermi train stop gpt-1") {
				t.Errorf("no way back in %q", text)
			}
		})
	}
}
