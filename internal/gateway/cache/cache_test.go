package cache

import (
	"fmt"
	"testing"
	"time"
)

// TestCache: an answer is given until its time is over or others need its room, the least used first; what was cleared is gone.
func TestCache(t *testing.T) {
	var c Cache
	now := time.Unix(1000, 0)
	key := func(n int) Key { return KeyOf("POST", "/x", []byte(fmt.Sprint(n)), "json") }
	put := func(n int) { c.Put(key(n), &Answer{Body: make([]byte, 1<<10), At: now}, time.Minute) }
	has := func(n int, at time.Time) bool { return c.Get(key(n), at) != nil }
	if put(0); has(0, now) {
		t.Error("one without room keeps something")
	}
	c.Fit(3*(overhead+1<<10), false)
	for n := range 3 {
		put(n)
	}
	if !has(0, now.Add(time.Minute-1)) || has(1, now.Add(time.Minute)) {
		t.Error("its time is a minute")
	}
	put(1)
	if has(0, now); !has(2, now) { // 0, 2 are used now: 1 is the oldest
		t.Error("2 is gone")
	}
	put(3)
	if has(1, now) || !has(0, now) || !has(2, now) || !has(3, now) {
		t.Error("not the least used went")
	}
	if c.Fit(1<<20, true); has(3, now) || c.used != 0 {
		t.Error("it was cleared")
	}
}

// TestKeys: whatever is different about a question makes it another one, also where the pieces are cut otherwise.
func TestKeys(t *testing.T) {
	seen := map[Key]string{}
	for _, q := range [][]string{{"GET", "/a", "", ""}, {"POST", "/a", "", ""}, {"POST", "/ab", "", ""}, {"POST", "/a", "b", ""}, {"POST", "/a", "", "b"}, {"POSTt", "/a", "", ""}} {
		k := KeyOf(q[0], q[1], []byte(q[2]), q[3])
		if other := seen[k]; other != "" {
			t.Errorf("%v is taken for %s", q, other)
		}
		seen[k] = fmt.Sprint(q)
	}
}
