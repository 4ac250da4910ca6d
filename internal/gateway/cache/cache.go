package cache

import (
	"container/list"
	"crypto/sha256"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Key names a question.
type Key [sha256.Size]byte

// KeyOf is the key of a question: of its method, its target, its body and whatever else says what is wanted.
func KeyOf(method, target string, body []byte, more ...string) Key {
	h := sha256.New()
	for _, s := range append([]string{method, target}, more...) {
		_, _ = h.Write([]byte(strconv.Itoa(len(s)) + ":" + s))
	}
	_, _ = h.Write(body)
	return Key(h.Sum(nil))
}

// Answer is one that is kept. Nobody changes it.
type Answer struct {
	Header http.Header
	Body   []byte
	At     time.Time // when it was given first
}

// Cache is safe for concurrent use. The zero one is empty and keeps nothing: Fit says how much it may.
type Cache struct {
	mu    sync.Mutex
	most  int64
	used  int64
	known map[Key]*list.Element
	order list.List // the newest used in front
}

type entry struct {
	key    Key
	answer *Answer
	until  time.Time
	size   int64
}

// Fit bounds it anew, and forgets everything where clear says so.
func (c *Cache) Fit(most int64, clear bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.most = most
	if clear {
		c.known, c.used = nil, 0
		c.order.Init()
	}
	c.shrink()
}

// Get is the answer to a question; nil: there is none.
func (c *Cache) Get(k Key, now time.Time) *Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.known[k]
	if e == nil {
		return nil
	}
	got := e.Value.(*entry)
	if !now.Before(got.until) {
		c.drop(e)
		return nil
	}
	c.order.MoveToFront(e)
	return got.answer
}

// overhead is what an entry costs beside its body.
const overhead = 1 << 10

// Put keeps an answer for a time.
func (c *Cache) Put(k Key, a *Answer, ttl time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.known[k]; e != nil {
		c.drop(e)
	}
	if c.known == nil {
		c.known = map[Key]*list.Element{}
	}
	e := &entry{k, a, a.At.Add(ttl), int64(len(a.Body)) + overhead}
	c.known[k] = c.order.PushFront(e)
	c.used += e.size
	c.shrink()
}

// shrink drops the least used until all fit. mu held.
func (c *Cache) shrink() {
	for c.used > c.most {
		c.drop(c.order.Back())
	}
}

// drop forgets one. mu held.
func (c *Cache) drop(e *list.Element) {
	old := c.order.Remove(e).(*entry)
	delete(c.known, old.key)
	c.used -= old.size
}
