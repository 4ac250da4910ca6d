package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// errNoGroup is what a nil Group answers to questions of measure.
var errNoGroup = errors.New("cgroup: the replica has none")

// Usage is what the group used: CPU time since it was made, memory that its processes hold now,
// and the highest memory so far (which, as the kernel counts it, includes cached files). Where the
// memory controller is missing, memory is summed over the processes and the peak is 0.
func (g *Group) Usage() (cpu time.Duration, rss, peak int64, err error) {
	if g == nil {
		return 0, 0, 0, errNoGroup
	}
	var cpuErr error
	if g.Version == 2 {
		var us int64
		us, cpuErr = readKey(filepath.Join(g.Paths[0], "cpu.stat"), "usage_usec")
		cpu = time.Duration(us) * time.Microsecond
	} else {
		var ns int64
		ns, cpuErr = g.int1("cpuacct.usage")
		cpu = time.Duration(ns)
	}
	rss, peak, memErr := g.memory()
	if memErr != nil {
		rss, memErr = g.sumRSS()
	}
	if cpuErr != nil && memErr != nil {
		return 0, 0, 0, fmt.Errorf("measure cgroup: %w", errors.Join(cpuErr, memErr))
	}
	return cpu, rss, peak, nil
}

func (g *Group) memory() (rss, peak int64, err error) {
	if g.Version == 2 {
		dir := g.Paths[0]
		anon, err := readKey(filepath.Join(dir, "memory.stat"), "anon")
		if err != nil {
			return 0, 0, err
		}
		shmem, _ := readKey(filepath.Join(dir, "memory.stat"), "shmem")
		peak, err = readInt(filepath.Join(dir, "memory.peak"))
		if err != nil { // before Linux 5.19
			peak = anon + shmem
		}
		return anon + shmem, peak, nil
	}
	for _, p := range g.Paths {
		stat, err := readFile(filepath.Join(p, "memory.stat"))
		if err != nil {
			continue
		}
		rss, err = findKey(stat, "total_rss")
		if err != nil {
			return 0, 0, err
		}
		shmem, _ := findKey(stat, "total_shmem")
		peak, err = readInt(filepath.Join(p, "memory.max_usage_in_bytes"))
		return rss + shmem, peak, err
	}
	return 0, 0, errors.New("no memory controller")
}

// sumRSS adds up the resident pages of the members; shared pages count for each.
func (g *Group) sumRSS() (int64, error) {
	pids, err := g.Pids()
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, pid := range pids {
		data, err := readFile("/proc/" + strconv.Itoa(pid) + "/statm")
		if err != nil {
			continue // ended meanwhile
		}
		if f := strings.Fields(data); len(f) > 1 {
			pages, _ := strconv.ParseInt(f[1], 10, 64)
			sum += pages * int64(os.Getpagesize())
		}
	}
	return sum, nil
}

// OOMKills is how many members the kernel killed because the group was over its memory limit; 0
// where no memory limit can be enforced.
func (g *Group) OOMKills() (int, error) {
	if g == nil {
		return 0, errNoGroup
	}
	file := "memory.oom_control"
	if g.Version == 2 {
		file = "memory.events"
	}
	for _, p := range g.Paths {
		n, err := readKey(filepath.Join(p, file), "oom_kill")
		if gone(err) {
			continue
		}
		return int(n), err
	}
	return 0, nil
}

// int1 reads a file of whichever version-1 tree has it.
func (g *Group) int1(file string) (int64, error) {
	for _, p := range g.Paths {
		v, err := readInt(filepath.Join(p, file))
		if !gone(err) {
			return v, err
		}
	}
	return 0, fmt.Errorf("no %s", file)
}

// MemoryLimit is what the kernel holds the group to; 0: nothing, or it is not known.
func (g *Group) MemoryLimit() api.Bytes {
	if g == nil {
		return 0
	}
	for _, p := range g.Paths {
		if l := limitsOf(p, g.Version == 2); l.Memory > 0 {
			return l.Memory
		}
	}
	return 0
}
