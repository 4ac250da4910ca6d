package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// Own is what somebody allows this very process: the strictest of the limits on its cgroup and on
// those above. Zero is no limit.
func Own() Limits {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return Limits{}
	}
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return Limits{}
	}
	return ownLimits(parseHierarchies(string(mounts), string(self)))
}

func ownLimits(all []hierarchy) Limits {
	var l Limits
	for _, h := range all {
		for _, dir := range h.ancestors() {
			one := limitsOf(dir, h.unified)
			l.CPU, l.Memory, l.Pids = stricter(l.CPU, one.CPU), stricter(l.Memory, one.Memory), stricter(l.Pids, one.Pids)
		}
	}
	return l
}

func stricter[T ~int | ~int64](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// limitsOf reads one folder. What is absent or not a number is no limit.
func limitsOf(dir string, unified bool) Limits {
	var l Limits
	if n, err := readInt(filepath.Join(dir, "pids.max")); err == nil && n > 0 {
		l.Pids = int(n)
	}
	if unified {
		if n, err := readInt(filepath.Join(dir, "memory.max")); err == nil && n > 0 {
			l.Memory = api.Bytes(n)
		}
		if s, err := readFile(filepath.Join(dir, "cpu.max")); err == nil {
			if f := strings.Fields(s); len(f) == 2 {
				quota, _ := strconv.ParseInt(f[0], 10, 64)
				period, _ := strconv.ParseInt(f[1], 10, 64)
				l.CPU = milli(quota, period)
			}
		}
		return l
	}
	if n, err := readInt(filepath.Join(dir, "memory.limit_in_bytes")); err == nil && n > 0 && n < 1<<62 {
		l.Memory = api.Bytes(n)
	}
	quota, _ := readInt(filepath.Join(dir, "cpu.cfs_quota_us"))
	period, _ := readInt(filepath.Join(dir, "cpu.cfs_period_us"))
	l.CPU = milli(quota, period)
	return l
}

func milli(quota, period int64) api.MilliCPU {
	if quota <= 0 || period <= 0 || quota > 1<<50 {
		return 0
	}
	return api.MilliCPU(max(1, quota*1000/period))
}
