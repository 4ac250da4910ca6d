package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/fermi-cluster/fermi/internal/gateway/cache"
	"github.com/fermi-cluster/fermi/internal/gateway/wire"
)

const (
	// keepAnswer is how large an answer is held back until it is whole, so that one that is cut can be asked for again.
	keepAnswer = 64 << 10
	// tries is how often an idempotent question is asked where replicas fail after they got it.
	tries = 4
	// again is the pause before a replica is dialled once more where there is no other.
	again = 50 * time.Millisecond
)

// trip is one question on its way: it finds a replica, and another one where that is safe.
type trip struct {
	g        *Gateway
	s        *service
	m        *serviceMeters
	question *question
	in       *http.Request
	w        http.ResponseWriter
	to       string    // what the replica is asked for
	until    time.Time // the first byte of an answer must be there
	framed   bool
	want     want
	key      cache.Key // of its question, where its answer is kept
}

// ask asks replicas until one answers, as long as asking again is safe.
func (t *trip) ask(ctx context.Context) (*answer, error) {
	body, slow := &kept{Reader: t.in.Body}, &paced{}
	if !t.framed && !t.question.kept {
		slow = unhurried(t.w, t.in.Body)
		body.Reader = slow
	}
	var met []*replica
	for asked := 0; ; {
		r, err := t.s.acquire(ctx, t.until, t.want, met)
		if err != nil {
			return nil, err
		}
		a, err := t.race(ctx, r, body, met)
		if err == nil {
			return a, nil
		}
		t.s.release(r)
		var broken *wire.BodyError
		if errors.As(err, &broken) || slow.late() {
			return nil, notWhole(err)
		}
		if ctx.Err() != nil {
			return nil, err
		}
		t.s.failed(r)
		r.tally.failed(false)
		if late(err) && !time.Now().Before(t.until) {
			return nil, errTimeout // it may hang: the next ones ask others first
		}
		unsent := isDial(err) && !body.touched
		if !unsent {
			asked++
		}
		if !unsent && !(t.question.safe && t.question.kept && asked < tries) {
			return nil, err
		}
		t.m.retries.Inc()
		t.want.on = track{} // whoever answers is better than a revision that does not
		if met = append(met, r); t.s.onlyMet(met) {
			met = met[:0]
			select { // there is no other: it may come back, or another may come
			case <-ctx.Done():
				return nil, err
			case <-t.g.cfg.Clock.After(again):
			}
		}
	}
}

// one asks one replica. Its answer gives the replica back when it is closed.
func (t *trip) one(ctx context.Context, r *replica, body *kept) (*answer, error) {
	if r.via != nil {
		ctx = context.WithValue(ctx, farReplica{}, r)
	}
	a := &answer{s: t.s, r: r, m: t.m, since: time.Now()}
	var err error
	if t.framed {
		err = t.frames(ctx, a, body)
	} else {
		err = t.lines(ctx, a, body)
	}
	if err != nil {
		return nil, err
	}
	if (t.question.safe || t.question.keep) && a.resp.StatusCode != http.StatusSwitchingProtocols && t.in.Method != http.MethodHead && a.resp.ContentLength > 0 && a.resp.ContentLength <= keepAnswer {
		if err := a.hold(int(a.resp.ContentLength)); err != nil {
			a.drop()
			return nil, err
		}
	}
	t.s.answered(r, a.resp.StatusCode)
	return a, nil
}

// lines asks by HTTP/1.1.
func (t *trip) lines(ctx context.Context, a *answer, body *kept) error {
	q := &wire.Question{
		Method: t.in.Method, Target: t.to, Host: t.in.Host, Header: t.in.Header, Skip: isPrivate, More: forwarded(t.in, t.s), Until: t.until, Upgrade: upgrade(t.in),
	}
	switch {
	case t.question.body != nil:
		q.Body = t.question.body
	case !t.question.kept:
		q.Stream, q.Length = body, t.in.ContentLength
	}
	got, err := t.g.lines.Ask(ctx, a.r.way, q)
	if err != nil {
		return err
	}
	a.resp, a.line, a.body = got.Response, got, got
	return nil
}

// frames asks by HTTP/2.
func (t *trip) frames(ctx context.Context, a *answer, body *kept) error {
	ctx, cancel := context.WithCancelCause(ctx)
	limit := time.AfterFunc(time.Until(t.until), func() { cancel(errTimeout) }) // until the first byte: what has begun is never cut
	req := (&http.Request{Method: t.in.Method, Proto: "HTTP/2.0", ProtoMajor: 2, Host: t.in.Host, Header: http.Header{}, ContentLength: t.in.ContentLength}).WithContext(ctx)
	to, err := url.ParseRequestURI(t.to)
	if err != nil {
		cancel(nil)
		return err
	}
	req.URL = &url.URL{Scheme: "http", Host: a.r.way, Path: to.Path, RawPath: to.RawPath, RawQuery: to.RawQuery}
	for name, values := range t.in.Header {
		if !wire.Hop(t.in.Header, name) && !isPrivate(name) {
			req.Header[name] = values
		}
	}
	for _, m := range forwarded(t.in, t.s) {
		req.Header.Set(m[0], m[1])
	}
	if t.in.Header.Get("Te") == "trailers" {
		req.Header.Set("Te", "trailers")
	}
	switch {
	case t.question.body != nil:
		req.Body = io.NopCloser(bytes.NewReader(t.question.body))
	case !t.question.kept:
		req.Body = io.NopCloser(body)
	}
	resp, err := t.g.framed.RoundTrip(req)
	limit.Stop()
	if err != nil {
		cause := context.Cause(ctx)
		cancel(nil)
		if errors.Is(cause, errTimeout) {
			return errTimeout
		}
		return err
	}
	a.resp, a.body, a.end = resp, resp.Body, func() { _ = resp.Body.Close(); cancel(nil) }
	return nil
}

// kept is a body that is passed on: it is known whether anything was read.
type kept struct {
	io.Reader
	touched bool
}

func (k *kept) Read(p []byte) (int, error) {
	k.touched = true
	return k.Reader.Read(p)
}

// isDial says that nothing was sent: there was no connection.
func isDial(err error) bool {
	var own *wire.DialError
	if errors.As(err, &own) {
		return true
	}
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
