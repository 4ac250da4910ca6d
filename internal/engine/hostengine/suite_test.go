package hostengine

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/enginetest"
)

func TestSuite(t *testing.T) {
	enginetest.Run(t, func(t *testing.T) enginetest.Site { return &site{newHouse(t)} })
}

// site is a house for the suite.
type site struct{ *house }

func (s *site) config(epoch int64) Config {
	return Config{
		Dir: s.dir, Exe: s.exe, Endpoints: filepath.Join(s.dir, "endpoints"), Epoch: epoch,
		Mint: func(n engine.Name) string { return "token of " + string(n) },
	}
}

func (s *site) Open(t *testing.T, epoch int64) (engine.Adapter, func()) {
	e, err := New(s.config(epoch))
	if err != nil {
		t.Fatal(err)
	}
	return e, s.run(e)
}

func (s *site) OpenLate(t *testing.T, epoch int64) error {
	e, err := New(s.config(epoch))
	if err != nil {
		t.Fatal(err)
	}
	return e.Run(t.Context())
}

func (s *site) Shape(r *engine.Replica, held bool) {
	r.Command = []string{"/bin/sh", "-c", "while [ ! -e end ]; do sleep 0.01; done"}
	r.StopGrace = api.Duration(time.Second)
	r.Env = []api.EnvVar{{Name: "RAN", Value: s.ran(r.Name)}}
	if held {
		r.Env = append(r.Env, api.EnvVar{Name: "GATE", Value: "1"})
	}
}

func (s *site) ran(name engine.Name) string { return filepath.Join(s.dir, "ran-"+string(name)) }

func (s *site) Starts(name engine.Name) int { return countLines(s.dir, filepath.Base(s.ran(name))) }

func (s *site) Begin(t *testing.T, name engine.Name) { s.touch(t, name, "gate") }

func (s *site) End(t *testing.T, name engine.Name) { s.touch(t, name, "end") }

func (s *site) touch(t *testing.T, name engine.Name, file string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, "replicas", string(name), file), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// order is one call, as a line.
type order struct {
	Start  *engine.Replica `json:"start,omitempty"`
	Stop   engine.Name     `json:"stop,omitempty"`
	Remove engine.Name     `json:"remove,omitempty"`
}

// owner is a process with an engine, which can be killed.
type owner struct {
	mu  sync.Mutex
	in  io.Writer
	out *bufio.Reader
}

func (s *site) Owner(t *testing.T, epoch int64) (enginetest.Orders, func()) {
	cmd := exec.Command(s.exe, "own", s.dir, strconv.FormatInt(epoch, 10))
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(kill)
	return &owner{in: in, out: bufio.NewReader(out)}, kill
}

func (o *owner) call(c order) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := json.NewEncoder(o.in).Encode(c); err != nil {
		return err
	}
	line, err := o.out.ReadString('\n')
	if err == nil && line != "ok\n" {
		err = errors.New(line)
	}
	return err
}

func (o *owner) Start(_ context.Context, r engine.Replica) error { return o.call(order{Start: &r}) }
func (o *owner) Stop(_ context.Context, name engine.Name, _ time.Duration) error {
	return o.call(order{Stop: name})
}
func (o *owner) Remove(_ context.Context, name engine.Name) error {
	return o.call(order{Remove: name})
}

// own is the process: an engine that does what it reads.
func own(dir, epoch string) int {
	n, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return 64
	}
	exe, err := os.Executable()
	if err != nil {
		return 64
	}
	s := &site{&house{dir: dir, exe: exe}}
	e, err := New(s.config(n))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx := context.Background()
	go func() { _ = e.Run(ctx) }()
	orders := json.NewDecoder(os.Stdin)
	for {
		var c order
		if err := orders.Decode(&c); err != nil {
			return 0
		}
		err := error(nil)
		switch {
		case c.Start != nil:
			err = e.Start(ctx, *c.Start)
		case c.Stop != "":
			err = e.Stop(ctx, c.Stop, 0)
		case c.Remove != "":
			err = e.Remove(ctx, c.Remove)
		}
		if err != nil {
			fmt.Println(err)
		} else {
			fmt.Println("ok")
		}
	}
}
