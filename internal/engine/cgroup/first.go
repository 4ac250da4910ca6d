package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// A server has a group of its own in the tree of the cpu controller, beside the one that all replicas are in. Priorities of threads do not help there: the
// kernel shares a processor out between groups first, and a member who starts hundreds of processes would keep everybody's requests waiting.

// first is the folder of processes that go before replicas.
const first = "fermi-server"

// errNoCPU says that there is no tree of the cpu controller in which we may make groups.
var errNoCPU = errors.New("no cpu controller is available to this process")

// First puts this process before all replicas and other groups where processors are short; it uses little. What it starts goes first too, until it
// says NotFirst or is put into a group. A service of systemd stays in its unit, which has a weight of its own.
func First() error {
	s := Detect()
	root := s.Roots["cpu"]
	if root == "" {
		return errNoCPU
	}
	h, err := cpuTree()
	if err != nil {
		return err
	}
	dir := filepath.Join(root, first)
	if h.unified && filepath.Base(h.own) == first { // we stepped aside, to hand controllers down
		dir = h.own
	} else if h.unified && os.Getenv("INVOCATION_ID") != "" {
		return nil
	}
	file, weight := "cpu.shares", "10240"
	if h.unified {
		file, weight = "cpu.weight", "1000"
	}
	if err := errors.Join(makeFolder(dir), writeFile(filepath.Join(dir, file), weight)); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(os.Getpid()))
}

// NotFirst is for who was started by one that goes first, and is in no group of its own.
func NotFirst() error {
	h, err := cpuTree()
	if err != nil || filepath.Base(h.own) != first || h.unified {
		return err
	}
	return writeFile(filepath.Join(filepath.Dir(h.own), "cgroup.procs"), strconv.Itoa(os.Getpid()))
}

// cpuTree is the tree of the cpu controller, as it is for this process now.
func cpuTree() (hierarchy, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return hierarchy{}, err
	}
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return hierarchy{}, err
	}
	all := parseHierarchies(string(mounts), string(self))
	i := slices.IndexFunc(all, func(h hierarchy) bool { return slices.Contains(h.controllers, "cpu") })
	if i < 0 {
		i = slices.IndexFunc(all, func(h hierarchy) bool { return h.unified })
	}
	if i < 0 {
		return hierarchy{}, errNoCPU
	}
	return all[i], nil
}
