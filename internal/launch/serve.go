package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/fermi-cluster/fermi/internal/engine"
)

// Until the first good answer somebody waits for it: the time between two questions is a twentieth of that since the first one, so that
// a start takes little longer for them, between these bounds.
const (
	askFirst  = 2 * time.Millisecond
	askSooner = 50 * time.Millisecond
	askShare  = 20
)

// servePort is the port that processes which answer requests listen on.
func servePort(s *engine.Serve, own int) int {
	if s != nil && s.Port != 0 {
		return s.Port
	}
	return own
}

// watchService asks the processes again and again whether they answer requests, and tells the leader when that
// changes, until ctx ends. It stands beside them: what it finds is true whatever becomes of the network.
func (r *runner) watchService(ctx context.Context) {
	want := r.wall.Home.Replica.Serve
	if want == nil {
		return
	}
	host := cmp.Or(r.wall.Place.Reach(), "127.0.0.1") // there the gateway reaches it, too
	port := servePort(want, r.ports.Serve.Port)
	doctor := newDoctor(net.JoinHostPort(host, strconv.Itoa(port)), want)
	defer doctor.client.CloseIdleConnections()
	defer r.ranks.Report.Serves(nil)
	var told *engine.Serving
	begun := r.clock.Now()
	for {
		now := &engine.Serving{Port: port}
		if err := doctor.ask(ctx); err != nil {
			now.Why = plainly(err, port)
		}
		if ctx.Err() != nil {
			return
		}
		if now.Ready = doctor.judge(now.Why == ""); now.Ready {
			now.Why = ""
		}
		if told == nil || told.Ready != now.Ready {
			told = now
			r.ranks.Report.Serves(now)
		}
		pause := want.Every.Std()
		if !doctor.ready && !doctor.ever {
			pause = min(pause, askSooner, max(askFirst, r.clock.Now().Sub(begun)/askShare))
		}
		select {
		case <-ctx.Done():
			return
		case <-r.clock.After(pause):
		}
	}
}

// doctor asks one replica, and judges its answers.
type doctor struct {
	want    *engine.Serve
	address string
	client  *http.Client
	ready   bool
	ever    bool // it was ready once
	misses  int  // in a row
}

func newDoctor(address string, want *engine.Serve) *doctor {
	return &doctor{want: want, address: address, client: &http.Client{
		Timeout: want.Timeout.Std(),
		// A question says nothing about the next one: each has a connection of its own.
		Transport:     &http.Transport{DisableKeepAlives: true, Proxy: nil, ResponseHeaderTimeout: want.Timeout.Std()},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// ask is one question; nil: a good answer.
func (d *doctor) ask(ctx context.Context) error {
	if d.want.Path == "" {
		ctx, cancel := context.WithTimeout(ctx, d.want.Timeout.Std())
		defer cancel()
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", d.address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.address+d.want.Path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "fermi-health")
	resp, err := d.client.Do(req)
	if err != nil {
		return err
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
	_ = resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 399 {
		return fmt.Errorf("%s answers %s", d.want.Path, resp.Status)
	}
	return nil
}

// plainly says what was wrong without the words of the library that asked.
func plainly(err error, port int) string {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return fmt.Sprintf("port %d: %s", port, errno.Error())
	}
	var slow net.Error
	if errors.As(err, &slow) && slow.Timeout() {
		return fmt.Sprintf("port %d: no answer in time", port)
	}
	return err.Error()
}

// judge takes the newest answer in. One good answer makes it ready; several bad ones in a row make it unready.
func (d *doctor) judge(good bool) bool {
	if good {
		d.ready, d.ever, d.misses = true, true, 0
		return true
	}
	if d.misses++; d.misses >= max(d.want.Failures, 1) {
		d.ready = false
	}
	return d.ready
}
