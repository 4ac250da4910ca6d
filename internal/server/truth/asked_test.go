package truth

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestAsked: all who come while a question is under way share the next one, and are answered by one that was put after
// they came.
func TestAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written, questions atomic.Int64
		a := newAsked(func(context.Context) (int64, error) {
			questions.Add(1)
			rev := written.Load()
			time.Sleep(time.Second) // the store reads, and takes its time to answer
			return rev, nil
		})
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 10 * time.Millisecond) // ten seconds of them
				before := written.Add(1)
				if rev, err := a.Newest(t.Context()); err != nil || rev < before {
					t.Errorf("asked after %d was written: %d %v", before, rev, err)
				}
			})
		}
		wg.Wait()
		if n := questions.Load(); n > 12 {
			t.Errorf("%d questions", n)
		}
	})
}

// TestAskedAway: who asks for others goes away; they are answered all the same, and who waits may leave.
func TestAskedAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsked(func(ctx context.Context) (int64, error) {
			time.Sleep(time.Second)
			return 7, ctx.Err()
		})
		gone, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = a.Newest(gone) }) // has the turn
		synctest.Wait()
		short, end := context.WithTimeout(t.Context(), time.Millisecond)
		defer end()
		wg.Go(func() {
			if _, err := a.Newest(short); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("who left: %v", err)
			}
		})
		wg.Go(func() {
			if rev, err := a.Newest(t.Context()); rev != 7 || err != nil {
				t.Errorf("who stayed: %d %v", rev, err)
			}
		})
		synctest.Wait()
		leave()
		wg.Wait()
	})
}
