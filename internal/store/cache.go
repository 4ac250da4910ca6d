package store

import (
	"sync"

	"github.com/google/btree"

	api "github.com/fermi-cluster/fermi/api/v1"
)

const treeDegree = 32

// cache holds all objects in memory. Objects in it are never changed, only replaced.
type cache struct {
	mu       sync.RWMutex
	revision int64
	kinds    map[api.Kind]*kindCache
	feeds    map[*Feed]struct{}
	// moved is closed and replaced when the revision grows while somebody waits for it.
	moved chan struct{}
}

type kindCache struct {
	byKey map[api.Key]api.Object
	all   *tree
	// projects has the same objects once more, so that a small project's list does not walk
	// over everybody else's.
	projects map[string]*tree
}

// tree is an ordered set with a copy-on-write snapshot, which is taken at most once a change.
type tree struct {
	live  *btree.BTreeG[api.Object]
	taken *btree.BTreeG[api.Object]
}

func newTree() *tree { return &tree{live: btree.NewG(treeDegree, byID)} }

func (t *tree) put(o api.Object) { t.taken = nil; t.live.ReplaceOrInsert(o) }
func (t *tree) drop(o api.Object) {
	t.taken = nil
	t.live.Delete(o)
}

func newCache() *cache {
	c := &cache{kinds: map[api.Kind]*kindCache{}, feeds: map[*Feed]struct{}{}}
	for _, row := range api.Kinds {
		c.kinds[row.Kind] = &kindCache{byKey: map[api.Key]api.Object{}, all: newTree(), projects: map[string]*tree{}}
	}
	return c
}

// set replaces, adds or (object nil) removes, and gives what was there.
func (k *kindCache) set(key api.Key, o api.Object) (old api.Object) {
	old = k.byKey[key]
	if old != nil {
		k.all.drop(old)
		if p := k.projects[key.Project]; p != nil {
			p.drop(old)
			if p.live.Len() == 0 && o == nil {
				delete(k.projects, key.Project)
			}
		}
	}
	if o == nil {
		delete(k.byKey, key)
		return old
	}
	k.byKey[key] = o
	k.all.put(o)
	if key.Project != "" {
		p := k.projects[key.Project]
		if p == nil {
			p = newTree()
			k.projects[key.Project] = p
		}
		p.put(o)
	}
	return old
}

// apply makes changes visible at once and hands them to the feeds. Change.Old is filled here.
func (c *cache) apply(changes []Change, revision int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := changes[:0]
	for _, ch := range changes {
		ch.Old = c.kinds[ch.Key.Kind].set(ch.Key, ch.New)
		if ch.Old != nil || ch.New != nil {
			kept = append(kept, ch)
		}
	}
	for f := range c.feeds {
		f.push(kept)
	}
	c.advanceLocked(revision)
}

func (c *cache) advance(revision int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advanceLocked(revision)
}

func (c *cache) advanceLocked(revision int64) {
	if revision <= c.revision {
		return
	}
	c.revision = revision
	if c.moved != nil {
		close(c.moved)
		c.moved = nil
	}
}

// reset sets the revision also backwards: etcd was replaced by an older copy of itself.
func (c *cache) reset(revision int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revision = 0
	c.advanceLocked(revision)
}

func (c *cache) at() int64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.revision
}

// until gives a channel that is closed at the next move, or nil when revision is already there.
func (c *cache) until(revision int64) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.revision >= revision {
		return nil
	}
	if c.moved == nil {
		c.moved = make(chan struct{})
	}
	return c.moved
}

func (c *cache) get(key api.Key) (api.Object, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	k := c.kinds[key.Kind]
	if k == nil {
		return nil, false
	}
	o, ok := k.byKey[key]
	return o, ok
}

func (c *cache) getByID(kind api.Kind, id string) (found api.Object, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	k := c.kinds[kind]
	if k == nil {
		return nil, false
	}
	k.all.live.AscendGreaterOrEqual(pivot{&api.Meta{ID: id}}, func(o api.Object) bool {
		if o.GetMeta().ID == id {
			found = o
		}
		return false
	})
	return found, found != nil
}

// list gives a snapshot in O(1). Taking a copy-on-write clone changes the tree, hence the second
// lock; readers between two changes share one clone.
func (c *cache) list(kind api.Kind, project string) Snapshot {
	c.mu.RLock()
	s, ok := c.listLocked(kind, project, false)
	c.mu.RUnlock()
	if ok {
		return s
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s, _ = c.listLocked(kind, project, true)
	return s
}

func (c *cache) listLocked(kind api.Kind, project string, mayTake bool) (Snapshot, bool) {
	s := Snapshot{Revision: c.revision}
	k := c.kinds[kind]
	if k == nil {
		return s, true
	}
	t := k.all
	if project != "" {
		t = k.projects[project]
	}
	if t == nil {
		return s, true
	}
	if t.taken == nil {
		if !mayTake {
			return s, false
		}
		t.taken = t.live.Clone()
	}
	s.tree = t.taken
	return s, true
}

func (c *cache) count(kind api.Kind) int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.kinds[kind].byKey)
}

// keys gives all keys with their revisions; for comparing with a new list.
func (c *cache) keys() map[api.Key]int64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	all := map[api.Key]int64{}
	for _, k := range c.kinds {
		for key, o := range k.byKey {
			all[key] = o.GetMeta().Revision
		}
	}
	return all
}
