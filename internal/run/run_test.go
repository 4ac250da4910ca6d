package run

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
)

func wait(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestFirstFailureEndsAll(t *testing.T) {
	var g Group
	var ended atomic.Bool
	g.Add("waiter", func(ctx context.Context) error {
		defer ended.Store(true)
		return wait(ctx)
	})
	g.Add("store", func(context.Context) error { return io.ErrUnexpectedEOF })
	err := g.Run(context.Background())
	if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.HasPrefix(err.Error(), "store: ") {
		t.Error(err)
	}
	if !ended.Load() {
		t.Error("Run returned before every actor did")
	}
}

func TestEndOfContextIsNoError(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var g Group
	g.Add("a", wait)
	g.Add("b", func(context.Context) error { cancel(); return nil })
	if err := g.Run(ctx); err != nil {
		t.Error(err)
	}
}

func TestFailureWhileEndingIsReported(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var g Group
	g.Add("disk", func(ctx context.Context) error { <-ctx.Done(); return io.ErrShortWrite })
	g.Add("stop", func(context.Context) error { return errors.New("first") })
	if err := g.Run(ctx); err == nil || err.Error() != "stop: first" {
		t.Errorf("%v: the first failure is the one reported", err)
	}
}

func TestNoActors(t *testing.T) {
	if err := new(Group).Run(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestEarlyEndIsFine(t *testing.T) {
	var g Group
	done := make(chan struct{})
	g.Add("once", func(context.Context) error { close(done); return nil })
	g.Add("after", func(ctx context.Context) error {
		<-done
		if ctx.Err() != nil {
			t.Error("an actor that ended well ended the others")
		}
		return nil
	})
	if err := g.Run(context.Background()); err != nil {
		t.Error(err)
	}
}
