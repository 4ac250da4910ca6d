package id

import (
	"bytes"
	"crypto/rand"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestFormAndOrder(t *testing.T) {
	now := time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC)
	s := NewSource(func() time.Time { return now }, rand.Reader)
	form := regexp.MustCompile(`^task-[0-9a-hjkmnp-tv-z]{20}$`)
	var ids []string
	for i := range 100 {
		switch i {
		case 30:
			now = now.Add(time.Hour)
		case 60:
			now = now.Add(-2 * time.Hour) // the clock was set back
		}
		ids = append(ids, s.New("task"))
		if !form.MatchString(ids[i]) {
			t.Fatal(ids[i])
		}
	}
	if !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != len(ids) {
		t.Error("ids repeat or go back")
	}
}

func TestConcurrent(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				id := Default.New("x")
				mu.Lock()
				if seen[id] {
					t.Errorf("%s twice", id)
				}
				seen[id] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

func TestRandom(t *testing.T) {
	s := NewSource(time.Now, bytes.NewReader([]byte{0, 31, 32, 255, 7}))
	if got := s.Random(5); got != "0z0z7" {
		t.Error(got)
	}
	defer func() {
		if recover() == nil {
			t.Error("without randomness no name is made")
		}
	}()
	s.Random(1)
}
