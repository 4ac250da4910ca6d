package gateway

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// wait asks, and meanwhile keeps a client alive that waits for a stream of events, where the service wants that.
func (t *trip) wait(ctx context.Context) (a *answer, pinged bool, err error) {
	if a, alone, err := t.together(ctx); !alone {
		return a, false, err
	}
	g := t.s.settings().Gateway
	if g == nil || g.Ping == 0 || t.framed || !t.question.kept || !wantsEvents(t.in, t.question.body) {
		a, err = t.ask(ctx)
		return a, false, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a, err = t.ask(ctx)
	}()
	for {
		select {
		case <-ended:
			return a, pinged, err
		case <-t.g.cfg.Clock.After(g.Ping.Std()):
		}
		control := http.NewResponseController(t.w)
		if !pinged {
			pinged = true
			h := t.w.Header()
			h.Set("Content-Type", "text/event-stream")
			h.Set("Cache-Control", "no-store")
			t.w.WriteHeader(http.StatusOK)
		}
		_ = control.SetWriteDeadline(time.Now().Add(stall))
		_, _ = t.w.Write([]byte(": ping\n\n")) // a client that is gone is seen by its context
		_ = control.Flush()
		_ = control.SetWriteDeadline(time.Time{})
	}
}

// wantsEvents says that the answer to a question is a stream of events, as its client says: by what it accepts, or as
// OpenAI's clients do.
func wantsEvents(r *http.Request, body []byte) bool {
	if strings.HasPrefix(r.Header.Get("Accept"), "text/event-stream") {
		return true
	}
	_, rest, ok := bytes.Cut(body, []byte(`"stream"`))
	if !ok {
		return false
	}
	rest = bytes.TrimLeft(rest, " \t\r\n")
	return bytes.HasPrefix(rest, []byte(":")) && bytes.HasPrefix(bytes.TrimLeft(rest[1:], " \t\r\n"), []byte("true"))
}

// lament tells what is wrong as an event, where the answer has begun already.
func lament(w http.ResponseWriter, r *http.Request, err error) int {
	status, body := refusalOf(r, fault.From(err))
	_, _ = fmt.Fprintf(w, "event: error\ndata: %s\n\n", body)
	_ = http.NewResponseController(w).Flush()
	return status
}
