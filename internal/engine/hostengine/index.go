package hostengine

import (
	"sync"

	"github.com/fermi-cluster/fermi/internal/engine"
)

// index is which replicas are known; each is on the board for as long. Safe for concurrent use.
type index struct {
	board *engine.Board

	mu       sync.Mutex
	replicas map[engine.Name]*replica
	old      map[engine.Name]string // task of those that live on the machine's network although others have their own addresses
}

func newIndex(board *engine.Board) *index {
	return &index{board: board, replicas: map[engine.Name]*replica{}, old: map[engine.Name]string{}}
}

func (x *index) find(name engine.Name) *replica {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.replicas[name]
}

// add takes a replica in; where it is there already, that one is returned, and added is false. old says that it is to be counted
// among the exposed.
func (x *index) add(r *replica, o engine.Observation, old bool) (is *replica, added bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if first := x.replicas[r.name]; first != nil {
		return first, false
	}
	x.replicas[r.name] = r
	if old {
		x.old[r.name] = r.task
	}
	x.board.Put(o)
	return r, true
}

func (x *index) drop(r *replica) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.replicas[r.name] != r {
		return
	}
	delete(x.replicas, r.name)
	delete(x.old, r.name)
	x.board.Drop(r.name)
}

// put takes down what was seen of a replica. fewer says that the number of the exposed has changed by that.
func (x *index) put(r *replica, o engine.Observation) (fewer bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.replicas[r.name] != r {
		return false // it was removed meanwhile
	}
	x.board.Put(o)
	if o.Exit == nil || x.old[r.name] == "" {
		return false
	}
	delete(x.old, r.name)
	return true
}

// without are those that are not among these.
func (x *index) without(there map[engine.Name]bool) (out []*replica) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for name, r := range x.replicas {
		if !there[name] {
			out = append(out, r)
		}
	}
	return out
}

// exposed counts the living replicas of a task, or of all with "", that addresses.misses names.
func (x *index) exposed(task string) (n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, of := range x.old {
		if task == "" || of == task {
			n++
		}
	}
	return n
}
