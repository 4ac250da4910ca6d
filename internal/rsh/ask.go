package rsh

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// passed are the signals that reach the command.
var passed = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2}

// pause is between two tries to reach a replica that is still starting.
const pause = 50 * time.Millisecond

// dial reaches a replica. All start at about the same time, so one that does not listen yet is
// tried again, for as long as processes wait for each other.
func (p *place) dial(ctx context.Context, address string) (*tls.Conn, error) {
	d := tls.Dialer{Config: p.tls, NetDialer: &net.Dialer{Timeout: firstWord}}
	for {
		conn, err := d.DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.(*tls.Conn), nil
		}
		if !errors.Is(err, syscall.ECONNREFUSED) && ctx.Err() == nil {
			return nil, unreached(address, err)
		}
		select {
		case <-ctx.Done():
			return nil, unreached(address, err)
		case <-time.After(pause):
		}
	}
}

func unreached(address string, err error) error {
	return fault.New(fault.Unavailable, "ReplicaUnreachable", fault.T("The replica at %s can't be reached.", "无法连接到位于 %s 的副本。", address)).Because(err)
}

// patience is how long a replica may take to come: as long as the task's collectives wait.
func patience(env func(string) string) time.Duration {
	if n, err := strconv.Atoi(env("FERMI_COLLECTIVE_TIMEOUT")); err == nil && n > 0 {
		return time.Duration(n) * time.Second
	}
	return 10 * time.Minute
}

// streams are a command's.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// ask has a command run at an address and gives its exit code.
func (p *place) ask(ctx context.Context, address, command string, s streams, signals <-chan os.Signal) (int, error) {
	conn, err := p.dial(ctx, address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	c := &conversation{ReadWriter: conn}
	if err := c.send(frameRun, []byte(command)); err != nil {
		return 0, unreached(address, err)
	}
	taken := make(chan struct{}, 1)
	go c.feed(s.in, taken) // not waited for: nothing ends a read of stdin
	over := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(over)
	wg.Go(func() {
		for {
			select {
			case <-over:
				return
			case sig := <-signals:
				_ = c.send(frameSignal, []byte{byte(sig.(syscall.Signal))})
			}
		}
	})
	for {
		kind, content, err := c.receive()
		switch {
		case err != nil:
			return 0, fault.New(fault.Unavailable, "ReplicaLost", fault.T("The replica at %s went away while it ran a command.", "位于 %s 的副本在运行命令时失联。", address)).Because(err)
		case kind == frameOut:
			_, _ = s.out.Write(content)
		case kind == frameErr:
			_, _ = s.err.Write(content)
		case kind == frameTaken:
			select {
			case taken <- struct{}{}:
			default:
			}
		case kind == frameDone && len(content) == 1:
			return int(content[0]), nil
		}
	}
}

// feed passes stdin on, each piece when the one before was taken, and its end.
func (c *conversation) feed(in io.Reader, taken <-chan struct{}) {
	buf := make([]byte, chunk)
	for {
		n, err := in.Read(buf)
		if n > 0 {
			if c.send(frameIn, buf[:n]) != nil {
				return
			}
			<-taken
		}
		if err != nil {
			_ = c.send(frameIn, nil)
			return
		}
	}
}

// dismiss tells a replica that no more commands will come.
func (p *place) dismiss(ctx context.Context, address string) error {
	conn, err := p.dial(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	c := &conversation{ReadWriter: conn}
	if err := c.send(frameEnd, nil); err != nil {
		return unreached(address, err)
	}
	_, _, _ = c.receive() // it has heard, or is gone already
	return nil
}

// valued are the options of ssh and rsh that have a value of their own.
const valued = "BbcDEeFIiJLlmOopQRSWw"

// parse reads a command line as ssh and rsh take it: options, which mean nothing here, the host, for ssh more
// of them, and the command.
func parse(args []string) (host, command string, err error) {
	args, closed := options(args)
	if len(args) == 0 {
		return "", "", errUsage
	}
	_, host, found := strings.Cut(args[0], "@") // the user is who the replica is
	if !found {
		host = args[0]
	}
	args = args[1:]
	if !closed {
		args, _ = options(args)
	}
	if len(args) == 0 {
		return "", "", errUsage
	}
	return host, strings.Join(args, " "), nil
}

var errUsage = fault.New(fault.Invalid, "Usage", fault.T("Usage: fermi rsh run HOST COMMAND…", "用法：fermi rsh run HOST COMMAND…"))

// options is what comes after them; closed: it was said that no more come.
func options(args []string) (rest []string, closed bool) {
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		option := args[0]
		args = args[1:]
		if option == "--" {
			return args, true
		}
		if len(option) == 2 && strings.Contains(valued, option[1:]) && len(args) > 0 {
			args = args[1:]
		}
	}
	return args, false
}

// runAt is `fermi rsh run`.
func runAt(ctx context.Context, env func(string) string, args []string, s streams) (int, error) {
	name, command, err := parse(args)
	if err != nil {
		return 0, err
	}
	p, err := here(env)
	if err != nil {
		return 0, err
	}
	if name == p.self || name == "localhost" || name == "127.0.0.1" {
		return 0, syscall.Exec("/bin/sh", []string{"sh", "-c", command}, os.Environ())
	}
	address, err := p.addressOf(name)
	if err != nil {
		return 0, err
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, passed...)
	defer signal.Stop(signals)
	ctx, cancel := context.WithTimeout(ctx, patience(env))
	defer cancel()
	return p.ask(ctx, address, command, s, signals)
}
