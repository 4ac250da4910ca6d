package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/fermi-cluster/fermi/internal/engine/record"
)

// ProcessInside finds a process by the mark in its environment and its pid in its own namespace.
func ProcessInside(mark string, pid int) (int, error) { return ProcessStarted(mark, pid, 0) }

// ProcessStarted is ProcessInside where there may be several namespaces: it was started then, in ticks since boot;
// 0: whenever.
func ProcessStarted(mark string, pid int, start uint64) (int, error) {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, d := range dirs {
		outer, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		env, _ := os.ReadFile(filepath.Join("/proc", d.Name(), "environ"))
		if !slices.Contains(strings.Split(string(env), "\x00"), mark) {
			continue
		}
		if st, err := record.ReadStat(outer); err != nil || start != 0 && st.StartTicks != start {
			continue
		}
		status, _ := os.ReadFile(filepath.Join("/proc", d.Name(), "status"))
		for line := range strings.Lines(string(status)) {
			if numbers, ok := strings.CutPrefix(line, "NSpid:"); ok {
				if f := strings.Fields(numbers); len(f) > 0 && f[len(f)-1] == strconv.Itoa(pid) {
					return outer, nil
				}
			}
		}
	}
	return 0, fmt.Errorf("no process %d with %s", pid, mark)
}
