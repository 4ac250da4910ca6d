package safety

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// scenarios is how many a plain go test tries.
const scenarios = 400

func number(t testing.TB, name string, def uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return def
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// play is one scenario, twice for some: the same input gives the same bytes.
func play(seed uint64, log func(string, ...any)) (st stats, why string) {
	defer func() {
		if p := recover(); p != nil {
			buf := make([]byte, 4<<10)
			why = fmt.Sprintf("panic: %v\n%s", p, buf[:runtime.Stack(buf, false)])
		}
	}()
	w := newWorld(seed)
	if log != nil {
		w.log, w.talk = log, true
	}
	why = w.scenario()
	if why == "" && seed%8 == 0 {
		again := newWorld(seed)
		if why = again.scenario(); why == "" && again.sum != w.sum {
			why = "determinism: the second time the decisions are others"
		}
	}
	return w.st, why
}

// TestScenarios plays FERMI_SCENARIOS scenarios from FERMI_SEED on. With FERMI_SCENARIOS=1 it tells
// what happens.
func TestScenarios(t *testing.T) {
	count, first := number(t, "FERMI_SCENARIOS", scenarios), number(t, "FERMI_SEED", 1)
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	began := time.Now()
	var next, failed atomic.Uint64
	next.Store(first)
	var mu sync.Mutex
	var all stats
	sizes := [2][]int{}
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := next.Add(1) - 1; seed < first+count && failed.Load() < 5; seed = next.Add(1) - 1 {
				var log func(string, ...any)
				if count == 1 {
					log = t.Logf
				}
				st, why := play(seed, log)
				if why != "" {
					failed.Add(1)
					t.Errorf("FERMI_SEED=%d FERMI_SCENARIOS=1: %s", seed, why)
				}
				mu.Lock()
				all.add(st)
				sizes[0], sizes[1] = append(sizes[0], st.nodes), append(sizes[1], st.workloads)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for i := range sizes {
		slices.Sort(sizes[i])
	}
	nodes, workloads := sizes[0][len(sizes[0])/2], sizes[1][len(sizes[1])/2]
	took := time.Since(began)
	fmt.Printf("%d scenarios from seed %d in %s (%.0f/s): median of %d nodes and %d workloads; %+v\n", count, first,
		took.Round(time.Millisecond), float64(count)/took.Seconds(), nodes, workloads, all)
	if count < scenarios {
		return
	}
	if nodes < 20 || workloads < 50 {
		t.Error("the scenarios are too small")
	}
	for name, n := range map[string]int{
		"starts": all.starts, "evictions": all.evictions, "shrinks": all.shrinks, "grows": all.grows, "reservations": all.reservations,
		"undos": all.undos, "claims kept": all.claimsKept, "limits": all.limited, "closed nodes": all.closedNodes, "restarts": all.restarts, "queues moved": all.moved, "gangs moved": all.sent,
	} {
		if n == 0 {
			t.Error("nothing tried:", name)
		}
	}
}

// TestFound plays the seeds of the million that were once reported.
func TestFound(t *testing.T) {
	for _, seed := range []uint64{26292, 819790} {
		if _, why := play(seed, nil); why != "" {
			t.Errorf("FERMI_SEED=%d FERMI_SCENARIOS=1: %s", seed, why)
		}
	}
}
