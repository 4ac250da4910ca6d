// Package harness starts the shipped binary for end-to-end tests and benchmarks.
//
// Place: test only. Promise: a Cluster is a real `fermi` process on a fresh folder and port; it is
// stopped, and everything it started is ended, when the test ends. Enemies: a shortcut past the
// binary, a process that outlives its test.
package harness

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fermi-cluster/fermi/client"
)

// Binary is the program under test: $FERMI_BIN, or bin/fermi of this tree, built if need be.
func Binary() (string, error) {
	if bin := os.Getenv("FERMI_BIN"); bin != "" {
		return filepath.Abs(bin)
	}
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	root := filepath.Dir(strings.TrimSpace(string(out)))
	cmd := exec.Command("make", "-s", "build")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make build: %w\n%s", err, out)
	}
	return filepath.Join(root, "bin", "fermi"), nil
}

// Cluster is one control-plane process and its folder.
type Cluster struct {
	Bin  string
	Dir  string // data folder
	Addr string // host:port
	Verb string // up or server
	Args []string
	Wrap []string // put before the command, as "ip netns exec NAME"
	// Token is read from the folder; set it to use another server's.
	Token string
	// Credential is who the process is; nil: who we are.
	Credential *syscall.Credential

	mu  sync.Mutex
	cmd *exec.Cmd
	end chan struct{} // closed when cmd has ended
}

// New picks a folder and a port; it starts nothing.
func New(bin, verb string, args ...string) (*Cluster, error) {
	dir, err := os.MkdirTemp("/tmp", "fermi") // short: it holds unix sockets
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return &Cluster{Bin: bin, Dir: filepath.Join(dir, "d"), Addr: l.Addr().String(), Verb: verb, Args: args}, nil
}

// Start runs the process and waits until it is ready.
func (c *Cluster) Start(ctx context.Context) error {
	if err := c.Spawn(); err != nil {
		return err
	}
	return c.WaitReady(ctx)
}

// Spawn runs the process without waiting.
func (c *Cluster) Spawn() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	args := append([]string{c.Verb, "--data", c.Dir, "--listen", c.Addr}, c.Args...)
	log, err := os.OpenFile(filepath.Join(filepath.Dir(c.Dir), "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	full := append(append([]string{}, c.Wrap...), append([]string{c.Bin}, args...)...)
	cmd := exec.Command(full[0], full[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := os.MkdirAll(SharedRoot(), 0o755); err != nil {
		return err
	}
	cmd.Env = append(os.Environ(), named())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: c.Credential}
	if err := cmd.Start(); err != nil {
		return err
	}
	end := make(chan struct{})
	c.cmd, c.end = cmd, end
	go func() {
		_ = cmd.Wait()
		close(end)
	}()
	return nil
}

// WaitReady polls /readyz until it answers 200, the process ends or ctx does.
func (c *Cluster) WaitReady(ctx context.Context) error {
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.Addr+"/readyz", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w\n%s", ctx.Err(), c.LogTail())
		case <-c.Ended():
			return errors.New("the server ended:\n" + c.LogTail())
		case <-time.After(3 * time.Millisecond):
		}
	}
}

// Ended is closed when the process has ended.
func (c *Cluster) Ended() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.end
}

// PID of the process.
func (c *Cluster) PID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cmd.Process.Pid
}

// Signal sends one to the server process alone, not to its launchers.
func (c *Cluster) Signal(sig syscall.Signal) error { return syscall.Kill(c.PID(), sig) }

// Kill is kill -9, and waits for the end.
func (c *Cluster) Kill() {
	_ = c.Signal(syscall.SIGKILL)
	<-c.Ended()
}

// Stop is a clean shutdown; it fails when the process does not end in time.
func (c *Cluster) Stop() error {
	_ = c.Signal(syscall.SIGTERM)
	select {
	case <-c.Ended():
		return nil
	case <-time.After(30 * time.Second):
		c.Kill()
		return errors.New("the server did not end within 30 s of SIGTERM")
	}
}

// Client speaks to it as the administrator.
func (c *Cluster) Client() (*client.Client, error) {
	token := c.Token
	if token == "" {
		raw, err := os.ReadFile(filepath.Join(c.Dir, "admin.token"))
		if err != nil {
			return nil, err
		}
		token = strings.TrimSpace(string(raw))
	}
	return client.New(client.Config{Server: "http://" + c.Addr, Token: token})
}

// LogTail is the end of what the process printed.
func (c *Cluster) LogTail() string {
	f, err := os.Open(filepath.Join(filepath.Dir(c.Dir), "log"))
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	var lines []string
	for sc := bufio.NewScanner(f); sc.Scan(); {
		lines = append(lines, sc.Text())
	}
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}

// Cleanup ends the process and everything its launchers run, and removes the folder.
func (c *Cluster) Cleanup() {
	c.mu.Lock()
	running := c.cmd != nil
	c.mu.Unlock()
	if running {
		c.Kill()
	}
	for range 100 {
		if !KillMarked(filepath.Dir(c.Dir)) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	_ = os.RemoveAll(filepath.Dir(c.Dir))
	_ = os.Remove(SharedRoot()) // if nobody has anything there
}

// KillMarked kills every process whose command line or environment names the folder: launchers and
// what they run.
func KillMarked(dir string) bool {
	entries, _ := os.ReadDir("/proc")
	found := false
	for _, e := range entries {
		var pid int
		if _, err := fmt.Sscanf(e.Name(), "%d", &pid); err != nil || pid == os.Getpid() {
			continue
		}
		cmdline, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		environ, _ := os.ReadFile("/proc/" + e.Name() + "/environ")
		if strings.Contains(string(cmdline), dir+"/") || strings.Contains(string(environ), dir+"/") {
			found = true
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return found
}
