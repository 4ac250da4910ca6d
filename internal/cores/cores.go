// Package cores is how many threads of this process run Go code at once, and before whom.
//
// Place: foundation. Promise: what is borrowed goes back when its borrower is done, whoever else borrows or
// changes the process's own share meanwhile. Enemies: two places that set GOMAXPROCS and restore each other's value.
package cores

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
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

// Nice gives all threads of this process a priority as nice does: below 0 they go before those of others, which only root may
// ask for. Threads and processes that they start have it too.
func Nice(n int) error {
	var errs []error
	for range 2 { // a thread may be born while we look
		list, err := os.ReadDir("/proc/self/task")
		errs = []error{err}
		for _, e := range list {
			if thread, err := strconv.Atoi(e.Name()); err == nil {
				if err := syscall.Setpriority(syscall.PRIO_PROCESS, thread, n); !errors.Is(err, syscall.ESRCH) {
					errs = append(errs, err)
				}
			}
		}
	}
	return errors.Join(errs...)
}
