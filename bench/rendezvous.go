package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// rendezvousLaunchers is the size of the largest task there may be; FERMI_LAUNCHERS tries a smaller one.
var rendezvousLaunchers = sync.OnceValue(func() int {
	if n, err := strconv.Atoi(os.Getenv("FERMI_LAUNCHERS")); err == nil && n >= 16 && n < mostLaunchers {
		return n / 16 * 16
	}
	return mostLaunchers
})

const (
	mostLaunchers       = 16384
	rendezvousProcesses = 2
	generationsMeasured = 7
	rendezvousLosses    = 3
	// rendezvousPatience is for one step on a machine that has others to serve; it is no measurement.
	rendezvousPatience = 5 * time.Minute
)

// childRole says which process of a benchmark this is; the bench starts itself for each.
const childRole = "FERMI_BENCH_ROLE"

// benchRendezvous: one task of 16,384 replicas. The server process has the real store, link and
// training controller; the launchers are real clients of the link, over TLS, in processes of their
// own, that start nothing: a generation that they are told of is at once one that they have started.
func benchRendezvous(ctx context.Context, r *report) error {
	switch role := os.Getenv(childRole); role {
	case "":
		return measureRendezvous(ctx, r)
	case "server":
		return rendezvousServer(ctx, ".")
	default:
		return rendezvousClients(ctx, role)
	}
}

func measureRendezvous(ctx context.Context, r *report) error {
	r.atLeast("launchers", float64(rendezvousLaunchers()), mostLaunchers)
	if err := raiseFiles(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("/tmp", "rdzv")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	server, err := startChild(ctx, "rendezvous", dir, "server")
	if err != nil {
		return err
	}
	defer func() { server.kill() }()
	if _, err := server.await("listening"); err != nil {
		return err
	}
	var launchers []*child
	share := rendezvousLaunchers() / rendezvousProcesses
	for i := range rendezvousProcesses {
		l, err := startChild(ctx, "rendezvous", dir, fmt.Sprintf("%d-%d", i*share, (i+1)*share))
		if err != nil {
			return err
		}
		defer l.kill()
		launchers = append(launchers, l)
	}
	if _, err := server.await("running"); err != nil {
		return err
	}
	fmt.Printf("%d launchers in %d processes attached over TLS; the first generation runs\n", rendezvousLaunchers(), rendezvousProcesses)
	if err := measureGenerations(r, server, launchers); err != nil {
		return err
	}
	return measureLosses(ctx, r, dir, &server)
}

// measureGenerations fails a rank of one launcher again and again.
func measureGenerations(r *report, server *child, launchers []*child) error {
	var whole, acked, ran, cpu, most []float64
	for n := range generationsMeasured {
		if _, err := bytesOf(launchers); err != nil {
			return err
		}
		l := launchers[n%len(launchers)]
		if err := l.say("fail " + strconv.Itoa(n*97)); err != nil {
			return err
		}
		f, err := server.await("generation")
		if err != nil {
			return err
		}
		whole, acked, cpu, ran = append(whole, f[0]), append(acked, f[1]), append(cpu, f[2]), append(ran, f[3])
		b, err := bytesOf(launchers)
		if err != nil {
			return err
		}
		most = append(most, b)
		fmt.Printf("generation %d: failure heard → last ack %.3f s; decided → last ack %.3f s; → written as running %.3f s; %.1f µs of the server's processor a launcher\n", n+2, f[0], f[1], f[3], f[2])
	}
	fmt.Printf("decided → last ack: %s s\n", spread(acked))
	fmt.Printf("failure heard → last ack: %s s; → running: %s s\n", spread(whole), spread(ran))
	fmt.Printf("the server's processor a launcher, failure heard → running: %s µs\n", spread(cpu))
	r.atMost("decided → last ack, median [s]", median(acked), 2.5).Among(acked)
	r.atMost("server's processor a launcher, median [µs]", median(cpu), 100).Among(cpu)
	r.atMost("bytes any one launcher got for a generation, worst", slices.Max(most), 4096).Among(most)
	return nil
}

// measureLosses kills the server and starts another one on its data.
func measureLosses(ctx context.Context, r *report, dir string, server **child) error {
	var back []float64
	for n := range rendezvousLosses {
		begin := time.Now()
		(*server).kill()
		next, err := startChild(ctx, "rendezvous", dir, "server")
		if err != nil {
			return err
		}
		*server = next
		if _, err := next.await("attached"); err != nil {
			return err
		}
		back = append(back, time.Since(begin).Seconds())
		fmt.Printf("server %d killed: all attached to the next one, and what they run known, after %.2f s\n", n+1, back[n])
	}
	fmt.Printf("leader lost → all attached again: %s s\n", spread(back))
	r.atMost("leader lost → all attached again, worst [s]", slices.Max(back), 30).Among(back)
	return nil
}

// bytesOf asks how many bytes any one launcher was sent since the last time.
func bytesOf(launchers []*child) (float64, error) {
	most := 0.0
	for _, l := range launchers {
		if err := l.say("bytes"); err != nil {
			return 0, err
		}
		f, err := l.await("bytes")
		if err != nil {
			return 0, err
		}
		most = max(most, f[0])
	}
	return most, nil
}

// child is one of the processes that the bench is made of; they speak in lines.
type child struct {
	cmd   *exec.Cmd
	role  string
	in    io.Writer
	lines chan string
}

func startChild(ctx context.Context, bench, dir, role string) (*child, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.CommandContext(ctx, exe, bench), role: role, lines: make(chan string, 64)}
	c.cmd.Dir, c.cmd.Stderr = dir, os.Stderr
	c.cmd.Env = append(os.Environ(), childRole+"="+role)
	if !strings.HasPrefix(role, "server") { // thousands of launchers in one process: their collector is not what is measured
		c.cmd.Env = append(c.cmd.Env, "GOGC=400")
	}
	c.cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.in = in
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(c.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			c.lines <- s.Text()
		}
	}()
	return c, nil
}

func (c *child) say(line string) error {
	_, err := fmt.Fprintln(c.in, line)
	return err
}

// await skips to the line that begins with what and gives its numbers.
func (c *child) await(what string) ([]float64, error) {
	patience := time.After(rendezvousPatience)
	for {
		select {
		case <-patience:
			return nil, fmt.Errorf("%s: no %q within %v", c.role, what, rendezvousPatience)
		case line, ok := <-c.lines:
			if !ok {
				return nil, fmt.Errorf("%s ended: %w", c.role, errors.Join(c.cmd.Wait(), errors.New("no more lines")))
			}
			words := strings.Fields(line)
			if len(words) == 0 || words[0] != what {
				continue
			}
			var numbers []float64
			for _, w := range words[1:] {
				f, err := strconv.ParseFloat(w, 64)
				if err != nil {
					return nil, err
				}
				numbers = append(numbers, f)
			}
			return numbers, nil
		}
	}
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	for range c.lines { // until its pipe is closed
	}
	_ = c.cmd.Wait()
}

// raiseFiles lets the processes open as many files as the machine allows; one connection is one.
func raiseFiles() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if limit.Max < uint64(rendezvousLaunchers())+1024 {
		return fmt.Errorf("%d open files are allowed, %d launchers need more", limit.Max, rendezvousLaunchers())
	}
	limit.Cur = limit.Max
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
}

func endpointsFile(dir string) string { return filepath.Join(dir, "endpoints") }
