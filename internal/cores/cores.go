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
// ask for. Threads and processes that they start have it too. Where the kernel shares the processor out by sessions (autogroup), a
// thread's priority counts only within its own session, so a process that leads its session (a service, a container's first process)
// gives it to that as well; the session of a terminal belongs to other programs too and stays as it is.
func Nice(n int) error {
	var errs []error
	done := map[int]bool{}
	for before := -1; before < len(done); { // a thread may be born while we look
		before = len(done)
		list, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, e := range list {
			thread, err := strconv.Atoi(e.Name())
			if err != nil || done[thread] {
				continue
			}
			done[thread] = true
			if err := syscall.Setpriority(syscall.PRIO_PROCESS, thread, n); !errors.Is(err, syscall.ESRCH) {
				errs = append(errs, err)
			}
		}
	}
	if session, _, failed := syscall.RawSyscall(syscall.SYS_GETSID, 0, 0, 0); failed == 0 && int(session) == os.Getpid() {
		if err := os.WriteFile("/proc/self/autogroup", []byte(strconv.Itoa(n)), 0); !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
