package reconcile_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/reconcile"
)

type fake struct {
	mu     sync.Mutex
	active map[api.Key]bool
	turns  map[api.Key]int
	do     func(key api.Key, turn int) (reconcile.Result, error)
	t      *testing.T
}

func (f *fake) Reconcile(_ context.Context, key api.Key) (reconcile.Result, error) {
	f.mu.Lock()
	if f.active[key] {
		f.t.Errorf("%v is worked on twice at once", key)
	}
	f.active[key] = true
	f.turns[key]++
	turn := f.turns[key]
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.active, key)
		f.mu.Unlock()
	}()
	return f.do(key, turn)
}

func start(t *testing.T, do func(key api.Key, turn int) (reconcile.Result, error)) (*reconcile.Loop, *fake) {
	t.Helper()
	f := &fake{active: map[api.Key]bool{}, turns: map[api.Key]int{}, do: do, t: t}
	l := reconcile.New(reconcile.Config{Name: "test", Reconciler: f, Clock: clock.Real, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l, f
}

func wait(t *testing.T, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(time.Minute):
		t.Fatal("nothing happened")
	}
}

var key = api.Key{Kind: api.KindTrainingTask, Project: "p", Name: "a"}

func TestAFailureIsRetriedAndAPanicIsAFailure(t *testing.T) {
	ok := make(chan struct{})
	l, _ := start(t, func(_ api.Key, turn int) (reconcile.Result, error) {
		switch turn {
		case 1:
			return reconcile.Result{}, errors.New("no")
		case 2:
			panic("no")
		}
		close(ok)
		return reconcile.Result{}, nil
	})
	l.Add(key)
	wait(t, ok)
}

func TestAnAddDuringATurnRunsAgain(t *testing.T) {
	first, release, second := make(chan struct{}), make(chan struct{}), make(chan struct{})
	l, _ := start(t, func(_ api.Key, turn int) (reconcile.Result, error) {
		if turn == 1 {
			close(first)
			<-release
		} else if turn == 2 {
			close(second)
		}
		return reconcile.Result{}, nil
	})
	l.Add(key)
	wait(t, first)
	l.Add(key)
	l.Add(key)
	close(release)
	wait(t, second)
}

// TestAConflictWithAChangeIsRetriedAtOnce: what came during the turn is what it did not know; no time has to pass.
func TestAConflictWithAChangeIsRetriedAtOnce(t *testing.T) {
	var l *reconcile.Loop
	turned := make(chan int, 8)
	f := &fake{active: map[api.Key]bool{}, turns: map[api.Key]int{}, t: t, do: func(_ api.Key, turn int) (reconcile.Result, error) {
		defer func() { turned <- turn }()
		if turn == 1 {
			l.Add(key)
			return reconcile.Result{}, fault.New(fault.Conflict, "Stale", fault.T("no", "否"))
		}
		return reconcile.Result{}, nil
	}}
	l = reconcile.New(reconcile.Config{Name: "test", Reconciler: f, Clock: clock.NewFake(time.Unix(1, 0)), Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	l.Add(key)
	for want := 1; want <= 2; want++ {
		select {
		case got := <-turned:
			if got != want {
				t.Errorf("turn %d, not %d", got, want)
			}
		case <-time.After(time.Minute):
			t.Fatal("no second turn without a pause")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestWakeComesBack(t *testing.T) {
	again := make(chan struct{})
	l, _ := start(t, func(_ api.Key, turn int) (reconcile.Result, error) {
		if turn == 1 {
			return reconcile.Result{Wake: time.Millisecond}, nil
		}
		close(again)
		return reconcile.Result{}, nil
	})
	l.Add(key)
	wait(t, again)
}

func TestManyKeysUnderLoad(t *testing.T) {
	var wg sync.WaitGroup
	wg.Add(500)
	l, _ := start(t, func(_ api.Key, turn int) (reconcile.Result, error) {
		if turn == 1 {
			wg.Done()
		}
		return reconcile.Result{}, nil
	})
	for i := range 500 {
		k := key
		k.Name = string(rune('a'+i%26)) + string(rune('a'+i/26))
		go func() { l.Add(k); l.Add(k) }()
	}
	all := make(chan struct{})
	go func() { wg.Wait(); close(all) }()
	wait(t, all)
}

func TestManyLateAddsAreOneTurn(t *testing.T) {
	turned := make(chan struct{}, 8)
	f := &fake{active: map[api.Key]bool{}, turns: map[api.Key]int{}, t: t, do: func(api.Key, int) (reconcile.Result, error) {
		turned <- struct{}{}
		return reconcile.Result{}, nil
	}}
	now := clock.NewFake(time.Unix(1, 0))
	l := reconcile.New(reconcile.Config{Name: "test", Reconciler: f, Clock: now, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	for range 3 {
		l.AddAfter(key, time.Second)
	}
	now.Advance(time.Second)
	wait(t, turned)
	l.AddAfter(key, 0)
	wait(t, turned)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := f.turns[key]; n != 2 {
		t.Errorf("%d turns, not 2", n)
	}
}
