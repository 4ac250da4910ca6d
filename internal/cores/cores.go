// Package cores is how many threads of this process run Go code at once.
//
// Place: foundation. Promise: what is borrowed goes back when its borrower is done, whoever else borrows or
// changes the process's own share meanwhile. Enemies: two places that set GOMAXPROCS and restore each other's value.
package cores

import (
	"runtime"
	"sync"
)

var (
	mu       sync.Mutex
	own      = runtime.GOMAXPROCS(0)
	borrowed int
)

// Own is the process's own share, without what is borrowed.
func Own() int {
	mu.Lock()
	defer mu.Unlock()
	return own
}

// Have sets the process's own share.
func Have(n int) {
	mu.Lock()
	defer mu.Unlock()
	own = n
	runtime.GOMAXPROCS(own + borrowed)
}

// Borrow takes n more until they are given back, once.
func Borrow(n int) (giveBack func()) {
	more := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		borrowed += n
		runtime.GOMAXPROCS(own + borrowed)
	}
	more(n)
	return sync.OnceFunc(func() { more(-n) })
}
