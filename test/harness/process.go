package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ProcessInside finds a process by the mark in its environment and its pid in its own namespace.
func ProcessInside(mark string, pid int) (int, error) {
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
