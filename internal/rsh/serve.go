package rsh

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	// maxCommands bounds what runs at a time: horovodrun starts every process by itself.
	maxCommands = 256
	// firstWord is how long who connects may stay without a word.
	firstWord = 10 * time.Second
	// grace is between SIGTERM and SIGKILL for a command whose asker is gone.
	grace = 2 * time.Second
)

// server runs commands for the other replicas.
type server struct {
	tls *tls.Config
	env []string // of the commands
}

// serve goes on until one says that no more will come, or ctx ends.
func (s *server) serve(ctx context.Context, listener net.Listener) error {
	ctx, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	gate := make(chan struct{}, maxCommands)
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("listen for the lead: %w", err)
		}
		select {
		case gate <- struct{}{}:
		default:
			conn.Close()
			continue
		}
		wg.Go(func() {
			defer func() { <-gate }()
			defer conn.Close()
			hang := context.AfterFunc(ctx, func() { conn.Close() })
			defer hang()
			if err := s.hear(ctx, tls.Server(conn, s.tls), end); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "fermi rsh:", err)
			}
		})
	}
}

// hear is one connection: the order to end, or one command.
func (s *server) hear(ctx context.Context, conn *tls.Conn, end func()) error {
	_ = conn.SetDeadline(time.Now().Add(firstWord))
	if err := conn.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("a stranger called: %w", err)
	}
	c := &conversation{ReadWriter: conn}
	kind, content, err := c.receive()
	if err != nil {
		return nil // only looked whether we are there
	}
	_ = conn.SetDeadline(time.Time{})
	switch kind {
	case frameEnd:
		err := c.send(frameDone, []byte{0})
		end()
		return err
	case frameRun:
		return s.run(c, string(content))
	}
	return fmt.Errorf("the first word was %q", kind)
}

// run starts a command as rsh does, by the shell, and passes its streams on.
func (s *server) run(c *conversation, command string) error {
	cmd := exec.Command("/bin/sh", "-c", command)
	cmd.Env, cmd.SysProcAttr = append(slices.Clone(s.env), hereExe+"="+ourselves()), &syscall.SysProcAttr{Setsid: true}
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	errs, err3 := cmd.StderrPipe()
	err := errors.Join(err1, err2, err3)
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		_ = c.send(frameErr, []byte("fermi rsh: "+err.Error()+"\n"))
		return c.send(frameDone, []byte{codeNoShell})
	}
	input := make(chan []byte, 1)
	go func() {
		defer in.Close()
		for data := range input {
			if len(data) == 0 {
				return
			}
			_, _ = in.Write(data) // a command that reads no more is no error
			if c.send(frameTaken, nil) != nil {
				return
			}
		}
	}()
	ended := make(chan struct{})
	go func() { // not waited for: it reads until the asker hangs up
		defer close(input)
		_ = c.follow(cmd.Process.Pid, input) // why it went does not matter
		finish(cmd.Process.Pid, ended)
	}()
	var streams sync.WaitGroup
	streams.Go(func() { c.pass(frameOut, out) })
	streams.Go(func() { c.pass(frameErr, errs) })
	streams.Wait()
	_ = cmd.Wait()
	close(ended)
	return c.send(frameDone, []byte{byte(exitCode(cmd.ProcessState))})
}

// codeNoShell is a shell's own code for what can't be executed.
const codeNoShell = 126

// follow hears the asker's further words; an error when it is gone or says what it must not.
func (c *conversation) follow(pid int, input chan<- []byte) error {
	open := true
	for {
		kind, content, err := c.receive()
		switch {
		case err != nil:
			return err
		case kind == frameSignal && len(content) == 1 && content[0] > 0 && content[0] < 65:
			_ = syscall.Kill(-pid, syscall.Signal(content[0]))
		case kind == frameIn && open:
			open = len(content) > 0
			select {
			case input <- content:
			default:
				return errors.New("stdin before the last was taken")
			}
		default:
			return fmt.Errorf("the word %q out of turn", kind)
		}
	}
}

// finish ends a command whose asker is gone, unless it has ended by itself.
func finish(pid int, ended <-chan struct{}) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		select {
		case <-ended:
			return
		default:
		}
		_ = syscall.Kill(-pid, s)
		select {
		case <-ended:
			return
		case <-time.After(grace):
		}
	}
}

// exitCode is as a shell has it.
func exitCode(state *os.ProcessState) int {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}
