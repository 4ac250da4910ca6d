package batch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
	"unicode/utf8"
)

const (
	lookEvery = 100 * time.Millisecond
	tries     = 5
	firstWait = 200 * time.Millisecond
)

// ownBinary is this very program, whatever PATH says and wherever its file is seen from here.
const ownBinary = "/proc/self/exe"

// engine is what answers: a process beside this one.
type engine struct {
	at   string // host:port
	cmd  *exec.Cmd
	died chan struct{} // closed when it has ended
	err  error         // of its end; read it when died is closed
	http *http.Client
}

// start begins the engine; it ends with ctx.
func start(ctx context.Context, command []string, limit time.Duration, out io.Writer) (*engine, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	program := command[0]
	if program == "fermi" {
		program = ownBinary
	}
	cmd := exec.CommandContext(ctx, program, command[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), "PORT="+strconv.Itoa(port))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	e := &engine{at: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), cmd: cmd, died: make(chan struct{}), http: &http.Client{
		Timeout: limit, Transport: &http.Transport{MaxIdleConnsPerHost: 1024, IdleConnTimeout: time.Minute},
	}}
	go func() {
		e.err = cmd.Wait()
		close(e.died)
	}()
	return e, nil
}

// freePort is one that nobody listens on, nor on the two behind it: engines with several ports take those.
func freePort() (int, error) {
	for range 50 {
		l, err := net.Listen("tcp", ":0")
		if err != nil {
			return 0, err
		}
		port := l.Addr().(*net.TCPAddr).Port
		_ = l.Close()
		free := port+2 <= 65535
		for side := port + 1; free && side <= port+2; side++ {
			l, err := net.Listen("tcp", ":"+strconv.Itoa(side))
			if free = err == nil; free {
				_ = l.Close()
			}
		}
		if free {
			return port, nil
		}
	}
	return 0, errors.New("no port is free")
}

// ready waits until the engine answers.
func (e *engine) ready(ctx context.Context, health string) error {
	for !e.answers(ctx, health) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-e.died:
			return fmt.Errorf("the engine ended before it answered: %w", ended(e.err))
		case <-time.After(lookEvery):
		}
	}
	return nil
}

// ended is how a process ended.
func ended(err error) error {
	if err == nil {
		return errors.New("exit code 0")
	}
	return err
}

func (e *engine) answers(ctx context.Context, health string) bool {
	if health == "" {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", e.at)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.at+health, nil)
	if err != nil {
		return false
	}
	resp, err := e.http.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode/100 == 2 || resp.StatusCode/100 == 3
}

// ask asks until there is an answer that another try would not change. An error: the engine is gone, or ctx ended.
func (e *engine) ask(ctx context.Context, q *question, usual string) (Answer, error) {
	if q.bad != "" {
		return Answer{ID: q.id, Error: &Problem{"bad_line", q.bad}}, nil
	}
	path := q.path
	if path == "" {
		path = usual
	}
	var last Answer
	for n := range tries {
		if n > 0 {
			select {
			case <-ctx.Done():
				return Answer{}, context.Cause(ctx)
			case <-e.died:
			case <-time.After(firstWait << (n - 1)):
			}
		}
		a, again := e.once(ctx, q, path)
		if !again {
			return a, nil
		}
		select {
		case <-ctx.Done():
			return Answer{}, context.Cause(ctx)
		case <-e.died:
			return Answer{}, fmt.Errorf("the engine ended: %w", ended(e.err))
		default:
			last = a
		}
	}
	return last, nil
}

// once asks once; again: another try may do better.
func (e *engine) once(ctx context.Context, q *question, path string) (a Answer, again bool) {
	a.ID = q.id
	fail := func(code string, err error) (Answer, bool) {
		a.Error = &Problem{code, err.Error()}
		return a, true
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+e.at+path, bytes.NewReader(q.body))
	if err != nil {
		a.Error = &Problem{"bad_line", err.Error()}
		return a, false
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := e.http.Do(req)
	if err != nil {
		return fail("no_answer", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return fail("no_answer", err)
	}
	if len(body) > maxAnswer {
		a.Error = &Problem{"too_long", fmt.Sprintf("the answer has more than %d bytes", maxAnswer)}
		return a, false
	}
	a.Response = &Response{resp.StatusCode, asJSON(body)}
	if resp.StatusCode/100 != 2 {
		a.Error = &Problem{"status", resp.Status}
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return a, true
	}
	return a, false
}

// asJSON is an answer as it is, or as a text where it is none.
func asJSON(body []byte) json.RawMessage {
	var out bytes.Buffer
	if json.Compact(&out, body) == nil && utf8.Valid(body) {
		return out.Bytes()
	}
	text, _ := json.Marshal(string(bytes.ToValidUTF8(body, []byte("\ufffd")))) // of a text: it can't fail
	return text
}
