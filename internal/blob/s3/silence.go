package s3

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// silence is how long nothing may move in the middle of a body.
	silence = 30 * time.Second
	// answer is how long a server may take until it begins to answer what was sent.
	answer = 2 * time.Minute
)

// watched ends a request in which nothing moves any more: a server or a network that went silent breaks no connection. It
// is then made again as any other that failed on the way. How slowly we ourselves give or take bytes does not count.
type watched struct {
	next            http.RoundTripper
	silence, answer time.Duration
}

// errSilent is a net.Error: that is what is tried again.
type errSilent struct{}

func (errSilent) Error() string   { return "nothing moved for too long" }
func (errSilent) Timeout() bool   { return true }
func (errSilent) Temporary() bool { return true }

// RoundTrip is that of http.RoundTripper.
func (w *watched) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	t := &silenceTimer{cancel: cancel}
	r = r.Clone(ctx)
	t.allow(w.answer)
	if r.Body != nil && r.Body != http.NoBody {
		r.Body, r.GetBody = &sending{r.Body, t, w}, nil
	}
	resp, err := w.next.RoundTrip(r)
	t.end()
	if err != nil {
		err = silent(ctx, err)
		cancel(nil)
		return nil, err
	}
	resp.Body = &receiving{resp.Body, ctx, &silenceTimer{cancel: cancel}, w.silence}
	return resp, nil
}

// silent is what a request or body that was ended for its silence says instead of that it was cancelled.
func silent(ctx context.Context, err error) error {
	if context.Cause(ctx) == (errSilent{}) {
		return errSilent{}
	}
	return err
}

// silenceTimer cancels a request unless it hears of something in time.
type silenceTimer struct {
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	timer *time.Timer // nil: nothing is waited for
	ended bool
}

// allow waits so long from now on, and for nothing that was waited for before; 0: for ever.
func (t *silenceTimer) allow(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	if d > 0 && !t.ended {
		t.timer = time.AfterFunc(d, func() { t.cancel(errSilent{}) })
	}
}

// end is for good: the body may be read on by the transport after the answer came.
func (t *silenceTimer) end() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.allow(0)
}

// sending is a body that goes out: that more of it is asked for means that the last bytes have gone.
type sending struct {
	io.ReadCloser
	timer *silenceTimer
	w     *watched
}

func (s *sending) Read(p []byte) (int, error) {
	s.timer.allow(0)
	n, err := s.ReadCloser.Read(p)
	if err != nil {
		s.timer.allow(s.w.answer)
	} else {
		s.timer.allow(s.w.silence)
	}
	return n, err
}

// receiving is a body that comes in.
type receiving struct {
	io.ReadCloser
	ctx     context.Context
	timer   *silenceTimer
	silence time.Duration
}

func (r *receiving) Read(p []byte) (int, error) {
	r.timer.allow(r.silence)
	n, err := r.ReadCloser.Read(p)
	r.timer.allow(0)
	if err != nil && err != io.EOF {
		err = silent(r.ctx, err)
	}
	return n, err
}

func (r *receiving) Close() error {
	err := r.ReadCloser.Close()
	r.timer.end()
	r.timer.cancel(nil)
	return err
}
