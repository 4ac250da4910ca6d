package activity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/activity"
	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	// askFor is how long a notebook may take to answer.
	askFor    = 2 * time.Second
	maxAnswer = 1 << 20
)

// Notebook is a Jupyter server of the replica, which is asked for its kernels.
type Notebook struct {
	client *http.Client
	base   string
	secret func() string
}

// NewNotebook asks the one on a port of the replica's loopback; secret is what it wants of its callers.
func NewNotebook(dial func(ctx context.Context, port int) (net.Conn, error), port int, secret func() string) *Notebook {
	return &Notebook{base: "http://localhost:" + strconv.Itoa(port), secret: secret, client: &http.Client{
		Timeout: askFor,
		Transport: &http.Transport{
			DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, port) },
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// kernel is what Jupyter says of one, or of a terminal of its own.
type kernel struct {
	State string    `json:"execution_state"`
	Last  time.Time `json:"last_activity"`
}

// look asks it. One that listens and does not answer counts as at work: it may be.
func (n *Notebook) look(ctx context.Context, now time.Time) activity.Signal {
	kernels, err := n.ask(ctx, "/api/kernels")
	if errors.Is(err, syscall.ECONNREFUSED) {
		return activity.Signal{Value: fault.T("not running", "未运行").Pack()}
	}
	if err != nil {
		return activity.Signal{Active: true, Value: fault.T("no answer", "无应答").Pack()}
	}
	terminals, err := n.ask(ctx, "/api/terminals")
	if err != nil { // an older Jupyter, or one without terminals
		terminals = nil
	}
	var s activity.Signal
	busy := 0
	for _, k := range append(kernels, terminals...) {
		if k.State == "busy" || k.State == "starting" || k.State == "restarting" {
			busy++
		}
		if last := k.Last; !last.IsZero() && !last.After(now) && (s.Last == nil || last.After(*s.Last)) {
			s.Last = &last
		}
	}
	s.Active = busy > 0
	s.Value = fault.T("%d of %d kernels busy", "%d/%d 个内核忙碌", busy, len(kernels)).Pack()
	return s
}

func (n *Notebook) ask(ctx context.Context, path string) (list []kernel, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.base+path, nil)
	if err != nil {
		return nil, err
	}
	if secret := n.secret(); secret != "" {
		req.Header.Set("Authorization", "token "+secret)
	}
	resp, err := n.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", path, resp.Status)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(data) > maxAnswer {
		err = errors.New("an answer that is too long")
	}
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	return list, err
}
