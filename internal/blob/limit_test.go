package blob

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"
)

// TestLimitBooksBytes: who comes later waits for all who were before.
func TestLimitBooksBytes(t *testing.T) {
	l := &paced{rate: 1 << 10}
	if wait := l.take(1 << 20); wait > 0 {
		t.Errorf("the first waits %s", wait)
	}
	if wait := l.take(1); wait < 10*time.Minute {
		t.Errorf("behind 1 MiB at 1 KiB/s the next waits %s", wait)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := io.ReadAll(l.slow(ended, bytes.NewReader([]byte("x")))); err == nil {
		t.Error("a wait goes on after its end")
	}
}

// TestLimitKeepsSeekers: a body that could be sent again still can.
func TestLimitKeepsSeekers(t *testing.T) {
	l := &paced{rate: 1 << 40}
	r, ok := l.slow(t.Context(), bytes.NewReader([]byte("body"))).(io.ReadSeeker)
	if !ok {
		t.Fatal("it can't be sought")
	}
	for range 2 {
		if raw, err := io.ReadAll(r); err != nil || string(raw) != "body" {
			t.Fatal(string(raw), err)
		}
		if _, err := r.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := l.slow(t.Context(), io.LimitReader(bytes.NewReader(nil), 1)).(io.Seeker); ok {
		t.Error("it can be sought, though its body can't")
	}
	if Limit(nil, 0) != nil {
		t.Error("no limit is no wrapper")
	}
}
